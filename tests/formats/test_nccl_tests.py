"""The output of nccl-tests' programs, of several versions."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.formats.errors import FormatError
from gdrkit.formats.nccl_tests import NcclTest, Timing, parse_nccl_tests

V2023 = """\
# nThread 1 nGpus 1 minBytes 8 maxBytes 1073741824 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1
#
# Using devices
#  Rank  0 Group  0 Pid   3595 on      test1 device  0 [0x81] NVIDIA A100-PCIE-40GB
#  Rank  1 Group  0 Pid   4017 on      test2 device  0 [0x81] NVIDIA A100-PCIE-40GB
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
           8             2     float     sum      -1    12.90    0.00    0.00      0    12.87    0.00    0.00      0
   536870912     134217728     float     sum      -1    46000   11.67   11.67      0    45900   11.70   11.70    N/A
  1073741824     268435456     float     sum      -1    92000   11.68   11.68      0    91900   11.66   11.66    N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 5.3213
#
"""  # noqa: E501
V2022 = """\
# nThread 1 nGpus 2 minBytes 37748736 maxBytes 37748736 step: 1048576(bytes) warmup iters: 5 iters: 20 validation: 1
#
# Using devices
#   Rank  0 Pid   5897 on         x0 device  0 [0x05] NVIDIA GeForce GTX 1080
#   Rank  1 Pid   5897 on         x0 device  1 [0x06] NVIDIA GeForce GTX 1080
#
#                                               out-of-place                       in-place
#       size         count      type     time   algbw   busbw  error     time   algbw   busbw  error
#        (B)    (elements)               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
    37748744      37748744     uint8    11732    3.22    3.22  0e+00    11698    3.23    3.23  3e+02
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 3.225
"""  # noqa: E501
V2025 = """\
# nccl-tests version 2.17.6 nccl-headers=22809 nccl-library=22809
# Collective test starting: sendrecv_perf
# nThread 1 nGpus 1 minBytes 1048576 maxBytes 4194304 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1
#
# Using devices
#  Rank  0 Group  0 Pid    101 on     sparkA device  0 [000f:01:00] NVIDIA GB10
#  Rank  1 Group  0 Pid    102 on     sparkB device  0 [000f:01:00] NVIDIA GB10
#
#                                     out-of-place (+ per-iteration)           in-place (+ per-iteration)
#       size         count      type   redop    root     time   algbw   busbw  #wrong    i_min    i_max    i_p99    i_cv%     time   algbw   busbw  #wrong    i_min    i_max    i_p99    i_cv%            timestamp
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)     (us)     (us)      (%)     (us)  (GB/s)  (GB/s)             (us)     (us)     (us)      (%)  %Y-%m-%d %H:%M:%S
     4194304       1048576     float    none      -1   180.00   23.30   23.30       0   170.00   190.00   189.00     2.00   176.70   23.74   23.74     N/A   170.00   190.00   189.00     2.00  2026-01-02 03:04:05
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 23.5
#
# Collective test concluded: sendrecv_perf
"""  # noqa: E501


def one(text: str) -> NcclTest:
    (run,) = parse_nccl_tests(text)
    return run


def test_ranks_and_hosts():
    run = one(V2023)

    assert run.hosts == ("test1", "test2")
    assert run.ranks[1].product == "NVIDIA A100-PCIE-40GB"
    assert (run.finished, run.average_bus_gb_per_s) == (True, 5.3213)
    assert not run.alone


def test_rows_have_both_groups():
    row = one(V2023).rows[1]

    assert row.size_bytes == 536870912
    assert row.out_of_place == Timing(46000, 11.67, 11.67)
    assert row.in_place == Timing(45900, 11.70, 11.70)
    assert row.best == row.in_place


def test_older_headers_have_no_redop_and_root():
    run = one(V2022)

    assert run.rows[0].in_place == Timing(11698, 3.23, 3.23)
    assert run.hosts == ("x0",)


def test_columns_of_iterations_and_time_stamps_do_not_shift_others():
    run = one(V2025)

    assert run.program == "sendrecv"
    assert run.rows[0].in_place == Timing(176.70, 23.74, 23.74)


def test_the_command_shows_the_program_if_the_run_does_not():
    assert one(V2023).program == ""
    assert one("$ mpirun -np 2 ./build/all_reduce_perf -b 8\n" + V2023).program == "all_reduce"


@pytest.mark.parametrize("prefix", ["[1,0]<stdout>:", "0: "])
def test_prefixes_of_launchers_are_removed(prefix: str):
    text = "".join(f"{prefix}{line}\n" for line in V2023.splitlines())

    assert one(text) == one(V2023)


def test_processes_that_ran_alone_are_recognized():
    ranks = "".join(
        f"#   Rank  0 Pid {n} on host{n} device  0 [0x00] Tesla V100-SXM2-16GB\n" for n in (1, 2)
    )

    assert one(ranks + V2022).alone


def test_consecutive_runs_are_separate():
    runs = parse_nccl_tests(V2023 + V2022 + V2025)

    assert [run.rows[-1].size_bytes for run in runs] == [1073741824, 37748744, 4194304]


def test_a_cut_run_keeps_its_complete_lines():
    run = one(V2023[: V2023.index("  1073741824  ") + 70])

    assert [row.size_bytes for row in run.rows] == [8, 536870912]
    assert not run.finished


JSON = """\
{"version":2,"start_time":"2026-01-02 03:04:05","args":["/opt/all_reduce_perf","-b","8"],"env":[],
"nccl_version":22809,"config":{"nthreads":1,"ngpus":1,"blocking_collectives":"false","devices":[
{"rank":0,"group":0,"pid":1,"hostname":"a","device":0,"device_hex":"0000:01:00","device_info":"NVIDIA H100"},
{"rank":1,"group":0,"pid":1,"hostname":"b","device":0,"device_hex":"0000:01:00","device_info":"NVIDIA H100"}]
},"results":[{"size":1073741824,"count":268435456,"type":"float","redop":"sum","root":"    -1",
"out_of_place":{"time":22000.0,"alg_bw":48.8,"bus_bw":48.8,"nwrong":0.0},
"in_place":{"time":22000.0,"alg_bw":"nan","bus_bw":"nan","nwrong":null},"actual_iterations":20}],
"out_of_bounds":{"count":0,"okay":"true"},"average_bus_bandwidth":{"bandwidth":48.8,"okay":"unchecked"},
"errors":[],"end_time":"2026-01-02 03:05:05"}
"""


def test_json():
    run = one(JSON)

    assert (run.program, run.hosts, run.finished) == ("all_reduce", ("a", "b"), True)
    assert run.rows[0].best == Timing(22000.0, 48.8, 48.8)
    assert run.rows[0].in_place == Timing(22000.0, None, None)
    half = one(JSON.replace('"in_place":', '"other":'))
    assert (half.rows[0].out_of_place, half.rows[0].in_place) == (Timing(22000.0, 48.8, 48.8), None)
    assert one(JSON.replace('_place":', '":')).rows == ()


@pytest.mark.parametrize(
    "text", ["", "mpirun: command not found\n", "{", '{"results": 3}', "# Avg bus bandwidth    : 3\n"]
)
def test_other_text_is_refused(text: str):
    with pytest.raises(FormatError):
        parse_nccl_tests(text)


@given(st.text() | st.lists(st.sampled_from((V2022 + V2023 + V2025).splitlines())).map("\n".join))
def test_any_text_is_a_run_or_refused(text: str):
    with contextlib.suppress(FormatError):
        assert parse_nccl_tests(text)


KEYS = ("results", "size", "out_of_place", "bus_bw", "config", "devices", "rank", "device", "args")
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner),
)


@given(JSON_VALUES)
def test_any_json_is_a_run_or_refused(value: object):
    import msgspec

    with contextlib.suppress(FormatError):
        parse_nccl_tests("{" + msgspec.json.encode(value).decode().lstrip("{"))


@pytest.mark.parametrize(
    "row, best",
    [("  1024  256  float  sum  -1  20.5  0.05  0.09  0  19.5  0.05  0.10  0", 0.10),
     ("  1024  256  half  sum  20.5  0.05  0.09  0e+00  19.5  0.05  0.08  N/A", 0.09),
     ("  1024  256  float  27.5  0.04  0.03  0  28.5  0.04  0.03  0", 0.03),
     ("  1024  256  float  none  2  27.5  0.04  0.03  0", 0.03)],
)  # fmt: skip
def test_a_row_without_its_header_is_recognised(row, best):
    """With and without operation and root, one group of columns or two."""
    (found,) = parse_nccl_tests(row)[0].rows
    assert (found.size_bytes, found.best.bus_gb_per_s) == (1024, best)


@pytest.mark.parametrize("line", ["  1024  256  float  sum  20.5  0.05", "  1024 files of float 1 2 3 4"])
def test_another_line_of_numbers_is_no_row(line):
    with pytest.raises(FormatError):
        parse_nccl_tests(line)


def test_the_first_version_lists_ranks_without_processes():
    row = " 1024 256 float sum 20 0.1 0.1 0 20 0.1 0.1 0\n"
    text = f"#   Rank  0 on   node-a device  3 [0x07] Tesla V100\n{row}"
    (rank,) = parse_nccl_tests(text)[0].ranks
    assert (rank.hostname, rank.device, rank.product) == ("node-a", 3, "Tesla V100")


TWO_COLUMNS = (
    "  {size}  67108864  float  sum  -1  100.0  {alg:.2f}  {bus:.2f}  0  100.0  {alg:.2f}  {bus:.2f}  0\n"
)


@pytest.mark.parametrize(
    ("pairs", "program"),
    [
        (((0.01, 0.02), (210.4, 368.2)), "all_reduce"),
        (((210.4, 184.1),), ""),  # a gather, which several operations have
        (((210.4, 210.4), (0.01, 0.02)), ""),  # within the last digit: a broadcast
        (((210.4, 368.2), (99.0, 88.0)), ""),  # not of one run
    ],
)
def test_only_the_bus_bandwidth_of_all_reduce_is_above_that_of_the_algorithm(pairs, program: str):
    rows = (TWO_COLUMNS.format(size=1 << (20 + i), alg=a, bus=b) for i, (a, b) in enumerate(pairs))

    (run,) = parse_nccl_tests("".join(rows))
    assert run.program == program


def test_a_blank_column_of_the_reduction_moves_no_rate():
    """As alltoall_perf of 2.10 prints it."""
    text = (
        "#  size  count  type  redop    time  algbw  busbw  error    time  algbw  busbw  error\n"
        "   536870912  16777216  float    2236.6  240.04  210.03  N/A  2197.4  244.32  213.78  N/A\n"
    )
    (run,) = parse_nccl_tests(text)

    assert run.rows[0].out_of_place == Timing(2236.6, 240.04, 210.03)
    assert run.rows[0].in_place == Timing(2197.4, 244.32, 213.78)
