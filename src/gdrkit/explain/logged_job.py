"""What the NCCL log of a text shows, as evidence for its explanation.

`gdr nccl` analyses the log, once: of the lines that it reads, nothing else here decides anything. It is
given what the rest of the text proves and excludes, since the rest may decide between causes of a line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct

from gdrkit.catalogue import rule_of
from gdrkit.evidence import Confidence
from gdrkit.explain.explanation import (
    Answer,
    AnswerKind,
    EstablishedProblem,
    KnownFact,
    QuotedLine,
    Sureness,
)
from gdrkit.explain.lines.transcript import TextLine
from gdrkit.explain.log_events import LogEvent
from gdrkit.programs.nccl.log_lines import frame
from gdrkit.verdict.cells import paths_closed_by

CHANNELS = "NCCL channels"
"""The name of the fact what carries a job's traffic."""
BOTH = {"dmabuf", "peermem"}
NOT_DIRECT = ("blocked", "impossible")
DIFFERS = "env-differs-between-ranks"
MOST_STEPS = 5


class OtherEvidence(Struct, frozen=True):
    """What outputs beside a log show: the codes that they prove, and those that they exclude."""

    proven: frozenset[str]
    cleared: frozenset[str]

    def left(self, codes: tuple[str, ...]) -> tuple[str, ...]:
        """Those of the possible causes of a line that are left. One that is proven is the only one, if it
        does not close one of two closed paths alone; if all are excluded, a part of the text was printed at
        another time, and none is."""
        known = tuple(code for code in codes if code in self.proven)
        closed = {path for code in known for path in _closes(code)}
        if len(closed) == 1:
            other = BOTH - closed
            rest = tuple(code for code in codes if _closes(code) == other and code not in self.cleared)
            return rest or known
        return known or tuple(code for code in codes if code not in self.cleared) or codes


def _closes(code: str) -> set[str]:
    """Which of the two paths of NCCL's own network a code closes."""
    return BOTH & set(paths_closed_by(rule_of(code).takes("")))


class LoggedCause(Struct, frozen=True, kw_only=True):
    """The causes that a line of a log proves or leaves open."""

    line: QuotedLine
    codes: tuple[str, ...]  # the likeliest first; a proven one alone
    proven: bool = False
    matters: bool = True  # false: proven, and without effect on the path
    subject: str = ""
    seen: str = ""  # "" where the line itself is the failure
    leads: bool = False  # the first cause is by far the likeliest
    note: str = ""
    message: str = ""  # its name in the catalogue, if it has one
    todo: str = ""  # the step that this job needs


class DiagnosticsReport(Struct, frozen=True, kw_only=True):
    """What a report of NCCL's diagnostics shows."""

    summary: str
    shown: bool  # a cause, and not only what differs
    problems: bool  # anything that is wrong, or no check that was made
    todo: tuple[str, ...]


class LoggedEnd(Struct, frozen=True):
    """The error that ended a job."""

    line: QuotedLine
    words: str
    codes: tuple[str, ...]  # possible causes
    todo: str  # "" where a cause has it
    of_errors: frozenset[str]  # possible causes of all errors


class LoggedJob(Struct, frozen=True, kw_only=True):
    """What a log shows."""

    state: str  # active, blocked, impossible, unknown
    failed: bool  # a line reports a failure
    end: LoggedEnd | None  # None: no line shows that the job ended by an error
    summary: str
    causes: tuple[LoggedCause, ...]
    legs: KnownFact | None  # what carries the traffic; None if no line shows it
    legs_of_hosts: tuple[KnownFact, ...]  # the same for each host that a line names
    report: DiagnosticsReport | None
    on_one_host: bool  # all ranks, as lines prove: the job needs no network
    judged: frozenset[str]  # the codes about which the analysis decides, as rules do of a supplied log
    unread: frozenset[int] = frozenset()  # numbers of lines that may be examples, of which nothing is read

    @property
    def is_direct(self) -> bool:
        """Whether legs are shown to access GPU memory directly, and none not to; ranks may be missing."""
        return (
            self.state not in NOT_DIRECT and self.legs is not None and not self.legs.value.startswith("0 ")
        )

    @property
    def decides_nothing(self) -> bool:
        """Whether all lines may be examples."""
        decided = self.state != "unknown" or self.causes or self.failed or self.report
        return bool(self.unread) and not decided

    def steps(self, code: str) -> tuple[str, ...]:
        """What to do about a cause in this job: if settings differ, about each of them; () if its page says
        it."""
        some = (one.todo for one in self.causes if one.todo and (code in one.codes or code == DIFFERS))
        steps = "; ".join(dict.fromkeys(some))
        return (f"{steps[0].upper()}{steps[1:]}.",) if steps else ()

    @property
    def of_path(self) -> frozenset[int]:
        """The lines that only show why the path is not direct, where the job ended by an error."""
        if self.end is None:
            return frozenset()
        errors = self.end.of_errors
        return frozenset(one.line.line for one in self.causes if errors.isdisjoint(one.codes))

    def decides(self, event: LogEvent) -> bool:
        """Whether the analysis of the log decides about a line."""
        return event.of_log and event.line.number not in self.unread


Reader = Callable[[OtherEvidence], LoggedJob | None]
"""Reads the log of a text, with what the rest of the text shows. None: it has no log."""


def no_log(_: OtherEvidence) -> None:
    """The reader of a text without a log."""


