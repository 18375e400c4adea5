"""The three answers at the top of a report: does it work, why not, what now."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from msgspec import Struct

from gdrkit.catalogue import rule_of
from gdrkit.evidence import MissingReason
from gdrkit.formats.gpu_slot import gpu_slot
from gdrkit.programs.names import NAMES
from gdrkit.repair.platforms.change import Change
from gdrkit.repair.platforms.immutable_systems import SYSTEMS
from gdrkit.repair.platforms.means import CONTAINER
from gdrkit.report.boot_words import boot_sentence, lost_at_boot, open_at_boot, repair_before_boot
from gdrkit.report.causes import deciding, failed_all_the_same, first_cause, missing_of
from gdrkit.report.document import GpuSection, PlanStep, Report
from gdrkit.report.pages import advice, code_page
from gdrkit.report.path_words import PATH_NAMES, gain
from gdrkit.report.programs import shown_programs
from gdrkit.report.terminal import Row
from gdrkit.rules.rule import WIRE
from gdrkit.verdict.findings import Finding
from gdrkit.verdict.path_state import GOOD, State

COLLECTABLE = {MissingReason.DENIED.value, MissingReason.NOT_COLLECTED.value, MissingReason.TRUNCATED.value}
"""Reasons that a collection as root removes."""

IN_POD = "kubectl exec POD"
"""In a command that is to be run in the container of the job: its image decides, not the host."""

NEED_NO_SHELL = ("talosctl ", "kubectl ", "gdr ")
"""Commands for elsewhere, or for a container: what a Pod collects has no answer of `gdr doctor --probe`."""
BY_POD = ("talos", "bottlerocket", "cos", "rhcos")
"""Platforms whose nodes run nothing but pods."""

INDENT = 9

BELOW = "command below"
"""In words whose command follows on a line of its own, since it is longer than one."""

IGNORE = "Ignore the error of `modprobe nvidia-peermem`"
NOTHING = "is nothing to fix."
"""How the title ends where the answer is no, and nothing is to be done."""


class FirstScreen(Struct, frozen=True):
    """What a terminal and a page say first, in the same words."""

    state: State
    title: str  # what a reader needs to know if they read nothing else
    reasons: tuple[tuple[str, str], ...]  # each with its label
    now: str  # the next command, or why there is nothing to do
    ask: str = ""  # what to send to the owner of the host; "" if the reader can do all that helps


def first_screen(report: Report, target: str = "") -> FirstScreen:
    """Does it work, why not, what now. What fails for certain comes before what is not known, and where
    nothing is to be done, that comes before why the answer is no. `target` is what the commands name."""
    what_now, direct = now(report, first_cause(report), target), works(report)
    why = tuple(reasons(report))
    if (found := failed_all_the_same(report)) is not None:
        title, _, here = _plain(found).partition("; here: ")
        title = f"{title}." if here else title
        why = (*((("Found", here),) if here else ()), ("Direct", direct), *why)
        return FirstScreen(report.verdict.state, title, why, what_now, report.ask)
    if report.verdict.state is not State.IMPOSSIBLE or not what_now.startswith("Nothing:"):
        return FirstScreen(report.verdict.state, direct, why, what_now, report.ask)
    fails = report.modprobe is not None and report.modprobe.loaded is False and _has_modprobe(report)
    labelled = (("Direct", direct), *why)
    if (slow := _slows(report)) is not None:
        title = f"{IGNORE}; what is slow can be fixed." if fails else "What is slow can be fixed."
        step = naming(f"{slow.advice or advice(slow.code)} More: `gdr codes {slow.code}`", target)
        return FirstScreen(report.verdict.state, title, (*labelled, ("Slow", _plain(slow))), step)
    title = f"{f'{IGNORE}: there' if fails else 'There'} {NOTHING}"
    return FirstScreen(report.verdict.state, title, labelled, what_now)


def _slows(report: Report) -> Finding | None:
    """What makes the NIC itself slow, also through host memory, and so can be mended though no direct path
    is possible."""
    warnings = (f for f in report.findings if f.status == "warning")
    return next((f for f in warnings if WIRE in rule_of(f.code).slows), None)


def answers(report: Report, target: str = "") -> Iterator[Row]:
    """The first screen, a row for each sentence. The word of the state comes first, for scripts."""
    screen = first_screen(report, target)
    indent = max(INDENT, len(screen.state) + 2)
    yield indent, screen.state, screen.title, screen.state.upper()
    for label, why in screen.reasons:
        yield indent, "", why, label
    yield indent, "", screen.now, "Now"
    if screen.ask:
        yield indent, "", screen.ask, "Ask"


def reasons(report: Report) -> Iterator[tuple[str, str]]:
    """What is wrong, each with its label: what the next boot takes away comes before a warning."""
    after = lost_at_boot(report)
    if after is not None:
        yield "But", boot_sentence(report, after)
    label, why = reason(report)
    if why:
        yield label if after is None else "Also", why
    if words := open_at_boot(report):
        yield "Boot", words


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
        if report.verdict.state is State.UNKNOWN:
            return "Not known whether a GPU reaches a NIC directly."
        return "No GPU reaches a NIC directly."
    many = len(counted)
    direct = [gpu for gpu in counted if gpu.state in GOOD]
    unknown = [gpu for gpu in counted if gpu.state is State.UNKNOWN]
    others = [gpu for gpu in counted if gpu not in direct and gpu not in unknown]
    noun = "GPU" if many == 1 else "GPUs"
    gained = gain(report.consumers[report.verdict.consumer].path)
    verb = gained.one if many == 1 else gained.many
    if not any(gpu.device for gpu in counted):  # there may be no NIC at all
        verb = re.sub(r"\b(?:its|their) NIC\b", "a NIC", verb)
    if len(unknown) == many:
        return f"Not known for {many} of {many} {noun} whether {'it' if many == 1 else 'they'} {verb}."
    paths = " and ".join(dict.fromkeys(PATH_NAMES.get(gpu.path, gpu.path) for gpu in direct))
    parts = [f"{len(direct)} of {many} {noun} {verb}{f' over {paths}' if paths else ''}"]
    if direct and others:
        parts.append(f"{_these(report, others)} {'does' if len(others) == 1 else 'do'} not")
    if unknown:
        parts.append(f"not known for {_these(report, unknown)}")
    parts += [f"only {f.seen} are there" for f in report.findings if f.code == "expected-gpu-missing"]
    if never := [gpu for gpu in report.gpus if not gpu.counts]:
        codes = ", ".join(dict.fromkeys(code for gpu in never for code in gpu.blocked_by[:1]))
        parts.append(f"{_these(report, never)} can never do it, and {_is_are(never)} not counted [{codes}]")
    return "; ".join(parts) + "."


def _these(report: Report, some: list[GpuSection]) -> str:
    """One or two GPUs by slot, more by their number."""
    if len(some) > 2:
        return f"{len(some)} GPUs"
    return " and ".join(gpu_slot(report.gpus.index(gpu), gpu.gpu) for gpu in some)


def _is_are(some: list[GpuSection]) -> str:
    return "is" if len(some) == 1 else "are"


def _plain(finding: Finding) -> str:
    """The first sentence of the code's page, what was seen here, and the code."""
    title = code_page(finding.code)[0].removesuffix(".")
    seen = "" if finding.seen.casefold() in title.casefold() else finding.seen
    subject = "" if finding.subject in ("", "node") or finding.subject in seen else finding.subject
    here = f"; here: {': '.join(filter(None, (subject, seen)))}" if subject or seen else ""
    return f"{title}{here}. [{finding.code}]"


