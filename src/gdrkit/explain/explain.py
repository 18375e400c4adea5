"""Explain a pasted text: what it proves, what it leaves open, and the command to run next.

The rules of `gdr doctor` judge the facts that the text shows; everything else counts as not collected.
In addition, a log line with only one possible cause proves that cause, and a log line with several leaves
open those that no rule excludes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from gdrkit.catalogue import every_rule, rule_of
from gdrkit.evidence import Confidence
from gdrkit.explain.answer import answer
from gdrkit.explain.causes import cleared, decides, only_of_log, open_causes, shared_by_ranks
from gdrkit.explain.chains import OF_A_PEER, is_on_every_path, refuses
from gdrkit.explain.closed_paths import changeable_first, unless_contradicted
from gdrkit.explain.explanation import (
    ASKED,
    NO_ERROR,
    AnswerKind,
    EstablishedProblem,
    Explanation,
    OpenLine,
    QuotedLine,
    TextMachine,
)
from gdrkit.explain.facts import cause_of, contradictions, known
from gdrkit.explain.failing import blameless, failures, is_asked
from gdrkit.explain.lines.transcript import TextLine
from gdrkit.explain.log_events import LogEvent, events, module_named_nearby
from gdrkit.explain.logged_job import (
    JobEvidence,
    LoggedJob,
    OtherEvidence,
    Reader,
    no_log,
    owned,
    undecided,
)
from gdrkit.explain.mentions import mentioned
from gdrkit.explain.notes import NODE, notes_among
from gdrkit.explain.outputs.acs_ports import of_listed_ports
from gdrkit.explain.outputs.gpus import gpu_label
from gdrkit.explain.outputs.machines_compared import slow_machines
from gdrkit.explain.outputs.measured import RAS
from gdrkit.explain.outputs.port_rates import port_rates, rate_facts
from gdrkit.explain.outputs.text_host import TextHost, proofs_of, quote
from gdrkit.explain.peer_reads import of_completion
from gdrkit.explain.platform_advice import of_guest, of_owner, of_platform
from gdrkit.explain.port_steps import of_ports
from gdrkit.explain.question import commands_shown, question
from gdrkit.explain.ranking import Candidate, is_foreign, is_unneeded, ranked
from gdrkit.explain.selected_devices import of_selectors
from gdrkit.explain.subject import Topics, topics
from gdrkit.explain.uncoded_lines import other_line, stopped_first
from gdrkit.facts.rdma import hardware_pairs, pairs
from gdrkit.formats.module_name import canonical
from gdrkit.node import Node
from gdrkit.rules.engine import subjects_of
from gdrkit.rules.rule import Failed, Layer, Rule, Status
from gdrkit.verdict import judge_node
from gdrkit.verdict.cells import paths_closed_by
from gdrkit.verdict.check_results import check_results, trail_of

UNPROVEN = (
    AnswerKind.HARMLESS, AnswerKind.NO_PROBLEM, AnswerKind.NOTHING, AnswerKind.NO_OUTPUT, AnswerKind.WORKING
)  # fmt: skip
"""Answers that rest on lines which may be examples, or on the lack of others."""


def explain(text: TextHost, read_log: Reader = no_log) -> Explanation:
    """The explanation of a text, with a section for each machine whose output it holds. `read_log`: what
    analyses its log of NCCL."""
    about = topics(text.lines)
    judged = [_judged(host) for host in text.machines()]
    job = read_log(
        OtherEvidence(
            proven=frozenset(found.code for one in judged for found in one.beside_log),
            cleared=frozenset(code for one in judged for code in one.cleared),
        )
    )
    of_log = owned(job, [(one.host.machine, one.host.own_lines) for one in judged])
    machines = [_machine(one, about, job, lines) for one, lines in zip(judged, of_log, strict=True)]
    machines = _compared(machines, judged)
    other = other_line(text.lines, one_host=about.one_host)
    proven = {found.code for machine in machines for found in machine.established}
    suspected = mentioned(text.lines, proven)
    if suspected:
        machines[0] = replace(machines[0], open=(*machines[0].open, *suspected))
    shown = tuple(machine for machine in machines if machine.has_content)
    brought = other.brings if other is not None else ()
    failing = [
        *failures((event for one in judged for event in one.events if not _is_idle(event, about)), job),
        *(((code,), "") for code in proven if is_on_every_path(code)),
        *((line.codes, line.subject) for line in suspected if line.printed),
        *(((), "") for one in (other,) if one is not None and one.fails),
    ]
    limits = blameless(failing, text.lines, job)
    found = _without_path((one for one in ranked(shown, about, limits) if one.code not in brought), job)
    if found and found[0].code in OF_A_PEER and (first := stopped_first(text.lines, found[0].lines)):
        other, found = first, found[1:]
    answered = unless_contradicted(answer(text.lines, shown, found, about, other, job), shown)
    nodes = {one.host.machine: one.node for one in judged}
    answered = of_platform(answered, nodes.get(answered.machine, judged[0].node))
    own_nodes = [node for name, node in nodes.items() if answered.machine in ("", name)]
    answered = of_ports(answered, text.lines, own_nodes)
    for advise in (of_guest, of_listed_ports, of_owner, of_selectors, of_completion):
        answered = advise(answered, text.lines)
    by_ras = any(fact.name == RAS for machine in shown for fact in machine.known)
    examples = job is not None and job.decides_nothing and not by_ras and answered.kind in UNPROVEN
    return Explanation(
        answer=undecided() if examples else answered,
        machines=shown,
        question=question(
            shown,
            commands_shown(text.lines),
            {} if about.foreign else {one.code: one.weight for one in found},
        ),
        lines=sum(line.kind in ("machine", "shown") for line in text.lines),
    )


def _without_path(found: Iterable[Candidate], job: LoggedJob | None) -> tuple[Candidate, ...]:
    """The causes, of a job that ended by an error without those of its path, which did not end it; what can
    be changed comes first."""
    of_path = job.of_path if job is not None else frozenset()
    left = (one for one in found if not one.lines or any(line.line not in of_path for line in one.lines))
    return changeable_first(tuple(left))


def _compared(machines: list[TextMachine], judged: list[_JudgedMachine]) -> list[TextMachine]:
    """The machines with what only a comparison of them shows: ports and runs that are slower than others."""
    rates = rate_facts({one.host.machine: (one.host, port_rates(one.node, one.host)) for one in judged})
    slow = slow_machines({one.host.machine: one.host for one in judged})
    return [replace(one, known=(*one.known, *rates[one.name], *slow[one.name])) for one in machines]


class _JudgedMachine(Struct, frozen=True):
    """A machine with what the rules prove and exclude."""

    host: TextHost
    node: Node
    events: tuple[LogEvent, ...]
    by_rules: tuple[EstablishedProblem, ...]
    by_log: tuple[EstablishedProblem, ...]  # those of them that lines of NCCL alone prove
    cleared: tuple[str, ...]

    @property
    def beside_log(self) -> Iterator[EstablishedProblem]:
        """What is proven by other lines than those of a log of NCCL."""
        yield from (found for found in self.by_rules if found not in self.by_log)
        yield from _established_by_lines(self.node, tuple(one for one in self.events if not one.of_log))


def _judged(host: TextHost) -> _JudgedMachine:
    node = Node(host)
    found = tuple(_established_by_rules(node, host))
    all_events = events(host.own_lines)
    return _JudgedMachine(
        host=host,
        node=node,
        events=all_events,
        by_rules=found,
        by_log=tuple(one for one in found if one.proofs and only_of_log(one.proofs)),
        cleared=cleared(node, host, _rules(host), all_events),
    )


def _machine(
    judged: _JudgedMachine, about: Topics, job: LoggedJob | None, of_log: frozenset[int]
) -> TextMachine:
    """`of_log`: the lines of the job's log that are this machine's."""
    host, node = judged.host, judged.node
    log = JobEvidence(job, host.own_lines, of_log)
    left = (event for event in judged.events if job is None or not job.decides(event))
    both = (event for event in (*left, *log.events()) if not _is_idle(event, about))
    all_events = tuple(sorted(both, key=lambda event: event.position))
    by_rules = tuple(
        found
        for found in judged.by_rules
        if job is None or found not in judged.by_log or found.code not in job.judged
    )
    rule_codes = {found.code for found in by_rules}
    by_lines = tuple(
        found
        for found in _established_by_lines(node, all_events)
        if found.subject != NODE or found.code not in rule_codes  # a rule names the subject more precisely
    )
    proven: dict[tuple[str, str], EstablishedProblem] = {}
    by_log = tuple(log.established(matters=True))
    for found in (*by_log, *by_lines, *by_rules):
        proven.setdefault((found.code, _module_of(found.subject)), found)
    established = tuple(sorted(proven.values(), key=lambda found: (_layer(found.code), _first_line(found))))
    own = tuple(found for found in established if not is_foreign(found.code, about))
    notes = notes_among(own, node, host.own_lines, all_events, about)
    notes = tuple(found for found in notes if found not in by_log)
    return TextMachine(
        name=host.machine,
        established=tuple(found for found in own if found not in notes),
        notes=(*notes, *log.established(matters=False)),
        # a note explains no failing line: it closes one of the two direct paths alone, or none
        open=tuple(_open(node, all_events, tuple(found for found in established if found not in notes))),
        known=(*known(node, host), *log.legs()),
        cleared=(*judged.cleared, *shared_by_ranks(host.own_lines, _of_disabled(all_events))),
        contradictions=contradictions(node, host),
    )


def _of_disabled(some: Iterable[LogEvent]) -> tuple[str, ...]:
    """The possible causes of the lines by which NCCL does without GPU Direct RDMA, each once."""
    return tuple(
        dict.fromkeys(code for event in some if event.message == "hca-disabled" for code in event.codes)
    )


def _is_idle(event: LogEvent, about: Topics) -> bool:
    """Whether NCCL only mentions that it finds no network, in a job that needs none: it goes on without."""
    return "NCCL INFO" in event.line.text and is_unneeded(event.codes, about)


# -- established ---------------------------------------------------------------------------------------

NO_MODULE = "the line does not name a module, and neither does a modprobe line next to it"


def _established_by_lines(node: Node, all_events: tuple[LogEvent, ...]) -> Iterator[EstablishedProblem]:
    """Problems that single lines prove. Of several similar lines the first is the proof."""
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
            seen=same[0].note or same[0].line.text.strip(),
            confidence=Confidence.CERTAIN,
            proofs=tuple(_proof(event.line) for event in same[:3]),
            blocks=_blocks(code, subject),
        )


def _only_cause(node: Node, event: LogEvent, module: str) -> str:
    """The only cause that a line can have here; "" if several are open, or if it proves nothing.

    All causes of a kernel message are known, so one that is left after exclusion is proven. The causes of
    an error that modprobe prints are never all known."""
    if not decides(node, event):
        return ""
    if len(event.codes) == 1:
        return event.codes[0]
    open_codes = () if event.from_loader or not event.from_kernel else open_causes(node, event, module)[0]
    return open_codes[0] if len(open_codes) == 1 else ""


def _rules(host: TextHost) -> Iterator[Rule]:
    """The rules that judge a text: those about absence or a count, or about the nearest NIC of a GPU, only
    where it lists the whole machine."""
    return (rule for rule in every_rule() if host.whole or not _needs_whole(rule))


def _needs_whole(rule: Rule) -> bool:
    return rule.whole_machine or rule.per in (pairs, hardware_pairs)


def _troubles(node: Node) -> frozenset[tuple[str, str]]:
    """The codes and subjects that are more than notes of a node."""
    bad = (Status.FAILED, Status.WARNING)
    return frozenset((one.code, one.subject) for one in judge_node(node).findings if one.status in bad)


def _established_by_rules(node: Node, host: TextHost) -> Iterator[EstablishedProblem]:
    """The findings of the rules that fail, as `gdr doctor` would report them."""
    matters = _troubles(node) if host.whole else frozenset()
    for result in check_results(node, _rules(host)):
        outcome = result.outcome
        if not isinstance(outcome, Failed):
            continue
        if _needs_whole(result.rule) and (result.rule.code, outcome.subject) not in matters:
            continue
        trail = trail_of(node, result)
        proofs = proofs_of(trail.sources, host)
        if not any(source.lines for source in trail.sources):
            proofs = (*_listed(node, result.rule, outcome.subject, host), *proofs)
        yield EstablishedProblem(
            code=result.rule.code,
            layer=result.rule.layer,
            subject=gpu_label(outcome.subject),
            seen=outcome.seen,
            confidence=trail.confidence,
            proofs=proofs,
            blocks=paths_closed_by(result.takes),
        )


def _listed(node: Node, rule: Rule, subject: str, host: TextHost) -> tuple[QuotedLine, ...]:
    """The line that lists a subject of a rule, or the first one of such a list."""
    origins = [host.origin(source.name) for source in node.trail(subjects_of, rule).sources]
    numbers = [number for origin in origins if origin for number in origin.lines]
    every = quote(host, numbers)
    address = subject.removeprefix("0000:")
    return tuple(line for line in every if address and address in line.text)[:1] or every[:1]


def _layer(code: str) -> Layer:
    return rule_of(code).layer


def _blocks(code: str, subject: str) -> tuple[str, ...]:
    """The paths that a code stops for a subject that is a module."""
    return paths_closed_by(rule_of(code).takes(subject))


# -- open ----------------------------------------------------------------------------------------------


def _open(
    node: Node, all_events: tuple[LogEvent, ...], proven: tuple[EstablishedProblem, ...]
) -> Iterator[OpenLine]:
    """Lines that no established problem explains; similar lines are merged."""
    groups: dict[tuple[tuple[str, ...], str, bool, str], list[LogEvent]] = {}
    logged = _logged_causes(all_events)
    for event in all_events:
        module = event.module or (module_named_nearby(event, all_events) if event.needs_module else "")
        if not _explained(event, module, proven):
            if event.from_loader and (left := [code for code in event.codes if code in logged[module]]):
                event = replace(event, codes=tuple(left))
            groups.setdefault((event.codes, module, event.from_loader, event.note), []).append(event)
    for (_, module, _, _), same in groups.items():
        unnamed = same[0].needs_module and not module
        asked = all(is_asked(event.line) for event in same) and not same[0].is_reading
        note = ASKED if asked else same[0].note
        open_codes, ruled_out = open_causes(node, same[0], module)
        yield OpenLine(
            line=same[0].line.number,
            text=same[0].line.text.strip(),
            count=len(same),
            subject=module,
            causes=tuple(cause_of(code, module) for code in open_codes),
            ruled_out=ruled_out,
            note=NO_MODULE if unnamed else note,
            claimed=False,
            leads=same[0].leads,
        )


def _logged_causes(all_events: tuple[LogEvent, ...]) -> Mapping[str, set[str]]:
    """By module, the causes that the kernel's messages about its loading leave: the kernel printed why, and
    the loader's error is the same failure where the two have a cause in common."""
    found: dict[str, set[str]] = defaultdict(set)
    for event in all_events:
        if event.from_kernel and event.module:
            found[event.module].update(event.codes)
    return found


def _explained(event: LogEvent, module: str, proven: tuple[EstablishedProblem, ...]) -> bool:
    """Whether an established problem of the same module, or of no specific one, can have caused a line."""
    for found in proven:
        if event.note == NO_ERROR and refuses(found.code, _module_of(found.subject), event.module):
            return True
        if found.code not in event.codes:
            continue
        if not event.module and not event.needs_module:
            return True
        if _module_of(found.subject) in (module, NODE, "") or not found.subject.isidentifier():
            return True
    return False


def _module_of(subject: str) -> str:
    """The module name of a subject that is a module or its file; any other subject unchanged."""
    return canonical(subject.partition(".ko")[0])


def _first_line(found: EstablishedProblem) -> int:
    return found.proofs[0].line if found.proofs else 0


def _proof(line: TextLine) -> QuotedLine:
    return QuotedLine(line.number, line.text.strip())