def owned(job: LoggedJob | None, machines: Sequence[tuple[str, Sequence[TextLine]]]) -> list[frozenset[int]]:
    """The lines of a log's causes and legs that belong to each of the machines: names, and lines.

    A long text is not read whole: a line that no machine has belongs to the host that it names."""
    if job is None:
        return [frozenset() for _ in machines]
    own = {line.number: index for index, (_, lines) in enumerate(machines) for line in lines}
    names = {name: index for index, (name, _) in enumerate(machines) if name}
    legs = (QuotedLine(fact.line or 0, fact.text) for fact in job.legs_of_hosts)
    found: list[set[int]] = [set() for _ in machines]
    for proof in (*(cause.line for cause in job.causes), *legs):
        found[own.get(proof.line, names.get(_host(proof.text), 0))].add(proof.line)
    return [frozenset(lines) for lines in found]


def _host(text: str) -> str:
    """The host that the beginning of a line names, without its domain."""
    host = frame(text).process.rpartition(":")[0]
    return host if host.replace(".", "").isdigit() else host.partition(".")[0]


class JobEvidence:
    """The part of a job's causes that the lines of one machine show."""

    def __init__(self, job: LoggedJob | None, lines: Iterable[TextLine], own: frozenset[int]) -> None:
        """`own`: the lines of the job that are this machine's."""
        self.job, self._lines = job, own
        self._positions = {line.number: (index, line) for index, line in enumerate(lines)}

    def established(self, *, matters: bool) -> Iterator[EstablishedProblem]:
        """The problems that the log proves."""
        for cause in self._own():
            if cause.proven and cause.matters == matters:
                (code,) = cause.codes
                yield EstablishedProblem(
                    code=code, layer=rule_of(code).layer, subject=cause.subject or "node",
                    seen=cause.seen or cause.line.text, confidence=Confidence.CERTAIN, proofs=(cause.line,),
                    blocks=paths_closed_by(rule_of(code).takes(cause.subject)) if matters else (),
                )  # fmt: skip

    def events(self) -> Iterator[LogEvent]:
        """The lines whose cause the log leaves open."""
        for cause in self._own():
            if not cause.proven:
                number, text = cause.line.line, cause.line.text
                position, line = self._positions.get(number, (0, TextLine(number, text, "machine")))
                yield LogEvent(
                    line=line, position=position, codes=cause.codes, decides=False, leads=cause.leads,
                    note=cause.note, message=cause.message,
                )  # fmt: skip

    def legs(self) -> Iterator[KnownFact]:
        """What carries the traffic of this machine, if a line shows it."""
        yield from (one for one in (self.job.legs_of_hosts if self.job else ()) if one.line in self._lines)

    def _own(self) -> Iterator[LoggedCause]:
        return (one for one in (self.job.causes if self.job else ()) if one.line.line in self._lines)


# -- the answer ------------------------------------------------------------------------------------------


def answer_of(job: LoggedJob | None) -> Answer | None:
    """What the log shows where no single cause leads, without the causes; None if it decides nothing."""
    if job is None:
        return None
    if job.state in NOT_DIRECT or job.failed:
        blocked = "NCCL does not access GPU memory directly, at least in part"
        if job.end is not None:  # whatever the path: a job may be meant to do without GPUDirect RDMA
            return _of_end(job.end)
        first = next((one.line for one in job.causes if one.matters), None)
        return _answer(
            AnswerKind.SEVERAL,
            f"{blocked if job.state in NOT_DIRECT else 'The job fails'}: {job.summary.removesuffix('.')}.",
            Sureness.CERTAIN, lines=() if first is None else (first,),
        )  # fmt: skip
    report = job.report
    if job.state == "active" or report is None:
        return None
    return _answer(
        AnswerKind.SEVERAL if report.problems else AnswerKind.NOTHING,
        f"NCCL's {report.summary}.",
        Sureness.CERTAIN if report.shown else Sureness.POSSIBLE,
        now=report.todo[:MOST_STEPS],
    )  # fmt: skip


def _of_end(end: LoggedEnd) -> Answer:
    """The error that ended a job; one without a code has no causes to choose from."""
    words = end.words.removesuffix(".")
    if end.codes:
        sentence = f"The job ended in an error: {words}."
        return _answer(AnswerKind.SEVERAL, sentence, Sureness.CERTAIN, lines=(end.line,))
    now = (f"{end.todo.removesuffix('.')}.",) if end.todo else ()
    sentence = f"{words[:1].upper()}{words[1:]}."
    return _answer(AnswerKind.ELSEWHERE, sentence, Sureness.LIKELY, lines=(end.line,), now=now)


READY_FOR_MORE = "`gdr doctor` on the host says whether it is ready for a job over a network."


def inside_a_host(job: LoggedJob | None, failing: QuotedLine | None) -> Answer | None:
    """That a job without a failure is on one host, and what carries its traffic; None for any other."""
    if job is None or failing is not None or not job.on_one_host:
        return None
    sentence = f"The log shows no failure: {job.summary}."
    return _answer(AnswerKind.NO_PROBLEM, sentence, Sureness.CERTAIN, now=(READY_FOR_MORE,))


def undecided() -> Answer:
    """That lines of NCCL name no process, in a text that people wrote."""
    return _answer(
        AnswerKind.NOTHING,
        "The text has lines of NCCL without the process that printed them: they may be examples, so"
        " they prove nothing.",
        Sureness.POSSIBLE,
        now=("Give gdr nccl the log itself, with host and process in front of each line.",),
    )


def _answer(
    kind: AnswerKind, sentence: str, sureness: Sureness, *, lines: tuple[QuotedLine, ...] = (),
    now: tuple[str, ...] = (),
) -> Answer:  # fmt: skip
    return Answer(
        kind=kind, sentence=sentence, cause=None, subject="", machine="", sureness=sureness, claimed=False,
        lines=lines, now=now, others=(), besides=(),
    )  # fmt: skip
