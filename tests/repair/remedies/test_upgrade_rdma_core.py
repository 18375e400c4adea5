"""A newer rdma-core, where the distribution has one."""

from __future__ import annotations

import pytest

from gdrkit.node import Node
from gdrkit.repair.platforms.action import RunCommand
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.procedures import procedure_for
from gdrkit.repair.remedies.upgrade_rdma_core import UPGRADE_RDMA_CORE
from tests.memory_host import MemoryHost


@pytest.mark.parametrize(
    ("system", "offered"),
    [
        ("ID=debian\nVERSION_ID=11\n", False),  # rdma-core 33.2
        ("ID=debian\nVERSION_ID=12\n", True),
        ("ID=ubuntu\nVERSION_ID=20.04\nID_LIKE=debian\n", False),
        ("ID=ubuntu\nVERSION_ID=22.04\nID_LIKE=debian\n", True),
        ("ID=centos\nVERSION_ID=7\nID_LIKE='rhel fedora'\n", False),
        ("ID=rocky\nVERSION_ID=8.4\nID_LIKE='rhel centos fedora'\n", True),  # the newest of 8 has 48
        ("ID=sles\nVERSION_ID=15.3\nID_LIKE=suse\n", False),
        ("ID=sles\nVERSION_ID=15.4\nID_LIKE=suse\n", True),
        ("ID=debian\n", True),  # testing names no release
    ],
)
def test_a_distribution_that_has_none_as_new_is_not_asked_for_one(system: str, offered: bool):
    node = Node(MemoryHost({"etc/os-release": system}, complete=True))
    found = procedure_for(node, UPGRADE_RDMA_CORE, ProcedureChoices()).actions

    assert any(isinstance(action, RunCommand) for action in found) is offered
    assert offered or "an image with rdma-core 34" in found[0].what
