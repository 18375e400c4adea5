"""A large ping that is lost beside a small one that is answered shows that the way drops jumbo frames."""

from __future__ import annotations

import pytest

from tests.explain.explaining import explained

PING = """\
$ ping -c 3 {options} {address}
PING {address} ({address}) {size}({whole}) bytes of data.
{between}
--- {address} ping statistics ---
3 packets transmitted, {answers} received, {loss}% packet loss, time 2043ms
"""
STATUS_12 = """\
$ ib_write_bw -d {device} -x 3 --report_gbits 10.10.0.2
                    RDMA_Write BW Test
 Mtu             : {mtu}[B]
 Link type       : Ethernet
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 Completion with error at client
 Failed status 12: wr_id 0 syndrom 0x81
"""
OF_A_ROUTER = "From 10.10.0.254 icmp_seq=1 Frag needed and DF set (mtu = 1500)"
OWN = "ping: local error: message too long, mtu=1500"


def ping(size: int, answers: int, between: str = "", address: str = "10.10.0.2") -> str:
    return PING.format(
        options=f"-M do -s {size}", address=address, size=size, whole=size + 28, between=between,
        answers=answers, loss=0 if answers else 100,
    )  # fmt: skip


SMALL, LARGE = ping(56, 3), ping(8972, 0)


@pytest.mark.parametrize(
    "text",
    [
        SMALL + LARGE,
        LARGE + SMALL,
        SMALL + LARGE + STATUS_12.format(device="mlx5_0", mtu=4096),
        STATUS_12.format(device="rocep1s0f1", mtu=4096) + SMALL + ping(4096, 0),
        SMALL + ping(8972, 0, f"{OF_A_ROUTER}\n{OWN}"),
        "w0:100:500 [0] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer 10.10.0.2<512>"
        f" with status=12 opcode=0 len=0 vendor err 129 (Recv)\n\n{SMALL}{LARGE}",
    ],
)
def test_the_mtu_of_the_way_leads_also_before_packets_that_nobody_acknowledged(text: str):
    answer = explained(text).answer

    assert "something on the way drops large frames" in answer.sentence and not answer.others
    assert answer.now[0].startswith("Set MTU 9000") and "switch" in answer.now[0]


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (ping(56, 0) + LARGE + STATUS_12.format(device="mlx5_0", mtu=4096), "retry-exceeded"),
        (SMALL + ping(1472, 0) + STATUS_12.format(device="mlx5_0", mtu=4096), "retry-exceeded"),
        (ping(56, 3, address="10.10.0.9") + LARGE + STATUS_12.format(device="mlx5_0", mtu=4096),
         "retry-exceeded"),
        (SMALL + LARGE + STATUS_12.format(device="mlx5_0", mtu=1024), "retry-exceeded"),
        (SMALL + ping(8972, 0, OWN) + STATUS_12.format(device="mlx5_0", mtu=1024), "retry-exceeded"),
    ],
)  # fmt: skip
def test_it_explains_no_failure_that_small_packets_have_as_well(text: str, cause: str):
    assert explained(text).answer.cause == cause


def test_an_interface_that_sends_no_larger_frames_itself_is_no_fault_of_the_way():
    answer = explained(SMALL + ping(8972, 0, OWN)).answer

    assert "this host's own interface sends no larger frames" in answer.sentence
