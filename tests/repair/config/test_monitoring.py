"""The files for Prometheus, Slurm, node-problem-detector and Kubernetes, in the programs that read them."""

from __future__ import annotations

import functools
import json
import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from gdrkit.cli import main
from gdrkit.cli.export import encoded
from gdrkit.fleet.build import build
from gdrkit.fleet.document import Standing
from gdrkit.fleet.metrics import fleet_metrics
from gdrkit.repair.config import ConfigRequest, generate
from gdrkit.repair.config.output import ConfigOutput, rendered
from gdrkit.report.metrics import node_metrics
from tests.cli.test_streams import GDR
from tests.evidence_nodes import diagnosed, laid_down
from tests.fleet.fleets import row
from tests.repair.config.published import published, validator
from tests.system_programs import program

NODES = {
    "blocked": "rail-down",
    "ready": "ubuntu-6.8-h100",
    "unknown": "iommu-translating",
    "impossible": "no-gpu",
}


def text_of(kind: str, form: str = "", **options: Any) -> str:
    found = generate(kind, ConfigRequest(form=form, **options))
    assert isinstance(found, ConfigOutput)
    return rendered(found)


# -- alerts ------------------------------------------------------------------------------------------


@pytest.fixture
def rules(tmp_path):
    """The file of alert rules."""
    file = tmp_path / "gdrkit-rules.yaml"
    file.write_text(text_of("alerts"))
    return file


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    found = program("promtool")
    return subprocess.run([found, *arguments], capture_output=True, text=True, timeout=120, check=False)


def test_promtool_accepts_the_rules(rules):
    done = promtool("check", "rules", "--lint=all", "--lint-fatal", str(rules))
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_rejects_a_wrong_rule(rules):
    """The near miss: it does read expressions."""
    rules.write_text(rules.read_text().replace("on (instance", "on (instance,,"))
    assert promtool("check", "rules", str(rules)).returncode != 0


@functools.cache
def series(name: str, minutes: int = 60) -> dict[str, str]:
    """The series that gdr export writes for a node, each constant for some minutes from the epoch on."""
    lines = encoded(node_metrics(diagnosed(name), 0.0)).decode().splitlines()
    split = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {key: f"{float(value):g}x{minutes}" for key, value in split}


def fired(rules: Path, given: dict[str, str], name: str, at: str) -> list[dict[str, str]]:
    """The labels of the alerts of a name that fire at a time, as promtool sees it."""
    test = {
        "rule_files": [str(rules)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": key, "values": value} for key, value in given.items()],
                "alert_rule_test": [
                    {"eval_time": at, "alertname": name, "exp_alerts": [{"exp_labels": {"never": "x"}}]}
                ],
            }
        ],
    }
    file = rules.with_name("test.yaml")
    file.write_text(yaml.safe_dump(test))
    done = promtool("test", "rules", str(file))
    got = re.search(r"got:\[(.*)\]\s*$", done.stdout + done.stderr, re.DOTALL)
    assert got, done.stdout + done.stderr
    found = re.findall(r"Labels:\{(.*?)\}\s", got[1])
    return [dict(re.findall(r'(\w+)="([^"]*)"', labels)) for labels in found]


@pytest.mark.parametrize(
    ("node", "alert", "fires"),
    [
        ("rail-down", "GPUDirectRDMABlocked", True),
        ("rail-down", "GPUDirectRDMAUnknown", False),
        ("ubuntu-6.8-h100", "GPUDirectRDMABlocked", False),
        ("no-gpu", "GPUDirectRDMABlocked", False),
        ("rail-down", "GPUDirectRDMALost", False),
        ("rail-down", "GPUDirectRDMANotJudged", False),
        ("gpu-gone", "GPUDirectRDMAGPUMissing", True),
        ("nic-x4", "GPUDirectRDMAGPUMissing", False),
        ("nic-x4", "GPUDirectRDMALinkDegraded", True),
        ("gpu-gone", "GPUDirectRDMALinkDegraded", False),
        ("volta-proprietary", "GPUDirectRDMANextBoot", True),
        ("rail-down", "GPUDirectRDMANextBoot", False),  # blocked now, too: that is another alert
        ("gpu-gone", "GPUDirectRDMANextBoot", False),
    ],
)
def test_an_alert_fires_for_the_metrics_of_a_node_with_its_problem(rules, node, alert, fires):
    assert len(fired(rules, series(node), alert, "30m")) == fires


