"""The report in one line, for a table of a fleet or a monitoring plugin."""

from __future__ import annotations

from collections.abc import Collection

from gdrkit.report.boot_words import lost_at_boot
from gdrkit.report.document import PairSection, Report
from gdrkit.report.exit_code import failing
from gdrkit.report.summary import WIDTH, in_line
from gdrkit.rules.capabilities import DIRECT
from gdrkit.verdict.path_state import State

UNMET = ("expected-", "unexpected-")
"""How the codes begin that compare a node with what it should have: rules/expectation.py."""


def line(report: Report, *, nagios: bool = False, fail_on: Collection[str] = ()) -> str:
    """Host, state, first broken layer and summary, or what the next boot takes away, or the first warning.
    A finding of a code in `fail_on` comes before these, unless the verdict is itself blocked or unknown.

    At most 80 characters, which node-problem-detector keeps; a host takes at most half of them. `nagios`:
    followed by performance data. Source: Monitoring Plugins Development Guidelines, "Performance data"."""
    verdict = report.verdict
    after = lost_at_boot(report)
    warning = next((finding for finding in report.findings if finding.status == "warning"), None)
    unmet = next((f for f in report.findings if f.status == "warning" and f.code.startswith(UNMET)), None)
    named = None if verdict.state in (State.BLOCKED, State.UNKNOWN) else failing(report, fail_on)
    if named is not None:
        words = f"{verdict.state}, {named.status} {named.code}: {named.seen}"
    elif after is not None:
        words = f"{verdict.state} now, {after.state} after the next boot: {after.cause}: {after.seen}"
    elif verdict.state is State.IMPOSSIBLE and unmet is not None:
        # No other warning changes anything for a machine that has no direct path.
        words = f"{verdict.state}, warning {unmet.code}: {unmet.seen}"
    elif verdict.state in (State.ACTIVE, State.READY) and warning is not None:
        words = f"{verdict.state}, warning {warning.code}: {warning.seen}"
    else:
        layer = f" [{verdict.first_broken_layer}]" if verdict.first_broken_layer else ""
        words = f"{verdict.state}{layer} {_unsure(report)}{verdict.summary}"
    host = f"{in_line(report.node.hostname, WIDTH // 2 - 2)}: " if report.node.hostname else ""
    text = host + in_line(words, WIDTH - len(host))
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
