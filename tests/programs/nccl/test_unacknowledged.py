"""A completion with status 12: the steps name both ends, and the GID index only where it may be wrong."""

from __future__ import annotations

import pytest

from gdrkit.programs.nccl.unacknowledged import steps
from tests.explain.explaining import explained

LINE = (
    "node-a:2205:2466 [4] transport/net_ib.cc:1938 NCCL WARN NET/IB : Got completion from peer"
    " 10.1.16.222<55921> with status=12 opcode=0 len=0 vendor err 129 (Send) {}hca mlx5_2"
)
"""Of NVIDIA/nccl issues 426 and 1664; since 2.29.2 the status has a name."""
NEWER = (
    "n1:1:2 [1] net_ib/p2p.cc:785 NCCL WARN NET/IB: Got completion from peer fd00::12<41234> with"
    " status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0) vendor_err=129 {}hca bnxt_re1"
)
LOCAL = "localGid fe80::a288:c2ff:fe10:4e16 remoteGidsfe80::a288:c2ff:fe10:4e17 "
ROUTED = "localGid ::ffff:10.1.16.221 remoteGids::ffff:10.1.16.222 "
USES = "node-a:2205:2390 [0] NCCL INFO NET/IB : Using [0]mlx5_2:1/{} [RO]; OOB e0:10.1.16.221<0>"


@pytest.mark.parametrize(
    ("line", "hca", "peer"), [(LINE, "mlx5_2", "10.1.16.222"), (NEWER, "bnxt_re1", "fd00::12")]
)
def test_link_local_gids_of_roce_lead_to_the_gid_index_and_to_a_test_with_it(line: str, hca: str, peer: str):
    shown = " ".join(steps(line.format(LOCAL), "node-a"))

    assert f"`show_gids` on both hosts: find the INDEX of {hca}" in shown
    assert f"`ib_write_bw -d {hca} -x INDEX {peer}` on node-a" in shown
    assert "NCCL_IB_GID_INDEX" in shown


@pytest.mark.parametrize("gids", [ROUTED, ""])
@pytest.mark.parametrize("line", [LINE, NEWER])
def test_other_gids_and_none_as_on_infiniband_do_not(line: str, gids: str):
    shown = " ".join(steps(line.format(gids), "node-a"))

    assert "GID" not in shown
    assert "`ib_write_bw -d" in shown


def test_the_link_layer_in_nccls_list_decides():
    text = f"{USES}\n{LINE.format(LOCAL)}\n"

    assert "GID" in explained(text.format("RoCE")).answer.now[0]
    assert "GID" not in explained(text.format("IB")).answer.now[0]


@pytest.mark.parametrize(
    "line",
    [
        "n1:1:2 [1] NCCL WARN NET/IB : Got completion with error 12, opcode 0, len 0, vendor err 129",
        LINE.format(LOCAL).replace("status=12", "status=5"),
        LINE.format(LOCAL).replace("status=12", "status=120"),
        "",
    ],
)
def test_a_line_of_another_status_or_without_the_ends_has_no_such_steps(line: str):
    assert steps(line, "") == ()