def test_a_gpu_that_reached_the_network_an_hour_ago_is_lost(rules):
    """Only that GPU, and only after a restart of the driver would be over."""
    before, after = series("ubuntu-6.8-h100"), series("rail-down")
    gpu = 'gdr_gpu_state{consumer="nccl",gpu="0000:df:00.0",nic="mlx5_7",node="rail-07",state='
    given = {f"{key}": value for key, value in after.items() if key.startswith("gdr_gpu_state")}
    assert before and f'{gpu}"ready"}}' in given
    given |= {f'{gpu}"ready"}}': "1x60 0x60", f'{gpu}"blocked"}}': "0x60 1x60"}
    assert fired(rules, given, "GPUDirectRDMALost", "70m") == []
    (found,) = fired(rules, given, "GPUDirectRDMALost", "90m")
    assert (found["gpu"], found["node"], found["severity"]) == ("0000:df:00.0", "rail-07", "critical")


def test_old_metrics_and_missing_evidence_are_told_apart(rules):
    old = {'gdr_last_run_timestamp_seconds{node="a"}': "0x200"}
    assert [one["node"] for one in fired(rules, old, "GPUDirectRDMANotJudged", "100m")] == ["a"]
    assert fired(rules, old, "GPUDirectRDMABlocked", "100m") == []
    unknown = {'gdr_node_state{consumer="nccl",node="a",state="unknown"}': "1x200"}
    assert [one["node"] for one in fired(rules, unknown, "GPUDirectRDMAUnknown", "100m")] == ["a"]


@pytest.mark.parametrize(("gb_per_s", "fires"), [(48, False), (47, False), (20, True)])
def test_a_measurement_is_compared_with_the_lower_bound(rules, gb_per_s, fires):
    pair = 'node="a",gpu="g",nic="n"'
    given = {
        f'gdr_pair_ceiling_bytes_per_second{{{pair},bound="low"}}': "47e9x10",
        f'gdr_pair_ceiling_bytes_per_second{{{pair},bound="high"}}': "49e9x10",
        f'gdr_pair_measured_bytes_per_second{{{pair},path="dmabuf"}}': f"{gb_per_s}e9x10",
    }
    assert len(fired(rules, given, "GPUDirectRDMABelowCeiling", "5m")) == fires


@pytest.mark.parametrize(("met", "fires"), [("no", 1), ("yes", 0), ("unknown", 0)])
def test_only_an_expectation_that_is_not_met_fires(rules, met, fires):
    given = {f'gdr_expectation_met{{node="a",met="{one}"}}': f"{int(one == met)}x30" for one in MET}
    assert len(fired(rules, given, "GPUDirectRDMAExpectationUnmet", "20m")) == fires


MET = ("yes", "no", "unknown")
GONE = {"traits": {"warnings": "link-degraded, rebar-off"}}


@pytest.mark.parametrize(
    ("node", "alert", "named"),
    [
        (row("a", Standing.BLOCKED, causes=("port-down",), **GONE), "GPUDirectRDMAFleetBlocked", ""),
        (row("a", Standing.BLOCKED, causes=("port-down",), **GONE), "GPUDirectRDMAFleetDegraded", "a"),
        (row("a", Standing.WARNINGS, causes=("gpu-missing",)), "GPUDirectRDMAFleetDegraded", "a"),
        (row("a", Standing.NEXT_BOOT, causes=("driver-mismatch",)), "GPUDirectRDMAFleetNextBoot", ""),
        (row("a", Standing.UNREACHABLE, causes=("gpu-missing: denied",)), "GPUDirectRDMAFleetBlocked", ""),
    ],
)
def test_an_alert_fires_for_the_metrics_of_a_run(rules, node, alert, named):
    """And none about a node that is well, or about what is not known."""
    report = build([node, row("well"), row("u", Standing.UNKNOWN, causes=("gpu-missing: denied",))])
    lines = encoded(fleet_metrics(report)).decode().splitlines()
    given = {key: f"{value}x10" for key, value in (x.rsplit(" ", 1) for x in lines if x[0] != "#")}
    (found,) = fired(rules, given, alert, "5m")

    assert found.get("node", "") == named


