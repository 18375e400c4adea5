"""Whole answers as text, in few rows, which tests compare with snapshots.

The helpers of the tests of rules, programs and the loader call `note` with each answer that a test asks for;
the folder's conftest.py compares all of them with the snapshot of the test, besides what the test itself
asserts. After a change of what is said, one command writes the snapshots again, to be read before they are
committed:

    pytest tests/{rules,programs,loader,report,repair} tests/test_node_pages.py --snapshot-update

What is usual is left out: empty fields, and sources that are certain and cited as a whole. Answers that
differ only in their subject are one row. So a row that changes is something that a user would read.
"""

from __future__ import annotations

import enum
import re
import textwrap
from collections.abc import Iterable, Iterator

import pytest
from msgspec import Struct
from msgspec.structs import asdict
from syrupy.assertion import SnapshotAssertion

from gdrkit.evidence import Confidence, Missing, MissingReason, QuestionKind
from gdrkit.loader import Prediction
from gdrkit.loader import modprobe as predicted
from gdrkit.node import Node
from gdrkit.rules.capabilities import Need
from gdrkit.rules.rule import Failed, NotApplicable, Passed, Status, Unknown
from gdrkit.verdict import Verdict, judge_node
from gdrkit.verdict.check_results import CheckResult, confidence_of, trail_of
from gdrkit.verdict.findings import Evidence, Finding, subject_name
from gdrkit.verdict.node_state import ConsumerState
from gdrkit.verdict.path_state import PathState

WIDTH = 150
SHOWN = 2
"""How many pieces of evidence a finding is shown with; of the others there is the number."""

DEVICE = re.compile(
    r"\b[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\b|\b(mlx5|rocep?|ibp|eth|gpu|nvidia)_?\d+\b"
)
PLACES = 4
"""The same of an outcome, in the tests of rules."""

_noted: list[tuple[str, str, str]] = []


def note(text: str, what: str = "", subject: str = "") -> None:
    """Compare this text, too, at the end of the test; notes that differ only in their subject are one."""
    _noted.append((what, text, subject))


def compare(request: pytest.FixtureRequest, snapshot: SnapshotAssertion) -> Iterator[None]:
    """The body of a fixture: compare what a test noted. Property tests draw other examples each time."""
    _noted.clear()
    yield
    drawn = hasattr(request.function, "hypothesis")
    if _noted and not drawn:
        assert "\n".join(_rows_of_notes()) == snapshot


def _rows_of_notes() -> Iterator[str]:
    subjects: dict[tuple[str, str], list[str]] = {}
    for what, text, subject in _noted:
        subjects.setdefault((what, text), []).append(subject)
    for (what, text), of in subjects.items():
        named = list(dict.fromkeys(of))
        times = f" (x{len(of)})" if len(of) > len(named) else ""
        head = " ".join(filter(None, (what, ", ".join(filter(None, named)))))
        yield f"{head}{times}: {text}" if what else text + times


def with_nodes(text: str, nodes: list[str], shown: int = 3) -> list[str]:
    """A text and the nodes for which it holds, in one row if they fit: the first, and whether there are
    others. Their number would change with each node that is added, in hundreds of rows."""
    named = nodes if len(nodes) <= shown + 1 else [*nodes[:shown], "others"]
    row = f"{text} -- {', '.join(named)}"
    return (
        [row]
        if "\n" not in text and len(row) <= WIDTH
        else [*text.split("\n"), *wrapped("  --", named, ", ")]
    )


def wrapped(label: str, items: Iterable[str], between: str = "; ") -> list[str]:
    """The items after their label, in as many rows as they need."""
    rows: list[str] = []
    row = start = f"{label} " if label else ""
    for number, item in enumerate(items):
        if number:
            row += between
        if len(row) + len(item) > WIDTH and row not in (start, "  "):
            rows.append(row.rstrip())
            row = "  "
        row += item
    return [*rows, row.rstrip()] if row != start else []


def outcome_text(node: Node, result: CheckResult) -> str:
    """What a rule says of a subject, without the subject: each field that is not empty."""
    outcome = result.outcome
    sentences: dict[str, str] = {}
    match outcome:
        case Failed():
            own = "" if outcome.subject == subject_name(result.subject) else outcome.subject
            narrowed = {"about": own, "takes": _needs_text(outcome.takes)}
            narrowed |= {"permanently": _needs_text(outcome.permanent)}
            words = ["failed", *(f"{name} {text}" for name, text in narrowed.items() if text)]
            words += ["as expected"] if outcome.as_expected else []
            said = f"{outcome.seen}; expected {outcome.expected}" if outcome.expected else outcome.seen
            sentences = {"cost": outcome.cost, "advice": outcome.advice}
        case Unknown(missing):
            words, said = ["unknown"], missing_text(missing)
        case Passed(why, lacking):
            words, said = ["passed"], why
            sentences = {"lacks": "; ".join(map(missing_text, lacking))}
        case NotApplicable(why):
            words, said = ["not applicable"], why
    words.insert(1, confidence_of(node, result).value)
    rows = (f"  {name}: {text}" for name, text in sentences.items() if text)
    return "\n".join([f"{', '.join(words)}: {said}", *rows])


