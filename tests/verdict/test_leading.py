"""Which program a verdict is about where none is asked for."""

from __future__ import annotations

import pytest

from gdrkit.diagnosis import report_on
from gdrkit.programs.leading import leading_program
from gdrkit.rules.rule import Status
from gdrkit.verdict import judge_node
from tests.hardware import BARE_METAL, SERVER, machine

EFA = SERVER.replace("cx7-ib rdma=mlx5_0", "efa rdma=rdmap24s0 rate=100")
BOTH = SERVER + "    0000:17:02.0 pex89-down\n      0000:19:00.0 efa rdma=rdmap25s0 rate=100\n"
REFUSED = "[  201.1] failing symbol_get of non-GPLONLY symbol nvidia_p2p_get_pages.\n"


@pytest.mark.parametrize(
    ("outline", "program"),
    [
        (EFA, "aws-ofi-nccl"),
        (BOTH, "nccl"),
        (SERVER, "nccl"),
        (SERVER[: SERVER.index("    0000:17:01")], "nccl"),
    ],
)
def test_nccls_plugin_leads_where_every_nic_is_an_efa(outline, program):
    node = machine(outline)
    assert leading_program(node) == program
    assert report_on(node, brief=True).verdict.consumer == program


def test_nccl_leads_where_the_driver_of_a_nic_is_not_known():
    assert leading_program(machine(EFA, without=("sys/class/infiniband",))) == "nccl"


def test_another_program_leads_only_if_it_is_asked_for():
    assert report_on(machine(EFA), "verbs", brief=True).verdict.consumer == "verbs"


@pytest.mark.parametrize(("outline", "status"), [(EFA, Status.FAILED), (BOTH, Status.NOTE)])
def test_what_the_plugin_hits_fails_the_node_where_it_leads(outline, status):
    """aws/aws-parallelcluster issue 6014: the kernel refuses efa the functions of the proprietary driver."""
    files = {**BARE_METAL, "sos_commands/kernel/dmesg": REFUSED, "proc/driver/nvidia/version": PROPRIETARY}
    found = judge_node(machine(outline, files=files)).findings
    assert {one.status for one in found if one.code == "efa-p2p-unavailable"} == {status}


PROPRIETARY = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\n"
