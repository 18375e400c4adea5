"""What is asked for where no file on disk is the module that runs: a command, never prose."""

from __future__ import annotations

import pytest

from gdrkit.evidence import EvidenceMissing
from gdrkit.facts.running_files import OPENIBD, loaded_path
from tests.kernel_tree import KernelTree


@pytest.mark.parametrize(
    ("module", "openibd", "command"),
    [
        ("ib_core", True, "sudo /etc/init.d/openibd restart"),
        ("ib_core", False, "sudo reboot"),
        ("nvidia", True, "sudo reboot"),  # openibd restarts only RDMA modules
    ],
)
def test_the_file_on_disk_runs_after_a_restart_of_openibd_or_a_reboot(
    module: str, openibd: bool, command: str
) -> None:
    tree = KernelTree().module(module, modinfo={"srcversion": "NEW"}, loaded="")
    if openibd:
        tree.put(OPENIBD, "")
    with pytest.raises(EvidenceMissing) as raised:
        loaded_path(tree.node(), module)

    assert raised.value.missing.ask == command
    assert "install" not in raised.value.missing.source
