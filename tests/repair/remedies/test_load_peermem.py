"""nvidia-peermem is loaded on a machine whose distribution gave its file another name."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gdrkit.evidence import EvidenceMissing
from gdrkit.evidence.target import open_host
from gdrkit.facts.modules import is_loaded
from gdrkit.node import Node
from gdrkit.repair.remedies.load_peermem import LOAD_PEERMEM
from tests.evidence_builder import node as nodes
from tests.evidence_nodes import FOLDER

CHANGES = {
    'peermem = "stub"': 'peermem = "full"',
    '"rdma-loaded", "driver-loaded"': '"ofed-dkms"',
    "[libraries]": '[rdma]\nofed = "24.10-0.7.0"\npeer_api = "ib_uverbs"\n\n[libraries]',
}


@pytest.fixture
def renamed(tmp_path: Path) -> Node:
    """Debian's node, whose file is nvidia-current-open-peermem.ko, with OFED and a module built for it,
    before the driver is loaded."""
    folder = tmp_path / "described"
    shutil.copytree(FOLDER / "debian-12-renamed", folder)
    shutil.copy2(FOLDER / "presets.toml", tmp_path)
    text = (folder / "node.toml").read_text()
    for old, new in CHANGES.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    (folder / "node.toml").write_text(text)
    return Node(open_host(str(nodes.write(folder, tmp_path))))


def test_a_renamed_module_is_loaded_under_both_names(renamed):
    """Rules judge the module by the name of its file, and the kernel lists it by the name in the file."""
    names = ("nvidia_peermem", "nvidia_current_open_peermem")
    assert [is_loaded(renamed, name) for name in names] == [False, False]
    after = renamed.after("loaded", [*LOAD_PEERMEM.effect(renamed)])
    for name in names:  # the driver is loaded with it, and its init may fail
        with pytest.raises(EvidenceMissing, match="whether nvidia_peermem loads"):
            is_loaded(after, name)
