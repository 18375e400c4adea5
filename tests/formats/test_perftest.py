"""The output of perftest's programs."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.formats.errors import FormatError
from gdrkit.formats.perftest import Perftest, bare_row, parse_perftest

HEAD = """\
---------------------------------------------------------------------------------------
                    RDMA_Write BW Test
 Dual-port       : OFF\t\tDevice         : rocep1s0f0
 Number of qps   : 4\t\tTransport type : IB
 Connection type : RC\t\tUsing SRQ      : OFF
 PCIe relax order: ON
 ibv_wr* API     : ON
 TX depth        : 128
 CQ Moderation   : 100
 Mtu             : 4096[B]
 Link type       : Ethernet
 GID index       : 3
---------------------------------------------------------------------------------------
 local address: LID 0000 QPN 0x0014 PSN 0x5a529a RKey 0x0005af VAddr 0x007fdebab52000
"""
GBITS = """\
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      5000             111.75             111.71 \t\t   0.213070
"""
MIB = """\
 #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]   CPU_Util[%]
 65536      5000             2922.14            2921.73\t\t   0.046748\t    12.50
"""
LATENCY = """\
                    RDMA_Read Latency Test
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   \
99% percentile[usec]   99.9% percentile[usec]
 2       1000          1.88           4.36         1.93                1.94            0.05            \
2.06                    4.36
"""


def one(text: str) -> Perftest:
    (run,) = parse_perftest(text)
    return run


def test_the_head_names_the_device_and_its_port():
    run = one(HEAD + GBITS)

    assert (run.test, run.device, run.mtu_bytes) == ("RDMA_Write BW", "rocep1s0f0", 4096)
    assert (run.link_layer, run.dual_port) == ("Ethernet", False)
    assert not run.bidirectional


def test_infiniband_is_called_by_its_name():
    assert one((HEAD + GBITS).replace(": Ethernet", ": IB")).link_layer == "InfiniBand"


def test_gigabits_are_1e9_bits():
    (row,) = one(HEAD + GBITS).rows

    assert (row.size_bytes, row.iterations) == (65536, 5000)
    assert row.average_gb_per_s == pytest.approx(111.71 / 8)


@pytest.mark.parametrize("unit", ["MiB/sec", "MB/sec"])
def test_both_megabytes_are_two_to_the_20(unit: str):
    (row,) = one(HEAD + MIB.replace("MiB/sec", unit)).rows

    assert row.average_gb_per_s == pytest.approx(2921.73 * 2**20 / 1e9)
    assert row.average_gb_per_s == pytest.approx(0.046748e6 * 65536 / 1e9, rel=1e-3)  # they must agree


def test_a_service_level_before_the_iterations_shifts_no_column():
    text = HEAD + (
        " #bytes    #sl      #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
        " 65536    3           1000           97.00            96.50                  0.184059\n"
    )

    (row,) = one(text).rows
    assert (row.iterations, row.average_gb_per_s) == (1000, pytest.approx(96.5 / 8))


def test_the_sum_of_two_ports_is_what_counts():
    text = HEAD.replace("Dual-port       : OFF", "Dual-port       : ON ") + (
        " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]   BW Port1[Gb/sec]"
        "   MsgRate Port1[Mpps]   BW Port2[Gb/sec]   MsgRate Port2[Mpps]\n"
        " 65536    5000     180.00            179.00\t\t   0.341415        90.00            0.171661"
        "              89.00            0.169754\n"
    )

    run = one(text)
    assert run.dual_port
    assert run.rows[0].average_gb_per_s == pytest.approx(179 / 8)


def test_latency():
    (row,) = one(LATENCY).rows

    assert (row.typical_us, row.average_us, row.average_gb_per_s) == (1.93, 1.94, None)


@pytest.mark.parametrize("deviation", ["-nan", "nan"])
def test_a_row_whose_deviation_is_no_number_is_a_row(deviation: str):
    """Ten repetitions on a slow clock: the square root of a negative difference. Seen on an emulated CPU."""
    (row,) = one(LATENCY.replace("0.05  ", deviation)).rows
    assert (row.size_bytes, row.iterations, row.typical_us, row.average_us) == (2, 1000, 1.93, 1.94)
    (row,) = one(LATENCY.replace("1.93  ", deviation)).rows
    assert row.typical_us is None
    assert one(LATENCY.replace("0.05  ", "nans")).rows == ()


def test_both_directions_are_told_by_the_title_or_the_command():
    assert one((HEAD + GBITS).replace("Write BW", "Write Bidirectional BW")).bidirectional
    assert one("ib_write_bw -d mlx5_0 -b 10.0.0.1\n" + GBITS).bidirectional


def test_consecutive_runs_are_separate():
    second = HEAD.replace("rocep1s0f0", "roceP2p1s0f0") + GBITS.replace("111.71", "97.28")

    runs = parse_perftest(HEAD + GBITS + second)
    assert [(run.device, round(run.rows[0].average_gb_per_s or 0, 2)) for run in runs] == [
        ("rocep1s0f0", 13.96),
        ("roceP2p1s0f0", 12.16),
    ]


def test_a_cut_line_is_no_row():
    run = one(HEAD + GBITS.replace("   0.213070", "")[: len(GBITS) - 30])

    assert run.rows == ()
    assert run.device == "rocep1s0f0"


LIST = """\
initializing CUDA
Listing all CUDA devices in system:
CUDA device 0: PCIe address is 17:00
CUDA device 1: PCIe address is CA:00