def test_every_alert_is_fired_by_a_test_above():
    """By its name in a table or a call; a new rule without a test is found here."""
    names = {rule["alert"] for rule in yaml.safe_load(text_of("alerts"))["groups"][0]["rules"]}
    text = Path(__file__).read_text()

    assert len(names) == 13 and {name for name in names if f'"{name}"' not in text} == set()


@pytest.mark.parametrize(("standing", "fires"), [("blocked", 1), ("unreachable", 1), ("unknown", 0)])
def test_nodes_of_a_fleet_that_need_something_fire(rules, standing, fires):
    given = {f'gdr_fleet_nodes{{standing="{standing}"}}': "3x10"}
    assert len(fired(rules, given, "GPUDirectRDMAFleetBlocked", "5m")) == fires
    assert len(fired(rules, given, "GPUDirectRDMAFleetUnknown", "5m")) == (standing == "unknown")


def test_the_object_for_the_operator_has_the_same_rules():
    found = yaml.safe_load(text_of("alerts", "prometheusrule"))
    wanted = validator(published, "PrometheusRule")
    wanted.validate(found)
    assert found["spec"] == yaml.safe_load(text_of("alerts"))
    found["spec"]["groups"][0]["rules"][0]["for"] = 15
    with pytest.raises(jsonschema.ValidationError):
        wanted.validate(found)


def test_every_metric_of_an_alert_is_written_by_gdr_export():
    written = {"gdr_pair_measured_bytes_per_second", "gdr_expectation_met"}
    written |= {metric.name for metric in fleet_metrics(build([row("a", Standing.BLOCKED)]))}
    written |= {key.partition("{")[0] for key in series("ubuntu-6.8-h100")}
    assert set(re.findall(r"\bgdr_\w+", text_of("alerts"))) <= written


# -- Slurm -------------------------------------------------------------------------------------------

SCONTROL = """#!/bin/sh
printf '%s\\n' "$*" >>{log}
[ "$1" != --oneliner ] || echo 'NodeName=gpu7 Arch=x86_64 State={state} ThreadsPerCore=1 Reason=was DRAIN'
"""


REPEATING = """#!/bin/sh
[ "$1" = doctor ] || exit 64
shift
said={said}$(echo "$*" | cksum | tr ' ' -)
if ! [ -e "$said.code" ]; then {judge} "$@" >"$said.out" 2>"$said.err"; echo $? >"$said.code"; fi
cat "$said.err" >&2
cat "$said.out"
exit "$(cat "$said.code")"
"""