def _what_is_missing(report: Report) -> str:
    found = deciding(report)
    if not found:
        return "Evidence is missing."
    source, why = missing_of(found[0])
    if IN_POD in found[0].expected:
        source, why = f"{source} of the pod's image, not of the host", "not looked at"
    more = f", and {len(found) - 1} more" if len(found) > 1 else ""
    return f"What decides it is missing: {source} ({in_words(why)}){more}."


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


def one_by_one(found: list[Finding]) -> bool:
    """Whether several commands are the only way to find out: on Talos, nothing collects all at once."""
    return len(found) > 1 and any(finding.expected.startswith("talosctl ") for finding in found)


_OF_A_TARGET = (
    r"`(gdr (?:estimate|topo|doctor -v|doctor --consumer [\w-]+|fix --steps [\w,-]+|modprobe [\w-]+))`"
)
"""Commands that judge this machine unless they name another; --probe and sudo are for the machine."""


def naming(words: str, target: str) -> str:
    """Words whose commands name what was judged."""
    return re.sub(_OF_A_TARGET, lambda found: f"`{found[1]} {target}`", words) if target else words


def now(report: Report, cause: Finding | None, target: str = "") -> str:
    """The next command, or why there is nothing to do. Commands name what was judged."""
    return naming(_now(report, cause, target), target)


