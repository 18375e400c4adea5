"""Builds the report of `gdr fix`: plans for a node, with each step's exact commands."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from gdrkit.catalogue import consumer_of
from gdrkit.node import Node, Supposition, if_missing
from gdrkit.programs.names import NAMES
from gdrkit.repair.boot_verdict import NextBoot
from gdrkit.repair.next_boot import next_boot
from gdrkit.repair.platforms.action import (
    Action,
    AskPerson,
    EnrolKey,
    MakeKey,
    Procedure,
    RemoveFile,
    RunCommand,
    SignModules,
    WriteFile,
)
from gdrkit.repair.platforms.change import Change
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.immutable_systems import immutable
from gdrkit.repair.platforms.means import OPERATOR, can_do, means
from gdrkit.repair.platforms.procedures import procedure_for
from gdrkit.repair.remedies import remedy_of
from gdrkit.repair.remedies.loading_plan import loading_plan
from gdrkit.repair.remedies.plan import explained, plan
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.report.answers import naming, now
from gdrkit.report.build import build
from gdrkit.report.causes import deciding, first_cause
from gdrkit.report.document import InitiatedSection, Report
from gdrkit.report.fix_document import ActionSection, FixPlan, FixReport, Goal, StepSection
from gdrkit.report.here import POINTER, advice_here, ends_in_reboot
from gdrkit.report.pages import advice as page_advice
from gdrkit.report.pages import sections
from gdrkit.report.programs import about_shown, shown_programs, with_gpu_slots
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import Failed
from gdrkit.verdict import Verdict, judge_node
from gdrkit.verdict.check_results import CheckResult
from gdrkit.verdict.node_state import StepOutcome
from gdrkit.verdict.path_state import BEST_FIRST, GOOD, State

# -- what a person can do about a blocker that no step of `gdr fix` cures: cables, switches, cards --


def advice(node: Node, verdict: Verdict, consumer: str, target: str = "") -> tuple[ActionSection, ...]:
    """For a node that is blocked, and that no plan makes ready: each blocker by its code, also one with a
    remedy, with what an operator or a system that boots an image has for it. Commands name `target`.
    Promises nothing about the verdict."""
    state = verdict.of(consumer)
    if state.state is not State.BLOCKED:
        return ()
    found: list[ActionSection] = []
    for one in dict.fromkeys(result for judgement in state.judgements for result in judgement.blocked_by):
        able = tuple(_able(node, one.rule.remedies))
        words = naming(_about(node, one), target)
        if able and POINTER in words:
            words = f"{one.rule.code}: {able[0].title}"
        asked = (a for remedy in able for a in procedure_for(node, remedy, ProcedureChoices()).actions)
        offered = tuple(name for name in one.rule.remedies if can_do(node, remedy_of(name)))
        more = (_advised(node, words, offered), *(_action(a) for a in asked if isinstance(a, AskPerson)))
        found += [action for action in more if action not in found]
    return tuple(found)


def _advised(
    node: Node, words: str, remedies: tuple[RemedyName, ...], commands: tuple[str, ...] = ()
) -> ActionSection:
    return ActionSection(
        kind="ask-person", line=words, commands=commands, remedies=remedies,
        needs_reboot=ends_in_reboot(node, words, remedies),
    )  # fmt: skip


def _able(node: Node, names: Iterable[RemedyName]) -> Iterator[Remedy]:
    """The remedies that an operator or a system that boots an image carries out, and that are possible."""
    system = immutable(node)
    for remedy in map(remedy_of, names):
        way = means(node, remedy)
        by_platform = way.platform == OPERATOR or (system is not None and way.platform == system.name)
        if by_platform and not way.cannot and if_missing(None, _effect, node, remedy):
            yield remedy


def _effect(node: Node, remedy: Remedy) -> tuple[Supposition, ...]:
    """What a remedy makes true. Raises EvidenceMissing if it is not possible on this node."""
    return tuple(remedy.effect(node))


def _about(node: Node, result: CheckResult) -> str:
    given, subject = "", ""
    if isinstance(result.outcome, Failed):
        given, subject = result.outcome.advice, result.outcome.subject
    if not given:
        first, *_ = sections(result.rule)[1]["What to do"].split("\n\n")
        given = " ".join(first.split())
    return f"{result.rule.code}: {advice_here(node, result.rule.code, given, subject)}"


_REPAIRED = ("failed", "warning")
BLUE_SCREEN = "at the next boot's blue screen: Enroll MOK, Continue, Yes, the password, Reboot"


class FixOptions(Struct, frozen=True, kw_only=True):
    """What to plan, and how."""

    consumer: str = NAMES[0]
    goal: Goal = "verdict"
    steps: tuple[str, ...] = ()
    choices: ProcedureChoices = ProcedureChoices()
    target: str = ""  # what commands name; "" for this machine


def fix_report(node: Node, options: FixOptions) -> FixReport:
    """Plans that reach the goal, and further repairs. Raises ValueError for an unknown step."""
    verdict = judge_node(node, asked=options.consumer)
    chains = plan(node, verdict, options.consumer)
    shown = explained(node, verdict, options.consumer, chains)
    report = build(node, shown, options.consumer, chains=(), plans=(), prediction=None)
    plans: list[FixPlan] = []
    if options.goal == "verdict":
        for chain in chains:
            plans.append(_plan(node, report, options, [(step.remedy, step.then) for step in chain]))
    else:
        steps = _named(options.steps) if options.goal == "steps" else loading_plan(node)
        if steps:
            plans.append(_plan(node, report, options, [(step, None) for step in steps]))
    planned: set[str] = {step.remedy for plan in plans for step in plan.steps}
    boot = next_boot(node, verdict, options.consumer) if options.goal == "verdict" else None
    further = _further(node, verdict, report, options, planned, boot) if options.goal == "verdict" else ()
    without_plan = options.goal == "verdict" and not plans
    return FixReport(
        node=report.node,
        verdict=report.verdict,
        aim=options.goal,
        plans=tuple(plans),
        gains_nothing=_gains_nothing(report, options),
        ask=report.ask,
        by_hand=_by_hand(node, verdict, report, options, boot, further) if without_plan else (),
        further=further,
    )


def _by_hand(
    node: Node,
    verdict: Verdict,
    report: Report,
    options: FixOptions,
    boot: NextBoot | None,
    further: tuple[StepSection, ...],
) -> tuple[ActionSection, ...]:
    """What a person can do without a plan: of a node that is not known, what makes it known; of one that no
    step helps, whether that matters; of one that a boot blocks, what to do before it; of one that works,
    what to do about warnings that none of the `further` steps ends."""
    if boot is not None and boot.state in (State.BLOCKED, State.IMPOSSIBLE) and not boot.steps:
        before = "before the reboot, so that the next boot does not block it"
        words = f"{boot.cause}: {boot.seen}; repair that {before}"
        return (ActionSection(kind="ask-person", line=words, commands=boot.commands),)
    if report.verdict.state is State.UNKNOWN:
        shown = about_shown(report)
        words = _as_step_below(now(shown, None, options.target), further)
        below = tuple(one.expected for one in deciding(shown)) if " below" in words else ()
        found = {f.code: f.remedies for f in shown.findings if f"`gdr codes {f.code}`" in words}
        remedies = next(iter(found.values()), ())
        return (_advised(node, words, remedies, below),)
    if report.verdict.state is State.IMPOSSIBLE:
        shown = about_shown(report)
        return (ActionSection(kind="ask-person", line=now(shown, first_cause(shown), options.target)),)
    if report.verdict.state in GOOD:
        return _about_warnings(node, report, options.target, {step.remedy for step in further})
    return advice(node, verdict, options.consumer, options.target)


def _as_step_below(words: str, further: tuple[StepSection, ...]) -> str:
    """Words that name a step which is shown as well, and not the command that would show it."""
    for step in further:
        pointer = rf"Run `gdr fix --steps {step.remedy}(?: [^`]*)?`, {POINTER}[^.]*\."
        words = re.sub(pointer, f"Do {step.remedy}, as below.", words)
    return words


def _about_warnings(
    node: Node, report: Report, target: str, offered: set[RemedyName]
) -> tuple[ActionSection, ...]:
    """What the doctor says to do about warnings; not where a step is offered."""
    found: dict[str, ActionSection] = {}
    for finding in about_shown(report).findings:
        if finding.status == "warning" and not offered.intersection(finding.remedies):
            words = f"{finding.code}: {naming(finding.advice or page_advice(finding.code), target)}"
            found.setdefault(words, _advised(node, words, finding.remedies))
    return tuple(found.values())


def _gains_nothing(report: Report, options: FixOptions) -> str:
    """For steps by name, or the module, on hardware that has no direct path: what the doctor says is to be
    done now."""
    if options.goal == "verdict" or report.verdict.state is not State.IMPOSSIBLE:
        return ""
    shown = about_shown(report)
    return now(shown, first_cause(shown), options.target)


def _named(names: Iterable[str]) -> tuple[Remedy, ...]:
    return tuple(map(remedy_of, names))


def _plan(
    node: Node, report: Report, options: FixOptions, steps: Iterable[tuple[Remedy, StepOutcome | None]]
) -> FixPlan:
    """What a step asks of a person is not asked again by a later one: one resource may serve several."""
    asked: list[ActionSection] = []
    found = []
    for remedy, then in steps:
        step = _step(node, report, options, remedy, then)
        found.append(replace(step, actions=tuple(one for one in step.actions if one not in asked)))
        asked += [one for one in step.actions if one.kind == "ask-person" and one.content]
    return FixPlan(steps=tuple(found))


def _further(
    node: Node,
    verdict: Verdict,
    report: Report,
    options: FixOptions,
    planned: set[str],
    boot: NextBoot | None,
) -> tuple[StepSection, ...]:
    """Steps for failures and warnings that no plan repairs, and those that keep the node ready over the next
    boot, if they are known to do no harm by themselves; () if the node is impossible or blocked, unless a
    program goes the direct path all the same: an IOMMU that translates slows verbs where NCCL is too far."""
    names = set(boot.steps if boot is not None else ())
    for finding in report.findings:
        if finding.status in _REPAIRED:
            names.update(map(RemedyName, finding.remedies))
    names -= planned
    programs = tuple(shown_programs(report))
    direct = any(verdict.of(program).state in GOOD for program in programs)
    if report.verdict.state in ("impossible", "blocked") and not direct:
        return ()
    remedies = _offered(node, map(remedy_of, (name for name in RemedyName if name in names)))
    named = ((remedy, _step(node, report, options, remedy, None)) for remedy in remedies)
    found = []
    for remedy, step in named:
        after = if_missing(None, _after, node, remedy) if step.actions else None
        if after is not None and not _worsens(verdict, after, programs):
            found.append(replace(step, initiated=_initiated(verdict, after, programs)))
    return tuple(found)


def _offered(node: Node, remedies: Iterable[Remedy]) -> list[Remedy]:
    """Those that the platform can carry out. Beside one that gives up nvidia-peermem, none that serves it
    alone."""
    able = [remedy for remedy in remedies if can_do(node, remedy)]
    given_up = any(remedy.changes is Change.WITHOUT_PEERMEM for remedy in able)
    return [remedy for remedy in able if not given_up or remedy.paths != ("peermem",)]


def _after(node: Node, remedy: Remedy) -> Verdict:
    """The verdict after a step alone. Raises EvidenceMissing if it is not possible on this node."""
    return judge_node(node.after(remedy.name, _effect(node, remedy)))


def _worsens(verdict: Verdict, after: Verdict, programs: Iterable[str]) -> bool:
    """Whether one of the programs is worse off afterwards."""
    return any(_rank(after.of(program).state) > _rank(verdict.of(program).state) for program in programs)


def _initiated(verdict: Verdict, after: Verdict, programs: Iterable[str]) -> dict[str, InitiatedSection]:
    """Who starts the transfers of GPU kernels afterwards; none if that is as before for every program."""
    then = {name: one for name in programs if (one := after.of(name).initiated) is not None}
    if all(one == verdict.of(name).initiated for name, one in then.items()):
        return {}
    return {
        name: InitiatedSection(name=consumer_of(name).initiates, by=one.by, codes=one.codes)
        for name, one in then.items()
    }


def _rank(state: State) -> int:
    """Higher is worse; 0 for ready and seen in use alike."""
    return 0 if state in GOOD else BEST_FIRST.index(state)


def _step(
    node: Node, report: Report, options: FixOptions, remedy: Remedy, then: StepOutcome | None
) -> StepSection:
    procedure, way = procedure_for(node, remedy, options.choices), means(node, remedy)
    return StepSection(
        remedy=remedy.name,
        title=remedy.title,
        because=tuple(
            f"{finding.code}: {finding.subject}"
            for finding in with_gpu_slots(about_shown(report)).findings
            if remedy.name in finding.remedies and finding.status in (*_REPAIRED, "note")
        ),
        effect=remedy.becomes,
        risk=way.risk,
        undo=way.undo,
        platform=procedure.platform,
        needs_root=way.needs_root,
        needs_reboot=way.needs_reboot,
        never_executed=procedure.never_executed,
        by_hand=procedure.by_hand,
        actions=actions(procedure),
        then=then,
    )


def actions(procedure: Procedure) -> tuple[ActionSection, ...]:
    """What a step does, as text and commands."""
    return tuple(_action(action) for action in procedure.actions)


def _action(action: Action) -> ActionSection:
    match action:
        case WriteFile():
            return ActionSection(
                kind="write", line=f"write {action.path}", why=action.why, path=action.path,
                content=action.content,
            )  # fmt: skip
        case RemoveFile():
            return ActionSection(
                kind="remove", line=f"remove {action.path}", why=action.why, path=action.path
            )
        case RunCommand():
            return ActionSection(
                kind="run",
                line=_as_root(action.argv),
                why=action.why,
                argv=action.argv,
                undo=tuple(_as_root(argv) for argv in _inverse(action)),
                never_executed=action.never_executed,
            )
        case MakeKey():
            line = f"create a key pair: {action.key} and {posixpath.basename(action.certificate)}"
            return ActionSection(kind="make-key", line=line, why=action.why, path=action.key)
        case SignModules():
            return ActionSection(
                kind="sign", line=_signing(action), why=action.why, content="\n".join(action.paths) + "\n"
            )
        case EnrolKey():
            argv = ("mokutil", "--import", action.certificate)
            return ActionSection(
                kind="enrol-key", line=_as_root(argv), why=f"{action.why}; {BLUE_SCREEN}", argv=argv,
                undo=("sudo mokutil --revoke-import", _as_root(("mokutil", "--delete", action.certificate))),
            )  # fmt: skip
        case AskPerson():
            return ActionSection(
                kind="ask-person", line=action.what, commands=action.commands, content=action.content
            )


def _as_root(argv: tuple[str, ...]) -> str:
    """A command as a user types it: each of them changes the system."""
    return f"sudo {shlex.join(argv)}"


def _inverse(action: RunCommand) -> tuple[tuple[str, ...], ...]:
    return (action.argv,) if action.again else action.undo


def _signing(action: SignModules) -> str:
    folders = dict.fromkeys(posixpath.dirname(path) for path in action.paths)
    return f"sign {len(action.paths)} modules in {', '.join(folders)} with {action.key} ({action.digest})"
