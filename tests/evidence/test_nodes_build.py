"""Every node can be built, has a description, and passes checks by depmod and lspci."""

from __future__ import annotations

import functools
import json
import posixpath
import re
import subprocess
from pathlib import Path

import pytest

from tests import evidence_nodes
from tests.evidence_builder import node as builder
from tests.evidence_builder import pci
from tests.evidence_builder.tree import Tree
from tests.system_programs import program

FOLDER = Path(__file__).parent
TREE = """
0000:15:01.0 spr-root
  0000:16:00.0 pex89-up
    0000:17:00.0 pex89-down acs=RR,CR,UF
      0000:18:00.0 cx7-ib link=8.0x4 mrrs=512
"""
STATES = {"active", "ready", "blocked", "impossible", "unknown"}
STATUSES = {"failed", "warning", "note", "unknown", "seen"}
LAYERS = {"hardware", "firmware", "kernel", "driver", "rdma", "pcie", "library", "application", "none"}


@functools.cache
def composed(name):
    """The files of a node, and its description."""
    return builder.make(FOLDER / name)


def test_there_are_nodes():
    assert {"zgx-3285", "zgx-3852", "ubuntu-6.8-h100"} <= set(evidence_nodes.names())


@pytest.mark.parametrize("name", evidence_nodes.described())
def test_a_node_is_built_and_has_a_note(name):
    assert evidence_nodes.laid_down(name).exists()
    assert (FOLDER / name / "NOTE.md").read_text().startswith(f"# {name}: ")


@pytest.mark.parametrize("name", evidence_nodes.described())
def test_expectations_use_states_and_statuses_of_the_report(name):
    expected = evidence_nodes.expected(name)

    assert set(expected.consumers) <= {"nccl", "ucx", "verbs"}
    assert set(expected.consumers.values()) <= STATES
    assert expected.first_broken_layer is None or expected.first_broken_layer in LAYERS
    for status in expected.findings.values():
        assert ({status} if isinstance(status, str) else set(status)) <= STATUSES
    assert not set(expected.absent) & set(expected.findings)
    assert expected.exit_code in (None, 0, 1, 2, 3)
    assert not _contradiction(expected)


def _contradiction(expected: evidence_nodes.Expected) -> str:
    """How state and exit code contradict; "" if not. 0 and 1: works, 2: blocked, 3: unknown."""
    state = expected.consumers.get("nccl")
    allowed = {"ready": {0, 1}, "active": {0, 1}, "blocked": {2}, "unknown": {3}, "impossible": {0, 1}}
    if state is None or expected.exit_code is None or expected.exit_code in allowed[state]:
        return ""
    return f"{state} with exit code {expected.exit_code}"


@pytest.mark.parametrize("name", evidence_nodes.described())
def test_the_manifest_of_a_bundle_matches_its_files(name):
    path = evidence_nodes.laid_down(name)
    if not (path / "gdr_manifest.json").exists():
        pytest.skip("not a bundle")
    manifest = json.loads((path / "gdr_manifest.json").read_text())

    for file, row in manifest["files"].items():
        if row["status"] in ("found", "reduced"):
            assert (path / file).is_symlink() or (path / file).is_file(), file
        else:
            assert not (path / file).exists(), file
    for folder, row in manifest["folders"].items():
        if row["status"] == "listed":
            there = {entry.name for entry in (path / folder).iterdir()}
            assert there <= set(row["names"]), folder
    for row in manifest["commands"]:
        assert (path / row["file"]).is_file() == (row["status"] in ("found", "truncated")), row


@pytest.mark.parametrize("name", evidence_nodes.described())
def test_links_have_existing_targets(name):
    tree, spec = composed(name)
    paths = {*tree.files, *tree.links, *tree.listing()}

    for path, target in tree.links.items():
        if not target.startswith("/") and path not in spec.get("links", {}):
            at = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
            assert at in paths, f"{path} -> {target}"


@pytest.mark.parametrize("name", evidence_nodes.described())
def test_depmod_agrees(name, tmp_path):
    """kmod's depmod, run on the same files, finds the same winners, dependencies and symbols."""
    depmod = program("depmod")
    tree, spec = composed(name)
    release = spec["kernel"]["release"]
    at = f"lib/modules/{release}"
    if f"{at}/modules.dep" not in tree.files:
        pytest.skip("this node has no modules.dep")
    for path, content in tree.files.items():
        if path.startswith(at) and (".ko" in path or path.endswith(("order", "builtin"))):
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_bytes(content)
    config = tmp_path / "depmod.conf"
    config.write_text(f"search {spec['kernel'].get('search', 'updates built-in')}\n")
    subprocess.run([depmod, "-b", tmp_path, "-C", config, release], check=True, capture_output=True)

    ours, theirs = (
        _dependencies(text) for text in (tree.files[f"{at}/modules.dep"].decode(), _read(tmp_path / at))
    )
    assert ours == theirs
    assert set(tree.files[f"{at}/modules.symbols"].decode().split("\n")) == set(
        (tmp_path / at / "modules.symbols").read_text().split("\n")
    )


def _read(folder: Path) -> str:
    return (folder / "modules.dep").read_text()


def _dependencies(text: str) -> dict[str, set[str]]:
    return {line.split(":")[0]: set(line.split(":")[1].split()) for line in text.splitlines()}


def test_an_outline_gives_the_devices_above_each_device():
    devices = pci.parse(TREE)

    assert devices[3].above == ("0000:15:01.0", "0000:16:00.0", "0000:17:00.0")
    assert devices[3].folder == "sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0"
    assert devices[0].below == ("16", "17", "18")


def test_a_repeated_block_is_numbered_and_spread_over_numa_nodes():
    block = {
        "buses": ["15", "97"],
        "numa_nodes": 2,
        "outline": "0000:{b0}:01.0 spr-root numa={numa} slot={i}\n",
    }
    devices = pci.parse(pci.outline({"repeat": [block]}))

    assert [(d.address, d.attributes["numa"], d.attributes["slot"]) for d in devices] == [
        ("0000:15:01.0", "0", "0"),
        ("0000:97:01.0", "1", "1"),
    ]


def test_lspci_reads_the_configuration_space(tmp_path):
    """`lspci -F` decodes the same link, redirection and BARs."""
    lspci = program("lspci")
    devices = pci.parse(TREE)
    tree = Tree()
    pci.write(tree, devices, {}, root=True)
    dump = tmp_path / "dump"
    with dump.open("w") as out:
        for device in devices:
            raw = tree.files[f"{device.folder}/config"]
            out.write(f"{device.address[5:]} x\n")
            for at in range(0, len(raw), 16):
                out.write(f"{at:02x}: {raw[at : at + 16].hex(' ')}\n")
            out.write("\n")
    text = subprocess.run([lspci, "-F", dump, "-vvn"], check=True, capture_output=True, text=True).stdout

    assert "ReqRedir+ CmpltRedir+ UpstreamFwd+" in text
    assert re.search(r"LnkSta:\tSpeed 8GT/s( \(downgraded\))?, Width x4", text)
    assert "LnkCap:\tPort #0, Speed 32GT/s, Width x16" in text
    assert "MaxReadReq 512 bytes" in text
    assert "primary=16, secondary=17, subordinate=18" in text
