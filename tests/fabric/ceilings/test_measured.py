"""Measured rates compared with the ceilings of constructed nodes, and the sentences on them."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gdrkit.fabric.ceilings.links import COMPLETION_HEADER_BYTES, FRAMING_BYTES, WRITE_HEADER_BYTES
from gdrkit.fabric.ceilings.measured import readings, sniff
from gdrkit.fabric.ceilings.measured_rate import plateau
from gdrkit.fabric.ceilings.node_links import CommonPoint, LinkedGpu, NodeLinks, PairLinks
from gdrkit.formats.errors import FormatError
from tests.fabric.ceilings.test_paths import GPU_GEN5, infiniband, link, nic, pair_of, roce, spark

NDR = nic("mlx5_0", [link("0000:1c:00", 32.0, 16)], infiniband(400, "NDR"))


def perftest(device, gbits, mtu=4096, title="RDMA_Write BW", before="", size=65536):
    messages = gbits * 1e9 / 8 / size / 1e6
    return f"""{before}                    {title} Test
 Dual-port       : OFF\t\tDevice         : {device}
 Mtu             : {mtu}[B]
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 {size}      5000             {gbits:.2f}             {gbits:.2f} \t\t   {messages:.6f}
"""


def nccl(program, busbw, nodes=2, per_node=1, sizes=(1 << 28, 1 << 29, 1 << 30)):
    """A run with one rate for all sizes, or with one rate per size."""
    rates = busbw if isinstance(busbw, tuple) else (busbw,) * len(sizes)
    ranks = "".join(
        f"#  Rank {n * per_node + g} Group 0 Pid 1 on host{n} device {g} [0x00] GPU\n"
        for n in range(nodes)
        for g in range(per_node)
    )
    rows = "".join(
        f" {size} 1 float sum -1 100.0 {rate} {rate} 0 100.0 {rate} {rate} N/A\n"
        for size, rate in zip(sizes, rates, strict=True)
    )
    head = "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
    average = sum(rates) / len(rates)
    started = f"# Collective test starting: {program}_perf\n"
    return f"{started}{ranks}{head}{rows}# Avg bus bandwidth    : {average}\n"


def only(machine, text):
    (reading,) = readings(machine, sniff(text))
    return reading


# -- perftest --------------------------------------------------------------------------------------


def test_a_full_port_is_reported_at_its_ceiling():
    machine, _ = pair_of(GPU_GEN5, NDR)
    reading = only(machine, perftest("mlx5_0", 391.0))

    assert reading.share == pytest.approx(0.984, abs=0.002)
    assert "You are at 98 % of what the port of mlx5_0 can do" in reading.sentences[-1]
    assert "this is the ceiling" in reading.sentences[-1]


def test_half_of_a_port_is_not_at_its_ceiling():
    machine, _ = pair_of(GPU_GEN5, NDR)
    reading = only(machine, perftest("mlx5_0", 200.0))

    assert "something else limits this one" in reading.sentences[-1]


def test_more_than_a_port_can_carry_is_reported():
    machine, _ = pair_of(GPU_GEN5, NDR)
    reading = only(machine, perftest("mlx5_0", 410.0))

    assert "is more than the port of mlx5_0 can carry" in reading.sentences[-1]


def test_the_mtu_of_the_run_determines_the_ceiling():
    machine, _ = pair_of(GPU_GEN5, nic("mlx5_0", [link("0000:1c:00", 32.0, 16)], roce(100, 4096)))
    reading = only(machine, perftest("mlx5_0", 92.55, mtu=1024))

    assert reading.share == pytest.approx(1.0, abs=0.002)
    assert only(machine, perftest("mlx5_0", 92.55, mtu=4096)).share == pytest.approx(0.944, abs=0.002)


def test_both_directions_have_twice_the_ceiling():
    machine, _ = pair_of(GPU_GEN5, NDR)
    reading = only(machine, perftest("mlx5_0", 782.0, title="RDMA_Write Bidirectional BW"))

    assert reading.share == pytest.approx(0.984, abs=0.002)
    assert any("sum of both directions" in sentence for sentence in reading.sentences)


def test_a_run_on_gpu_memory_crosses_the_gpus_link_too():
    machine, _ = pair_of(LinkedGpu("0000:07:00.0", links=(link("0000:07:00", 16.0, 8),)), NDR)

    on_gpu = only(machine, perftest("mlx5_0", 100.0, before="initializing CUDA\n"))
    in_host = only(machine, perftest("mlx5_0", 100.0))
    assert on_gpu.tightest.name == "gpu-link"
    assert in_host.tightest.name == "port"
    assert any("not the path to GPU memory" in sentence for sentence in in_host.sentences)
    assert not any("not the path to GPU memory" in sentence for sentence in on_gpu.sentences)


def test_the_gpu_of_the_run_counts_if_there_are_several():
    slow = LinkedGpu("0000:17:00.0", links=(link("0000:17:00", 16.0, 8),))
    (_, to_fast), (_, to_slow) = pair_of(GPU_GEN5, NDR), pair_of(slow, NDR)
    machine = NodeLinks((GPU_GEN5, slow), (NDR,), (to_fast, to_slow))
    listed = (
        "initializing CUDA\nCUDA device 0: PCIe address is 1B:00\nCUDA device 1: PCIe address is 17:00\n\n"
        "Picking device No. 1\n"
    )

    assert only(machine, perftest("mlx5_0", 100.0, before=listed)).tightest.subject == "0000:17:00.0"
    other = listed.replace("No. 1", "No. 0")
    assert only(machine, perftest("mlx5_0", 100.0, before=other)).tightest.subject == "mlx5_0"


def test_a_run_on_an_integrated_gpu_uses_host_memory():
    text = perftest("rocep1s0f0", 97.28, before="ib_write_bw --use_cuda=0\ninitializing CUDA\n")
    reading = only(spark({"p0"}), text)

    assert any("You measured a host-memory run" in sentence for sentence in reading.sentences)
    assert reading.tightest.name == "nic-link"
    assert "Tuned runs reach 11.14 and more, and so does this one" in reading.sentences[-1]


def test_the_run_itself_may_show_that_its_gpu_is_integrated():
    machine, _ = pair_of(GPU_GEN5, NDR)
    text = perftest("mlx5_0", 300.0, before="initializing CUDA\nCUDA device integrated: 1\n")

    assert any("host-memory run" in sentence for sentence in only(machine, text).sentences)


def test_a_device_of_another_node_has_no_ceiling():
    machine, _ = pair_of(GPU_GEN5, NDR)
    reading = only(machine, perftest("mlx5_7", 391.0))

    assert reading.share is None
    assert "This node has no RDMA device mlx5_7." in reading.sentences


def test_a_device_whose_port_is_down_has_no_ceiling():
    machine, _ = pair_of(GPU_GEN5, replace(NDR, port=None, active=False, down="DOWN"))
    reading = only(machine, perftest("mlx5_0", 391.0))

    assert (reading.ceiling, reading.share) == (None, None)
    assert "On this node the port of mlx5_0 is down" in reading.sentences[-1]


def test_a_failed_run_and_a_latency_run_have_no_rate():
    machine, _ = pair_of(GPU_GEN5, NDR)

    refused = only(machine, "ib_write_bw --use_cuda=0\nCouldn't allocate MR with error=14\n")
    assert "Memory registration failed" in refused.sentences[0]
    latency = " #bytes #iterations    t_avg[usec]    t_min[usec]  t_max[usec]\n 2 1000 1.9 1.8 4.0\n"
    assert "latency" in only(machine, latency).sentences[0]


# -- nccl-tests ------------------------------------------------------------------------------------


def test_sendrecv_of_two_sparks_with_one_cable():
    """23.74 GB/s: github.com/NVIDIA/dgx-spark-playbooks/pull/103."""
    reading = only(spark({"p0"}), nccl("sendrecv", 23.74))

    assert 0.94 < reading.share < 1
    assert "this is the ceiling" in reading.sentences[-1]


def test_a_run_of_two_sparks_fits_one_of_their_paths():
    """TCP over one port cannot reach the first; the second is too slow for both devices of a cable."""
    fast, slow = (only(spark({"p0", "p1"}), nccl("all_gather", rate)) for rate in (25.67, 9.0))

    assert (
        "It fits a tuned run of host-mapped (22.3 to 30.1 GB/s); not socket over one port"
        in fast.sentences[-2]
    )
    assert "It fits a tuned run of socket over one port (3.5 to" in slow.sentences[-3]


def test_with_a_second_cable_the_links_of_a_spark_are_the_limit():
    reading = only(spark({"p0", "p1"}), nccl("all_gather", 25.67))

    assert reading.tightest.name == "nic-link"
    assert 25.67 in reading.ceiling
    assert "You are at 85 %" in reading.sentences[-1]


def test_the_average_over_sizes_is_not_compared():
    machine, _ = pair_of(GPU_GEN5, NDR)
    reading = only(machine, nccl("sendrecv", (1.0, 48.0, 48.2), sizes=(8, 1 << 29, 1 << 30)))

    assert reading.gb_per_s == 48.2
    assert any("average over all sizes" in sentence for sentence in reading.sentences)


def test_the_average_of_one_size_is_its_rate():
    machine, _ = pair_of(GPU_GEN5, NDR)
    reading = only(machine, nccl("sendrecv", (48.2,), sizes=(1 << 30,)))

    assert not any("average over all sizes" in sentence for sentence in reading.sentences)


def test_busbw_above_the_network_is_normal_for_a_tree_between_two_nodes():
    gpus = tuple(
        LinkedGpu(f"0000:{n:02x}:00.0", links=(link(f"0000:{n:02x}:00", 32.0, 16),))
        for n in range(0x1B, 0x23)
    )
    nics = tuple(
        nic(f"mlx5_{n}", [link(f"0000:{n + 64:02x}:00", 32.0, 16)], infiniband(400, "NDR")) for n in range(8)
    )
    pairs = tuple(
        PairLinks(g, n, CommonPoint.SWITCH, g.links, n.links) for g, n in zip(gpus, nics, strict=True)
    )
    node = NodeLinks(gpus, nics, pairs)

    reading = only(node, nccl("all_reduce", 480.0, per_node=8))
    assert any("normal on 2 nodes with a tree" in sentence for sentence in reading.sentences)
    assert reading.share < 1
    assert only(node, nccl("all_reduce", 390.0, per_node=8)).share == pytest.approx(0.98, abs=0.005)
    assert "is more than" in only(node, nccl("sendrecv", 480.0, per_node=8)).sentences[-1]
    # every GPU sends most of its data to the other node, over its own NIC
    assert only(node, nccl("alltoall", 90.0, per_node=8)).share == pytest.approx(0.97, abs=0.01)


def test_a_run_on_one_node_does_not_measure_the_network():
    machine, _ = pair_of(GPU_GEN5, NDR)
    reading = only(machine, nccl("all_reduce", 300.0, nodes=1, per_node=8))

    assert reading.share is None
    assert any("not the network" in sentence for sentence in reading.sentences)


def test_processes_that_are_all_rank_0_ran_alone():
    machine, _ = pair_of(GPU_GEN5, NDR)
    text = nccl("all_reduce", 300.0).replace("Rank 1 ", "Rank 0 ")

    assert any("MPI=1" in sentence for sentence in only(machine, text).sentences)


# -- dmon ------------------------------------------------------------------------------------------


COPYING = """\
# gpu  rxpci  txpci
# Idx   MB/s   MB/s
    0      0      0
    0  59459   5178
    0  59148   5063
