"""The programs that read the outputs accept them: a shell, systemd, udev, butane."""

from __future__ import annotations

import base64
import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from gdrkit.programs.environment import parse_conf
from gdrkit.repair.config.output import rendered
from tests.repair.config.outputs import OUTPUTS, names_of
from tests.system_programs import program

SHELL = [
    *names_of("nccl-env", "shell"),
    *names_of("nccl-env", "slurm"),
    *names_of("slurm-health"),
    *names_of("npd", "plugin"),
]
"""Outputs that a shell runs."""


def run(*argv: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, input=text, capture_output=True, text=True, check=False, timeout=60)


def settings_of(name: str) -> dict[str, str]:
    """The variables that an output sets."""
    found = {}
    for line in OUTPUTS[name].lines:
        match = re.fullmatch(r"(?:printf '%s\\n' ')?(?:export )?(NCCL_\w+)=(.*?)'?", line.text)
        if match:
            found[match[1]] = match[2].strip("'")
    return found


# -- shells ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHELL)
def test_shellcheck_finds_no_faults(name):
    shellcheck = program("shellcheck")
    found = run(shellcheck, "--shell", "sh", "-", text=rendered(OUTPUTS[name]))
    assert found.returncode == 0, found.stdout


@pytest.mark.parametrize("name", names_of("nccl-env", "shell"))
def test_a_shell_sets_the_variables(name):
    wanted = settings_of(name)
    printing = "".join(f'printf "%s\\n" "{variable}=${variable}"\n' for variable in wanted)
    found = run("sh", "-eu", "-c", rendered(OUTPUTS[name]) + printing)
    assert found.returncode == 0, found.stderr
    assert found.stdout.splitlines() == [f"{variable}={value}" for variable, value in wanted.items()]


@pytest.mark.parametrize("name", names_of("nccl-env", "slurm"))
def test_a_task_prolog_prints_what_slurm_exports(name):
    found = run("sh", "-eu", "-c", rendered(OUTPUTS[name]))
    assert found.stdout.splitlines() == [f"export {k}={v}" for k, v in settings_of(name).items()]


@pytest.mark.parametrize("name", names_of("nccl-env", "conf"))
def test_nccl_conf_parses_to_the_same_settings(name):
    assert {s.name: s.value for s in parse_conf(rendered(OUTPUTS[name]), "etc/nccl.conf")} == settings_of(
        name
    )


@pytest.mark.parametrize("name", names_of("nccl-env", "kubernetes"))
def test_a_container_gets_the_same_settings(name):
    (found,) = yaml.safe_load_all(rendered(OUTPUTS[name]))
    shell = name.replace(":kubernetes:", ":shell:")
    assert {row["name"]: row["value"] for row in found["env"]} == settings_of(shell)


# -- systemd, udev -----------------------------------------------------------------------------------


def unit_of(name: str) -> str:
    return rendered(OUTPUTS[name], explain=True)


@pytest.mark.parametrize("name", names_of("systemd"))
def test_systemd_accepts_the_unit(name, tmp_path):
    analyze = program("systemd-analyze")
    unit = tmp_path / Path(OUTPUTS[name].file).name
    unit.write_text(re.sub(r"(?m)^ExecStart=\S+", "ExecStart=/bin/true", unit_of(name)))
    if unit.suffix == ".timer":
        unit.with_suffix(".service").write_text("[Service]\nType=oneshot\nExecStart=/bin/true\n")
    found = run(analyze, "verify", "--man=no", str(unit))
    assert found.returncode == 0 and "gdrkit" not in found.stderr, found.stderr


def test_systemd_rejects_a_wrong_unit(tmp_path):
    """The check that these tests use does reject faults."""
    analyze = program("systemd-analyze")
    unit = tmp_path / "gdrkit-acs.service"
    unit.write_text("[Service]\nType=oneshoot\nExecStart=/bin/true\n[Unitt]\nX=1\n")
    assert "gdrkit-acs" in run(analyze, "verify", "--man=no", str(unit)).stderr


UDEV_TEST = """
mount -t tmpfs none /run
mount -t tmpfs none /usr/lib/udev/rules.d
mkdir -p /run/udev/rules.d
cat >/run/udev/rules.d/90-gdrkit-acs.rules
udevadm test --action=change /sys/devices/system/cpu/cpu0
"""
"""Has udev read rules from stdin and no others, in mounts of its own, for a device without a node in
/dev."""


