"""The outputs of `gdr config`: parsed alike by all readers, explained, and right for their requests."""

from __future__ import annotations

import base64
import io
import json
import re
import zlib
from pathlib import Path

import pytest
import yaml
from msgspec import structs
from ruamel.yaml import YAML
from tools.platforms import on

from gdrkit.evidence.target import open_host
from gdrkit.facts.libraries import nccl_version
from gdrkit.facts.rdma import distance, gids, pairs, ports
from gdrkit.facts.talos import ModuleEntry, module_entries
from gdrkit.facts.virtual import scope
from gdrkit.node import Node
from gdrkit.repair.config import KINDS, ConfigOutput, ConfigRefused, ConfigRequest, generate
from gdrkit.repair.config.check import check
from gdrkit.repair.config.nccl_env import settings
from gdrkit.repair.config.output import OutputLine, rendered
from gdrkit.repair.config.request import active_ports
from gdrkit.repair.config.yaml_writer import Field, Items, Literal, lines
from gdrkit.repair.platforms.action import WriteFile
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.families import setpci
from gdrkit.repair.platforms.procedures import procedure_for
from gdrkit.repair.remedies import remedy_of
from tests.memory_host import MemoryHost
from tests.repair.config.outputs import IDS, OUTPUTS, YAML_IDS, names_of, node, on_platform


def ruamel(text: str) -> list[object]:
    """The documents as YAML 1.2. A duplicate key is an error."""
    reader = YAML(typ="safe", pure=True)
    reader.allow_duplicate_keys = False
    return list(reader.load_all(io.StringIO(text)))


def data(name: str) -> list[object]:
    return ruamel(rendered(OUTPUTS[name]))


def test_every_kind_is_written_for_some_request():
    assert {name.split(":")[0] for name in IDS} == set(KINDS)
    assert {(n.split(":")[0], n.split(":")[1]) for n in IDS} >= {
        (k.name, f) for k in KINDS.values() for f in k.forms
    }


@pytest.mark.parametrize("name", YAML_IDS)
def test_readers_of_both_yaml_versions_agree(name):
    text = rendered(OUTPUTS[name])
    assert ruamel(text) == list(yaml.safe_load_all(text))


@pytest.mark.parametrize("name", YAML_IDS)
def test_reasons_are_comments_without_effect(name):
    output = OUTPUTS[name]
    assert ruamel(rendered(output, explain=True)) == ruamel(rendered(output))


@pytest.mark.parametrize("name", YAML_IDS)
def test_gdr_config_check_finds_notes_at_most(name):
    version = {"oldest": "v25.3.4", "network-oldest": "v25.7.0"}.get(name.split(":")[2], "")
    found = check(rendered(OUTPUTS[name], explain=True).encode(), name, version)
    assert {fault.severity for fault in found.faults} <= {"unreadable", "note"}


@pytest.mark.parametrize("name", IDS)
def test_an_output_has_a_title_and_a_use(name):
    output = OUTPUTS[name]
    assert output.title and output.use and output.file
    if output.commentable:
        assert f"# use: {output.use}" in rendered(output)
    if output.lead:
        assert rendered(output).startswith(output.lead + "\n")


STRUCTURE = ("[", "]", "#")
PLAIN_KINDS = [n for n in IDS if n.split(":")[0] in ("modules-load", "modprobe", "udev", "systemd")]


@pytest.mark.parametrize("name", PLAIN_KINDS)
def test_each_line_of_a_file_has_a_reason(name):
    for line in OUTPUTS[name].lines:
        assert line.why or not line.text or line.text.startswith(STRUCTURE), line.text


@pytest.mark.parametrize("name", names_of("gpu-operator", "merge") + names_of("gpu-operator", "json-patch"))
def test_each_setting_of_a_patch_has_a_reason(name):
    for line in OUTPUTS[name].lines:
        key = line.text.strip()
        if key not in ("spec:", "driver:", "[", "]", f"name: {'gdrkit-kernel-modules'}"):
            assert line.why, line.text


def test_nothing_is_assumed_that_the_node_shows():
    """A node with dma-buf ready needs no assumption; without a node there is one."""
    assert OUTPUTS["gpu-operator:merge:acs-redirect"].assumed == ()
    assert "Turing" in OUTPUTS["gpu-operator:merge:plain"].assumed[0]


# -- content -----------------------------------------------------------------------------------------


def test_the_gpu_operator_gets_open_modules_and_no_peermem():
    assert data("gpu-operator:merge:plain") == [
        {"spec": {"driver": {"kernelModuleType": "open", "rdma": {"enabled": False, "useHostMofed": False}}}}
    ]


