"""NCCL's own diagnostics in the logs of a job."""

from __future__ import annotations

import pytest

from gdrkit.jobs.document import document, encode, exit_code
from gdrkit.jobs.job import DiagnosticStatement, JobDiagnostics
from gdrkit.jobs.text import text
from gdrkit.programs.nccl.diagnostic_statements import Effect
from tests.jobs.samples import info
from tests.jobs.test_samples import analysed
from tests.programs.nccl.diagnostic_reports import COMMUNICATOR, LOGS, report


def reports_in(*texts: str) -> JobDiagnostics:
    found = analysed(*texts).diagnostics
    assert found is not None
    return found


def possible(found: JobDiagnostics) -> list[DiagnosticStatement]:
    return [one for one in found.statements if one.effect is Effect.POSSIBLE]


@pytest.mark.parametrize(
    ("name", "state", "code", "summary"),
    [
        ("healthy", "unknown", 3, "diagnostics of 16 ranks show no cause, and no proof of GPUDirect RDMA"),
        ("iommu-on-groups-differ", "unknown", 3, "diagnostics: iommu-translating is possible"),
        ("one-slow-gpu", "unknown", 3,
         "diagnostics: the GPU or NIC of rank 14 (dgx-12) is slow: 96.2 of 391.4 Gbit/s"),
        ("dmabuf-run-failed-everywhere", "unknown", 3,
         "diagnostics: ib_write_bw gave no rate on all 8 pairs (cuda+dmabuf)"),
        ("environment-differs", "blocked", 2,
         "diagnostics show gdr-level-too-low, env-differs-between-ranks and 1 more"),
    ],
)  # fmt: skip
def test_a_report_decides_only_what_it_shows(name: str, state: str, code: int, summary: str):
    found = document(analysed((LOGS / f"{name}.log").read_text()))

    assert (found.verdict.state, found.verdict.summary, exit_code(found)) == (state, summary, code)
    assert b'"diagnostics":{' in encode(found)


def test_settings_that_a_report_shows_are_findings_with_their_ranks_and_lines():
    found = analysed((LOGS / "environment-differs.log").read_text()).findings

    assert [(one.code, one.status, one.ranks, one.lines[0].line) for one in found] == [
        ("gdr-level-too-low", "failed", 1, 15),
        ("dmabuf-disabled-by-env", "warning", 8, 9),
        ("env-differs-between-ranks", "warning", 1, 8),
        ("env-differs-between-ranks", "warning", 1, 14),
    ]


def test_a_channel_that_is_direct_outweighs_a_report():
    channel = "Channel 00/0 : 0[0] -> 1[0] [{}] via NET/IB/0/GDRDMA"
    leg = info("pool-x-1:77", 0, channel.format("send")) + info("pool-x-2:77", 0, channel.format("receive"))
    found = analysed((LOGS / "environment-differs.log").read_text() + leg)

    assert (found.state, found.counts.direct) == ("active", 2)


def test_lines_at_the_level_info_name_the_host_of_a_rank():
    enabled = (
        "[INFO] IOMMU mode: enabled (DMA remapping) on 8 device(s); first rank 1 device 0000:41:00.0 "
        + COMMUNICATOR
    )
    start = info(
        "n2:9", 0,
        "ncclCommInitRank comm 0x1 rank 1 nranks 2 cudaDev 0 commId 0x9d41c07be2a6f318 - Init START",
    )  # fmt: skip

    (named,) = possible(reports_in(report(enabled), start))
    (unnamed,) = possible(reports_in(report(enabled)))
    assert (named.host, unnamed.host) == ("n2", "")
    assert "rank 1 (n2)" in named.text


def test_a_report_of_two_communicators_says_everything_once():
    lines = (LOGS / "iommu-on-groups-differ.log").read_text()
    twice = lines + lines.replace("0x4be20c71d95fa386", "0x1111")

    assert len(reports_in(twice).statements) == len(reports_in(lines).statements)


def test_more_lines_than_one_process_prints_of_other_kinds_are_kept():
    value = "[INFO] NCCL environment: NCCL_IB_TIMEOUT={} on rank(s) {{{}}}"
    mismatch = f"[INFO] NCCL environment: mismatch across 100 ranks {COMMUNICATOR} for NCCL_IB_TIMEOUT"
    found = reports_in(report(mismatch, *(value.format(one, one) for one in range(100))))

    assert found.statements[0].text.endswith("99 on rank 99")


def test_the_page_shows_what_is_open_and_never_that_a_path_is_direct():
    page = text(document(analysed((LOGS / "healthy.log").read_text())), width=200)

    assert "NCCL's diagnostics (transfers, comparison of ranks, 16 ranks, 2 hosts, 8x NVIDIA H100" in page
    assert "open  GPUDirect RDMA: no line names the memory" in page
    assert "excluded  iommu-translating: " in page


@pytest.mark.parametrize(
    ("lines", "summary"),
    [
        (("INFO RAS diagnostics skipped: NCCL_RAS_ENABLE=0",), "NCCL_RAS_ENABLE=0 turns RAS off"),
        (("=== RAS Diagnostics ===",), "the log has no line of a check"),
        (
            ("=== NCCL Diagnostics ===", "[OK] net bw: skipped (single host or no network transport)"),
            "a single host, or no peer over the network",
        ),
    ],
)
def test_a_report_without_any_result_says_that_nothing_was_tested_and_why(
    lines: tuple[str, ...], summary: str
):
    found = reports_in(report(*lines))

    assert (found.tested, found.summary) == (False, f"diagnostics tested nothing: {summary}")
    assert "no cause" not in text(document(analysed(report(*lines))))


def test_what_was_skipped_beside_a_report_with_results_is_open_alone():
    found = reports_in(
        report(
            "INFO RAS diagnostics skipped: NCCL_RAS_ENABLE=0",
            "=== NCCL Diagnostics ===",
            "[OK]   p2p: verified P2P access in both directions between every GPU pair (56 peer accesses)",
        )
    )

    assert found.tested
    assert found.summary == "diagnostics show no cause, and no proof of GPUDirect RDMA"
    assert [one.text.partition(":")[0] for one in found.statements if one.effect is Effect.OPEN] == [
        "not run"
    ]


def test_the_host_that_prints_a_report_is_not_counted_as_the_only_one():
    page = text(document(analysed(report("[OK]   ECC: no uncorrected volatile errors across 16 ranks"))))

    assert "1 host" not in page
    assert "2 hosts" in text(document(analysed((LOGS / "healthy.log").read_text())))


@pytest.mark.parametrize("name", ["environment-differs", "iommu-on-groups-differ"])
def test_each_cause_of_a_report_has_a_next_step(name: str):
    found = document(analysed((LOGS / f"{name}.log").read_text()))
    causes = [one for one in found.diagnostics.statements if one.effect is Effect.CAUSE]
    page = " ".join(text(found).split())

    assert all(one.todo for one in causes)
    assert all(f"next: {one.todo}" in page for one in causes)
    if name == "environment-differs":
        assert "next: unset NCCL_NET_GDR_LEVEL on rank 7" in page
