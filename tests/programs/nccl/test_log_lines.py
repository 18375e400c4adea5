"""The parser of NCCL's lines: frames of every launcher, each form of each type of line, malformed text."""

from __future__ import annotations

import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st

from gdrkit.programs.nccl import log_records as records
from gdrkit.programs.nccl.log_lines import frame, given, record
from gdrkit.programs.nccl.log_records import Frame, Via
from gdrkit.programs.nccl.messages import ROWS
from tests.jobs.samples import SAMPLES

MASKED = "X" * 4
"""Replacements for a process id in anonymized logs."""


@pytest.mark.parametrize(
    ("line", "process", "device"),
    [
        ("n1:40:41 [3] NCCL INFO Using network IB", "n1:40", 3),
        ("[1,3]<stdout>:n1:40:41 [3] NCCL INFO Using network IB", "n1:40", 3),
        ("3: n1:40:41 [3] NCCL INFO Using network IB", "n1:40", 3),
        ("[rank3]: [default3]:n1:40:41 [3] NCCL INFO Using network IB", "n1:40", 3),
        ("(Worker pid=7, ip=10.0.0.9) n1:40:41 [3] NCCL INFO Using network IB", "n1:40", 3),
        ("pod-0: pod-0:40:41 [3] NCCL INFO Using network IB", "pod-0:40", 3),
        ("[2026-01-02 03:04:05] n1:40:41 [3] misc/ibvwrap.cc:9 NCCL WARN Using network IB", "n1:40", 3),
        ("n1:40:41 [3] ibvwrap.cc:9 wrap_reg NCCL WARN Using network IB", "n1:40", 3),
        ("3: :40:41 [0] NCCL INFO Using network IB", "srun 3:40", 0),
        ("(Worker pid=7, ip=10.0.0.9) :40:41 [0] NCCL INFO Using network IB", "ray 7, ip=10.0.0.9:40", 0),
        (f"<cluster_name>:{MASKED}:{MASKED} [0] NCCL INFO Using network IB", f"<cluster_name>:{MASKED}", 0),
        (" [2] NCCL INFO Using network IB", "", 2),
        ("NCCL INFO Using network IB", "", None),
        ("n1:40 [3] NCCL INFO Using network IB", "n1:40", 3),
        ("[2026-01-02 03:04:05] n1:40:41 [3] init.cc:9 (fn) NCCL ATTN Using network IB", "n1:40", 3),
        ("n1:40:41 [3] 12.5 bootstrapRoot:103 NCCL TRACE Using network IB", "n1:40", 3),
        ("n1:40 NCCL DIAG Using network IB", "n1:40", None),
        ("n1:40:41 NCCL CALL Using network IB", "n1:40", None),
        ("# Using network IB", "", None),
        ("Using network IB", "", None),
    ],
)
def test_the_process_that_printed_a_line_is_found(line: str, process: str, device: int | None):
    assert frame(line) == Frame(process, device, "Using network IB")


@pytest.mark.parametrize(
    "line",
    [
        "n1:40:41 [3] NCCL INFO Channel 00/0 : 0[0]n2:9:9 [1] NCCL INFO Using network IB",
        "n1:40:41n2:9:9 [1] NCCL INFO Using network IB",
    ],
)
def test_a_line_that_another_line_interrupts_is_cut(line: str):
    assert frame(line).cut or frame(line).process == "41n2:9"