def test_the_hosts_ofed_is_used_on_request():
    (patch,) = data("gpu-operator:merge:peermem-host-ofed")
    assert patch["spec"]["driver"]["rdma"] == {"enabled": True, "useHostMofed": True}
    assert patch["spec"]["driver"]["usePrecompiled"] is False


def test_a_volta_gets_the_proprietary_modules_and_peermem():
    (patch,) = data("gpu-operator:merge:volta-proprietary")
    assert patch["spec"]["driver"]["kernelModuleType"] == "proprietary"
    assert patch["spec"]["driver"]["rdma"]["enabled"] is True


def test_the_present_proprietary_driver_is_ignored_if_the_operator_replaces_it():
    """An A100 with the proprietary driver has dma-buf once the operator installs the open one."""
    (patch,) = data("gpu-operator:merge:dgx-a100-proprietary")
    assert patch["spec"]["driver"]["rdma"]["enabled"] is False
    assert "modules-load:only:dgx-a100-proprietary" in OUTPUTS  # on the machine as it is, peermem works


def test_the_json_patch_and_the_merge_patch_have_the_same_result():
    (operations,) = data("gpu-operator:json-patch:parameters")
    (patch,) = data("gpu-operator:merge:parameters")
    built = {o["path"].rpartition("/")[2]: o["value"] for o in operations}
    assert all(o["op"] == "add" and o["path"].startswith("/spec/driver/") for o in operations)
    assert built == patch["spec"]["driver"]


def test_the_config_map_has_a_file_for_each_module():
    (found,) = data("gpu-operator:configmap:parameters")
    assert found["data"]["nvidia-peermem.conf"] == "persistent_api_support=0\n"
    assert data("gpu-operator:merge:parameters")[0]["spec"]["driver"]["kernelModuleConfig"] == {
        "name": found["metadata"]["name"]
    }


def test_ofed_is_deployed_only_for_peermem():
    assert "ofedDriver" not in data("network-operator:only:dmabuf")[0]["spec"]
    assert data("network-operator:only:peermem")[0]["spec"]["ofedDriver"]["version"].startswith("doca3.4.1")
    assert data("network-operator:only:network-oldest")[0]["spec"]["ofedDriver"]["version"].startswith(
        "doca3.1.0"
    )
    assert "ofedDriver" not in data("network-operator:only:peermem-host-ofed")[0]["spec"]


def test_an_unknown_operator_version_is_refused_unless_ofed_is_given():
    refused = generate("network-operator", ConfigRequest(operator_version="v24.1.0"))
    assert isinstance(refused, ConfigRefused) and "v26.4.1" in refused.why
    request = ConfigRequest(operator_version="v24.1.0", ofed_version="24.01-0.3.3.1-0", path="peermem")
    assert not isinstance(generate("network-operator", request), ConfigRefused)


def test_iommu_passthrough_is_set_if_the_iommu_translates():
    assert data("machineconfig:only:iommu-translating")[0]["spec"]["kernelArguments"] == ["iommu=pt"]
    assert "kernelArguments" not in data("machineconfig:only:acs-redirect")[0]["spec"]
    assert "translating" in OUTPUTS["machineconfig:only:plain"].assumed[0]


def test_arm_has_its_own_passthrough_argument():
    request = on_platform(KINDS["machineconfig"], ConfigRequest(node=node("gb200-force-pcie")))
    output = generate("machineconfig", request)
    assert not isinstance(output, ConfigRefused)
    assert ruamel(rendered(output))[0]["spec"]["kernelArguments"] == ["iommu.passthrough=1"]


@pytest.mark.parametrize(
    ("path_type", "level"), [("PIX", ""), ("PXB", ""), ("PHB", "PHB"), ("NODE", "PHB"), ("SYS", "")]
)
def test_the_level_is_set_if_the_nearest_nic_is_behind_the_host_bridge(path_type, level):
    """On bare metal; across sockets it is left to a measurement."""
    whole = node("acs-redirect")
    far = whole.after("moved", [distance.becomes(path_type, pair) for pair in pairs(whole)])
    found = {setting.name: setting for setting in settings(ConfigRequest(node=far))}["NCCL_NET_GDR_LEVEL"]
    assert found.value == level and ("socket" in found.why) == (path_type == "SYS")


