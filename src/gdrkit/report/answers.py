"""The three answers at the top of a report: does it work, why not, what now."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gdrkit.catalogue import rule_of
from gdrkit.evidence import MissingReason
from gdrkit.programs.names import NAMES
from gdrkit.report.document import GpuSection, Report
from gdrkit.report.path_words import PATH_NAMES, gain
from gdrkit.report.programs import shown_programs
from gdrkit.report.terminal import Row
from gdrkit.rules.capabilities import INITIATED
from gdrkit.rules.expectation import expected_gpu_missing
from gdrkit.verdict.findings import Finding
from gdrkit.verdict.path_state import GOOD, State

COLLECTABLE = {MissingReason.DENIED.value, MissingReason.NOT_COLLECTED.value, MissingReason.TRUNCATED.value}
"""Reasons that a collection as root removes."""

INDENT = 9

ADVICE_CHARACTERS = 260
"""Sentences of a code's page are quoted up to about this length, two to four lines. It has more."""


def answers(report: Report, target: str = "") -> Iterator[Row]:
    """Does it work, why not, what now; one row each. `target` is what the commands name."""
    state = report.verdict.state
    indent = max(INDENT, len(state) + 2)
    yield indent, state, works(report), state.upper()
    label, why = reason(report)
    if why:
        yield indent, "", why, label
    yield indent, "", now(report, first_cause(report), target), "Now"


def reason(report: Report) -> tuple[str, str]:
    """Why the node does not work, or what is wrong although it does, with the label for it; "" if nothing is
    wrong."""
    state = report.verdict.state
    cause = first_cause(report)
    if cause is not None:
        return "But" if state in GOOD else "Why not", _plain(cause)
    if state is State.UNKNOWN:
        return "Why not", _what_is_missing(report)
    return ("", "") if state in GOOD else ("Why not", f"{report.verdict.summary}.")


def works(report: Report) -> str:
    """Whether GPU memory reaches the network directly, with the number of GPUs that do."""
    counted = [gpu for gpu in report.gpus if gpu.counts]
    if not counted:
        return "No GPU reaches a NIC directly."
    many = len(counted)
    direct = [gpu for gpu in counted if gpu.state in GOOD]
    unknown = [gpu for gpu in counted if gpu.state is State.UNKNOWN]
    others = [gpu for gpu in counted if gpu not in direct and gpu not in unknown]
    noun = "GPU" if many == 1 else "GPUs"
    gained = gain(report.consumers[report.verdict.consumer].path)
    verb = gained.one if many == 1 else gained.many
    if len(unknown) == many:
        return f"Not known for {many} of {many} {noun} whether {'it' if many == 1 else 'they'} {verb}."
    paths = " and ".join(dict.fromkeys(PATH_NAMES.get(gpu.path, gpu.path) for gpu in direct))
    parts = [f"{len(direct)} of {many} {noun} {verb}{f' over {paths}' if paths else ''}"]
    if direct and others:
        parts.append(f"{_these(others)} {'does' if len(others) == 1 else 'do'} not")
    if unknown:
        parts.append(f"not known for {_these(unknown)}")
    parts += [f"only {f.seen} are there" for f in report.findings if f.code == expected_gpu_missing.code]
    if never := [gpu for gpu in report.gpus if not gpu.counts]:
        codes = ", ".join(dict.fromkeys(code for gpu in never for code in gpu.blocked_by[:1]))
        parts.append(f"{_these(never)} can never do it, and {_is_are(never)} not counted [{codes}]")
    return "; ".join(parts) + "."


def _these(some: list[GpuSection]) -> str:
    """One or two GPUs by address, more by their number."""
    if len(some) > 2:
        return f"{len(some)} GPUs"
    return f"GPU{'s' if len(some) > 1 else ''} {' and '.join(gpu.gpu for gpu in some)}"


def _is_are(some: list[GpuSection]) -> str:
    return "is" if len(some) == 1 else "are"


def first_cause(report: Report) -> Finding | None:
    """The finding about the verdict's cause; where the path works, the first warning, and before all what
    is permanent one about which something can be done.

    None if nothing is wrong, evidence is missing, or the program has no direct path."""
    if report.verdict.state in GOOD:
        warnings = [f for f in report.findings if f.status == "warning"]
        return min(warnings, key=lambda finding: bool(rule_of(finding.code).permanent), default=None)
    found = [f for f in report.findings if f.code == report.verdict.cause]
    return min(found, key=lambda finding: finding.status != "failed", default=None)


def _plain(finding: Finding) -> str:
    """The first sentence of the code's page, what was seen here, and the code."""
    from gdrkit.report.pages import code_page

    title = code_page(finding.code)[0].removesuffix(".")
    seen = "" if finding.seen.casefold() in title.casefold() else finding.seen
    subject = "" if finding.subject in ("", "node") or finding.subject in seen else finding.subject
    about = f" ({subject})" if subject else ""
    here = f"; here: {f'{subject}: ' if subject else ''}{seen}" if seen else about
    return f"{title}{here}. [{finding.code}]"


