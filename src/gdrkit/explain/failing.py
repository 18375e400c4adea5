"""Whether lines report a failure, or only what a machine is like."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gdrkit import catalogue
from gdrkit.catalogue import every_rule, rule_of
from gdrkit.explain.chains import fails_by
from gdrkit.explain.explanation import ASKED, FAR_AWAY, SET, STATE, WENT_ON
from gdrkit.explain.lines.blocks import command_of
from gdrkit.explain.lines.transcript import TextLine
from gdrkit.explain.log_events import LogEvent
from gdrkit.explain.logged_job import LoggedJob
from gdrkit.explain.unexplained import reports_failure
from gdrkit.formats.gpu_listing import rank_gpu_in
from gdrkit.messages import registration
from gdrkit.rules.capabilities import REGISTRATION
from gdrkit.rules.rule import ADDRESS

LOADERS = ("kernel", "modprobe", "modinfo", "insmod", "systemd", "nvidia")
"""Programs whose messages about a module do not show that anything needs it."""
ASKING = frozenset(("-n", "--dry-run", "--show", "-D", "--show-depends", "-R", "--resolve-alias"))
"""Options with which modprobe loads nothing."""


def needs_path(lines: tuple[TextLine, ...], *, peermem: bool = False) -> bool:
    """Whether a line reports a failure of a program that uses GPU memory, not only of loading a module.

    `peermem`: one that a closed peermem path alone can bring about."""
    for line in lines:
        known = catalogue.match(line.text) if line.kind in ("machine", "shown") else None
        if known is not None and known.causes:
            loads = known.message.loads or known.message.program in LOADERS
            taken = (rule_of(code).takes("") for code in known.causes)
            if not loads and any(one == (ADDRESS,) if peermem else ADDRESS in one for one in taken):
                return True
        elif known is None and line.kind == "machine" and registration.causes(line.text):
            return True
    return False


def is_asked(line: TextLine) -> bool:
    """Whether a command printed a line that only asks, and loads nothing: modinfo, `modprobe -n`.

    Source: kmod tools/modinfo.c and modprobe.c."""
    argv, _ = command_of(line.command)
    if argv[:1] == ("modprobe",):
        return not ASKING.isdisjoint(argv)
    return argv[:1] == ("modinfo",) or line.text.lstrip().startswith("modinfo:")


def fails(lines: tuple[TextLine, ...]) -> bool:
    """Whether an output reports a failure that is not one of those known to be harmless."""
    return any(reports_failure(line) and not _is_harmless(line.text) for line in lines)


def _is_harmless(text: str) -> bool:
    known = catalogue.match(text)
    meaning = known.message.meaning if known is not None else None
    return meaning is not None and meaning.effect == "harmless"


Failure = tuple[tuple[str, ...], str]
"""The possible causes of a failing line, and the module that it is about; "" if there is none."""


def failures(events: Iterable[LogEvent], job: LoggedJob | None) -> Iterator[Failure]:
    """What fails in a text. About the lines of a log of NCCL its analysis decides. The list of the GPUs of a
    job, above its log, says what they are and no more."""
    for event in events:
        of_job = job is not None and (job.decides(event) or rank_gpu_in(event.line.text) is not None)
        if not of_job and reports(event):
            yield event.codes, event.module
    for cause in job.causes if job is not None else ():
        if cause.matters and cause.note not in NO_FAILURE:
            yield cause.codes, cause.subject


NO_FAILURE = (ASKED, SET, STATE, WENT_ON)
"""Notes of lines that show an answer, a setting or a state, and report no failure."""


def reports(event: LogEvent) -> bool:
    """Whether an event is a failure, and not an answer, a setting or a state that need not matter."""
    if event.note in NO_FAILURE or event.note.startswith(FAR_AWAY):
        return False
    return event.is_reading or not is_asked(event.line)


def blameless(
    failing: Iterable[Failure], lines: tuple[TextLine, ...], job: LoggedJob | None
) -> frozenset[str]:
    """The limits of hardware by which no line of a text fails, although some do, or although its job, which
    may hang, needs no network."""
    reported = tuple(failing)
    local = job is not None and job.on_one_host
    if not reported and not local and not fails(lines):
        return frozenset()
    limits = (rule.code for rule in every_rule() if rule.permanent >= set(REGISTRATION))
    return frozenset(
        code for code in limits if not any(fails_by(code, codes, module) for codes, module in reported)
    )
