"""The answer of `gdr explain` in short: the likeliest cause, how sure, what to do, what else it could be.

One cause is named only if an output points to it: it proves the cause, or has no other one. If a line has
several causes and nothing ranks them, the answer says what failed and asks. Of a text without any output it
says which pages its words belong to, and what to paste.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from msgspec import structs

from gdrkit.catalogue import CODES, rule_of
from gdrkit.explain.beside import other_failures, shared
from gdrkit.explain.chains import BEHIND, needs_no_module
from gdrkit.explain.closed_paths import closed_paths
from gdrkit.explain.explanation import (
    ASKED,
    NO_FAILURE_SHOWN,
    STATE,
    WENT_ON,
    Answer,
    AnswerKind,
    QuotedLine,
    RankedCause,
    Sureness,
    TextMachine,
    plain,
)
from gdrkit.explain.failing import fails
from gdrkit.explain.first_steps import INTEGRATED, ON_A_SPARK, first_steps, paragraphs, with_other_path
from gdrkit.explain.healthy import healthy, of_another, rate_there, without_result, working
from gdrkit.explain.lines.recognition import is_unknown_output
from gdrkit.explain.lines.transcript import TextLine, shows_output
from gdrkit.explain.log_events import is_of_nccl
from gdrkit.explain.logged_job import LoggedJob, answer_of, inside_a_host
from gdrkit.explain.products import HARDWARE_CODES, SPARK, products
from gdrkit.explain.ranking import BY_LINE, LISTED, NOTE, OF_MEMORY, Candidate
from gdrkit.explain.subject import Topics
from gdrkit.explain.uncoded_lines import OtherLine
from gdrkit.explain.unexplained import unexplained
from gdrkit.facts.modules import PEERMEM
from gdrkit.formats.gpu_listing import rank_gpu_in
from gdrkit.messages.process_ends import is_raised
from gdrkit.report.code_search import related
from gdrkit.report.pages import code_page

NAMED = 4.0
"""Weight from which a cause is named: a line that leaves no other."""

MAX_OTHERS = 5


def answer(
    lines: tuple[TextLine, ...],
    machines: tuple[TextMachine, ...],
    found: tuple[Candidate, ...],
    about: Topics,
    other: OtherLine | None,
    job: LoggedJob | None,
) -> Answer:
    """The answer to a text, from its machines, its ranked causes, the line about something else that weighs
    most, and what its log shows."""
    of_log = answer_of(job)
    harmless = of_log is not None or fails(lines)
    failing = unexplained(lines)
    if other is not None and _leads(other, found) and not (other.harmless and harmless):
        whole = working(job, machines, failing) if other.harmless and not found else None
        return _elsewhere(other, found) if whole is None else _beside_line(whole, other)
    if found and of_log is None and _is_beside(found[0], machines, about, lines):
        return _of_hardware(found[0], machines)
    if found and found[0].printed and _is_named(found):
        rate = rate_there(machines, found[0].code) if job is None and failing is None else None
        return rate or _cause(found, machines, lines, job, about)
    if of_log is not None and not about.foreign:
        others = _others(_open_ones(found, machines), MAX_CAUSES)
        return structs.replace(of_log, others=others, now=(*of_log.now, *_on_node(others, machines)))
    if not (shows_output(lines) or any(one.printed for one in found) or any(one.known for one in machines)):
        return _unknown(lines) or _without_output(lines)
    if about.foreign:
        return of_another(machines, failing) or _foreign(about)
    works = job is not None and job.is_direct
    state = None if works or failing is not None else closed_paths(machines, lines)
    if state is not None and not (found and found[0].weight > NOTE and found[0].printed):
        return state
    stopped = not works and (failing is None or failing in found[0].lines) if found else False
    beside = bool(found) and (
        _is_listed(found[0], machines, (WENT_ON,)) or (works and _is_listed(found[0], machines))
    )
    if found and (found[0].weight > NOTE or stopped) and not beside:
        return _several(found, machines, about)
    return (
        without_result(machines, failing)
        or working(job, machines, failing)
        or healthy(machines, failing)
        or inside_a_host(job, failing)
        or (_elsewhere(other, ()) if other is not None and other.effect == "aside" else None)
        or _nothing(about, failing, () if beside else found)
    )


def _leads(other: OtherLine, found: tuple[Candidate, ...]) -> bool:
    """Whether a line about something else weighs more than every cause, or reads the same line better."""
    if not found:
        return True
    if found[0].code in other.after and found[0].printed:
        return False
    if other.weight > found[0].weight:
        return True
    same = other.line.number in {line.line for line in found[0].lines}
    return same and other.weight >= BY_LINE


GENERIC = ("memory-not-registrable", "gpu-unsupported", "init-failed", "dependency-failed")
"""Codes for failures whose reason is open: a failing line alone does not make one the answer."""


def _is_named(found: tuple[Candidate, ...]) -> bool:
    if found[0].code in GENERIC and found[0].sureness is not Sureness.CERTAIN:
        return False
    return found[0].weight >= NAMED


# -- the kinds of answers ------------------------------------------------------------------------------


def _cause(
    found: tuple[Candidate, ...],
    machines: tuple[TextMachine, ...],
    lines: tuple[TextLine, ...],
    job: LoggedJob | None,
    about: Topics,
) -> Answer:
    first = found[0]
    title, todo = code_page(first.code)
    steps = (job.steps(first.code) if job else ()) or _for_sparks(paragraphs(todo), lines)
    unexplained = tuple(islice(other_failures(found, machines), MAX_OTHERS))
    apart = {cause.code for failure in unexplained for cause in failure.causes} - shared(found, machines)
    return Answer(
        kind=AnswerKind.CAUSE,
        sentence=title,
        cause=first.code,
        subject=first.subject,
        machine=first.machine,
        sureness=first.sureness,
        claimed=first.claimed,
        lines=first.lines,
        now=with_other_path(first_steps(steps, first, machines, lines, about), first, machines),
        others=_others(
            one
            for one in _open_ones(found[1:], machines)
            if one.code not in apart and one.code not in BEHIND.get(first.code, ())
        ),
        besides=unexplained,
    )


def _for_sparks(steps: tuple[str, ...], lines: tuple[TextLine, ...]) -> tuple[str, ...]:
    """The steps of a page, with the item about DGX Sparks first where something in the text is of one, and
    nowhere else."""
    own = tuple(step for step in steps if step.startswith("- Two DGX Sparks"))
    rest = tuple(step for step in steps if step not in own)
    return (*rest[:1], *own * any(SPARK.search(line.text) for line in lines), *rest[1:])


def _is_beside(
    first: Candidate, machines: tuple[TextMachine, ...], about: Topics, lines: tuple[TextLine, ...]
) -> bool:
    """Whether hardware without a direct path is all that a text shows to be wrong, where nothing fails by it
    and the text is about something else: it has other outputs, or asks, without a word about that path. A
    list of GPUs alone asks whether they can. An integrated GPU misses nothing there, nor does a job whose
    header names a GeForce; elsewhere a GeForce is what bars the path."""
    shown = [line for machine in machines for line in machine.open if line.fails or line.printed]
    of_job = all(rank_gpu_in(proof.text) is not None for proof in first.lines)
    misses = first.code not in INTEGRATED and not of_job
    if first.claimed or shown or about.direct or misses or not needs_no_module(first.code, PEERMEM):
        return False
    numbers = {proof.line for proof in first.lines}
    listed = {line.typed_at for line in lines if line.number in numbers}
    printed = (line for line in lines if line.kind == "machine")
    others = any(line.typed_at not in listed or is_of_nccl(line.text) for line in printed)
    return others or any(line.kind == "prose" and line.text.endswith("?") for line in lines)


def _of_hardware(first: Candidate, machines: tuple[TextMachine, ...]) -> Answer:
    """The answer where nothing fails, on hardware that lacks a direct path."""
    title, todo = code_page(first.code)
    return healthy(machines, None) or plain(
        AnswerKind.NO_PROBLEM,
        f"The text shows no failure. {title}",
        machine=first.machine,
        sureness=first.sureness,
        lines=first.lines,
        now=paragraphs(todo)[:1],
    )


def _on_node(others: tuple[RankedCause, ...], machines: tuple[TextMachine, ...]) -> Iterator[str]:
    """Which of the causes of a log another machine of the text has: in a cluster, a log names its pod."""
    possible = {one.code for one in others}
    for machine in machines:
        codes = [one.code for one in (*machine.established, *machine.notes) if one.code in possible]
        if machine.name and codes and not any(is_of_nccl(line.text) for line in machine.open):
            yield f"{machine.name} has {' and '.join(codes)}: if the job ran there, begin with that."


def _open_ones(found: tuple[Candidate, ...], machines: tuple[TextMachine, ...]) -> tuple[Candidate, ...]:
    """The candidates without those that are proven: the page has them in a section of their own."""
    proven = {one.code for machine in machines for one in (*machine.established, *machine.notes)}
    return tuple(one for one in found if one.code not in proven or one.sureness is not Sureness.CERTAIN)


def _others(found: Iterable[Candidate], most: int = MAX_OTHERS) -> tuple[RankedCause, ...]:
    rest = list(found)[:most]
    return tuple(
        RankedCause(one.code, code_page(one.code)[0], one.lines[0].line if one.lines else None)
        for one in rest
    )


def _elsewhere(other: OtherLine, found: tuple[Candidate, ...]) -> Answer:
    """The meaning of a line about something else."""
    line = other.line
    if other.harmless:  # what a line without effect may have for causes is of no use
        found = tuple(one for one in found if one.lines[:1] != (_quoted(line),))
    return plain(
        AnswerKind.HARMLESS if other.harmless else AnswerKind.ELSEWHERE,
        f"{other.means}.",
        sureness=Sureness.LIKELY,
        claimed=line.kind != "machine" and not is_raised(line.text),
        lines=(_quoted(line),),
        now=(f"{other.todo}.",),
        others=_others(found),
    )


def _beside_line(whole: Answer, other: OtherLine) -> Answer:
    """The answer of a whole log, with what a line in it that looks like a failure means."""
    means = f"Line {other.line.number} is harmless: {other.means.removeprefix('This line is harmless: ')}."
    return structs.replace(whole, now=(*whole.now, means))


def _quoted(line: TextLine) -> QuotedLine:
    return QuotedLine(line.number, line.text.strip())


FAR = ("pair-cross-socket", "pair-distant")
"""Distances in a topology, which fail at nothing themselves."""


MAX_CAUSES = 9
"""Causes that are listed where nothing ranks them: those of EFAULT are nine."""


def _several(found: tuple[Candidate, ...], machines: tuple[TextMachine, ...], about: Topics) -> Answer:
    lines, now = found[0].lines[:1], with_other_path((), found[0], machines)
    between = ": it does not decide between these causes" if len(found) > 1 else ""
    shown = f"The text shows what failed, but not why{between}."
    if found[0].code in OF_MEMORY and not about.gpu:
        shown = (
            "The text shows that memory cannot be registered, but not whose memory it is: these are the"
            " causes if it is a GPU's."
        )
    if found[0].claimed and not found[0].printed:
        return _named(found[0])
    if found[0].code in FAR and _is_listed(found[0], machines):
        shown = "The text shows GPUs that are far from their NIC, but not whether that matters here."
    elif found[0].code in LISTED or _is_listed(found[0], machines, (STATE,)):
        title, todo = code_page(found[0].code)
        shown, now = f"{NO_FAILURE_SHOWN}: {title}", (f"Where that matters: {paragraphs(todo)[0]}",)
    elif _is_listed(found[0], machines, (ASKED,)):
        shown = f"{code_page(found[0].code)[0]} The text does not show whether that matters."
    return plain(
        AnswerKind.SEVERAL,
        shown,
        machine=found[0].machine,
        claimed=found[0].claimed,
        lines=lines,
        now=now,
        others=_others(found, MAX_CAUSES),
    )


def _named(first: Candidate) -> Answer:
    """A product that people name, where no output shows a failure that it may cause."""
    title, todo = code_page(first.code)
    return plain(
        AnswerKind.SEVERAL,
        f"{title} People name such a product; no output shows it, or what fails by it.",
        claimed=True,
        lines=first.lines[:1],
        now=paragraphs(todo)[:1],
    )


def _is_listed(first: Candidate, machines: tuple[TextMachine, ...], notes: tuple[str, ...] = ()) -> bool:
    """Whether a cause is a state in a listing, such as a topology, and not what a program fails at. `notes`:
    those of such lines, if not any."""
    numbers = {line.line for line in first.lines}
    lines = (line for machine in machines for line in machine.open)
    own = [line for line in lines if line.line in numbers and first.code in line.codes]
    return all(line.note in notes if notes else line.note for line in own)


def _foreign(about: Topics) -> Answer:
    return plain(
        AnswerKind.ELSEWHERE,
        f"This text is about an accelerator of {about.foreign}; gdr knows the GPUs of NVIDIA.",
    )


MAX_LINES, MAX_PAGES = 2000, 5
"""Lines whose words are looked up, and pages that are named, at most."""


def _without_output(lines: tuple[TextLine, ...]) -> Answer:
    """Where to read on, for a text of words alone: they prove nothing, whatever they say."""
    text = "\n".join(line.text for line in lines[:MAX_LINES])
    words = related(text)
    names = list(dict.fromkeys((*sorted(products(text) & HARDWARE_CODES), *words)))[:MAX_PAGES]
    belong = f" Its words belong to {', '.join(names)}: `gdr codes NAME`." if names else ""
    asks = (one.command for name in names if name in CODES for one in rule_of(name).reported_by)
    printing = (command for command in asks if "{" not in command and ", set for " not in command)
    command = next(printing, "nvidia-smi topo -m")
    on_a_spark = products(text) == INTEGRATED and PEERMEM in text.replace("-", "_")
    return plain(
        AnswerKind.NO_OUTPUT,
        f"The text shows no output of a program, so nothing in it can be judged.{belong}",
        now=(
            *(ON_A_SPARK,) * on_a_spark,
            f"Run `gdr doctor` on the machine, or paste what `{command}` prints there.",
        ),
    )


def _unknown(lines: tuple[TextLine, ...]) -> Answer | None:
    """The answer to a text whose output is none that gdr knows; None without output. Words in such lines
    lead to no page: those of a traceback are of its program, not of its cause."""
    printed = [line for line in lines[:MAX_LINES] if is_unknown_output(line.text)]
    if not printed:
        return None
    shown = (structs.replace(line, kind="shown") for line in printed if "Traceback (" not in line.text)
    failing = unexplained(shown)
    quoted = () if failing is None else (failing,)
    return plain(AnswerKind.NOTHING, "gdr knows none of the lines that programs printed here.", lines=quoted)


NO_TOPIC = "gdr recognizes nothing about RDMA or NCCL in this text, and no failure whose cause it knows."


def _nothing(about: Topics, failing: QuotedLine | None, found: tuple[Candidate, ...]) -> Answer:
    quoted = () if failing is None else (failing,)
    if not (about.rdma or about.collective):
        return plain(AnswerKind.NOTHING, NO_TOPIC, lines=quoted)
    what = "it shows no failure" if failing is None else "what fails here is none of the failures"
    return plain(
        AnswerKind.NOTHING,
        f"The text is about {_about(about)}, but {what} whose cause gdr knows.",
        lines=quoted,
        others=_others(found),
    )


def _about(about: Topics) -> str:
    if about.rdma:
        return "RDMA or GPU memory"
    return "NCCL" if about.collective else "GPUs" if about.gpu else "a driver"
