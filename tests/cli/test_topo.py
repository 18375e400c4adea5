"""The command `gdr topo`."""

from __future__ import annotations

import io
import os
import shutil

import jsonschema
import msgspec
import pytest

from gdrkit.cli import main
from gdrkit.cli.exit import NO_INPUT, OK, UNKNOWN, USAGE, WARNING
from gdrkit.fabric.topology import from_nccl_xml
from gdrkit.fabric.topology.graph import Role
from gdrkit.formats import nccl_xml
from tests.evidence_nodes import build
from tests.fabric.topology.test_from_file import MATRIX
from tests.fabric.topology.xml_files import DUMP, ONE_SWITCH


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "topo.xml"
    path.write_text(ONE_SWITCH)
    return path


def test_a_file_shows_its_tree_and_the_path_type_of_each_pair(saved, capsys):
    assert main(["topo", str(saved)]) == OK
    shown = capsys.readouterr().out
    assert "topo.xml, NCCL topology XML: 1 GPU, 1 NIC" in shown
    assert "0000:16:00.0  switch Broadcom c030  32 GT/s x16" in shown
    assert "PIX" in shown


def test_an_obstacle_is_shown_at_its_device_and_sets_the_exit_code(tmp_path, capsys):
    assert main(["topo", str(build("acs-redirect", tmp_path))]) == WARNING
    shown = capsys.readouterr().out
    assert "! ACS at 0000:17:01.0: ReqRedir+ CmpltRedir+" in shown
    words = " ".join(shown.split())
    between = "between GPU 0 (0000:1b:00.0) mlx5_0"
    assert f"* acs-redirect at 0000:17:01.0: ReqRedir+ CmpltRedir+, {between}" in words


def test_ports_are_shown_only_with_verbose(tmp_path, capsys):
    tree = str(build("ubuntu-6.8-h100", tmp_path))
    main(["topo", tree])
    short = capsys.readouterr().out
    main(["topo", tree, "-v"])
    long = capsys.readouterr().out
    assert "0000:17:00.0" not in short
    assert "0000:17:00.0  port" in long


def test_the_document_holds_the_graph_and_the_pairs(saved, capsys):
    assert main(["topo", str(saved), "--json"]) == OK
    document = msgspec.json.decode(capsys.readouterr().out)
    assert document["schema"] == "gdrkit.topology/1"
    assert document["pairs"][0]["nvidia_smi"] == ["PIX"]
    assert [device["role"] for device in document["topology"]["devices"]] == ["bridge", "nic", "gpu"]


def test_the_picture_is_written_as_svg(saved, capsys):
    assert main(["topo", str(saved), "--svg"]) == OK
    assert capsys.readouterr().out.startswith("<svg ")


def test_a_matrix_has_no_tree_to_draw(tmp_path, capsys):
    matrix = tmp_path / "matrix.txt"
    matrix.write_text(MATRIX)
    assert main(["topo", str(matrix), "--svg"]) == NO_INPUT
    assert "no GPU and no NIC in a PCIe tree" in capsys.readouterr().err


def test_quiet_only_sets_the_exit_code(tmp_path, capsys):
    assert main(["topo", "-q", str(build("nic-x4", tmp_path))]) == WARNING
    assert capsys.readouterr().out == ""


def test_standard_input_is_read(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(DUMP.encode())))
    assert main(["topo", "-"]) == OK
    assert "standard input, NCCL topology XML: 2 GPUs, 2 NICs, 3 ports" in capsys.readouterr().out


@pytest.mark.parametrize(
    "content, words",
    [('<system version="2"><cpu/></system>', "RCCL"), (DUMP[:300], "cut"),
     ("<topology/>", "one outermost object"),
     ("\tGPU0\tNIC0\nGPU0\t X \n", "cut")],
)  # fmt: skip
def test_an_unreadable_file_is_reported_in_one_sentence(content, words, saved, capsys):
    saved.write_text(content)
    assert main(["topo", str(saved)]) == NO_INPUT
    shown = capsys.readouterr().err
    assert shown.startswith("gdr topo: topo.xml: ")
    assert words in shown
    assert shown.count("\n") == 1


def test_a_text_that_is_not_a_topology_is_refused_with_the_supported_formats(saved, capsys):
    saved.write_text("hello")
    assert main(["topo", str(saved)]) == NO_INPUT
    shown = capsys.readouterr().err
    assert "is not a topology" in shown
    assert "nvidia-smi topo -m" in shown
    assert "gdr nccl" in shown