Picking device No. %s
[pid = 3669, dev = 0] device name = [NVIDIA A30]
"""


@pytest.mark.parametrize(("picked", "bus"), [("0", "17:00"), ("1", "ca:00"), ("7", ""), ("", "")])
def test_the_gpu_that_was_taken_is_found_in_the_list(picked: str, bus: str):
    assert one(LIST % picked + HEAD + GBITS).gpu_bus == bus


def test_an_integrated_gpu_and_a_refused_registration():
    text = "initializing CUDA\nCUDA device integrated: 1\nCouldn't allocate MR with error=14\n"

    run = one(text)
    assert (run.uses_gpu, run.integrated_gpu, run.refused, run.registration_errno) == (True, True, True, 14)


JSON = """\
{
"test_info": {
"test": "RDMA_Write_BW_Test",
"Dual_port": "OFF",
"Device": "mlx5_0",
"Number_of_qps": 1,
"Mtu": 4096,
"Link_type": "IB"
},
"results": {
"MsgSize": 65536,
"n_iterations": 5000,
"BW_peak": %s,
"BW_average": %s,
"MsgRate": %s
}
}
"""


@pytest.mark.parametrize("average", [390.92, 390.92e9 / 8 / 2**20])
def test_json_says_no_unit_and_the_rate_of_messages_does(average: float):
    run = one(JSON % (average, average, 0.745621))

    assert (run.test, run.device, run.link_layer) == ("RDMA_Write BW", "mlx5_0", "InfiniBand")
    assert run.rows[0].average_gb_per_s == pytest.approx(390.92 / 8)


def test_json_whose_rates_disagree_has_none():
    assert one(JSON % (390.92, 390.92, 0.2)).rows[0].average_gb_per_s is None
    assert one(JSON % (390.92, 390.92, 0)).rows[0].average_gb_per_s is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Segmentation fault\n",
        "{",
        '{"results": {}}',
        "{\ntest_info: {\ntest: RDMA_Write_BW_Test,\n},\n}\n",
    ],
)
def test_other_text_is_refused(text: str):
    with pytest.raises(FormatError):
        parse_perftest(text)


@given(st.text() | st.lists(st.sampled_from((HEAD + GBITS + MIB + LATENCY).splitlines())).map("\n".join))
def test_any_text_is_a_run_or_refused(text: str):
    with contextlib.suppress(FormatError):
        assert parse_perftest(text)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(("test_info", "results", "MsgSize", "BW_average", "MsgRate", "Mtu")), inner
        )
    ),
)


@given(JSON_VALUES)
def test_any_json_is_a_run_or_refused(value: object):
    import msgspec

    with contextlib.suppress(FormatError):
        parse_perftest("{" + msgspec.json.encode(value).decode().lstrip("{"))


def test_a_row_without_its_header_has_the_unit_that_its_rate_of_messages_tells():
    """As `ib_write_bw --report_gbits | grep 65536` leaves it, and the same in MiB/s."""
    rows = (
        " 65536      1755432          0.00               368.02               0.701934",
        " 65536      5000             43868.49            43868.49              0.701896",
    )
    assert [bare_row(row).average_gb_per_s for row in rows] == pytest.approx([46.0, 46.0], rel=1e-3)
    assert bare_row(" 65536      1755432          0.00               368.02               9.701934") is None
    assert bare_row(" 65536      1755432          0.00               368.02") is None
