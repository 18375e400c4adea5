"""Doctor on a pasted text: what it establishes, what it leaves open, what to ask next. PURE.

The same rules judge the same facts; what a paste does not show is not collected. On top come lines
that have one cause, which decide by themselves, and lines that have several, which leave all open that no
rule excludes.
"""

from __future__ import annotations

from collections.abc import Iterator

from gdrkit.evidence import Confidence, Lacks
from gdrkit.facts.modinfo_text import printed_module
from gdrkit.facts.modules import PEERMEM, canonical, is_loaded
from gdrkit.facts.transcript import Line
from gdrkit.node import Node
from gdrkit.rules import LOAD_ORDER, RULES
from gdrkit.rules.engine import judge, rulings, trail_of
from gdrkit.rules.rule import Failed, Layer, NotApplicable, Passed
from gdrkit.rules.signs import SIGNS, Sign
from gdrkit.verdict.explain_facts import contradictions, known, mentioned
from gdrkit.verdict.explain_place import TextHost, plain_subject, proofs_of
from gdrkit.verdict.explain_question import question
from gdrkit.verdict.explanation import (
    Cause,
    Established,
    Excluded,
    Explanation,
    Machine,
    OpenLine,
    Proof,
)
from gdrkit.verdict.said import Event, events, named_beside

NEEDS_ALL = frozenset(
    {"no-gpu", "no-rdma-device", "peermem-not-persistent", "shared-nic", "port-down", "mixed-signers"}
)
"""Codes that say what is not there, or count: only all of a machine tells, and a paste is a part of one."""


def explain(text: TextHost) -> Explanation:
    """What a text tells of each machine that speaks in it."""
    machines = [_machine(host) for host in text.machines()]
    suspected = mentioned(text.lines, {found.code for machine in machines for found in machine.established})
    if suspected:
        first = machines[0]
        machines[0] = Machine(
            name=first.name,
            established=first.established,
            open=(*first.open, *suspected),
            known=first.known,
            contradictions=first.contradictions,
        )
    telling = tuple(machine for machine in machines if machine.says_anything)
    return Explanation(
        machines=telling,
        question=question(telling, {line.command for line in text.lines if line.kind == "typed"}),
        lines=sum(line.kind in ("machine", "shown") for line in text.lines),
    )


def _machine(host: TextHost) -> Machine:
    node = Node(host)
    mine = host.mine
    all_events = events(mine)
    established = dict(_established_by_lines(all_events))
    for found in _established_by_rules(node, host):
        established.setdefault((found.code, canonical(found.subject)), found)
    proven = tuple(sorted(established.values(), key=_first_line))
    return Machine(
        name=host.speaker,
        established=tuple(sorted(proven, key=lambda found: _layer(found.code))),
        open=tuple(_open(node, all_events, proven)),
        known=known(node, host),
        contradictions=contradictions(node, host),
    )


# -- established ---------------------------------------------------------------------------------------


def _established_by_lines(
    all_events: tuple[Event, ...],
) -> Iterator[tuple[tuple[str, str], Established]]:
    """Lines of one meaning. Of several that say the same the first is the proof."""
    found: dict[tuple[str, str], list[Event]] = {}
    for event in all_events:
        if len(event.codes) == 1 and event.decides:
            module = event.module or (named_beside(event, all_events) if event.needs_module else "node")
            if module:
                found.setdefault((event.codes[0], module), []).append(event)
    for (code, subject), same in found.items():
        yield (
            (code, subject),
            Established(
                code=code,
                layer=_layer(code).word,
                subject=subject,
                seen=same[0].line.text.strip(),
                confidence=Confidence.CERTAIN,
                proofs=tuple(_proof(event.line) for event in same[:3]),
                blocks=_blocks(code, subject),
            ),
        )


def _established_by_rules(node: Node, host: TextHost) -> Iterator[Established]:
    """What the rules find failed, as doctor would."""
    for ruling in rulings(node, (rule for rule in RULES if rule.code not in NEEDS_ALL)):
        outcome = ruling.outcome
        if not isinstance(outcome, Failed):
            continue
        trail = trail_of(node, ruling)
        blocks = ruling.rule.blocks(ruling.subject) if outcome.blocks is None else outcome.blocks
        yield Established(
            code=ruling.rule.code,
            layer=ruling.rule.layer.word,
            subject=plain_subject(outcome.subject),
            seen=outcome.seen,
            confidence=trail.confidence,
            proofs=proofs_of(trail.sources, outcome, host),
            blocks=blocks,
        )