"""


def test_traffic_is_compared_with_the_raw_rate_since_headers_are_counted():
    """Copies of 55.27 GB/s to an H200, MaxPayload 256, as shown by nvidia-smi 580."""
    machine, _ = pair_of(GPU_GEN5, NDR)
    received, sent = readings(machine, sniff(COPYING))

    assert received.share == pytest.approx(0.944, abs=0.001)
    assert "the link is the limit" in received.sentences[-1]
    assert "the link is not the limit" in sent.sentences[-1]


def test_nvidia_smi_counts_the_headers_of_the_specification():
    """The same run: completions of 256 bytes come in, one request goes out for each."""
    completion, request = 256 + COMPLETION_HEADER_BYTES[False] + FRAMING_BYTES, 16 + FRAMING_BYTES

    assert pytest.approx(55.27 * completion / 256, rel=0.01) == 59.3
    assert pytest.approx(55.27 * request / 256, rel=0.02) == 5.12
    assert pytest.approx(55.29 * (256 + WRITE_HEADER_BYTES + FRAMING_BYTES) / 256, rel=0.01) == 60.16


def test_traffic_of_a_gpu_without_counters_or_of_another_node_is_not_compared():
    machine, _ = pair_of(GPU_GEN5, NDR)
    received, _ = readings(machine, sniff("# gpu  rxpci  txpci\n    0      -      -\n"))
    elsewhere, _ = readings(machine, sniff("# gpu  rxpci  txpci\n    3  48000   4000\n"))

    assert "does not report" in received.sentences[0]
    assert (elsewhere.gb_per_s, elsewhere.share) == (48.0, None)


# -- any text --------------------------------------------------------------------------------------


def test_the_plateau_is_at_the_largest_sizes():
    assert plateau({8: 1.0, 1 << 28: 24.0, 1 << 29: 24.4, 1 << 30: 24.2}) == (24.2, ())
    rate, notes = plateau({1 << 10: 1.0, 1 << 20: 10.0, 1 << 21: 15.0})
    assert rate == 15.0
    assert "still rises" in notes[0]


@pytest.mark.parametrize("text", ["", "bash: ib_write_bw: command not found in this text\n", "[]"])
def test_text_of_no_known_program_is_refused(text):
    with pytest.raises(FormatError):
        readings(NodeLinks(), sniff(text.replace("ib_write_bw", "nothing")))


@given(
    st.lists(
        st.sampled_from(
            (
                perftest("mlx5_0", 391.0)
                + nccl("all_reduce", 48.0)
                + "# gpu  rxpci  txpci\n    0  48000     -\n"
            ).splitlines()
        )
    ).map("\n".join)
    | st.text()
)
def test_any_text_is_read_or_refused(text):
    machine, _ = pair_of(GPU_GEN5, NDR)
    with contextlib.suppress(FormatError):
        for reading in readings(machine, sniff(text)):
            assert reading.sentences


# -- NCCL's diagnostics ----------------------------------------------------------------------------


def diagnostics(lowest, median, *lines):
    summary = f"[OK] net bw: {lowest}/{median}/{median} Gbit/s min/median/max same-nic bw (across 4 ranks)"
    return "".join(f"h1:7 NCCL DIAG {line}\n" for line in ("=== NCCL Diagnostics ===", summary, *lines))


def test_ranks_that_are_slow_alike_are_far_from_the_ceiling():
    machine, _ = pair_of(GPU_GEN5, NDR)
    reading = only(machine, diagnostics(96.0, 96.8))

    assert reading.share == pytest.approx(96.8 / 400, abs=0.01)
    assert reading.sentences[-1].endswith("something else limits this one.")
    assert any("may have used host memory" in words for words in reading.sentences)


def test_the_slowest_rank_is_compared_too_if_nccl_calls_it_an_outlier():
    machine, _ = pair_of(GPU_GEN5, NDR)
    names = [one.what.rpartition(" ")[2] for one in readings(machine, sniff(diagnostics(96.0, 391.4)))]

    assert names == ["median", "slowest"]
    assert only(machine, diagnostics(380.0, 391.4)).what.endswith("median")


def test_the_fastest_nic_is_compared_and_slower_ones_are_named():
    slow = nic("mlx5_1", [link("0000:2c:00", 16.0, 16)], infiniband(100, "EDR"))
    machine, _ = pair_of(GPU_GEN5, NDR)
    reading = only(replace(machine, functions=(*machine.functions, slow)), diagnostics(390.0, 391.4))

    assert reading.share == pytest.approx(0.98, abs=0.01)
    assert "compared with mlx5_0, the fastest; slower: mlx5_1" in reading.sentences[0]


def test_a_node_without_nics_has_no_ceiling_for_diagnostics():
    assert only(NodeLinks(), diagnostics(390.0, 391.4)).ceiling is None


def test_a_report_without_a_rate_is_not_a_measurement():
    with pytest.raises(FormatError, match="no rate of ib_write_bw"):
        sniff("h1:7 NCCL DIAG === NCCL Diagnostics ===\n")


def test_a_run_on_a_node_whose_only_nic_has_no_name_is_taken_to_be_its_own():
    """lspci prints addresses alone; beside a second NIC the run may be of either."""
    slot = [link("0000:05:00", 8.0, 4)]
    alone, _ = pair_of(GPU_GEN5, replace(NDR, name="0000:05:00.0", links=tuple(slot), port=None))
    reading = only(alone, perftest("mlx5_0", 25.3))

    assert reading.tightest is not None and reading.tightest.name == "nic-link"
    assert "0000:05:00.0 is the only NIC here" in " ".join(reading.sentences)
    second = replace(alone.functions[0], name="0000:06:00.0")
    assert only(replace(alone, functions=(*alone.functions, second)), perftest("mlx5_0", 25.3)).share is None
    named, _ = pair_of(GPU_GEN5, NDR)
    assert only(named, perftest("mlx5_9", 25.3)).share is None, "it has a name, and another one"