@pytest.mark.parametrize(("version", "index"), [("2.18.3", "1"), ("2.21.5", ""), ("2.28.3", "")])
def test_a_gid_index_is_set_only_for_an_nccl_that_does_not_choose_it(version, index):
    """RoCE; from 2.21 on, NCCL finds the GID itself."""
    whole = node("spark-two-cables")
    changes = [nccl_version.becomes(version)]
    changes += [
        gids.becomes(((0, "fe80::", "RoCE v2"), (1, V4, "RoCE v2")), p.device, p.number)
        for p in active_ports(whole)
    ]
    found = {s.name: s for s in settings(ConfigRequest(node=whole.after("other", changes)))}[
        "NCCL_IB_GID_INDEX"
    ]
    assert found.value == index


V4 = "0000:0000:0000:0000:0000:ffff:0a00:0001"


def test_dma_buf_is_turned_off_if_peermem_is_requested_on_a_node_with_both():
    ready = ConfigRequest(node=node("acs-redirect"), path="peermem")
    assert {s.name: s.value for s in settings(ready)}["NCCL_DMABUF_ENABLE"] == "0"
    by_itself = ConfigRequest(node=node("dgx-a100-proprietary"))
    assert {s.name: s.value for s in settings(by_itself)}["NCCL_DMABUF_ENABLE"] == ""


def test_nccl_gets_only_the_nearest_nics():
    """Two NICs for storage, farther away, are left out, and their being Ethernet has no effect."""
    output = generate("nccl-env", ConfigRequest(node=node("ubuntu-6.8-h100")))
    assert not isinstance(output, ConfigRefused)
    text = rendered(output)
    assert "mlx5_7:1'" in text and "left out: mlx5_8, mlx5_9" in text and "ECMP" not in text


def test_nccl_gets_only_the_fastest_of_the_nearest_ports():
    """A slow port beside fast ones is for management."""
    whole = node("dgx-a100-proprietary")
    slow = [structs.replace(port, rate_gbit_per_s=25.0) for port in ports(whole, "mlx5_0")]
    other = whole.after("a slow port", [ports.becomes(tuple(slow), "mlx5_0")])
    (found,) = (s for s in settings(ConfigRequest(node=other)) if s.name == "NCCL_IB_HCA")
    assert found.value == "=" + ",".join(f"mlx5_{number}:1" for number in range(1, 8))
    assert found.why.endswith("left out: mlx5_0")


def test_talos_never_loads_peermem():
    for name in names_of("talos"):
        assert "peermem" not in "".join(line.text for line in OUTPUTS[name].lines)
    refused = generate("talos", ConfigRequest(path="peermem"))
    assert isinstance(refused, ConfigRefused) and "peer-memory API" in refused.why


def test_talos_is_not_given_modules_that_it_already_lists():
    """A patch adds to the list, and the last entry of a name decides its parameters."""
    listed = ["nvidia", "nvidia_uvm", "nvidia_drm", "nvidia_modeset"]
    blank = generate("talos", ConfigRequest())
    there = generate("talos", ConfigRequest(node=node("talos")))
    documents = generate("talos", ConfigRequest(node=node("talos"), form="documents"))

    assert isinstance(blank, ConfigOutput) and isinstance(there, ConfigOutput)
    assert isinstance(documents, ConfigOutput)
    entries = [line.text.split()[-1] for line in blank.lines if "- name:" in line.text]
    assert [line.text.split()[-1] for line in there.lines if "- name:" in line.text] == [
        name for name in entries if name not in listed
    ]
    assert "a patch adds to the list" in blank.notes[0] and "a patch adds" not in " ".join(there.notes)
    assert "name: nvidia" in [line.text for line in documents.lines]  # documents are merged by their name
    every = tuple(ModuleEntry(name, "mc.yaml:1") for name in entries)
    complete = node("talos").after("listed", [module_entries.becomes(every)])
    refused = generate("talos", ConfigRequest(node=complete))
    assert isinstance(refused, ConfigRefused) and "already loads" in refused.why


@pytest.mark.parametrize(
    ("kind", "name", "system"),
    [
        ("machineconfig", "gpu-operator-stub", "Ubuntu"),
        ("butane", "gpu-operator-stub", "Ubuntu"),
        ("talos", "gpu-operator-stub", "Ubuntu"),
        ("machineconfig", "talos", "Talos"),
    ],
)
def test_what_only_one_platform_reads_is_refused_for_a_node_of_another(kind, name, system):
    refused = generate(kind, ConfigRequest(node=node(name)))
    assert isinstance(refused, ConfigRefused) and f"the node runs {system}" in refused.why


def test_what_a_container_shows_of_the_system_refuses_nothing():
    """It is that of the image: a pod on a node of OpenShift may have Ubuntu."""
    inside = node("gpu-operator-stub").after("inside", [scope.becomes("container")])
    assert isinstance(generate("machineconfig", ConfigRequest(node=inside)), ConfigOutput)