class Slurm:
    """A folder with a gdr that judges an evidence node, and an scontrol that keeps a log."""

    def __init__(self, folder: Path, gdr: str, state: str = "IDLE", **options: Any) -> None:
        self.folder, self.log, self.options = folder, folder / "log", options
        logger = f"#!/bin/sh\nprintf '%s\\n' \"$*\" >>{folder}/logged\n"
        programs = {"gdr": gdr, "scontrol": SCONTROL.format(log=self.log, state=state), "logger": logger}
        for name, text in programs.items():
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)

    def run(self, form: str, **environment: str) -> int:
        """The exit code of a script, which gets only this environment, as from slurmd."""
        text = text_of("slurm-health", form, **self.options).replace(
            "/usr/local/bin/gdr", str(self.folder / "gdr")
        )
        script = self.folder / "script.sh"
        script.write_text(text.replace("PATH=/usr/local/sbin", f"PATH={self.folder}:/usr/local/sbin"))
        done = subprocess.run(
            ["/bin/sh", script], env=environment, timeout=120, capture_output=True, text=True
        )
        self.output = done.stdout + done.stderr
        return done.returncode

    @property
    def told(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


def judging(name: str) -> str:
    """A gdr that judges an evidence node in place of this machine: asked the same again, it repeats itself,
    since its answer is always the same."""
    node = laid_down(name)
    return REPEATING.format(said=node.with_name("said-"), judge=shlex.join([*GDR, "doctor", str(node)]))


def test_the_nodes_have_the_verdicts_that_these_tests_are_about():
    for state, name in NODES.items():
        assert diagnosed(name).verdict.state == state


def test_a_blocked_node_is_drained_with_its_reason(tmp_path):
    slurm = Slurm(tmp_path, judging("rail-down"))
    assert slurm.run("health", SLURMD_NODENAME="gpu7") == 0
    reason = "gdrkit: port-down: port 1 is DOWN"  # of which `sinfo -R` shows 20 characters
    assert slurm.told == ["--oneliner show node gpu7", f"update NodeName=gpu7 State=DRAIN Reason={reason}"]


@pytest.mark.parametrize("name", ["ALL", "all", "gpu[1-9]", "gpu1,gpu2", "a b", "@group", "gpu*"])
def test_a_name_that_means_more_than_this_node_drains_none(tmp_path, name):
    slurm = Slurm(tmp_path, judging("rail-down"))
    assert slurm.run("health", SLURMD_NODENAME=name) == 1
    assert slurm.told == []


@pytest.mark.parametrize("name", ["ALLEN", "all-1", "localhost", "gpu1.example.com", "gpu_1"])
def test_a_name_that_only_resembles_one_is_drained(tmp_path, name):
    slurm = Slurm(tmp_path, judging("rail-down"))
    assert slurm.run("health", SLURMD_NODENAME=name) == 0
    assert slurm.told[1].startswith(f"update NodeName={name} State=DRAIN ")


BAD_GDR = {
    "ready": judging("ubuntu-6.8-h100"),
    "unknown": judging(NODES["unknown"]),
    "impossible": judging("no-gpu"),
    "an older gdr without --deadline": "#!/bin/sh\necho unrecognized >&2\nexit 64\n",
    "a wrong argument of Python": "#!/bin/sh\nexit 2\n",
    "a crash": "#!/bin/sh\necho Traceback >&2\nexit 1\n",
    "killed": "#!/bin/sh\nkill -9 $$\n",
    "no interpreter": "#!/no/such/python\n",
}


WORKING = [BAD_GDR[name] for name in ("ready", "unknown", "impossible")]


@pytest.mark.parametrize("gdr", BAD_GDR.values(), ids=BAD_GDR)
@pytest.mark.parametrize("form", ["health", "prolog", "epilog"])
def test_nothing_else_drains_a_node(tmp_path, gdr, form):
    slurm = Slurm(tmp_path, gdr)
    assert slurm.run(form, SLURMD_NODENAME="gpu7", SLURM_JOB_GPUS="0,1") == 0
    assert slurm.told == []
    logged = (tmp_path / "logged").read_text() if (tmp_path / "logged").exists() else slurm.output
    assert ("gdr doctor failed: exit code " in logged) is (gdr not in WORKING), logged


@pytest.mark.parametrize(
    "state", ["IDLE+DRAIN", "DOWN*", "MIXED+DRAINING", "FAIL", "DOWN+DRAIN+NOT_RESPONDING"]
)
def test_a_reason_of_an_administrator_is_kept(tmp_path, state):
    slurm = Slurm(tmp_path, judging("rail-down"), state)
    assert slurm.run("health", SLURMD_NODENAME="gpu7") == 0
    assert slurm.told == ["--oneliner show node gpu7"]


def test_without_slurmctld_the_check_fails_and_drains_nothing(tmp_path):
    slurm = Slurm(tmp_path, judging("rail-down"))
    (tmp_path / "scontrol").write_text("#!/bin/sh\necho 'Unable to contact slurm controller' >&2\nexit 1\n")
    assert slurm.run("health", SLURMD_NODENAME="gpu7") == 1
    assert "Unable to contact" in slurm.output


@pytest.mark.parametrize("form", ["prolog", "epilog"])
def test_a_prolog_fails_on_a_blocked_node_and_calls_no_command_of_slurm(tmp_path, form):
    slurm = Slurm(tmp_path, judging("rail-down"))
    assert slurm.run(form, SLURM_JOB_GPUS="0") == 1
    assert slurm.output.startswith("gdrkit: rail-07: blocked [hardware] port-down") and slurm.told == []
    assert slurm.run(form) == 0, "a job without GPUs"


GONE_CODE = "expected-gpu-missing"


@pytest.mark.parametrize(
    ("node", "codes", "drains"),
    [
        ("gpu-gone", ("gpu-missing",), "warning gpu-missing: "),
        ("gpu-gone", ("link-degraded",), ""),
        ("gpu-gone", ("link-degraded", "gpu-missing"), "warning gpu-missing: "),
        ("nic-x4", ("link-degraded",), "warning link-degraded: "),
        ("nic-x4", ("gpu-missing",), ""),
        ("ubuntu-6.8-h100", ("gpu-missing", "link-degraded"), ""),
        ("rail-down", ("gpu-missing",), "blocked [hardware] port-down: "),
        (NODES["unknown"], ("iommu-translating", "gpu-missing"), ""),
    ],
)
@pytest.mark.parametrize("form", ["health", "prolog"])
def test_a_code_that_was_named_drains_its_nodes_and_no_others(tmp_path, form, node, codes, drains):
    slurm = Slurm(tmp_path, judging(node), drain_on=codes)
    code = slurm.run(form, SLURMD_NODENAME="gpu7", SLURM_JOB_GPUS="0")
    told = slurm.told[-1] if slurm.told else ""

    assert code == (1 if drains and form == "prolog" else 0)
    cause = drains.split()[-1:]  # the health check's reason begins with it
    assert (f"gdrkit: {cause[0]} " if cause else "") in told if form == "health" else drains in slurm.output
    assert told.startswith("update ") is bool(drains and form == "health")
    assert not (tmp_path / "logged").exists()


@pytest.mark.parametrize(
    ("content", "drained", "logged"),
    [
        ("gpus = 9\n", True, False),
        ("gpus = 8\n", False, False),
        ("gpus = [", False, True),
        (None, False, True),
    ],
)
def test_a_node_is_drained_by_its_own_expectation_and_by_none_that_is_broken(
    tmp_path, content, drained, logged
):
    file = tmp_path / "node.toml"
    if content is not None:
        file.write_text(content)
    slurm = Slurm(tmp_path, judging("ubuntu-6.8-h100"), expect=str(file), drain_on=(GONE_CODE,))

    assert slurm.run("health", SLURMD_NODENAME="gpu7") == 0
    assert [GONE_CODE in line for line in slurm.told] == ([False, True] if drained else [])
    assert (tmp_path / "logged").exists() is logged


# -- node-problem-detector ---------------------------------------------------------------------------


PLUGIN = "/custom-config/gdrkit.sh"


def seconds(duration: str) -> int:
    """A duration of Go with one unit: time.ParseDuration."""
    return int(duration[:-1]) * {"s": 1, "m": 60, "h": 3600}[duration[-1]]


def validated(document: Any) -> None:
    """What CustomPluginConfig.Validate() of node-problem-detector demands, besides types: config.go."""
    validator(published, "NodeProblemDetector").validate(document)
    conditions = [condition["type"] for condition in document["conditions"]]
    assert seconds(document["pluginConfig"]["invoke_interval"]) > 0
    for rule in document["rules"]:
        assert seconds(rule["timeout"]) <= seconds(document["pluginConfig"]["timeout"])
        assert rule["type"] != "permanent" or rule["condition"] in conditions


def test_node_problem_detector_takes_the_configuration():
    document = json.loads(text_of("npd"))
    validated(document)
    (rule,) = document["rules"]
    assert rule["path"] == PLUGIN
    (deadline_s,) = re.findall(r"--deadline (\d+)", text_of("npd", "plugin"))
    assert int(deadline_s) < seconds(rule["timeout"]) == seconds(document["pluginConfig"]["timeout"])
    for wrong in (
        {"timeout": "6s"},
        {"condition": "Other"},
        {"typo": 1},
        {"timeout": 5},
        {"type": "permanently"},
    ):
        with pytest.raises((jsonschema.ValidationError, AssertionError)):
            validated({**document, "rules": [{**rule, **wrong}]})


def plugin(folder: Path, gdr: str, host: str = "/no/host") -> tuple[int, str]:
    """What the plugin ends with and prints."""
    (folder / "gdr").write_text(gdr)
    (folder / "gdr").chmod(0o755)
    script = folder / "gdrkit.sh"
    text = text_of("npd", "plugin").replace("/usr/local/bin/gdr", str(folder / "gdr")).replace("/host", host)
    script.write_text(text)
    script.chmod(0o755)
    path = f"{folder}:{os.environ['PATH']}"
    done = subprocess.run([script], capture_output=True, text=True, timeout=120, env={"PATH": path})
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("state", "code"), [("blocked", 1), ("ready", 0), ("unknown", 2), ("impossible", 0)]
)
def test_the_plugin_tells_a_verdict_in_the_words_of_gdr_doctor(tmp_path, state, code):
    """0 OK, 1 NonOK, 2 Unknown: node-problem-detector cuts a message after 80 characters."""
    found, message = plugin(tmp_path, judging(NODES[state]))
    assert found == code and state in message and len(message.strip()) <= 80