def test_a_tree_without_pci_is_unknown(tmp_path, capsys):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/hostname").write_text("n\n")
    (tmp_path / "proc").mkdir()
    assert main(["topo", str(tmp_path)]) in (UNKNOWN, NO_INPUT)
    assert capsys.readouterr().out == ""


def test_a_written_file_has_the_switches_that_nccl_shows(tmp_path, capsys):
    target = tmp_path / "out.xml"
    assert main(["topo", str(build("ubuntu-6.8-h100", tmp_path)), "--write-nccl-xml", str(target)]) == OK
    found = from_nccl_xml.topology(nccl_xml.parse(target.read_bytes()))
    assert sum(device.role is Role.BRIDGE for device in found.devices) == 8
    assert "NCCL_TOPO_FILE" in capsys.readouterr().err
    assert main(["topo", str(target), "--write-nccl-xml", str(target)]) == 64, "never the input"
    assert from_nccl_xml.topology(nccl_xml.parse(target.read_bytes())) == found


def test_evidence_is_never_overwritten(saved, tmp_path, capsys):
    evidence = tmp_path / "sosreport.txt"
    evidence.write_text("precious")
    assert main(["topo", str(saved), "--write-nccl-xml", str(evidence)]) == 64
    assert main(["topo", str(saved), "--write-nccl-xml", str(evidence), "--force"]) == 64
    assert evidence.read_text() == "precious"
    assert "is not a topology file" in capsys.readouterr().err


def test_a_name_that_nccl_cannot_read_is_refused_before_anything_is_written(saved, tmp_path, capsys):
    saved.write_text(DUMP.replace('name="mlx5_0"', 'name="a&amp;b"'))
    assert "a&amp;b" in saved.read_text()
    target = tmp_path / "new.xml"
    assert main(["topo", str(saved), "--write-nccl-xml", str(target)]) == NO_INPUT
    assert "NCCL does not read entities" in capsys.readouterr().err
    assert not target.exists()


def test_a_node_with_more_ports_than_any_machine_has_is_refused_in_one_line(tmp_path, capsys):
    tree = build("spark-two-cables", tmp_path)
    (tree / "gdr_manifest.json").unlink()
    devices = tree / "sys/class/infiniband"
    first = next(devices.iterdir()).resolve()
    for number in range(2, 300):
        (first / f"ports/{number}").symlink_to("1")
    for number in range(4):
        device = shutil.copytree(first, first.parent / f"mlx5_{number}", symlinks=True)
        (devices / device.name).symlink_to(os.path.relpath(device, devices))
    assert main(["topo", str(tree)]) == NO_INPUT
    assert "NIC ports are more than one machine has" in capsys.readouterr().err
    assert main(["report", str(tree), "-o", str(tmp_path / "a.html")]) in (1, 2, 3, 0)
    assert "NIC ports are more than one machine has" in (tmp_path / "a.html").read_text()


def test_a_matrix_has_no_tree_to_write(saved, capsys):
    saved.write_text("\tGPU0\tNIC0\nGPU0\t X \tPIX\nNIC0\tPIX\t X \n")
    assert main(["topo", str(saved)]) == OK
    assert main(["topo", str(saved), "--write-nccl-xml"]) == NO_INPUT
    assert "does not show a PCIe tree" in capsys.readouterr().err


def test_the_effect_of_a_variable_is_shown(tmp_path, capsys):
    tree = str(build("ubuntu-6.8-h100", tmp_path))
    assert main(["topo", tree, "--nccl", "2.27.5", "--env", "NCCL_NET_GDR_LEVEL=PHB", "--json"]) == OK
    document = msgspec.json.decode(capsys.readouterr().out)
    changed = {(change["gpu"], change["net"], change["what"]) for change in document["nccl"]["changes"]}
    same_node = {
        (pair["gpu"], pair["net"], what)
        for pair in document["pairs"]
        if pair["nccl"] == ["PHB"]
        for what in ("send", "receive")
    }
    assert changed == same_node
    assert len(changed) == 64


def test_a_value_that_nccl_does_not_accept_has_no_effect(saved, capsys):
    assert main(["topo", str(saved), "--env", "NCCL_NET_GDR_LEVEL=ALL"]) == OK
    shown = capsys.readouterr().out
    assert "no effect: NCCL_NET_GDR_LEVEL=ALL" in shown
    assert "the environment has no effect" in shown


def test_a_port_excluded_by_a_variable_is_not_used(saved, capsys):
    saved.write_text(DUMP)
    main(["topo", str(saved), "--env", "NCCL_IB_HCA=mlx5_9"])
    assert "no: NCCL_IB_HCA" in capsys.readouterr().out