def faults_of_rules(rules: str, folder: Path) -> list[str]:
    """What udev reports of rules: 90-gdrkit-acs.rules:1 Invalid key 'FOO'.

    `udevadm verify` came with systemd 254, and Debian 12 has 252, whose `udevadm test` reports the same.
    """
    udevadm = program("udevadm")
    unshare = program("unshare")
    file = folder / "90-gdrkit-acs.rules"
    file.write_text(rules)
    if "verify" in run(udevadm, "--help").stdout:
        found = run(udevadm, "verify", "--resolve-names=never", str(file))
        return (found.stdout + found.stderr).splitlines() if found.returncode else []
    if run(unshare, "--map-root-user", "--mount", "mount", "-t", "tmpfs", "none", "/run").returncode:
        pytest.skip("needs user namespaces: sudo sysctl kernel.unprivileged_userns_clone=1")
    found = run(unshare, "--map-root-user", "--mount", "sh", "-eu", "-c", UDEV_TEST, text=rules)
    assert f"Reading rules file: /run/udev/rules.d/{file.name}\n" in found.stderr + found.stdout, found
    lines = (found.stdout + found.stderr).splitlines()
    return [line for line in lines if re.search(r"90-gdrkit-acs\.rules:\d", line)]


@pytest.mark.parametrize("name", names_of("udev"))
def test_udev_accepts_the_rules(name, tmp_path):
    assert faults_of_rules(rendered(OUTPUTS[name], explain=True), tmp_path) == []


@pytest.mark.parametrize(
    "wrong",
    [
        'ACTION="add", RUN+="/bin/true"',
        'ACTION=="add", KERNAL=="x"',
        'ACTION=="add", RUN+="/bin/true',
        'ACTION=="add", ATTR{x=="1"',
        'ACTION=="add", GOTO="nowhere"',
    ],
)
def test_udev_rejects_wrong_rules(wrong, tmp_path):
    """The check that these tests use does reject faults."""
    assert faults_of_rules(wrong + "\n", tmp_path)


@pytest.mark.parametrize("name", names_of("udev") + names_of("systemd", "acs"))
def test_setpci_accepts_its_arguments(name):
    """With -D, setpci does everything except write: setpci(8). This machine does not have the bridges."""
    setpci = program("setpci")
    commands = re.findall(r"-s (\S+) (ECAP_ACS\S+?)\"?$", rendered(OUTPUTS[name]), re.MULTILINE)
    assert commands
    for _, operation in commands:
        found = run(setpci, "-D", "-f", "-s", "ffff:00:00.0", operation)
        assert "Invalid" not in found.stderr and "Usage" not in found.stderr, found.stderr


# -- butane ------------------------------------------------------------------------------------------


def translated(source: str) -> object:
    """The MachineConfig that butane makes of the keys that `gdr config` uses; others are refused.

    Source: coreos/butane docs/config-openshift-v4_13.md: version 4.13.0 gives Ignition 3.2.0, the metadata
    is kept, inline contents become a data: URL, kernel_arguments become spec.kernelArguments.
    """
    (found,) = yaml.safe_load_all(source)
    assert (found.pop("variant"), found.pop("version")) == ("openshift", "4.13.0")
    config = {"ignition": {"version": "3.2.0"}, "storage": found.pop("storage")}
    for file in config["storage"]["files"]:
        inline = file["contents"].pop("inline")
        assert file["contents"] == {}
        file["contents"] = {"source": "data:;base64," + base64.b64encode(inline.encode()).decode()}
    if "systemd" in found:
        config["systemd"] = found.pop("systemd")
    spec = {"config": config}
    openshift = found.pop("openshift", {})
    if "kernel_arguments" in openshift:
        spec["kernelArguments"] = openshift.pop("kernel_arguments")
    metadata = found.pop("metadata")
    assert found == openshift == {}
    return {"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
            "metadata": metadata, "spec": spec}  # fmt: skip


@pytest.mark.parametrize("name", names_of("butane"))
def test_butane_produces_the_machine_config_that_we_write(name):
    """$BUTANE, if set, is the program itself: go install github.com/coreos/butane/internal@v0.18.0."""
    source = rendered(OUTPUTS[name], explain=True)
    if butane := os.environ.get("BUTANE"):
        made = run(butane, "--strict", text=source)
        assert made.returncode == 0, made.stderr
        theirs = yaml.safe_load(made.stdout)
    else:
        theirs = translated(source)
    (ours,) = yaml.safe_load_all(rendered(OUTPUTS[name.replace("butane:", "machineconfig:")]))
    for found in (ours, theirs):
        for file in found["spec"]["config"]["storage"]["files"]:
            file["contents"] = content(file["contents"])
    assert theirs == ours


def content(contents: dict[str, str]) -> bytes:
    """The bytes behind a data: URL, compressed or not. Source: RFC 2397."""
    import gzip
    from urllib.parse import unquote_to_bytes

    head, _, body = contents["source"].partition(",")
    found = base64.b64decode(body) if head.endswith(";base64") else unquote_to_bytes(body)
    return gzip.decompress(found) if contents.get("compression") == "gzip" else found


def test_no_output_contains_a_key_or_a_password():
    for output in OUTPUTS.values():
        assert not re.search(r"PRIVATE KEY|password|passwd|secret", rendered(output), re.IGNORECASE)


def test_the_lists_of_outputs_are_not_empty():
    """The tests above run over these lists."""
    assert all(
        (
            SHELL,
            names_of("systemd", "acs"),
            names_of("systemd", "export"),
            names_of("udev"),
            names_of("butane"),
            names_of("nccl-env", "conf"),
        )
    )