def _what_is_missing(report: Report) -> str:
    found = deciding(report)
    if not found:
        return "Evidence is missing."
    source, why = missing_of(found[0])
    more = f", and {len(found) - 1} more" if len(found) > 1 else ""
    return f"What decides it is missing: {source} ({in_words(why)}){more}."


def missing_of(finding: Finding) -> tuple[str, str]:
    """The evidence that an unknown finding lacks, and why it is missing."""
    source, _, why = finding.seen.rpartition(": ")
    return source, why


def by_evidence(findings: Iterable[Finding]) -> dict[tuple[str, str, str], tuple[str, ...]]:
    """The codes of unknown findings by the evidence that they lack: its source, why it is missing, and the
    command that answers all of them."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for finding in findings:
        groups.setdefault((*missing_of(finding), finding.expected), []).append(finding.code)
    return {missing: tuple(dict.fromkeys(codes)) for missing, codes in groups.items()}


def in_words(why: str) -> str:
    """Why evidence is missing, for people: "not collected"."""
    return why.replace("-", " ")


def deciding(report: Report) -> list[Finding]:
    """Of a verdict that is unknown: the unknown findings whose evidence it needs, one for each command."""
    if report.verdict.state is not State.UNKNOWN:
        return []
    missing = {
        source
        for judgement in report.judgements.values()
        if report.verdict.consumer in judgement.consumers and judgement.path not in INITIATED
        if judgement.state == "unknown"
        for source in judgement.missing
    }
    found = [f for f in report.findings if f.status == "unknown" and missing_of(f)[0] in missing]
    return list({f.expected: f for f in reversed(found)}.values())[::-1]


def now(report: Report, cause: Finding | None, target: str = "") -> str:
    """The next command, or why there is nothing to do."""
    if report.verdict.state is State.UNKNOWN:
        return _find_out(report)
    if report.plan:
        return _fix(report, target)
    if cause is not None:
        return f"{cause.advice or advice(cause.code)} More: `gdr codes {cause.code}`"
    for name, program in shown_programs(report).items():
        if program.state not in GOOD:
            more = f"`gdr doctor --consumer {name}` is about {name}, which is {program.state}"
            return f"Nothing for {report.verdict.consumer}; {more}."
    if error := _needless_error(report):
        return (
            f"Nothing: ignore the error of `modprobe nvidia-peermem` ({error}), because dma-buf already "
            "does the same."
        )
    return "Nothing."


def _fix(report: Report, target: str) -> str:
    steps, asked = report.plan[0].steps, report.verdict.consumer
    consumer = "" if asked == NAMES[0] else f"--consumer {asked}"
    command = " ".join(part for part in ("gdr fix", consumer, target) if part)
    names = " and ".join(step.remedy for step in steps)
    reboot = " (needs a reboot)" if any(step.needs_reboot for step in steps) else ""
    return f"`{command}` prints the commands for {names}{reboot}; then it is {steps[-1].then.state}."


def _needless_error(report: Report) -> str:
    """The error of modprobe for nvidia-peermem that does not matter: every program shown has dma-buf
    instead."""
    prediction = report.modprobe
    needless = all(program.path == "dmabuf" for program in shown_programs(report).values())
    if prediction is None or not needless or not prediction.exit_code or prediction.loaded:
        return ""
    return prediction.stderr.rpartition(": ")[2].strip()


def _find_out(report: Report) -> str:
    """The single command that makes it known: the only one that is needed, or the one that collects all."""
    found = deciding(report)
    if not found:
        return "Run `gdr doctor -v` to see what is missing."
    reasons = {missing_of(finding)[1] for finding in found}
    if len(found) == 1 or not reasons <= COLLECTABLE:
        more = "" if len(found) == 1 else "; the other commands are below"
        return f"Run `{found[0].expected}` to find out{more}."
    if report.node.source == "live":
        return "Run `sudo gdr doctor`: root may read what is missing."
    return (
        "Run `sudo gdr collect` on that machine, then `gdr doctor` with the file that it writes: that "
        "holds what is missing here."
    )


def advice(code: str) -> str:
    """The first sentences of "What to do" on the code's page."""
    from gdrkit.report.pages import code_page

    sentences = re.split(r"(?<=\D[.]) (?=[A-Z`\d])", " ".join(code_page(code)[1].split()))
    chosen = ""
    for sentence in sentences:
        if chosen and len(chosen) + len(sentence) > ADVICE_CHARACTERS:
            break
        chosen = f"{chosen} {sentence}".strip()
    return re.sub(r"(?<=\. )\d\. ", "", chosen)  # the numbers of a list