@pytest.mark.parametrize("kind", ["modules-load", "gpu-operator", "cloud-init"])
def test_peermem_is_refused_where_it_can_never_work(kind):
    refused = generate(kind, ConfigRequest(node=node("spark-two-cables"), path="peermem"))
    assert isinstance(refused, ConfigRefused) and "gpu-integrated" in refused.why


def test_blocked_peermem_is_written_with_a_note():
    output = generate("modules-load", ConfigRequest(node=node("ofed-rebuilt"), path="peermem"))
    assert not isinstance(output, ConfigRefused) and "ofed-rebuilt-after-driver" in output.notes[0]


OF_HOST = tuple((kind.name, form) for kind in KINDS.values() for form in kind.of_host)
TAKES = {
    "fedora-coreos": {"modprobe", "udev", "systemd", "nccl-env", "imex", "container"},
    "flatcar": {"modprobe", "udev", "systemd", "nccl-env", "imex", "container"},
    "sl-micro": {"modprobe", "udev", "systemd", "nccl-env", "imex", "container", "cloud-init"},
    "cos": {"container"},
}
"""What is read where an image boots: /etc stays on the first three, and COS runs Docker."""
READ = {"talos", "rhcos", "fedora-coreos", "flatcar", "bottlerocket", "cos", "sl-micro"}


@pytest.mark.parametrize("system", sorted(READ))
def test_no_file_is_written_for_a_node_that_cannot_take_it(system):
    here = on(node("acs-redirect"), system)
    parameters = (("nvidia", "NVreg_EnableResizableBar", "1"),)
    for kind, form in OF_HOST:
        found = generate(kind, ConfigRequest(node=here, form=form, parameters=parameters))
        refused = isinstance(found, ConfigRefused) and "boots an image" in found.why
        assert refused != (kind in TAKES.get(system, ())), kind
        assert not refused or (isinstance(found, ConfigRefused) and found.instead), kind
    found = generate("modules-load", ConfigRequest(node=here, path="peermem"))
    assert isinstance(found, ConfigRefused), "nvidia-peermem: impossible, or by the operator"


ANY_NODE = ("export", "health", "prolog", "epilog", "config", "plugin", "rules", "slurm")
"""Forms without a node, and those of a scheduler."""


def test_every_form_that_is_a_file_of_a_host_says_so():
    for output in OUTPUTS.values():
        if not isinstance(output, ConfigOutput) or output.form.startswith(ANY_NODE):
            continue
        if output.file.startswith("/") or output.kind == "cloud-init" or "docker run" in output.use:
            assert (output.kind, output.form if KINDS[output.kind].forms else "") in OF_HOST


@pytest.mark.parametrize(
    ("kind", "path", "instead"),
    [("modprobe", "", "--form configmap"), ("modules-load", "peermem", "--path peermem")],
)
def test_a_driver_in_a_container_reads_no_file_of_its_host(kind, path, instead):
    found = generate(kind, ConfigRequest(node=node("gpu-operator-stub"), path=path))
    assert isinstance(found, ConfigRefused) and f"gdr config gpu-operator {instead} TARGET" in found.instead


def test_what_the_file_itself_cures_is_not_in_the_note():
    output = generate("modules-load", ConfigRequest(node=node("gh200"), path="peermem"))
    assert not isinstance(output, ConfigRefused) and not any("cannot load" in note for note in output.notes)


@pytest.mark.parametrize(
    ("said", "comment"),
    [("mlx5_0\nNCCL_NET=evil\r\u2028x", "mlx5_0 NCCL_NET=evil x"), ("two  blanks", "two  blanks")],
)
def test_a_comment_is_one_line_whatever_evidence_says(said, comment):
    output = ConfigOutput(
        kind="nccl-env", form="conf", title="t", use="u", file="", lines=(OutputLine("A=1", said),)
    )
    assert f"\n# {comment}\nA=1\n" in rendered(output, explain=True)


# -- the writer --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    ["yes", "No", "null", "0x10", "1e3", "0644", "580.159.04", "0000:1a:00.0", "a: b", "# no", "", " lead",
     "tail ", "- item", "*", "&a", "2026-11-20", "~", ".5", "=x", 'say "so"', "back\\slash", "é"],
)  # fmt: skip
def test_a_string_stays_a_string_for_every_reader(value):
    text = "".join(f"{line.text}\n" for line in lines((Field("key", value),)))
    assert ruamel(text) == [{"key": value}] == list(yaml.safe_load_all(text))