_BY_CODE = {rule.code: rule for rule in RULES}


def _layer(code: str) -> Layer:
    return _BY_CODE[code].layer if code in _BY_CODE else Layer.APPLICATION


def _blocks(code: str, subject: str) -> tuple[str, ...]:
    """The paths that a code stops. A rule that asks its subject is asked where it is a module's name."""
    rule = _BY_CODE.get(code)
    if rule is None:
        return ()
    try:
        return rule.blocks(subject)
    except AttributeError:  # its subjects are GPUs or NICs, and the line names none
        return ("dmabuf", "peermem")


# -- open ----------------------------------------------------------------------------------------------


def _open(node: Node, all_events: tuple[Event, ...], proven: tuple[Established, ...]) -> Iterator[OpenLine]:
    """Lines that nothing established explains, those that say the same once."""
    groups: dict[tuple[tuple[str, ...], str, bool], list[Event]] = {}
    for event in all_events:
        module = event.module or (named_beside(event, all_events) if event.needs_module else "")
        if not _explained(event, module, proven):
            groups.setdefault((event.codes, module, event.of_loader), []).append(event)
    for (_, module, _), same in groups.items():
        unnamed = same[0].needs_module and not module
        left, excluded = _left(node, same[0], module)
        yield OpenLine(
            proof=_proof(same[0].line),
            count=len(same),
            subject=module,
            causes=tuple(Cause(code, _sign(code)) for code in left),
            excluded=excluded,
            note="it names no module, and no program beside it does" if unnamed else same[0].note,
        )


def _explained(event: Event, module: str, proven: tuple[Established, ...]) -> bool:
    """Whether something established for the same module can have caused a line; or for no module at all."""
    for found in proven:
        if found.code not in event.codes:
            continue
        if not event.module and not event.needs_module:
            return True
        if _module_of(found.subject) in (module, "node", "") or not found.subject.isidentifier():
            return True
    return False


def _module_of(subject: str) -> str:
    """The module that a subject is, by its name or its file; any other subject as it is."""
    return canonical(subject.partition(".ko")[0])


def _left(node: Node, event: Event, module: str) -> tuple[tuple[str, ...], tuple[Excluded, ...]]:
    """The causes that are still open, and those that a rule, certain of it, excludes for this module.

    If all were excluded, something in the text is of another time: then none is."""
    codes, excluded = event.codes, {}
    if event.row == "hca-disabled" and _loaded_now(node, PEERMEM):
        why = "nvidia_peermem is loaded, and NCCL needs only one of the two ways"
        excluded = {code: why for code in codes if code not in ("nccl-misses-peermem", "peermem-not-loaded")}
    if module and not _loaded_now(node, module):
        for code in codes:
            why = _why_not(node, code, module)
            if why:
                excluded[code] = why
    left = tuple(code for code in codes if code not in excluded)
    if not left:
        return codes, ()
    return left, tuple(Excluded(code, why) for code, why in excluded.items())


_LOADING = {rule.code: rule for rule in LOAD_ORDER}


def _why_not(node: Node, code: str, module: str) -> str:
    """Why a cause is excluded; "" if it is not. Only a certain answer excludes."""
    if code == "module-unsigned":
        try:
            printed = printed_module(node, module)
        except Lacks:
            pass
        else:
            if printed.signed:
                return f"modinfo shows a signature, by {printed.fields.get('signer') or 'an unnamed key'}"
    rule = _LOADING.get(code)
    if rule is None:
        return ""
    outcome = judge(node, rule, module)
    if not isinstance(outcome, Passed | NotApplicable):
        return ""
    return outcome.why if node.trail(judge, rule, module).confidence is Confidence.CERTAIN else ""


def _loaded_now(node: Node, module: str) -> bool:
    """Whether the text shows the module loaded, too: at another time than it could not be."""
    try:
        return is_loaded(node, module)
    except Lacks:
        return False


def _sign(code: str) -> Sign | None:
    return next(iter(SIGNS.get(code, ())), None)


def _first_line(found: Established) -> int:
    return found.proofs[0].number if found.proofs else 0


def _proof(line: Line) -> Proof:
    return Proof(line.number, line.text.strip())