@pytest.mark.parametrize("name", ["a crash", "killed", "no interpreter", "a wrong argument of Python"])
def test_a_gdr_that_cannot_start_is_unknown(tmp_path, name):
    """Python ends with 1 after a traceback, which would be a problem of the node."""
    assert plugin(tmp_path, BAD_GDR[name])[0] == 2


def test_in_a_container_the_hosts_gdr_is_run(tmp_path):
    (tmp_path / "root" / "proc").mkdir(parents=True)
    (tmp_path / "chroot").write_text(f'#!/bin/sh\necho "$*" >{tmp_path}/asked\nshift\nexec "$@"\n')
    (tmp_path / "chroot").chmod(0o755)
    found, _ = plugin(tmp_path, judging("rail-down"), host=str(tmp_path / "root"))
    assert found == 1
    assert (tmp_path / "asked").read_text().split() == [
        str(tmp_path / "root"),
        str(tmp_path / "gdr"),
        *["doctor", "--line", "--exit-style", "npd", "--deadline", "4"],
    ]


# -- Kubernetes --------------------------------------------------------------------------------------

KUBERNETES = {
    "DaemonSet": "io.k8s.api.apps.v1.DaemonSet",
    "ConfigMap": "io.k8s.api.core.v1.ConfigMap",
    "ServiceAccount": "io.k8s.api.core.v1.ServiceAccount",
    "ClusterRoleBinding": "io.k8s.api.rbac.v1.ClusterRoleBinding",
}


