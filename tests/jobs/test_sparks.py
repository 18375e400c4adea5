"""Jobs on two DGX Sparks: no direct path is possible, and a cable has two RDMA devices."""

from __future__ import annotations

import pytest

from gdrkit.jobs.document import document, exit_code
from gdrkit.jobs.text import text
from tests.jobs.samples import info
from tests.jobs.test_gpu_names import HEADER
from tests.jobs.test_samples import analysed

FIRST, SECOND = "rocep1s0f1", "roceP2p1s0f1"
CONNECTION = "NET/IB: NCCL Dev {index} IbDev 1 Port 1 qpn {qpn} mtu {mtu} GID {gid} fifoRkey=0x1b9e9c"
IPV4, LINK_LOCAL = "3 (0/F64A8C0FFFF0000)", "0 (80FE/9DFB2FFEFF47BB4E)"
"""As NCCL prints them, each half of a GID in the order of its bytes: src/transport/net_ib/connect.cc."""


def job(
    *devices: str, name: str = "NVIDIA GB10", network: str = "NET/IB", more: tuple[str, ...] = ()
) -> str:
    """Two hosts whose channels use these devices."""
    listed = " ".join(f"[{number}]{device}:1/RoCE" for number, device in enumerate(devices))
    found = "".join(HEADER.format(rank=rank, pid=7 + rank, host=f"n{rank}", name=name) for rank in (0, 1))
    for process, end in (("n0:7", "send"), ("n1:8", "receive")):
        legs = [
            f"Channel {number:02}/0 : 0[0] -> 1[0] [{end}] via {network}/{number}"
            for number in range(len(devices))
        ]
        refused = [
            f"NET/IB : GPU Direct RDMA Disabled for HCA {number} '{device}'"
            for number, device in enumerate(devices)
        ]
        found += info(
            process, 0, f"NET/IB : Using {listed} [RO]; OOB eth0:10.0.0.1<0>", *refused, *legs, *more
        )
    return found


def page(log: str) -> str:
    return " ".join(text(document(analysed(log))).split())


def test_what_no_setting_changes_is_impossible_and_no_failure_as_for_the_doctor():
    report = document(analysed(job(FIRST, SECOND)))
    assert (report.verdict.state, exit_code(report)) == ("impossible", 0)
    assert [finding.code for finding in report.findings] == ["gpu-integrated"]


@pytest.mark.parametrize(
    "log",
    [
        job(FIRST, SECOND, name="NVIDIA H100 80GB HBM3"),
        job(FIRST, SECOND, name="NVIDIA GeForce RTX 5090"),  # likely, and the log shows other causes
        job(FIRST, SECOND).replace("NVIDIA GB10", ""),
        job("enp1s0f1np1", network="NET/Socket"),  # RDMA is possible there
    ],
)
def test_what_something_may_change_is_blocked(log: str):
    report = document(analysed(log))
    assert (report.verdict.state, exit_code(report)) == ("blocked", 2)


@pytest.mark.parametrize("device", [FIRST, SECOND, "rocep1s0f0"])
def test_one_device_of_a_cable_is_half_of_it_and_the_next_step_names_both(device: str):
    report = document(analysed(job(device)))
    both = "rocep1s0f0,roceP2p1s0f0" if device.endswith("0") else f"{FIRST},{SECOND}"
    assert page(job(device)).partition(" Next ")[2].startswith(f"NCCL_IB_HCA={both} on all nodes:")
    assert ("warning", "hca-not-selected") in {(one.status, one.code) for one in report.findings}
    assert exit_code(report) == 1


@pytest.mark.parametrize(
    "log",
    [
        job(FIRST, SECOND),
        job(f"{FIRST}+{SECOND}"),  # NCCL_NET_FORCE_MERGE
        job("mlx5_0"),
        job(FIRST, name="NVIDIA H100 80GB HBM3"),
    ],
)
def test_both_devices_and_those_of_other_machines_are_no_half(log: str):
    assert "hca-not-selected" not in {finding.code for finding in analysed(log).findings}


def test_small_packets_and_an_interface_without_ipv4_are_named_with_their_lines():
    more = tuple(
        CONNECTION.format(index=index, qpn=qpn, mtu=3, gid=gid)
        for index, gid in ((0, IPV4), (1, LINK_LOCAL))
        for qpn in range(576, 580)
    )
    found = analysed(job(FIRST, SECOND, more=more)).connections
    assert [one.text.split()[0] for one in found] == ["RoCE", SECOND]
    assert "packets of 1024 bytes" in found[0].text and found[0].line < found[1].line
    assert "RoCE sends packets of 1024 bytes" in page(job(FIRST, SECOND, more=more)).partition(" Next ")[2]


@pytest.mark.parametrize(
    "line",
    [
        CONNECTION.format(index=0, qpn=576, mtu=5, gid=IPV4),
        "NET/IB: NCCL Dev 0 IbDev 0 Port 1 qpn 40 mtu 3 LID 7 subnet-prefix 33022 FLID 0 fifoRkey=0x1",
        CONNECTION.format(index=0, qpn=576, mtu=9, gid=IPV4),
    ],
)
def test_large_packets_and_infiniband_are_as_they_should_be(line: str):
    assert analysed(job(FIRST, SECOND, more=(line,))).connections == ()


def test_the_form_of_newer_releases_is_read_as_well():
    ece = "query_ece={supported=1, vendor_id=0x15b3, options=0x30000002, comp_mask=0x0} GID"
    line = CONNECTION.format(index=1, qpn=9, mtu=5, gid=LINK_LOCAL).replace("GID", ece)
    (found,) = analysed(job(FIRST, SECOND, more=(line,))).connections
    assert found.text.startswith(f"{SECOND} is reached by a link-local GID")