def _needs_text(needs: Iterable[Need] | None) -> str:
    if needs is None:
        return ""
    return " and ".join(sorted(value_text(need).replace(" | ", "'s ") for need in needs)) or "nothing"


def note_outcome(node: Node, result: CheckResult) -> None:
    """Compare what a rule says of a subject, its sentences shortened, and the first places that its evidence
    is from."""
    places = _places(node, result)
    shown = [*places[:PLACES], *([f"{len(places) - PLACES} more"] if len(places) > PLACES else [])]
    said, *sentences = outcome_text(node, result).splitlines()
    short = [textwrap.shorten(row, WIDTH // 3, placeholder="...") for row in sentences]
    head, evidence = "; ".join([said, *short]), wrapped("  from", shown)
    if len(evidence) == 1 and len(head) + len(evidence[0]) < WIDTH // 2:
        head, evidence = head + evidence[0][1:], []
    note("\n".join([head, *evidence]), result.rule.code, subject_name(result.subject))


def _places(node: Node, result: CheckResult) -> list[str]:
    """The sources that are cited with a place or a doubt; of the others only their content matters."""
    return [
        " ".join(filter(None, (source.name, source.locator, source.text, _doubt(source.confidence))))
        for source in trail_of(node, result).sources
        if source.locator or source.text not in ("", "absent")
    ]


def _doubt(confidence: Confidence) -> str:
    return "" if confidence is Confidence.CERTAIN else f"({confidence.value})"


def missing_text(missing: Missing) -> str:
    """A missing piece of evidence, and how to ask for it."""
    why = "" if missing.why is MissingReason.NOT_COLLECTED else f" ({missing.why.value})"
    kind = "" if missing.kind is QuestionKind.RUN else f"{missing.kind.value}: "
    return "; ".join(filter(None, (f"{missing.source}{why}", f"{kind}{missing.ask}", missing.note)))


def value_text(value: object) -> str:
    """A value in one row; parts of a structure and of a set in an order that never changes."""
    match value:
        case frozenset():
            return ", ".join(sorted(map(value_text, value)))
        case tuple():
            return ", ".join(map(value_text, value))
        case CheckResult(rule=rule, subject=subject):
            return f"{rule.code} {subject_name(subject)}".strip()
        case Struct():
            return " | ".join(text for part in asdict(value).values() if (text := value_text(part)))
        case enum.Enum():
            return value.name.lower()
    return str(value)


def prediction_text(found: Prediction) -> str:
    """A predicted run of modprobe in one row, with the lines that it and the kernel print."""
    lists = {"unless": found.unless, "assumes": found.assumes, "inserts": found.inserted}
    words = [
        f"exit {found.exit_code}",
        "loaded" if found.loaded else "not loaded",
        found.reason,
        found.confidence.value,
        *(f"{name} {', '.join(row)}" for name, row in lists.items() if row),
        "" if found.certain_lines is None else f"{found.certain_lines} lines certain",
        f"taints {found.tainted}" if found.tainted else "",
        "result unknown" if found.result_unknown else "",
        "built in" if found.builtin else "",
    ]
    head = ", ".join(filter(None, words))
    rows = [*found.stderr, *(f"log: {line}" for line in found.kernel_log)]
    if rows and len(head) + len(rows[0]) < WIDTH - 20:
        head += f" -- {rows.pop(0)}"
    return "\n".join([head, *(f"  {row}" for row in rows)])


def modprobe(node: Node, name: str, arguments: tuple[str, ...] = ()) -> Prediction:
    """The prediction, which is compared whole."""
    found = predicted(node, name, arguments)
    note(prediction_text(found), "modprobe", found.module)
    return found


def judged(node: Node) -> Verdict:
    """The verdict on a node, of which what was found and the states are compared."""
    verdict = judge_node(node)
    known = [finding for finding in verdict.findings if finding.status is not Status.UNKNOWN]
    for row in (*findings_text(known, said=True), *states_text(verdict)):
        note(row)
    return verdict


def _name_of(finding: Finding) -> tuple[str, str]:
    return f"{finding.status.value} {finding.code}", ", ".join((finding.subject, *finding.also))


def _sureness(finding: Finding) -> str:
    """How sure a finding is, the first pieces of its evidence, and whom it concerns."""
    shown = [*map(_evidence_text, finding.evidence[:SHOWN])]
    more = len(finding.evidence) - len(shown)
    words = [finding.confidence.value, *shown, f"{more} more" if more else ""]
    words += [f"only {', '.join(finding.programs)}" if finding.programs else ""]
    return "; ".join(filter(None, words))


def _evidence_text(evidence: Evidence) -> str:
    return " ".join(filter(None, (evidence.source, evidence.locator, evidence.text)))


def findings_text(findings: Iterable[Finding], *, said: bool = False) -> list[str]:
    """What was found, with its first evidence; what is not known, by what is missing; then the notes. What
    each says is in the snapshot of its rule, and here where it is asked for."""
    findings = tuple(findings)
    rows = []
    for finding in findings:
        if finding.status in (Status.FAILED, Status.WARNING):
            rows.append(f"{' '.join(_name_of(finding))}: {_sureness(finding)}")
            rows += [f"  {finding.seen}; expected {finding.expected}"] if said else []
    missing: dict[str, list[str]] = {}
    notes: dict[str, list[str]] = {}
    for finding in findings:
        name = " ".join((finding.code, ", ".join((finding.subject, *finding.also)))).removesuffix(" node")
        if finding.status is Status.UNKNOWN:
            seen = anywhere(finding.seen, finding.subject, "")
            missing.setdefault(f"unknown, {finding.confidence.value}, {seen}:", []).append(name)
        elif finding.status is Status.NOTE:
            notes.setdefault(f"note, {finding.confidence.value}:", []).append(name)
    for label, names in (missing | notes).items():
        rows += wrapped(label, names)
    return rows


def states_text(verdict: Verdict) -> list[str]:
    """The states below the pairs that decide them."""
    programs: dict[tuple[str, ...], dict[str, list[str]]] = {}
    for state in verdict.states:
        pairs = tuple(_by_gpu([*map(subject_name, state.pairs)]))
        programs.setdefault(pairs, {}).setdefault(_state_text(state), []).append(state.consumer)
    rows = []
    for pairs, states in programs.items():
        rows += wrapped("at", pairs or ["no pair"])
        rows += wrapped(" ", [f"{state} for {' '.join(names)}" for state, names in states.items()])
    return rows


def _state_text(state: ConsumerState) -> str:
    layer = state.first_broken_layer.value if state.first_broken_layer else ""
    fallback = f"else {state.best_fallback}" if state.best_fallback else ""
    return ", ".join(filter(None, (state.state.value, state.path or "no path", layer, fallback)))


def matrix_text(verdict: Verdict) -> list[str]:
    """Every state of every pair; pairs that share all states share a paragraph, paths and programs a row."""
    pairs: dict[tuple[str, ...], list[str]] = {}
    for pair, states in verdict.matrix.items():
        causes: dict[str, dict[str, dict[str, list[str]]]] = {}
        for state in states:
            by_path = causes.setdefault(_sure_state(state), {}).setdefault(_causes_text(state), {})
            direction = "" if state.direction == "both" else f" {state.direction}"
            by_path.setdefault(state.path + direction, []).append(state.consumer)
        rows = tuple(row for state, by_cause in causes.items() for row in _paths_text(state, by_cause))
        pairs.setdefault(rows, []).append(subject_name(pair) or "the node")
    return [row for rows, where in pairs.items() for row in (*wrapped("", _by_gpu(where)), *rows)]


def _paths_text(state: str, causes: dict[str, dict[str, list[str]]]) -> list[str]:
    items = []
    for cause, programs in causes.items():
        paths = ", ".join(f"{path} for {' '.join(names)}" for path, names in programs.items())
        items.append(f"{paths} ({cause})" if cause else paths)
    return [f"  {row}" for row in wrapped(f"{state}:", items)]


def _by_gpu(pairs: list[str]) -> list[str]:
    """Pairs with each GPU named once."""
    devices: dict[str, list[str]] = {}
    for pair in pairs:
        gpu, _, device = pair.partition(" ")
        devices.setdefault(gpu, []).append(device)
    return [" ".join((gpu, *names)) for gpu, names in devices.items()]


def _sure_state(state: PathState) -> str:
    return f"{state.state.value}, {state.confidence.value}"


def _causes_text(state: PathState) -> str:
    """What blocks a path, and the names of what is open or missing."""
    open_, missing = (sorted({row.rule.code for row in state.open}), [row.source for row in state.missing])
    parts = {"": state.codes, "open ": open_, "missing ": missing}
    return "; ".join(f"{name}{', '.join(value)}" for name, value in parts.items() if value)


def anywhere(text: str, subject: str, release: str) -> str:
    """A text without the names that differ from node to node: devices by their place in the subject, others
    unless it is a problem, and the release of the kernel."""
    for number, word in enumerate(subject.split(), 1):
        if re.search(r"\d", word):
            text = re.sub(rf"(?<![\w.:-]){re.escape(word)}(?![\w:-])", f"<subject {number}>", text)
    if not text.startswith("failed"):
        text = DEVICE.sub("<device>", text)
    return text.replace(release, "<release>") if release else text