def _now(report: Report, cause: Finding | None, target: str) -> str:
    if (found := failed_all_the_same(report)) is not None:
        return f"{found.advice or advice(found.code)} {_find_out(report)} More: `gdr codes {found.code}`"
    if report.verdict.state is State.UNKNOWN:
        return _find_out(report)
    if (after := lost_at_boot(report)) is not None:
        return repair_before_boot(after, _for_consumer(report), target)
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
    steps = report.plan[0].steps
    if report.node.scope == "container" and not all(map(_is_of_job, steps)):
        wanted, then = " and ".join(step.remedy for step in steps), steps[-1].then.state
        return f"Ask the owner of the host for {wanted}, by the sentence below; then it is {then}."
    command = " ".join(part for part in ("gdr fix", _for_consumer(report), target) if part)
    names = " and ".join(step.remedy for step in steps)
    reboot = " (needs a reboot)" if any(step.needs_reboot for step in steps) else ""
    return f"`{command}` prints the commands for {names}{reboot}; then it is {steps[-1].then.state}."


def _is_of_job(step: PlanStep) -> bool:
    from gdrkit.repair.remedies import remedy_of

    return remedy_of(step.remedy).changes is Change.JOB


def _for_consumer(report: Report) -> str:
    """The option that names the program of the verdict, where it is not the one that comes first."""
    asked = report.verdict.consumer
    return "" if asked == NAMES[0] else f"--consumer {asked}"


def _has_modprobe(report: Report) -> bool:
    """Whether modprobe can be run there: not in a container, nor where an image decides."""
    return report.node.platform not in (CONTAINER, *(system.name for system in SYSTEMS))


def _needless_error(report: Report) -> str:
    """The error of modprobe for nvidia-peermem that does not matter: every program shown has dma-buf
    instead."""
    prediction = report.modprobe if _has_modprobe(report) else None
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
    if one_by_one(found):
        return "Run the commands below from where talosctl works: this machine has no shell."
    if len(found) == 1 and IN_POD in found[0].expected:
        return f"The {BELOW} tells whether a pod can use dma-buf: 1 or more is yes, 0 is no."
    without_shell = all(finding.expected.startswith(NEED_NO_SHELL) for finding in found)
    by_pod = report.node.platform in BY_POD and not without_shell
    if not by_pod and (len(found) == 1 or not reasons <= COLLECTABLE):
        more = "" if len(found) == 1 else "; the other commands are below"
        return f"Run `{found[0].expected}` to find out{more}."
    if report.ask and report.node.scope == "container":
        return "What is missing is on the host: ask for it by the sentence below."
    if by_pod:
        return "Run `gdr fleet doctor --kubernetes`, which collects what is missing by a Pod on the node."
    if report.node.source == "live":
        return "Run `sudo gdr doctor`: root may read what is missing."
    return (
        "Run `sudo gdr collect` on that machine, then `gdr doctor` with the file that it writes: that "
        "holds what is missing here."
    )
