"""The report in one line, for a table of a fleet or a monitoring plugin."""

from __future__ import annotations

from gdrkit.report.document import PairSection, Report
from gdrkit.report.summary import WIDTH, clip
from gdrkit.rules.capabilities import DIRECT
from gdrkit.verdict.path_state import State


def line(report: Report, *, nagios: bool = False) -> str:
    """Host, state, first broken layer and summary, or the first warning where there is one.

    At most 80 characters, which node-problem-detector keeps, if the host leaves room. `nagios`: followed by
    performance data. Source: Monitoring Plugins Development Guidelines, "Performance data"."""
    verdict = report.verdict
    warning = next((finding for finding in report.findings if finding.status == "warning"), None)
    if verdict.state in (State.ACTIVE, State.READY, State.IMPOSSIBLE) and warning is not None:
        words = f"{verdict.state}, warning {warning.code}: {warning.seen}"
    else:
        layer = f" [{verdict.first_broken_layer}]" if verdict.first_broken_layer else ""
        words = f"{verdict.state}{layer} {_unsure(report)}{verdict.summary}"
    host = f"{report.node.hostname}: " if report.node.hostname else ""
    text = host + clip(" ".join(words.split()), max(WIDTH - len(host), WIDTH // 2))
    return f"{text.replace('|', '/')} | {_performance(report)}" if nagios else text


def _unsure(report: Report) -> str:
    """What the exit code follows, where the verdict is good and the expectation could not be compared."""
    unknown = report.expectation is not None and report.expectation.met == "unknown"
    return "expectation unknown, " if unknown and report.verdict.state != State.BLOCKED else ""


def _performance(report: Report) -> str:
    """label=value;warn;crit;min;max: the pairs with a direct path, of all, and the numbers of findings."""
    direct = sum(_is_direct(report, pair) for pair in report.pairs)
    counts = {
        status: sum(finding.status == status for finding in report.findings)
        for status in ("failed", "warning", "unknown")
    }
    data = [f"direct_pairs={direct};;;0;{len(report.pairs)}"]
    return " ".join(data + [f"{status}={count};;;0" for status, count in counts.items()])


def _is_direct(report: Report, pair: PairSection) -> bool:
    """Whether a direct path is usable in both directions, for the program that the verdict is about."""
    judged = [
        judgement
        for judgement in (report.judgements[key] for key in pair.judgements)
        if report.verdict.consumer in judgement.consumers
    ]
    return any(
        states and all(state in (State.READY, State.ACTIVE) for state in states)
        for states in ([one.state for one in judged if one.path is path] for path in DIRECT)
    )