def test_gpus_without_support_never_use_gpudirect_rdma(tmp_path, capsys):
    main(["topo", str(build("zgx-3285", tmp_path))])
    out = capsys.readouterr().out
    assert "no: this GPU has no memory of its own that a NIC could reach (4 directions)" in out
    assert "no: the port is DOWN (4 directions)" in out
    assert "as one NIC" not in out, "NCCL uses only active ports"


@pytest.mark.parametrize("version", ["2.4.2", "3.0.0", "new", ""])
def test_an_invalid_or_old_version_is_wrong_usage(version, saved, capsys):
    assert main(["topo", str(saved), "--nccl", version]) == USAGE
    assert "2.18.1 to" in capsys.readouterr().err


def test_a_node_without_pairs_is_unknown(tmp_path, capsys):
    """Only a GPU, or only a NIC: an exit code of 0 would mislead a script."""
    for name in ("wsl2", "no-gpu"):
        assert main(["topo", str(build(name, tmp_path))]) == UNKNOWN
        assert "no GPU-NIC pairs" in capsys.readouterr().out


@pytest.mark.parametrize(
    "cell, variable, code, shown",
    [("NODE", "", WARNING, "no: PHB is farther than PXB"), ("NODE", "NCCL_NET_GDR_LEVEL=SYS", OK, "yes"),
     ("PXB", "", OK, "yes"), ("PIX", "NCCL_IB_DISABLE=1", WARNING, "no: NCCL_IB_DISABLE")],
)  # fmt: skip
def test_a_matrix_decides_by_distance(cell, variable, code, shown, saved, capsys):
    saved.write_text(f"> \tGPU0\tNIC0\n> GPU0\t X \t{cell}\n")
    assert main(["topo", str(saved), *(["--env", variable] if variable else [])]) == code
    assert shown in capsys.readouterr().out


def test_a_matrix_of_a_coherent_gpu_decides_nothing(saved, capsys):
    """Its memory is a NUMA node: NCCL reaches it over C2C, which the matrix does not show."""
    saved.write_text(
        "\tGPU0\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \tSYS\t0-71\t0\t\t2\n"
    )
    assert main(["topo", str(saved)]) == UNKNOWN
    assert "SYS   NIC0  (NCCL: not known)" in capsys.readouterr().out


def test_the_nearest_ports_of_each_gpu_come_before_all_tables(tmp_path, capsys):
    main(["topo", str(build("ubuntu-6.8-h100", tmp_path))])
    shown = capsys.readouterr().out.splitlines()
    at = shown.index("nearest ports of each GPU")
    assert at < 4
    assert len(shown[at + 1 : shown.index("", at)]) == 8, "one line for each GPU"
    assert all("PIX" in line for line in shown[at + 1 : at + 9])


def test_a_file_without_any_direct_path_says_what_to_do(saved, capsys):
    saved.write_text("\tGPU0\tGPU1\tNIC0\nGPU0\t X \tSYS\tSYS\nGPU1\tSYS\t X \tPHB\n")
    assert main(["topo", str(saved)]) == WARNING
    shown = capsys.readouterr().out.partition("what to do:")[2]
    assert "NCCL_TOPO_FILE" in shown
    assert "NCCL_NET_GDR_LEVEL=PHB: then 2 of 4 directions" in shown


def test_a_newer_version_is_judged_as_the_newest_with_a_note(saved, capsys):
    assert main(["topo", str(saved), "--nccl", "2.39.1"]) == OK
    assert "NCCL 2.39.1's rules: not read: assumed to behave like" in capsys.readouterr().out


@pytest.mark.parametrize(
    "setting", ["NCCL_TOPO_FILE=/etc/topo.xml", "NCCL_NET=IBext", "NCCL_NET_MERGE_LEVEL=PHB"]
)
def test_no_effect_is_claimed_for_a_variable_that_is_not_modelled(setting, saved, capsys):
    main(["topo", str(saved), "--env", setting])
    shown = capsys.readouterr().out
    assert f"not modelled, its effect is not shown: {setting}" in shown
    assert "has no effect" not in shown


@pytest.mark.parametrize("option", [["--env", "NCCL"], ["--env", "=1"], ["--nccl"]])
def test_wrong_usage_exits_with_its_code(option, capsys):
    assert main(["topo", *option]) == USAGE


def test_the_document_keeps_its_schema(saved, tmp_path, capsys):
    main(["schema", "topology"])
    schema = msgspec.json.decode(capsys.readouterr().out)
    for target in (saved, build("ubuntu-6.8-h100", tmp_path)):
        main(["topo", str(target), "--env", "NCCL_NET_GDR_LEVEL=SYS", "--json"])
        jsonschema.validate(msgspec.json.decode(capsys.readouterr().out), schema)