def accepted(found: Any) -> None:
    """Validate an object with Kubernetes' own schema, which knows no other keys."""
    validator(published, "Kubernetes-1.37", at=KUBERNETES[found["kind"]]).validate(found)


@pytest.fixture(scope="module")
def objects():
    """The objects of the DaemonSet, by kind."""
    return {found["kind"]: found for found in yaml.safe_load_all(text_of("daemonset"))}


def test_kubernetes_accepts_the_objects(objects):
    assert set(objects) == set(KUBERNETES)
    for found in objects.values():
        accepted(found)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.template.spec.containers.0.securityContext.privilege", True),
        ("spec.template.spec.containers.0.volumeMounts.0.mountPath", 1),
        ("spec.template.spec.tolerations.0.operater", "Exists"),
        ("spec.selector", None),
        ("spec.template.spec.volumes.0.configMap.defaultMode", "0755"),
    ],
)
def test_kubernetes_rejects_a_wrong_key_or_value(objects, path, value):
    found = json.loads(json.dumps(objects["DaemonSet"]))
    *way, last = [int(word) if word.isdigit() else word for word in path.split(".")]
    here = found
    for word in way:
        here = here[word]
    if value is None:
        del here[last]
    else:
        here[last] = value
    with pytest.raises(jsonschema.ValidationError):
        accepted(found)


