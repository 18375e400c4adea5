"""Reports of NCCL's diagnostics: what they show, and what they only seem to show."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.catalogue import CODES
from gdrkit.programs.nccl.diagnostic_records import RankSet, rank_set
from gdrkit.programs.nccl.diagnostic_statements import Effect, Statement
from gdrkit.programs.nccl.diagnostics import MOST_LINES
from tests.programs.nccl.diagnostic_reports import (
    COMMUNICATOR,
    LOGS,
    any_text,
    only,
    read,
    read_log,
    report,
)

PROBLEMS = (Effect.CAUSE, Effect.POSSIBLE, Effect.FAULT)


def test_a_healthy_report_shows_no_cause_and_no_proof_of_gpudirect_rdma():
    found = read_log("healthy.log")

    assert found.of(*PROBLEMS) == ()
    assert (found.ranks, found.hosts, found.gpus) == (16, ("hgx-a01",), "8x NVIDIA H100 80GB HBM3")
    assert [(rate.median_gbit_per_s, rate.ranks) for rate in found.bandwidths] == [(391.8, 16)]
    assert found.tested_memory == ()
    assert found.direct_path.startswith("no line names the memory")
    assert [one.codes for one in found.of(Effect.EXCLUDED)] == [("iommu-translating",)]


@pytest.mark.parametrize(
    "line",
    [
        "=== RAS Diagnostics ===",
        "NCCL diagnostics completed in 12.5 ms across 16 ranks",
        "RAS diagnostics completed in 3.1 ms across 2 RAS peers",
    ],
)
def test_the_frame_of_a_report_alone_tested_nothing(line: str):
    found = read(f"n1:7 NCCL DIAG {line}\n")

    (left,) = found.statements
    assert (found.tested, left.effect, left.brief) == (False, Effect.OPEN, "the log has no line of a check")


def test_a_translating_iommu_is_possible_and_groups_are_no_cause_on_x86():
    found = read_log("iommu-on-groups-differ.log")

    (translating,) = found.of(*PROBLEMS)
    assert (translating.effect, translating.codes) == (Effect.POSSIBLE, ("iommu-translating",))
    assert "rank 4 (likely l40s-08" in translating.text
    assert translating.host == ""
    groups = [one for one in found.statements if one.check == "IOMMU groups"]
    assert [(one.effect, one.codes) for one in groups] == [(Effect.OPEN, ("acs-redirect",))]
    assert found.processes == 8
    assert found.ranks is None


def test_the_slow_rank_is_told_from_its_partners_and_from_a_wedged_pair():
    found = read_log("one-slow-gpu.log")

    slow, wedged = found.of(*PROBLEMS)
    assert (slow.ranks, slow.host, slow.effect) == ((14,), "dgx-12", Effect.FAULT)
    assert "ranks 6, 22 are only its partners" in slow.text
    assert "link-degraded" in slow.codes
    assert (wedged.ranks, wedged.codes) == ((3, 27), ())
    assert "timed out" in wedged.text
    assert found.tested_memory == ("cuda+dmabuf",)
    assert "likely for the others" in found.direct_path


def test_runs_that_failed_everywhere_leave_registration_and_connection_open():
    found = read_log("dmabuf-run-failed-everywhere.log")

    (failed,) = found.of(*PROBLEMS)
    assert failed.effect is Effect.POSSIBLE
    assert failed.codes == ("dmabuf-mr-refused", "topology-refused", "memlock-limit", "bar1-small")
    assert "8 pairs" in failed.text
    assert "10000-29999" in failed.text
    assert "--use_cuda_dmabuf" in failed.todo
    (offered,) = found.of(Effect.EXCLUDED)
    assert "driver-proprietary" in offered.codes
    assert found.bandwidths == ()


def test_settings_that_differ_name_ranks_and_what_they_bring_about():
    found = read_log("environment-differs.log")

    causes = {(one.codes, one.ranks) for one in found.of(Effect.CAUSE) if one.ranks}
    assert causes == {
        (("dmabuf-disabled-by-env",), tuple(range(8, 16))),
        (("gdr-level-too-low",), (7,)),
    }
    differ = [one.text for one in found.of(Effect.CAUSE) if one.codes == ("env-differs-between-ranks",)]
    assert "NCCL_NET_GDR_LEVEL is unset on ranks 0-6, 8-15, LOC on rank 7" in differ
    (fewer,) = found.of(Effect.POSSIBLE)
    assert (fewer.codes, fewer.ranks) == (("hca-not-selected",), tuple(range(8, 16)))
    assert "1 of 8 NICs" in fewer.text
    assert [one.ranks for one in found.statements if one.blocks] == [(7,)]
    (driver,) = found.of(Effect.FAULT)
    assert (driver.check, driver.codes) == ("NVIDIA graphics driver version", ())
    assert "versions of the NVIDIA driver" in driver.text


# -- single checks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gpu", "effect", "codes"),
    [
        ("8x NVIDIA H100 80GB HBM3", Effect.OPEN, ("acs-redirect",)),
        ("4x NVIDIA GB200", Effect.POSSIBLE, ("iommu-groups-differ",)),
    ],
)
def test_groups_decide_on_coherent_gpus_only(gpu: str, effect: Effect, codes: tuple[str, ...]):
    found = read(
        report(
            f"[OK]   GPU inventory: {gpu} per node consistent across 8 ranks {COMMUNICATOR}",
            f"[INFO] IOMMU groups: GPU and NIC groups differ on 8 pair(s) {COMMUNICATOR}; first rank 0 GPU "
            "group 31 NIC 0000:43:00.0 group 33",
        )
    )

    assert [(one.effect, one.codes) for one in found.statements] == [(effect, codes)]


@pytest.mark.parametrize(
    ("text", "effect", "codes"),
    [
        ("FAIL\tKernel iommu_group for DMA 0002:00:00.0 and GPU 0008:06:00.0 are not equal 15 != 16",
         Effect.CAUSE, ("iommu-groups-differ",)),
        ("FAIL\tACS for dsp 0000:03:00.0 has incorrect values 1011 != xx111x1, (0xb != 0x1d)",
         Effect.CAUSE, ("acs-bits-differ",)),
        ("FAIL\tMultiple devices share the same kernel iommu_group for NUMA node 0: [4]", Effect.FAULT, ()),
    ],
)  # fmt: skip
def test_rdma_topo_names_the_first_fault_of_the_first_rank(
    text: str, effect: Effect, codes: tuple[str, ...]
):
    line = f"[INFO] rdma_topo check: failed on rank(s) {{2,3}} across 2/8 ranks {COMMUNICATOR}; first rank 2"
    found = only(report(f"{line} exit 1: {text}"), Effect.CAUSE, Effect.FAULT)

    assert (found.effect, found.codes, found.ranks) == (effect, codes, (2, 3))


@pytest.mark.parametrize(
    "state", ["not applicable", "needs root", "inconclusive", "unavailable", "not tried", "mixed results"]
)
def test_a_tool_that_gives_no_result_excludes_nothing(state: str):
    line = f"[INFO] rdma_topo check: not usable on 8/8 ranks {COMMUNICATOR} ({state})"
    (found,) = read(report(line)).statements

    assert (found.effect, found.codes) == (Effect.OPEN, ())
    assert state in found.text


def test_a_complete_pass_of_rdma_topo_excludes_groups_and_a_partial_one_does_not():
    whole = f"[OK]   rdma_topo check: passed on 8/8 ranks {COMMUNICATOR}"
    partial = f"[INFO] rdma_topo check: passed on 4/8 ranks {COMMUNICATOR}"

    assert only(report(whole), Effect.EXCLUDED).codes == ("iommu-groups-differ",)
    assert read(report(partial)).of(Effect.EXCLUDED) == ()


@pytest.mark.parametrize(
    "line",
    [
        f"[INFO] IOMMU mode: passthrough for 30 relevant device(s) across 15/16 ranks {COMMUNICATOR}",
        f"[INFO] IOMMU mode: unable to identify relevant GPU/NIC pairs on 8/8 ranks {COMMUNICATOR}",
        "[INFO] IOMMU mode: incomplete for comm 0x9d: topology-dependent data was unavailable for 3 of 8",
        "[INFO] IOMMU mode: diagnostics incomplete, gathered 3/8 ranks in comm 0x9d/0x1/0x2",
    ],
)
def test_an_incomplete_check_of_the_iommu_excludes_nothing(line: str):
    found = read(report(line))

    assert found.of(Effect.EXCLUDED, *PROBLEMS) == ()
    assert len(found.statements) == 1


def test_an_xid_is_a_fact_of_its_host_and_the_harmless_ones_are_notes():
    url = "For the recommended response, see the NVIDIA Xid documentation: https://docs.nvidia.com"
    found = read(
        report(
            f"[INFO] Xid 79 detected 2 times on host n2.example.org. {url}",
            "[OK]   Xid 63 detected 1 time on host n1. No user action or further investigation is "
            "required for this Xid.",
        )
    )

    assert [(one.effect, one.host) for one in found.statements] == [
        (Effect.FAULT, "n2.example.org"),
        (Effect.NOTE, "n1"),
    ]
    assert found.statements[0].text.startswith("Xid 79 2 times on n2.example.org")


def test_a_shared_port_is_shown_down_by_a_check_of_a_later_release():
    line = (
        "[INFO] Net device mlx5_0:1: net device type=Host, speed=0 Mbps, link layer=IB, state=DOWN/Disabled "
    )
    line += "across 2 nodes in comm 0x9d (port is not active)"

    assert only(report(line), Effect.CAUSE).codes == ("port-down",)


# -- ib_write_bw -----------------------------------------------------------------------------------------

PAIR = (
    "[INFO] net bw: mode=same server_rank=1 server_host=n2 server_device=mlx5_0 client_rank=0 "
    "client_host=n1 client_device=mlx5_0{memory} {how} " + COMMUNICATOR
)
SUMMARY = "[INFO] net bw: {} Gbit/s min/median/max same-nic bw (across 16 ranks) " + COMMUNICATOR
END = "NCCL diagnostics completed in 9.0 ms across 2 ranks"


def test_on_two_hosts_both_ends_of_a_slow_pair_are_suspects():
    outlier = (
        "[INFO] net bw: same-nic rank {} ({}): 99.1 Gbit/s, >30% off median 391.0 Gbit/s " + COMMUNICATOR
    )
    found = only(
        report(
            SUMMARY.format("99.1/391.0/392.0"),
            outlier.format(3, "n1"),
            outlier.format(11, "n2"),
        ),
        Effect.FAULT,
    )

    assert found.ranks == (3, 11)
    assert found.host == ""
    assert found.text.startswith("one of rank 3 (n1), rank 11 (n2)")


def test_ranks_above_the_median_show_that_most_are_slow():
    found = only(
        report(
            SUMMARY.format("90.0/99.0/391.0"),
            f"[INFO] net bw: same-nic rank 3 (n1): 391.0 Gbit/s, >30% off median 99.0 Gbit/s {COMMUNICATOR}",
        ),
        Effect.FAULT,
    )

    assert found.text.endswith("most ranks are slow")


@pytest.mark.parametrize(
    ("memory", "codes"),
    [
        (" memory=host", ()),
        ("", ()),
        (" memory=cuda+dmabuf", ("dmabuf-mr-refused", "topology-refused", "memlock-limit", "bar1-small")),
    ],
)
def test_only_gpu_memory_makes_registration_a_possible_cause(memory: str, codes: tuple[str, ...]):
    found = only(report(PAIR.format(memory=memory, how="tool run failed"), END), *PROBLEMS)

    assert found.codes == codes


def test_a_report_that_is_cut_off_does_not_show_that_every_pair_failed():
    found = only(report(PAIR.format(memory=" memory=cuda+dmabuf", how="tool run failed")), *PROBLEMS)

    assert found.codes == ()
    assert "does not show whether other pairs worked" in found.text


def test_the_hosts_of_eight_pairs_are_enough_to_start_with():
    one = PAIR.format(memory="", how="tool run failed")
    pairs = [one.replace("rank=1", f"rank={n}").replace("n2", f"n{n}") for n in range(2, 11)]
    hosts = only(report(*pairs), *PROBLEMS).todo.partition(";")[0]
    assert hosts == "run gdr doctor on n1 and " + " and ".join(f"n{n}" for n in range(2, 10))


def test_an_ok_that_was_skipped_is_no_result():
    found = read(report("[OK] net bw: skipped (single host or no network transport)"))

    assert [one.effect for one in found.statements] == [Effect.OPEN]
    assert found.bandwidths == ()


def test_data_that_does_not_arrive_over_pcie_points_to_iommu_and_acs():
    fields = "srcRank=0 srcCudaDev=0 srcNvmlDev=0 dstRank=1 dstCudaDev=1 dstNvmlDev=1 path={} handle=DIRECT"
    line = "[INFO] p2p: write mismatch " + fields + " expected=0x1 got=0x0 verify=0x0; check the IOMMU"
    over_pcie = only(report(line.format("PHB")), *PROBLEMS)
    over_nvlink = only(report(line.format("NVL")), *PROBLEMS)

    assert (over_pcie.effect, over_pcie.codes) == (Effect.POSSIBLE, ("iommu-translating", "acs-redirect"))
    assert (over_nvlink.effect, over_nvlink.codes) == (Effect.FAULT, ())


# -- the parser ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{7}", RankSet((7,), 1)),
        ("{0,1,2}", RankSet((0, 1, 2), 3)),
        ("{0,1,2,3,4,5,6,8,...} (N=15)", RankSet((0, 1, 2, 3, 4, 5, 6, 8), 15)),
        ("{}", None),
        ("0,1", None),
    ],
)
def test_sets_of_ranks(text: str, expected: RankSet | None):
    assert rank_set(text) == expected


def test_two_cut_sets_are_not_completed():
    found = read(
        report(
            f"[INFO] NCCL environment: mismatch across 64 ranks {COMMUNICATOR} for NCCL_IB_TIMEOUT",
            "[INFO] NCCL environment: NCCL_IB_TIMEOUT=22 on rank(s) {0,1,2,3,4,5,6,7,...} (N=32)",
            "[INFO] NCCL environment: NCCL_IB_TIMEOUT=20 on rank(s) {32,33,34,35,36,37,38,39,...} (N=32)",
        )
    )

    assert found.statements[0].text == (
        "NCCL_IB_TIMEOUT is 22 on 32 ranks (0-7, ...), 20 on 32 ranks (32-39, ...)"
    )
    assert found.of(*PROBLEMS) == ()


def test_a_log_without_a_report_has_none():
    assert any_text("n1:7:8 [0] NCCL INFO Using network IB\n") is None
    assert any_text("[OK] Started the service: net up\n") is None


def test_lines_of_a_client_of_ras_are_read_behind_any_prefix():
    line = "[INFO] NVLink: inactive link(s) on rank(s) {3} across 8 ranks in comm 0x1"

    assert only(report(line), Effect.FAULT).ranks == (3,)
    assert only(report(line, process="2026-11-28 09:00:01 n1.example.org:7"), Effect.FAULT).ranks == (3,)


PIECES = [
    line.partition("NCCL DIAG ")[2] for path in LOGS.glob("*.log") for line in path.read_text().splitlines()
]


@given(st.lists(st.tuples(st.sampled_from(PIECES), st.integers(0, 400), st.text(max_size=20)), max_size=12))
def test_any_cut_and_altered_line_is_read_without_a_fault(lines: list[tuple[str, int, str]]):
    found = any_text(report(*(f"{piece[:cut]}{more}{piece[cut:]}" for piece, cut, more in lines)))

    for one in found.statements if found else ():
        assert one.text
        assert set(one.codes) <= set(CODES)
        assert one.effect not in (Effect.CAUSE, Effect.POSSIBLE) or one.codes


@given(st.lists(st.sampled_from(PIECES), max_size=30))
def test_fewer_lines_exclude_no_more_and_the_order_of_processes_does_not_matter(lines: list[str]):
    whole = any_text(report(*lines))
    half = any_text(report(*lines[::2]))

    if whole and half and not {one.check for one in half.statements} & {"IOMMU groups", "net bw"}:
        assert {one.codes for one in half.of(Effect.EXCLUDED)} <= {
            one.codes for one in whole.of(Effect.EXCLUDED)
        }


def test_a_hostile_report_is_bounded():
    line = "[INFO] NCCL environment: NCCL_{}=1 on rank(s) {{0}}"
    found = read(report(*(line.format(number) for number in range(3 * MOST_LINES))))

    assert len(found.statements) <= MOST_LINES


# -- rates and ports -------------------------------------------------------------------------------


def rates_with(*others: str, port: int, lines: tuple[str, ...] = ()) -> tuple[Statement, ...]:
    """What a report of 96.8 Gbit/s shows, beside a port of this many Gbit/s and others."""
    summary = "[OK] net bw: 96.1/96.8/97.3 Gbit/s min/median/max same-nic bw (across 16 ranks)"
    device = "n1:7:7 [0] NCCL INFO NET/IB : Made virtual device [{}] name=mlx5_{} speed={} ndevs=1\n"
    speeds = (str(port * 1000), *others)
    named = "".join(device.format(number, number, speed) for number, speed in enumerate(speeds))
    return read(report(summary, *lines) + named).of(Effect.FAULT, Effect.NOTE)


def test_ranks_that_are_slow_alike_are_found_by_the_speed_of_their_ports():
    slow, reached, *_ = rates_with(port=400)

    assert (slow.effect, slow.brief) == (Effect.FAULT, "all ranks are slow alike: 96.8 of 400 Gbit/s")
    assert reached.text.endswith("median 96.8; of 400, the speed of the ports")


@pytest.mark.parametrize(
    ("port", "others", "lines"),
    [
        (100, (), ()),  # as fast as the port
        (400, ("100000",), ()),  # the log does not show which of two ports was used
        (0, (), ()),  # a port that is down has no speed
        (400, (), ("[INFO] net bw: net devices are shared across ranks",)),
    ],
)
def test_a_rate_that_a_port_or_its_sharing_explains_is_no_fault(
    port: int, others: tuple[str, ...], lines: tuple[str, ...]
):
    assert not [one for one in rates_with(*others, port=port, lines=lines) if one.effect is Effect.FAULT]


def test_merged_nics_do_not_count_as_a_port_since_one_of_their_ports_is_measured():
    merged = "n1:7:7 [0] NCCL INFO NET/IB : Made virtual device [2] name=a+b speed=400000 ndevs=2\n"
    summary = "[OK] net bw: 196.1/196.8/197.3 Gbit/s min/median/max same-nic bw (across 16 ranks)"

    assert not read(report(summary) + merged).of(Effect.FAULT)


# -- what a stranger reads -------------------------------------------------------------------------

_PAIR = (
    "[INFO] net bw: mode=same server_rank=0 server_host=h-1 server_device=mlx5_0 client_rank=4 "
    "client_host=h-2 client_device=mlx5_0 memory={} tool run failed"
)
_END = "NCCL diagnostics completed in 1031.0 ms across 8 ranks"


@pytest.mark.parametrize(
    ("memory", "effect", "words"),
    [
        ("host", Effect.FAULT, "nothing was measured; the connection may fail: "),
        ("cuda+dmabuf", Effect.POSSIBLE, "nothing was measured; or the connection may fail: "),
    ],
)
def test_a_run_without_gpu_memory_accuses_the_connection_alone(memory: str, effect: Effect, words: str):
    found = only(report(_PAIR.format(memory), _END), Effect.FAULT, Effect.POSSIBLE)

    assert found.effect is effect and words in found.text
    assert bool(found.codes) is (effect is Effect.POSSIBLE)


@pytest.mark.parametrize(
    "line",
    [
        "[INFO] p2p: only 54/56 GPU-to-GPU peer accesses passed verification",
        "[INFO] p2p: 54/56 directed GPU P2P edges verified",
    ],
)
def test_gpus_that_do_not_reach_each_other_are_a_fault_in_both_releases(line: str):
    assert only(report(line), Effect.FAULT).text.startswith("GPU to GPU, not to NICs: ")


def test_a_missing_tool_is_open_beside_a_check_that_passed():
    found = read(
        report(
            "[INFO] net bw: required external tool missing on rank 5",
            "[OK]   p2p: verified P2P access in both directions between every GPU pair (24 peer accesses)",
        )
    )

    assert found.tested and found.of(*PROBLEMS) == ()
    assert found.of(Effect.OPEN)[0].todo == "install perftest in the container of every rank"
