"""Lines of a pasted text that tell of a failure: what can cause each, and which module it names."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from gdrkit.explain.transcript import TextLine
from gdrkit.facts.modules import PEERMEM
from gdrkit.messages import catalogue, errors, kernel
from gdrkit.messages.message import MessageTemplate
from gdrkit.rules import BY_CODE

BESIDE = 4
"""How many lines of the same machine may stand between a kernel's line that names no module and the line of
the program that tried to load one: a prompt, a command, and two lines of the kernel's about taint."""


class LogEvent(Struct, frozen=True, kw_only=True):
    """A line that tells of a failure."""

    line: TextLine
    place: int  # among the lines of its machine
    codes: tuple[str, ...]
    module: str = ""  # empty where it names none
    decides: bool = True  # a single cause is proof, once the module is known
    of_loader: bool = False  # modprobe or its like, which names what it was asked for
    of_kernel: bool = False  # the kernel's loader says it, whose lines are all known
    needs_module: bool = False  # it is about a module, and does not say which
    note: str = ""
    row: str = ""  # its name in the catalogue, where code asks for it


def events(lines: Iterable[TextLine]) -> tuple[LogEvent, ...]:
    """The lines of one machine that tell of a failure, in order."""
    found = []
    for place, line in enumerate(lines):
        if line.kind == "machine":
            event = _event(line, place)
            if event is not None:
                found.append(event)
    return tuple(found)


def _event(line: TextLine, place: int) -> LogEvent | None:
    heard = catalogue.match(line.text)
    if heard is None or not heard.causes:
        return None
    row = heard.message
    of_kernel = row.program == kernel.PROGRAM
    module = row.module or heard.values.get("module", "")
    if not module and (of_kernel or row.loads):
        module = _module_in(heard.values.get("file", ""), line.text)
    error = heard.values.get("error")
    if error is not None:
        return _of_loader(line, place, module, error)
    if (line.cut and row.decides) or not (row.open_end or _ends(line.text, row)):
        return None
    return LogEvent(
        line=line,
        place=place,
        codes=_for_module(heard.causes, module),
        module=module,
        decides=row.decides,
        of_loader=row.loads,
        of_kernel=of_kernel,
        needs_module=not module and (of_kernel or row.loads),
        row=row.name,
    )


def _module_in(file: str, text: str) -> str:
    """The module of a file that insmod names, or nvidia-peermem where its own words begin the line."""
    if file:
        return file.rpartition("/")[2].partition(".ko")[0].replace("-", "_")
    return PEERMEM if re.search(r"\bnvidia-peermem \w+:\d+ |\bnv_mem_client_init\b", text) else ""


def _of_loader(line: TextLine, place: int, module: str, error: str) -> LogEvent | None:
    """A loader's line, by its error. A cut one may go on in several ways; a sentence is none of them."""
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
    elif error and (ways := errors.line_starts(error)):
        codes = tuple(dict.fromkeys(code for way in ways for code in errors.causes(way)))
        note = "the line is cut: the error may go on in several ways"
    else:
        return None
    return LogEvent(
        line=line,
        place=place,
        codes=_for_module(codes, module),
        module=module,
        of_loader=True,
        note=note,
    )


def _for_module(codes: tuple[str, ...], module: str) -> tuple[str, ...]:
    """Without causes that only another module than the named one can have."""
    if not module:
        return codes
    return tuple(code for code in codes if BY_CODE[code].module in ("", module))


def _ends(text: str, row: MessageTemplate) -> bool:
    """Whether nothing is said behind the kernel's words: else they stand in a sentence."""
    if row.template.endswith("}"):
        return True
    tail = row.template.rpartition("}")[2]
    behind = text.rpartition(tail)[2].strip(" .`'\")")
    return not re.match(r"\w", behind)


def module_named_nearby(event: LogEvent, all_events: tuple[LogEvent, ...]) -> str:
    """The module that a line without one is about: the only one that a loader names directly beside it.

    Together they must make sense: the loader's error can be caused by what the kernel says."""
    beside = [
        other
        for other in all_events
        if other.of_loader and other.module and abs(other.place - event.place) <= BESIDE
    ]
    names = {other.module for other in beside}
    fits = any(set(event.codes) & set(other.codes) for other in beside)
    return names.pop() if len(names) == 1 and fits else ""