def test_the_objects_name_each_other(objects):
    """Names, labels, volumes and files that must agree; a schema does not see them."""
    pod = objects["DaemonSet"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    account, files = objects["ServiceAccount"]["metadata"], objects["ConfigMap"]
    assert pod["serviceAccountName"] == account["name"]
    assert objects["ClusterRoleBinding"]["subjects"] == [{"kind": "ServiceAccount", **account}]
    assert {mount["name"] for mount in container["volumeMounts"]} == {v["name"] for v in pod["volumes"]}
    config = next(volume["configMap"] for volume in pod["volumes"] if "configMap" in volume)
    assert config == {"name": files["metadata"]["name"], "defaultMode": 0o755}
    labels = objects["DaemonSet"]["spec"]["template"]["metadata"]["labels"]
    assert objects["DaemonSet"]["spec"]["selector"]["matchLabels"] == labels
    folder = next(m["mountPath"] for m in container["volumeMounts"] if m["name"] == "config")
    assert {f"{folder}/{name}" for name in files["data"]} == {PLUGIN, f"{folder}/gdrkit.json"}
    assert f"--config.custom-plugin-monitor={folder}/gdrkit.json" in container["command"]
    assert any(mount["mountPath"] == "/host" and mount["readOnly"] for mount in container["volumeMounts"])


def test_kubernetes_accepts_the_daemonset_of_the_image_which_has_no_rights():
    found = yaml.safe_load(text_of("daemonset", "image"))
    accepted(found)
    (container,) = found["spec"]["template"]["spec"]["containers"]
    assert container["securityContext"]["runAsUser"] == 65534 and container["volumeMounts"][0]["readOnly"]
    assert container["command"][2].count("/opt/gdr/bin/gdr doctor /host") == 1


def test_the_daemonset_has_the_files_of_gdr_config_npd(objects):
    data = objects["ConfigMap"]["data"]
    validated(json.loads(data["gdrkit.json"]))
    assert json.loads(data["gdrkit.json"]) == json.loads(text_of("npd"))
    ours = [line for line in text_of("npd", "plugin").splitlines() if not line.startswith("# ")]
    assert data["gdrkit.sh"].splitlines() == ours


# -- the command -------------------------------------------------------------------------------------


def gdr(*arguments: str) -> int:
    try:
        return main(["config", *arguments])
    except SystemExit as end:
        return int(str(end.code))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("systemd", "--form", "export-service"), "ExecStart=/opt/gdr export -o /t/gdrkit.prom "),
        (("slurm-health",), "line=$(/opt/gdr doctor "),
        (("npd", "--form", "plugin"), "set -- /opt/gdr doctor "),
        (("daemonset",), "set -- /opt/gdr doctor "),
    ],
)
def test_the_path_of_gdr_and_the_folder_are_those_of_the_site(arguments, words, capsys):
    folder = ("--textfile-folder", "/t") if arguments[0] == "systemd" else ()
    assert gdr(*arguments, "--gdr", "/opt/gdr", *folder) == 0
    assert words in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ("alerts", "--gdr", "/opt/gdr"),
        ("npd", "--gdr", "/opt/gdr"),
        ("systemd", "--gdr", "/opt/gdr"),
        ("slurm-health", "--textfile-folder", "/t"),
        ("systemd", "--form", "export-timer", "--textfile-folder", "/t"),
        ("slurm-health", "--gdr", "gdr"),
        ("slurm-health", "--gdr", "/opt/$(reboot)"),
        ("systemd", "--form", "export-service", "--textfile-folder", "/a b"),
        ("alerts", "node.tar.gz"),
        ("daemonset", "/"),
        ("daemonset", "--form", "image", "--gdr", "/opt/gdr"),
        ("systemd", "node.tar.gz", "--form", "export-service"),
    ],
)
def test_what_has_no_effect_or_is_no_path_is_refused(arguments, capsys):
    assert gdr(*arguments) == 64
    assert len(capsys.readouterr().err.splitlines()) == 2
