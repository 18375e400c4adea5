"""Records in NCCL's logs of several versions."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.evidence import EvidenceMissing
from gdrkit.formats.errors import FormatError
from gdrkit.node import Node
from gdrkit.programs.nccl import log_records as records
from gdrkit.programs.nccl.log import FOLDER, LocatedRecord, logs, nccl_log, nccl_logs, parse
from gdrkit.programs.nccl.log_records import Carrier, Via
from tests.memory_host import MemoryHost

INFO = "node1:4242:4243 [0] NCCL INFO "
RUN = f"""\
NCCL version 2.21.5+cuda12.4
{INFO}NCCL_IB_HCA set by environment to =mlx5_0,mlx5_1.
{INFO}NCCL_NET_GDR_LEVEL set by environment to PHB
{INFO}NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>
{INFO}Using network IB
{INFO}DMA-BUF is available on GPU device 0
{INFO}NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'
{INFO}GPU Direct RDMA Disabled for GPU 1b000 / HCA 1 (distance 7 > 4)
{INFO}Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA
{INFO}Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IB/0
{INFO}Connected all rings, use ring PXN 0 GDR 0
"""


def test_one_run():
    log = parse(RUN)

    assert log.version == "2.21.5"
    assert log.all(records.Variable)[0] == LocatedRecord(
        records.Variable("NCCL_IB_HCA", "=mlx5_0,mlx5_1"), 2, "node1:4242"
    )
    assert log.all(records.Network) == (LocatedRecord(records.Network("IB"), 5, "node1:4242"),)
    assert [(leg.record.direction, leg.record.via, leg.line) for leg in log.legs] == [
        ("send", Via("net", "IB", 0, gdr=True), 9),
        ("receive", Via("net", "IB", 0), 10),
    ]
    assert [(pair.record.distance, pair.record.level) for pair in log.all(records.PairLine)] == [(7, 4)]
    assert log.all(records.NetDevice)[0].record.enabled
    assert len(log.all(records.DmabufGpu)) == len(log.all(records.Rings)) == 1


def test_all_records_are_kept_in_the_order_of_their_lines():
    assert [found.line for found in parse(RUN).records] == list(range(1, RUN.count("\n") + 1))
    apart = RUN.replace("\n", "\nstep 1: loss 2.3\n")
    assert [found.line for found in parse(apart).records] == list(range(1, apart.count("\n"), 2))


def test_a_log_without_a_version_has_none():
    assert parse(INFO + "Using network IB").version == ""


def test_channels_inside_a_node_are_not_legs():
    log = parse("\n".join(f"{INFO}Channel 00 : 3[3] -> 4[4] via {way}" for way in ("P2P/CUMEM", "SHM/CE")))

    assert len(log.all(records.Leg)) == 2
    assert log.legs == ()


@pytest.mark.parametrize(
    ("line", "direction", "network", "carried"),
    [
        (
            "Ring 00 : 0[1b000] -> 8[1b000] [send] via NET/IB/0/GDRDMA",
            "send",
            "IB",
            Carrier.DIRECT,
        ),
        (
            "Channel 01/1 : 3[3] -> 9[1] [send] via NET/AWS Libfabric/2(5)/GDRDMA/Shared",
            "send",
            "AWS Libfabric",
            Carrier.DIRECT,
        ),
        (
            "Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IBext_v10/3/GDRDMA(PCI)",
            "receive",
            "IBext_v10",
            Carrier.DIRECT,
        ),
        ("Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IB/0", "receive", "IB", Carrier.BOUNCED),
        ("Channel 00/0 : 8[0] -> 0[0] [receive] via NET/Socket/0", "receive", "Socket", Carrier.SOCKET),
        ("Channel 00/0 : 8[0] -> 0[0] [send] via NET/Socket/0/GDRDMA", "send", "Socket", Carrier.SOCKET),
        ("CollNet 00/0 : 3 [send] via COLLNET/SHARP/0/GDRDMA", "send", "SHARP", Carrier.DIRECT),
    ],
)
def test_legs_of_every_form(line: str, direction: str, network: str, carried: Carrier):
    (leg,) = parse(INFO + line).legs
    via = leg.record.via

    assert (leg.record.direction, via.network, via.carried) == (direction, network, carried)


@pytest.mark.parametrize("lead", ["", "[1,0]<stdout>:", "(RayWorkerWrapper pid=7) ", "2026-01-02T03:04:05 "])
def test_launchers_can_put_a_prefix_before_the_line(lead: str):
    assert parse(lead + INFO + "Using network IB").records[0].process == "node1:4242"


@pytest.mark.parametrize(
    ("line", "call", "number", "vendor"),
    [
        ("Call to ibv_reg_mr_iova2 failed with error Bad address errno 14", "ibv_reg_mr", 14, None),
        ("Call to ibv_reg_mr failed with error Cannot allocate memory", "ibv_reg_mr", 12, None),
        (
            "Call to ibv_reg_dmabuf_mr failed with error Operation not supported",
            "ibv_reg_dmabuf_mr",
            95,
            None,
        ),
        (
            "Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_0:1, curr state INIT",
            "ibv_modify_qp",
            110,
            None,
        ),
        ("Call to ibv_modify_qp failed with error Invalid argument errno 22", "ibv_modify_qp", 22, None),
        (
            "NET/IB : Got completion from peer 10.0.0.2<3> with error 12, opcode 0, len 0, vendor err 129",
            "completion",
            12,
            129,
        ),
        (
            "NET/IB: Got completion from peer 10.0.0.2<3> with status=IBV_WC_RETRY_EXC_ERR(12) "
            "opcode=IBV_WC_SEND(0) reqSize=0 vendor_err=129 req_type=Send",
            "completion",
            12,
            129,
        ),
        (
            "NET/IB: Got completion from peer 10.0.0.2<3> with status=IBV_WC_RETRY_EXC_ERR(12) "
            "opcode=IBV_WC_SEND(0) vendor_err=129 qp_num=1187 localGid fe80::1 hca mlx5_0",
            "completion",
            12,
            129,
        ),
        (
            "NET/IB : Got completion from peer 1.2.3.4<5> with status=4 opcode=0 len=0 vendor err 81",
            "completion",
            4,
            81,
        ),
    ],
)
def test_failures_of_every_form(line: str, call: str, number: int, vendor: int | None):
    warn = f"node1:1:2 [0] transport/net_ib.cc:94 NCCL WARN {line}"
    failure = parse(warn).all(records.Failure)[0].record

    assert (failure.call, failure.number, failure.vendor_error) == (call, number, vendor)


@pytest.mark.parametrize(
    ("listed", "names"),
    [
        ("[0]mlx5_0:1/IB [1]mlx5_1:1/RoCE", ["mlx5_0", "mlx5_1"]),
        ("[0]mlx5_0:1:0/IB [1]mlx5_1:1:1/IB", ["mlx5_0", "mlx5_1"]),
        ("[0]mlx5_0:1:0:3/IB [1]mlx5_1:1::3/RoCE", ["mlx5_0", "mlx5_1"]),
        ("[0]mlx5_0/IB", []),
    ],
)
def test_devices_are_read_with_and_without_rail_and_plane(listed: str, names: list[str]):
    (found,) = parse(f"{INFO}NET/IB : Using {listed} [RO]; OOB eth0:10.0.0.1<0>").all(records.Hcas)

    assert [hca.name for hca in found.record.devices] == names


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("export NCCL_NET_GDR_LEVEL=ALL", "NCCL_NET_GDR_LEVEL", "ALL"),
        ("NCCL_DMABUF_ENABLE=0", "NCCL_DMABUF_ENABLE", "0"),
        ('declare -x NCCL_IB_HCA="mlx5_0,mlx5_1"', "NCCL_IB_HCA", "mlx5_0,mlx5_1"),
        ("mpirun -np 2 -x NCCL_DEBUG=INFO", "NCCL_DEBUG", "INFO"),
    ],
)
def test_variables_given_around_the_log(line: str, name: str, value: str):
    assert parse(line).records == (LocatedRecord(records.Variable(name, value, resolved=False), 1, ""),)


def test_advice_in_prose_is_not_a_setting():
    text = INFO + "Using network IB\nFix: try NCCL_NET_GDR_LEVEL=5 and see if NCCL gets faster.\n"

    assert parse(text).all(records.Variable) == ()


def test_a_text_without_nccl_is_refused():
    with pytest.raises(FormatError):
        parse("make: *** No rule to make target\n")


@given(st.text())
def test_any_text_is_a_log_or_refused(text: str):
    with contextlib.suppress(FormatError):
        parse(text)


@given(st.lists(st.sampled_from(RUN.splitlines())).map("\n".join))
def test_any_selection_of_lines_is_read(text: str):
    with contextlib.suppress(FormatError):
        assert len(parse(text).legs) <= text.count("[send]") + text.count("[receive]")


def test_logs_are_those_that_were_supplied():
    node = Node(MemoryHost({f"{FOLDER}/rank0.log": RUN}))

    assert logs(node) == (f"{FOLDER}/rank0.log",)
    assert nccl_log(node, f"{FOLDER}/rank0.log").path == f"{FOLDER}/rank0.log"
    assert logs(Node(MemoryHost())) == ()
    assert list(nccl_logs(Node(MemoryHost()))) == []
    with pytest.raises(EvidenceMissing):
        nccl_log(Node(MemoryHost()), "sos_commands/nccl/none")


def test_a_log_of_another_program_is_skipped():
    node = Node(MemoryHost({f"{FOLDER}/a.log": "make: nothing to be done\n", f"{FOLDER}/b.log": RUN}))

    assert [log.path for log in nccl_logs(node)] == [f"{FOLDER}/b.log"]