@pytest.mark.parametrize(
    ("text", "carried"),
    [
        ("Ring 00 : 3 -> 8 [send] via NET/IB/0", Via("net", "IB", 0)),
        ("Ring 00 : 3[1b000] -> 8[1b000] [send] via NET/IB/0/GDRDMA", Via("net", "IB", 0, gdr=True)),
        (
            "Channel 00/1 : 3[3] -> 8[0] [send] via NET/IBext_v10/7/Shared",
            Via("net", "IBext_v10", 7, shared=True),
        ),
        (
            "Channel 00/0 : 3[3] -> 8[0] [send] via NET/AWS Libfabric/2(5)/GDRDMA/Shared",
            Via("net", "AWS Libfabric", 2, gdr=True, proxy=5, shared=True),
        ),
        (
            "Channel 00/0 : 3[3] -> 8[0] [receive] via NET/IB/2/GDRDMA(PCI)",
            Via("net", "IB", 2, gdr=True, pci=True),
        ),
        ("CollNet 00/0 : 3 [send] via COLLNET/SHARP/0/GDRDMA", Via("collnet", "SHARP", 0, gdr=True)),
        ("Coll 00 : 3 [receive] via COLLNET/SHARP/0", Via("collnet", "SHARP", 0)),
        ("Channel 00 : 3[3] -> 4[4] via P2P/direct pointer/read", Via("p2p", how="direct pointer/read")),
        ("Channel 00/0 : 3[3] -> 4[4] via P2P/CUMEM/CE", Via("p2p", how="CUMEM/CE")),
        ("Channel 00 : 3[3] -> 4[4] via P2P/indirect/5[5d000]", Via("p2p", how="indirect/5[5d000]")),
        (
            "Channel 00/0 : 3[3] -> 8[0] [receive] via NET/IB/2/GDRDMA(PCI)/Shared/flush=C2c",
            Via("net", "IB", 2, gdr=True, pci=True, shared=True),
        ),
        (
            "Channel 00/0 : 3[3] -> 8[0] [receive] via NET/Libfabric/0/GDRDMA/flush=None",
            Via("net", "Libfabric", 0, gdr=True),
        ),
        (
            "Channel 00/0 : 3[3] -> 8[0] [send] via NET/IB/2/GDRDMA/plane=1/later",
            Via("net", "IB", 2, gdr=True),
        ),
        ("Channel 00/0 : 3[3] -> 8[0] via P2P/MNNVL/read", Via("p2p", how="MNNVL/read")),
        ("Channel 00 : 3[3] -> 4[4] via direct shared memory", Via("shm", how="direct shared memory")),
        ("Channel 00 : 3[3] -> 4[4] via SHM/CE/CE", Via("shm", how="SHM/CE/CE")),
        (
            "Channel 00/0 : 3[3] -> 8[0] [send] via NET/IB/0/GDRDMA comm 0x55aa nRanks 16",
            Via("net", "IB", 0, gdr=True),
        ),
    ],
)
def test_the_transport_of_a_channel_is_found(text: str, carried: Via):
    found = record(text)

    assert isinstance(found, records.Leg)
    assert (found.via, found.source, found.channel) == (carried, 3, 0)


@pytest.mark.parametrize(
    "text",
    [
        "Channel 00/0 : 3[3] -> 8[0] [send] via NET/IB/",
        "Channel 00/0 : 3[3] -> 8[0] [send] via NET/IB/0/GDRD",
        "Channel 00/0 : 3[3] -> 8[0] [send] via NET/IB/0/GDRDMAn1:4:5 [0] x",
        "Channel 00/0 : 3[3] -> 8[0] [send] via WARP/0",
        "Channel 00/0 : 3[3] -> 8[0] [receive] via NET/IB/0/flush=None",
        "Channel 00/0 : 3[3] -> 8[0] [receive] via NET/IB/0/Shar",
        "Channel 00/02 :    0   1   2   3",
    ],
)
def test_a_cut_or_unknown_channel_line_gives_none(text: str):
    assert record(text) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("NET/IB : Using [0]mlx5_0:1/IB/SHARP [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>",
         records.Hcas((records.Hca(0, "mlx5_0", "IB"), records.Hca(1, "mlx5_1", "RoCE")))),
        ("NET/IB : Using [0]={[0] mlx5_0:1/IB, [1] mlx5_1:1/IB} [1]={[2] mlx5_2:1/IB}; OOB e:1<0>",
         records.Hcas((records.Hca(0, "mlx5_0+mlx5_1", "IB"), records.Hca(1, "mlx5_2", "IB")))),
        ("comm 0x55aa rank 3 nranks 8 cudaDev 3 busId 5d000 - Init COMPLETE",
         records.Communicator(3, 8, 3, "5d000")),
        ("[Rank 3] ncclCommInitRank comm 0x55aa rank 3 nranks 8 cudaDev 3 nvmlDev 2 busId 5d000 "
         "commId 0xab - Init",
         records.Communicator(3, 8, 3, "5d000", "0xab")),
        ("GPU Direct RDMA Enabled for GPU 3 / HCA 1 (distance 4 <= 5), read 1 mode Default",
         records.PairLine("3", "1", True, 4, 5, True, "Default")),
        ("NET/IB : GPU Direct RDMA Disabled for GPU 2[2] / HCA 0 (distance 2 >= 2)",
         records.PairLine("2", "0", False, 2, 2, excludes=True)),
        ("Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_1:1, curr state INIT, "
         "next state RTR, local GID index 3",
         records.Failure("ibv_modify_qp", 110, "Connection timed out", None, "mlx5_1", "INIT to RTR")),
        ("Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_1:1, curr state INIT, "
         "next state RTR, local GID index 3, retrying 3/35 after 300 msec of sleep",
         records.Remark("qp-retry", "Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5"
                        "_1:1, curr state INIT, next state RTR, local GID index 3, retrying 3/35 after")),
        ("NET/IB : Got completion from peer 10.0.0.2<1> with error 12, opcode 0, len",
         records.Failure("completion", 12, "Got completion from peer 10.0.0.2<1> with error 12")),
        ("MNNVL busId 0x801000 fabric UUID 0.0 cliqueId 0x0 state 3 healthMask 0x0",
         records.Fabric("", "0", 3)),
        ("MNNVL 1 cliqueId 7ffe cliqueSize 8 cliqueRank 2 nvlDomainSize 16", records.Clique("7ffe", 8)),
        ("comm 0x9a39870 rank 0 nRanks 8 nNodes 1 localRanks 8 localRank 0 MNNVL 1",
         records.Placement(8, 1, 8, True)),
        ("comm 0x9a39870 rank 0 nRanks 8 nNodes 2 localRanks 4 localRank 0 MNNVL 0",
         records.Placement(8, 2, 4)),
        ("Assigned NET plugin AWS Libfabric to comm", records.Network("AWS Libfabric")),
        ("Error: network gIB not found.",
         records.Failure("network plugin", None, "Error: network gIB not found.")),
        ("RCCL version : 2.26.6-HEAD:f224e2c", records.Version("2.26.6", "RCCL")),
        ("Failed to open mlx5dv symbols", records.DataDirect(False, "Failed to open mlx5dv symbols")),
        ("NET/IB : mlx5_0:1 GID table changed", records.AsyncEvent("NET/IB : mlx5_0:1 GID table changed")),
        ("RCCL version 2.18.6+hip6.0", records.Version("2.18.6", "RCCL")),
    ],
)  # fmt: skip
def test_other_lines_give_their_records(text: str, value: records.NcclRecord):
    assert record(text) == value