def test_a_mapping_in_a_sequence_keeps_its_keys_together():
    inner = (Field("a", 1), Field("b", (Field("c", True),)), Field("d", Literal("x\n\ny\n")))
    text = "".join(f"{line.text}\n" for line in lines((Field("list", Items((inner, "s"))),)))
    assert ruamel(text) == [{"list": [{"a": 1, "b": {"c": True}, "d": "x\n\ny\n"}, "s"]}]


@pytest.mark.parametrize("value", [Literal("text"), Items(("a",))])
def test_a_block_within_a_sequence_is_refused(value):
    with pytest.raises(TypeError, match="a block within a sequence has no key to explain it"):
        lines((Field("list", Items((value,))),))


def test_every_kind_of_value_has_its_lines():
    fields = (
        Field("map", (Field("on", True, "why"), Field("off", False), Field("number", 420))),
        Field("list", Items(("a", "yes", (Field("x", 1, "first"), Field("y", "z"))))),
        Field("text", Literal("one\n\n  two\n"), "why"),
        Field("a: b", 'quote " back \\ line\nend \x1b é'),
    )
    assert [(line.text, line.why) for line in lines(fields)] == [
        ("map:", ""), ('  "on": true', "why"), ('  "off": false', ""), ("  number: 420", ""), ("list:", ""),
        ("  - a", ""), ('  - "yes"', ""), ("  - x: 1", "first"), ('    "y": z', ""), ("text: |", "why"),
        ("  one", ""), ("", ""), ("    two", ""),
        ('"a: b": "quote \\" back \\\\ line\\nend \\U0000001b é"', ""),
    ]  # fmt: skip


TOOLS = {"debian": "/usr/bin/setpci", "rhel": "/usr/sbin/setpci", "suse": "/usr/sbin/setpci"}
"""Sources: dpkg -L pciutils; pciutils.spec of Fedora and of openSUSE, %files."""


@pytest.mark.parametrize("family", TOOLS)
def test_files_name_the_tools_of_the_judged_system_alone(family):
    """systemd and udev start what has a whole path, and EL9 has no /usr/bin/setpci: 203/EXEC at each boot.
    `gdr fix` and `gdr config` write the same unit."""
    here = on(node("acs-redirect"), family)
    (written,) = [
        action.content
        for action in procedure_for(here, remedy_of("clear-acs-redirect"), ProcedureChoices()).actions
        if isinstance(action, WriteFile)
    ]
    texts = {"fix": written}
    for kind in ("systemd", "udev", "cloud-init"):
        output = generate(kind, ConfigRequest(node=here))
        assert isinstance(output, ConfigOutput)
        texts[kind] = rendered(output)
    for name, text in texts.items():
        assert set(re.findall(r"(?:/usr)?/s?bin/[\w-]+", text)) == {TOOLS[family]}, name
    starts = [line for line in texts["systemd"].splitlines() if line.startswith("ExecStart=")]
    assert starts == [line for line in written.splitlines() if line.startswith("ExecStart=")]


def test_setpci_is_that_of_debian_where_the_distribution_is_not_known():
    assert setpci(None) == setpci(Node(MemoryHost({}))) == TOOLS["debian"]
    assert setpci(on(node("acs-redirect"), "rhcos")) == TOOLS["rhel"]  # of a MachineConfig


DUMPS = Path(__file__).parents[2] / "rules" / "dumps"


@pytest.mark.parametrize("kind", ["systemd", "udev"])
@pytest.mark.parametrize(
    ("dump", "why", "instead"),
    [
        ("gb300-wrong", "0008:02:01.0 differ", "gdr fix --steps set-acs-bits TARGET"),
        ("gb300-right", "already have the ACS bits", ""),
    ],
)
def test_a_layout_that_needs_certain_bits_is_left_to_the_boot(kind: str, dump: str, why: str, instead: str):
    request = ConfigRequest(node=Node(open_host(str(DUMPS / f"{dump}.json"))))
    refused = generate(kind, request)

    assert isinstance(refused, ConfigRefused)
    assert why in refused.why and refused.instead == instead


def test_bits_that_are_not_known_are_looked_at_first(tmp_path):
    functions = json.loads((DUMPS / "gb300-wrong.json").read_text())
    for function in functions:
        space = zlib.decompress(base64.b64decode(function["config"]))[:64]  # as without root
        function["config"] = base64.b64encode(zlib.compress(space)).decode()
    (tmp_path / "dump.json").write_text(json.dumps(functions))
    refused = generate("systemd", ConfigRequest(node=Node(open_host(str(tmp_path / "dump.json")))))

    assert isinstance(refused, ConfigRefused) and refused.instead == "sudo rdma_topo check"
