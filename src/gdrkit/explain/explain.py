"""Doctor on a pasted text: what it establishes, what it leaves open, what to ask next.

The same rules judge the same facts; what a paste does not show is not collected. On top come lines
that have one cause, which decide by themselves, and lines that have several, which leave all open that no
rule excludes.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from gdrkit.consumers.table import paths_of
from gdrkit.evidence import Confidence
from gdrkit.explain.causes import decides, open_causes
from gdrkit.explain.explanation import EstablishedProblem, Explanation, OpenLine, QuotedLine, TextMachine
from gdrkit.explain.facts import cause_of, contradictions, known, mentioned
from gdrkit.explain.gpus import gpu_word
from gdrkit.explain.log_events import LogEvent, events, module_named_nearby
from gdrkit.explain.question import question
from gdrkit.explain.text_host import TextHost, proofs_of
from gdrkit.explain.transcript import TextLine
from gdrkit.formats.module_name import canonical
from gdrkit.node import Node
from gdrkit.rules import BY_CODE, RULES
from gdrkit.rules.engine import check_results, subjects_of, trail_of
from gdrkit.rules.rule import Failed, Layer
from gdrkit.verdict.path_state import applies_to


def explain(text: TextHost) -> Explanation:
    """What a text tells of each machine that speaks in it."""
    machines = [_machine(host) for host in text.machines()]
    suspected = mentioned(text.lines, {found.code for machine in machines for found in machine.established})
    if suspected:
        machines[0] = replace(machines[0], open=(*machines[0].open, *suspected))
    telling = tuple(machine for machine in machines if machine.says_anything)
    return Explanation(
        machines=telling,
        question=question(telling, {line.command for line in text.lines if line.kind == "typed"}),
        lines=sum(line.kind in ("machine", "shown") for line in text.lines),
    )


def _machine(host: TextHost) -> TextMachine:
    node = Node(host)
    all_events = events(host.mine)
    by_rules = tuple(_established_by_rules(node, host))
    ruled = {found.code for found in by_rules}
    by_lines = tuple(
        found
        for found in _established_by_lines(node, all_events)
        if found.subject != NODE or found.code not in ruled  # the rule's subject says more
    )
    proven: dict[tuple[str, str], EstablishedProblem] = {}
    for found in (*by_lines, *by_rules):
        proven.setdefault((found.code, _module_of(found.subject)), found)
    established = tuple(sorted(proven.values(), key=lambda found: (_layer(found.code), _first_line(found))))
    return TextMachine(
        name=host.speaker,
        established=established,
        open=tuple(_open(node, all_events, established)),
        known=known(node, host),
        contradictions=contradictions(node, host),
    )


# -- established ---------------------------------------------------------------------------------------

NODE = "node"
"""The subject of what concerns no module, GPU or NIC in particular."""


def _established_by_lines(node: Node, all_events: tuple[LogEvent, ...]) -> Iterator[EstablishedProblem]:
    """Lines of one meaning. Of several that say the same the first is the proof."""
    found: dict[tuple[str, str], list[LogEvent]] = {}
    for event in all_events:
        module = event.module or (module_named_nearby(event, all_events) if event.needs_module else NODE)
        code = _only_cause(node, event, module)
        if module and code:
            found.setdefault((code, module), []).append(event)
    for (code, subject), same in found.items():
        yield EstablishedProblem(
            code=code,
            layer=_layer(code),
            subject=subject,
            seen=same[0].line.text.strip(),
            confidence=Confidence.CERTAIN,
            proofs=tuple(_proof(event.line) for event in same[:3]),
            blocks=_blocks(code, subject),
        )


def _only_cause(node: Node, event: LogEvent, module: str) -> str:
    """The one cause that a line can have here; "" if several are open, or it proves nothing.

    The causes of a line of the kernel's are all known; those of a loader's error never are."""
    if not decides(node, event):
        return ""
    if len(event.codes) == 1:
        return event.codes[0]
    open_codes = () if event.of_loader or not event.of_kernel else open_causes(node, event, module)[0]
    return open_codes[0] if len(open_codes) == 1 else ""


def _established_by_rules(node: Node, host: TextHost) -> Iterator[EstablishedProblem]:
    """What the rules find failed, as doctor would."""
    for ruling in check_results(node, (rule for rule in RULES if not rule.whole_machine)):
        outcome = ruling.outcome
        if not isinstance(outcome, Failed):
            continue
        trail = trail_of(node, ruling)
        found = proofs_of(trail.sources, host)
        yield EstablishedProblem(
            code=ruling.rule.code,
            layer=ruling.rule.layer,
            subject=gpu_word(outcome.subject),
            seen=outcome.seen,
            confidence=trail.confidence,
            proofs=found or proofs_of(node.trail(subjects_of, ruling.rule).sources, host),
            blocks=paths_of(applies_to(ruling)),
        )


def _layer(code: str) -> Layer:
    return BY_CODE[code].layer


def _blocks(code: str, subject: str) -> tuple[str, ...]:
    """The paths that a code stops. A rule that asks its subject is asked where it is a module's name."""
    try:
        return paths_of(BY_CODE[code].takes(subject))
    except AttributeError:  # its subjects are GPUs or NICs, and the line names none
        return ("dmabuf", "peermem")


# -- open ----------------------------------------------------------------------------------------------


def _open(
    node: Node, all_events: tuple[LogEvent, ...], proven: tuple[EstablishedProblem, ...]
) -> Iterator[OpenLine]:
    """Lines that nothing established explains, those that say the same once."""
    groups: dict[tuple[tuple[str, ...], str, bool], list[LogEvent]] = {}
    for event in all_events:
        module = event.module or (module_named_nearby(event, all_events) if event.needs_module else "")
        if not _explained(event, module, proven):
            groups.setdefault((event.codes, module, event.of_loader), []).append(event)
    for (_, module, _), same in groups.items():
        unnamed = same[0].needs_module and not module
        open_codes, ruled_out = open_causes(node, same[0], module)
        yield OpenLine(
            line=same[0].line.number,
            text=same[0].line.text.strip(),
            count=len(same),
            subject=module,
            causes=tuple(cause_of(code, module) for code in open_codes),
            ruled_out=ruled_out,
            note="it names no module, and no program beside it does" if unnamed else same[0].note,
            claimed=False,
        )


def _explained(event: LogEvent, module: str, proven: tuple[EstablishedProblem, ...]) -> bool:
    """Whether something established for the same module can have caused a line; or for no module at all."""
    for found in proven:
        if found.code not in event.codes:
            continue
        if not event.module and not event.needs_module:
            return True
        if _module_of(found.subject) in (module, NODE, "") or not found.subject.isidentifier():
            return True
    return False


def _module_of(subject: str) -> str:
    """The module that a subject is, by its name or its file; any other subject as it is."""
    return canonical(subject.partition(".ko")[0])


def _first_line(found: EstablishedProblem) -> int:
    return found.proofs[0].line if found.proofs else 0


def _proof(line: TextLine) -> QuotedLine:
    return QuotedLine(line.number, line.text.strip())
