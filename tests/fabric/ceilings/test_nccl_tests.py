"""Published runs of healthy clusters compared with the ceilings of their nodes, and the shapes of runs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gdrkit.fabric.ceilings.measured_rate import ROUNDING
from gdrkit.fabric.ceilings.nccl_tests import FACTORS, ranks_by_ratio, shape_of
from gdrkit.fabric.ceilings.node_links import Attachment, CommonPoint, LinkedGpu, NodeLinks, PairLinks
from gdrkit.fabric.ceilings.ports import NetworkPort
from gdrkit.formats.nccl_tests import NcclRank, NcclRow, NcclTest, Timing
from tests.fabric.ceilings.test_measured import nccl, only
from tests.fabric.ceilings.test_paths import infiniband, link, nic

GIB = 1 << 30


def node(gpus, nics, port, gt_per_s=32.0, attachment=Attachment.PCIE):
    """A node whose GPUs and NICs share switches in turn."""
    all_gpus = tuple(
        LinkedGpu(f"0000:{n + 1:02x}:00.0", attachment, (link(f"0000:{n + 1:02x}:00", gt_per_s, 16),))
        for n in range(gpus)
    )
    all_nics = tuple(
        nic(f"mlx5_{n}", [link(f"0000:{n + 64:02x}:00", gt_per_s, 16)], port) for n in range(nics)
    )
    pairs = tuple(
        PairLinks(gpu, all_nics[n % nics], CommonPoint.SWITCH, gpu.links, all_nics[n % nics].links)
        for n, gpu in enumerate(all_gpus)
    )
    return NodeLinks(all_gpus, all_nics, pairs)


H100 = node(8, 8, infiniband(400, "NDR"))
A100 = node(8, 8, infiniband(200, "HDR"), 16.0)
A100_HALF = node(8, 4, infiniband(200, "HDR"), 16.0)
P6 = node(8, 8, NetworkPort(rate_gbit_per_s=400, link_layer="EFA"))
GB200 = node(4, 4, infiniband(400, "NDR"), attachment=Attachment.C2C_SHARED)

TESTS, NCCL = "github.com/NVIDIA/nccl-tests/issues", "github.com/NVIDIA/nccl/issues"
HEALTHY = [  # node, operation, nodes, GPUs of each, GiB, busbw, source
    (H100, "all_reduce", 4, 8, 16, 365.8, f"{TESTS}/309"),
    (H100, "all_reduce", 4, 8, 1, 358.0, f"{TESTS}/309"),
    (H100, "all_reduce", 4, 8, 16, 330.9, "Voltage Park, NCCL 2.24.3"),
    (H100, "all_gather", 4, 8, 16, 323.5, "Voltage Park, NCCL 2.24.3"),
    (H100, "broadcast", 4, 8, 16, 286.3, "Voltage Park, NCCL 2.24.3"),
    (H100, "all_reduce", 8, 8, 16, 320.0, f"{TESTS}/309"),
    (H100, "all_reduce", 248, 8, 0.5, 350.0, f"{TESTS}/283, H200"),
    (P6, "all_reduce", 4, 8, 16, 381.8, "github.com/stas00/ml-engineering"),
    (P6, "all_reduce", 4, 8, 1, 362.0, "github.com/stas00/ml-engineering"),
    (A100, "all_reduce", 4, 8, 8, 192.0, f"{NCCL}/812"),
    (A100_HALF, "all_reduce", 3, 8, 1, 96.0, f"{TESTS}/119"),
    (A100_HALF, "all_reduce", 2, 8, 1, 91.0, f"{TESTS}/100"),
    (H100, "all_reduce", 2, 8, 8, 469.0, f"{TESTS}/309, NVLSTree"),
    (H100, "all_reduce", 2, 8, 8, 484.0, "OpenShift, H200"),
    (GB200, "all_reduce", 18, 4, 8, 846.8, "github.com/coreweave/nccl-tests/pull/43"),
    (GB200, "all_reduce", 18, 4, 4, 747.0, "github.com/Azure/AI-benchmarking-guide/issues/7"),
    (GB200, "all_reduce", 2, 4, 8, 811.0, "two trays"),
    (GB200, "all_reduce", 2, 4, 8, 697.0, "two trays"),
    (GB200, "all_reduce", 360, 4, 4, 346.0, "github.com/coreweave/nccl-tests/pull/48, 20 racks"),
]


@pytest.mark.parametrize("machine, program, nodes, per_node, gib, busbw, source", HEALTHY)
def test_a_healthy_run_is_within_its_ceiling(machine, program, nodes, per_node, gib, busbw, source):
    size = int(gib * GIB)
    reading = only(machine, nccl(program, busbw, nodes, per_node, (size // 4, size // 2, size)))
    assert reading.ceiling is not None, source
    assert reading.ceiling.low_gb_per_s <= busbw <= reading.ceiling.high_gb_per_s * ROUNDING
    signs = ("something else limits", "more than", "gdr nccl")
    assert not any(sign in words for words in reading.sentences for sign in signs)


@pytest.mark.parametrize(
    "machine, program, nodes, busbw",
    [(H100, "all_reduce", 4, 130.0), (H100, "all_gather", 4, 300.0), (A100, "all_reduce", 4, 10.0)],
)
def test_a_run_far_below_healthy_ones_is_disturbed(machine, program, nodes, busbw):
    """180 to 10 GB/s without GPUDirect RDMA: github.com/NVIDIA/nccl/issues/1676."""
    reading = only(machine, nccl(program, busbw, nodes, 8, (GIB, 2 * GIB, 4 * GIB)))
    assert "something else limits this one" in reading.sentences[-2]
    assert "`gdr nccl LOG`" in reading.sentences[-1]


@pytest.mark.parametrize(
    ("busbw", "gpu", "slow"),
    [(20.95, "NVIDIA GB10", True), (23.74, "NVIDIA GB10", False), (20.95, "NVIDIA L4", False)],
)
def test_two_sparks_are_held_against_what_their_makers_test_asks_for(busbw, gpu, slow):
    """As `gdr explain` does. github.com/NVIDIA/dgx-spark-playbooks/issues/25 and pull/103."""
    spark = node(1, 1, NetworkPort(rate_gbit_per_s=200, link_layer="Ethernet"))
    text = nccl("all_gather", busbw, sizes=(GIB, 2 * GIB, 4 * GIB)).replace("] GPU", f"] {gpu}")
    assert ("something else limits this one" in " ".join(only(spark, text).sentences)) is slow


@pytest.mark.parametrize(
    "program, size", [("all_reduce", 1 << 28), ("alltoall", 4 * GIB), ("reduce", 4 * GIB)]
)
def test_no_lower_bound_is_stated_for_what_no_published_run_tells(program, size):
    reading = only(H100, nccl(program, 20.0, 4, 8, (size // 4, size // 2, size)))
    assert reading.ceiling.low_gb_per_s == 0
    assert "No lower bound" in reading.sentences[-1]


SIZES = (2 * GIB, 4 * GIB, 8 * GIB)


@pytest.mark.parametrize(
    ("program", "sizes", "busbw", "words"),
    [
        ("all_reduce", SIZES, 365.8, "It fits a tuned run of direct (318.0 to 397.5 GB/s), staged ("),
        ("all_reduce", SIZES, 365.8, "The rate does not tell them apart."),
        ("all_gather", SIZES, 300.0, "It fits a tuned run of staged (255.1 to 397.5 GB/s); not direct ("),
        ("all_gather", SIZES, 130.0, "It fits a tuned run of none of these paths: direct ("),
        ("all_reduce", (1 << 26, 1 << 27, 1 << 28), 365.8, ""),  # no lower bound, and no path is too slow
        ("all_gather", SIZES, 700.0, ""),  # more than the network carries, which is said elsewhere
    ],
)
def test_a_rate_is_held_against_each_path_of_the_node(program, sizes, busbw, words):
    said = " ".join(only(H100, nccl(program, busbw, 4, 8, sizes)).sentences)

    assert words in said and ("a tuned run of" in said) is bool(words)


def test_trays_that_stay_below_their_nics_are_told_about_nvlink():
    reading = only(GB200, nccl("all_reduce", 180.0, 2, 4, (GIB, 2 * GIB, 4 * GIB)))
    assert reading.ceiling.high_gb_per_s < 200
    assert any("MNNVL 1" in words for words in reading.sentences)


def test_nvlink_between_nodes_is_only_assumed_of_products_that_have_it():
    """The list of ranks names the product, whatever this node has."""
    text = nccl("all_reduce", 800.0, 2, 4, (GIB, 2 * GIB, 4 * GIB))
    assert "more than" in only(GB200, text.replace("] GPU", "] NVIDIA H100 80GB HBM3")).sentences[-1]
    assert only(H100, text.replace("] GPU", "] NVIDIA GB300")).tightest.name == "nvlink"


def test_the_end_of_a_paste_is_enough_for_a_rack():
    """Rank 71 and one row, without the header of the table."""
    text = (
        "all_reduce_perf -b 512M\n"
        "#  Rank 71 Group  0 Pid  1 on rack-9 device  3 [0x01] NVIDIA Graphics Device\n"
        "  8589934592    2147483648     float     sum      -1"
        "    20299  423.16  834.57      0    20006  429.37  846.82      0\n"
    )
    reading = only(GB200, text)
    assert reading.what == "all_reduce, 72 GPUs on 18 nodes"
    assert reading.tightest.name == "nvlink"
    assert reading.share < 1


def test_a_node_without_known_nics_still_has_a_domain():
    alone = replace(GB200, functions=(), pairs=())
    reading = only(alone, nccl("all_reduce", 811.0, 2, 4, (GIB, 2 * GIB, 4 * GIB)))
    assert reading.tightest.name == "nvlink"


# -- how many GPUs and nodes took part ---------------------------------------------------------------


def run(program, ratios, ranks=()):
    rows = tuple(
        NcclRow(size_bytes=1 << 30, out_of_place=Timing(1.0, round(alg, 2), round(alg * factor, 2)))
        for alg, factor in ratios
    )
    return NcclTest(program=program, rows=rows, ranks=ranks)


def listed(*numbers):
    return tuple(NcclRank(n, f"host{n // 4}", n % 4, "NVIDIA GB200") for n in numbers)


@pytest.mark.parametrize("program", FACTORS)
@given(ranks=st.integers(2, 64), alg=st.floats(250, 900))
def test_rates_of_some_hundred_tell_up_to_64_ranks_apart(program, ranks, alg):
    found = ranks_by_ratio(run(program, [(alg, FACTORS[program](ranks))]))
    assert found == ranks


def test_small_rates_tell_nothing():
    assert ranks_by_ratio(run("all_reduce", [(1.2, 2 * 63 / 64)])) is None


def test_the_factor_of_broadcast_tells_nothing():
    assert ranks_by_ratio(run("broadcast", [(300.0, 1.0)])) is None


def test_rates_that_fit_no_number_of_ranks_tell_nothing():
    assert ranks_by_ratio(run("all_reduce", [(300.0, 1.0), (300.0, 1.9)])) is None


def test_a_whole_list_counts_without_the_ratio():
    shape = shape_of(run("all_reduce", [(300.0, 1.9)], listed(*range(8))), 4)
    assert (shape.ranks, shape.per_node, shape.nodes, shape.note) == (8, 4, 2, "")


@pytest.mark.parametrize(
    ("hosts", "gpus", "per_node"), [("aabb", 8, 2), ("aaab", 8, 8), ("aaab", 0, 3), ("aaaa", 0, 4)]
)
def test_hosts_with_as_many_ranks_each_show_their_gpus(hosts, gpus, per_node):
    """Of others the node tells, or the host with most, if the node is not known."""
    ranks = tuple(NcclRank(n, host, n, "H100") for n, host in enumerate(hosts))
    assert shape_of(run("all_reduce", [(300.0, 1.9)], ranks), gpus).per_node == per_node


@pytest.mark.parametrize(("gpus", "per_node"), [(4, 4), (3, 4), (0, 4), (8, 8), (72, None)])
def test_a_node_has_at_least_the_gpus_that_the_end_of_a_list_names(gpus, per_node):
    ranks = listed(70, 71)
    assert ranks[-1].device == 3
    assert shape_of(run("all_reduce", [(430.0, 2 * 71 / 72)], ranks), gpus).per_node == per_node


def test_the_end_of_a_list_and_the_ratio_give_the_whole():
    shape = shape_of(run("all_reduce", [(430.0, 2 * 71 / 72)], listed(70, 71)), 4)
    assert (shape.ranks, shape.per_node, shape.nodes) == (72, 4, 18)
    assert "the text does not list them all" in shape.note


def test_a_ratio_that_contradicts_the_list_is_not_believed():
    assert shape_of(run("all_reduce", [(430.0, 2 * 15 / 16)], listed(70, 71)), 4).ranks is None


def test_a_text_without_ranks_and_ratio_shows_neither_gpus_nor_nodes():
    assert str(shape_of(run("broadcast", [(300.0, 1.0)]), 8)) == "GPUs not shown on nodes not shown"


def test_as_many_ranks_as_a_node_has_gpus_may_be_on_one_node_or_on_many():
    assert shape_of(run("all_reduce", [(300.0, 2 * 7 / 8)]), 8).nodes is None
