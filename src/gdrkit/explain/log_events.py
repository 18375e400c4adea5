"""Lines of a pasted text that report a failure, with their possible causes and the module that they name."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from gdrkit import catalogue
from gdrkit.catalogue import rule_of
from gdrkit.explain.device_listings import device_readings
from gdrkit.explain.explanation import WENT_ON
from gdrkit.explain.readings import readings
from gdrkit.explain.transcript import TextLine
from gdrkit.explain.unexplained import reports_failure
from gdrkit.facts.modules import PEERMEM
from gdrkit.messages import errors, kernel, registration
from gdrkit.messages.message import MessageTemplate
from gdrkit.messages.strerror import in_english

STUB = "peermem-stub"
"""By far the most frequent reason for EINVAL of nvidia_peermem: most kernels have no peer-memory API."""

NEARBY_LINES = 4
"""Distance in lines, at most, between a kernel message without a module name and the error of modprobe that
names it: a prompt, a command, and two kernel messages about taint may be between them."""


class LogEvent(Struct, frozen=True, kw_only=True):
    """A line that reports a failure."""

    line: TextLine
    position: int  # index among the lines of its machine
    codes: tuple[str, ...]
    module: str = ""  # empty if it names none
    decides: bool = True  # if it has a single possible cause, the line proves it
    from_loader: bool = False  # an error of modprobe, insmod or another loader
    from_kernel: bool = False  # a message of the kernel's module loader; all of these are in the catalogue
    needs_module: bool = False  # it is about a module, but does not name it
    leads: bool = False  # its first cause is by far the likeliest
    note: str = ""
    message: str = ""  # its name in the catalogue, if it has one
    goes_on: bool = False  # the program goes on without what it lacks


def events(lines: Iterable[TextLine]) -> tuple[LogEvent, ...]:
    """The lines of one machine that report a failure, in order."""
    own_lines = tuple(lines)
    found = [
        LogEvent(line=one.line, position=one.position, codes=one.codes, decides=one.decides, note=one.note)
        for one in (*readings(own_lines), *device_readings(own_lines))
    ]
    for position, line in enumerate(own_lines):
        if line.kind == "machine":
            event = _event(line, position)
            if event is not None:
                found.append(event)
    found = [_with_level(event) for event in found] if _sets_level(own_lines) else found
    found = [_went_on(event, own_lines) if event.goes_on else event for event in found]
    return tuple(sorted(found, key=lambda event: event.position))


LEVEL = "gdr-level-too-low"


_LEVEL_SET = re.compile(
    r"NCCL_NET_GDR_LEVEL(?: set by environment to|[\"']?\s?[=:])"
    r"(?!\W{0,3}(?:value:\s?)?\W?(?:PXB|P2C|PXN|PHB|SYS|[2-9])\b)"
)
"""A level that is set to less than NCCL's default, PXB: another one is not why a pair is refused (NCCL
src/graph/paths.cc)."""


def _sets_level(lines: tuple[TextLine, ...]) -> bool:
    """Whether the job sets NCCL_NET_GDR_LEVEL, as NCCL prints it, or a command or a person sets it; what
    a person advises is not set."""
    return any(_LEVEL_SET.search(line.text) and line.kind not in ("prose", "quoted") for line in lines)


def _with_level(event: LogEvent) -> LogEvent:
    """An event of a distance that is too far, in a job that sets the level: that is why."""
    if LEVEL not in event.codes:
        return event
    others = tuple(code for code in event.codes if code != LEVEL)
    return replace(event, codes=(LEVEL, *others), leads=True)


def _went_on(event: LogEvent, lines: tuple[TextLine, ...]) -> LogEvent:
    """An event after which the program went on, with a note if a later line reports another failure."""
    later = lines[event.position + 1 :][:MOST_LINES]
    fails = any(reports_failure(line) and event.line.text[-20:] != line.text[-20:] for line in later)
    return replace(event, note=WENT_ON) if fails else event


MOST_LINES = 2000
"""Lines that are searched for another failure."""


def _event(line: TextLine, position: int) -> LogEvent | None:
    match = catalogue.match(in_english(line.text))
    if match is None or not match.causes:
        codes = registration.causes(line.text)
        return LogEvent(line=line, position=position, codes=codes, decides=False) if codes else None
    message = match.message
    from_kernel = message.program == kernel.PROGRAM
    module = message.module or match.values.get("module", "")
    if not module and (from_kernel or message.loads):
        module = _module_in(match.values.get("file", ""), line.text)
    error = match.values.get("error")
    if error is not None:
        return _from_loader(line, position, module, error)
    if (line.cut and message.decides) or not (message.open_end or _ends_line(match.text, message)):
        return None
    return LogEvent(
        line=line,
        position=position,
        codes=_for_module(match.causes, module),
        module=module,
        decides=message.decides,
        from_loader=message.loads,
        from_kernel=from_kernel,
        leads=message.leads,
        needs_module=not module and (from_kernel or message.loads),
        message=message.name,
        goes_on=message.goes_on,
    )


def _module_in(file: str, text: str) -> str:
    """The module of a file that insmod names, or nvidia-peermem if it printed the line."""
    if file:
        return file.rpartition("/")[2].partition(".ko")[0].replace("-", "_")
    return PEERMEM if re.search(r"\bnvidia-peermem \w+:\d+ |\bnv_mem_client_init\b", text) else ""


def _from_loader(line: TextLine, position: int, module: str, error: str) -> LogEvent | None:
    """The event of a modprobe error, by its text. A truncated error can have several continuations."""
    error = error.strip().strip("`'\"").rstrip(".")
    lower = error.lower()
    whole = max(
        (known for known in errors.tool_wording() if lower.startswith(known.lower())), key=len, default=""
    )
    note = ""
    if whole and not re.match(r"\s*\w", error[len(whole) :]):
        codes = errors.causes(whole)
    elif re.fullmatch(r"Unknown error \d+", error):
        codes = errors.causes(error)
    elif error and (continuations := errors.line_starts(error)):
        codes = tuple(dict.fromkeys(code for known in continuations for code in errors.causes(known)))
        note = "the line is truncated: several errors start like this"
    else:
        return None
    return LogEvent(
        line=line,
        position=position,
        codes=_for_module(codes, module),
        module=module,
        leads=module == PEERMEM and not note and codes[0] == STUB,
        from_loader=True,
        note=note,
    )


def _for_module(codes: tuple[str, ...], module: str) -> tuple[str, ...]:
    """The codes without those that only a different module can have."""
    if not module:
        return codes
    return tuple(code for code in codes if rule_of(code).module in ("", module))


def _ends_line(text: str, message: MessageTemplate) -> bool:
    """Whether the message ends the line; if words follow, a sentence quotes it."""
    if message.template.endswith("}"):
        return True
    tail = message.template.rpartition("}")[2]
    rest = text.rpartition(tail)[2].strip(" .`'\")")
    return not re.match(r"\w", rest)


def module_named_nearby(event: LogEvent, all_events: tuple[LogEvent, ...]) -> str:
    """The module of a line that names none, if all modprobe errors near it name the same one; else "".

    One of them must have a possible cause in common with the line."""
    nearby = [
        other
        for other in all_events
        if other.from_loader and other.module and abs(other.position - event.position) <= NEARBY_LINES
    ]
    names = {other.module for other in nearby}
    fits = any(set(event.codes) & set(other.codes) for other in nearby)
    return names.pop() if len(names) == 1 and fits else ""