@pytest.mark.parametrize(
    ("line", "variables"),
    [
        ("export NCCL_IB_HCA=mlx5_0", {"NCCL_IB_HCA": "mlx5_0"}),
        ("+ export NCCL_IB_HCA='mlx5_0,mlx5_1'", {"NCCL_IB_HCA": "mlx5_0,mlx5_1"}),
        ("mpirun -np 2 -x NCCL_A=1 -x NCCL_B=2 ./all_reduce_perf", {"NCCL_A": "1", "NCCL_B": "2"}),
        ("mpiexec -genv NCCL_A 1 ./x_perf", {"NCCL_A": "1"}),
        ("docker run -e NCCL_A=1 image", {"NCCL_A": "1"}),
        ("NCCL_A=1 NCCL_B=2 timeout 9 torchrun x.py", {"NCCL_A": "1", "NCCL_B": "2"}),
        ("try NCCL_A=1 and see", {}),
        ("NCCL_A=1 is what I use", {}),
    ],
)
def test_variables_set_around_a_log_are_found(line: str, variables: dict[str, str]):
    assert {variable.name: variable.value for variable in given(line)} == variables


LINES = [line for sample in SAMPLES for line in sample.text.splitlines()]


def test_most_forms_are_in_the_samples():
    taken = {row.template for row in ROWS for line in LINES if row.make and row.match(frame(line).message)}

    assert len(taken) >= 20


def test_an_unknown_line_gives_none():
    assert record("NET/IB : Got completion from peer 10.0.0.2<1> with status=4") is None


@settings(deadline=None)
@for_all(st.text(max_size=400))
def test_any_text_gives_a_record_or_none(text: str):
    who = frame(text)
    record(who.message)
    list(given(text))


PARTS = st.lists(
    st.sampled_from(["NCCL_A", "=", " -x ", "1", "Channel ", " via ", "NET/IB/", "0", "[", "]", ":",
                     " NCCL INFO ", "GPU Direct RDMA ", "(distance ", " for HCA ",
                     "Got completion ", "status=",
                     "'", "x" * 50]),
    max_size=30,
).map("".join)  # fmt: skip


@settings(deadline=None)
@for_all(PARTS)
def test_words_of_lines_in_any_order_give_a_record_or_none(text: str):
    record(frame(text).message)
    list(given(text))


@pytest.mark.parametrize(
    ("message", "name"),
    [
        ("NET/Plugin: Loaded net plugin Libfabric (v8)", "Libfabric"),
        ("NET/Plugin: Loaded net plugin AWS Libfabric (v10)", "AWS Libfabric"),
        ("Successfully loaded external network plugin libnccl-net-ofi.so", "libnccl-net-ofi.so"),
        ("Successfully loaded external plugin libnccl-net.so", "libnccl-net.so"),
        ("P2P plugin v8 IBext_v8", "P2P plugin v8 IBext_v8"),
    ],
)
def test_a_plugin_that_was_loaded_has_its_name(message: str, name: str):
    assert record(message) == records.Plugin(name)
