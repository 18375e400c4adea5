"""Lines of a pasted text that tell of a failure: what can cause each, and which module it names. PURE."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from gdrkit.facts.modules import PEERMEM
from gdrkit.facts.transcript import Line
from gdrkit.messages.message import Message
from gdrkit.rules import BY_CODE, program_words, words

BESIDE = 4
"""How many lines of the same machine may stand between a kernel's line that names no module and the line of
the program that tried to load one: a prompt, a command, and two lines of the kernel's about taint."""

ERRORS = (
    *words.CAUSES,
    "Invalid parameters",
    "Invalid module format",
    "Unknown symbol in module",
    "No such device",
    "No such file or directory",
    "Device or resource busy",
    "Input/output error",
    "Cannot allocate memory",
    "Function not implemented",
    "Operation not supported",
    "Protocol not supported",
    "Permission denied",
    "No such device or address",
    "File exists",
    "Connection timed out",
    "Bad address",
    "Resource temporarily unavailable",
    "Key has been revoked",
    "Key has expired",
    "Package not installed",
)
"""Errors in the words of the GNU C library, strerror(3): what a loader prints in English."""


class Event(Struct, frozen=True, kw_only=True):
    """A line that tells of a failure."""

    line: Line
    place: int  # among the lines of its machine
    codes: tuple[str, ...]
    module: str = ""  # empty where it names none
    decides: bool = True  # a single cause is proof, once the module is known
    of_loader: bool = False  # modprobe or its like, which names what it was asked for
    of_kernel: bool = False  # the kernel's loader says it, whose lines are all known
    needs_module: bool = False  # it is about a module, and does not say which
    note: str = ""
    row: str = ""  # of program_rows.py


def events(lines: Iterable[Line]) -> tuple[Event, ...]:
    """The lines of one machine that tell of a failure, in order."""
    found = []
    for place, line in enumerate(lines):
        if line.kind == "machine":
            event = _event(line, place)
            if event is not None:
                found.append(event)
    return tuple(found)


def _event(line: Line, place: int) -> Event | None:
    said = program_words.hear(line.text)
    if said is not None:
        if line.cut and said.row.decides:
            return None
        return Event(
            line=line,
            place=place,
            codes=said.row.codes,
            module=said.module,
            decides=said.row.decides,
            of_loader=said.row.of_loader,
            of_kernel=said.row.name == "old-unknown-symbol",
            row=said.row.name,
        )
    heard = words.hear(line.text)
    if heard is None or not words.codes_of(heard):
        return None
    row = heard.message
    if row.name:  # a row of its own, whose line may stand anywhere
        if line.cut and row.decides:
            return None
        return Event(
            line=line,
            place=place,
            codes=row.causes,
            module=row.module or heard.values.get("module", ""),
            decides=row.decides,
            of_loader=row.loads,
            of_kernel=row.name == "old-unknown-symbol",
            row=row.name,
        )
    module = heard.values.get("module") or _module_in(heard.values.get("file", ""), line.text)
    error = heard.values.get("error")
    if error is not None:
        return _of_loader(line, place, module, error)
    if line.cut or not _ends(line.text, heard.message):
        return None
    return Event(
        line=line,
        place=place,
        codes=_for_module(words.codes_of(heard), module),
        module=module,
        of_loader=heard.message.program == "modprobe",
        of_kernel=heard.message.program == "kernel",
        needs_module=not module,
    )


def _module_in(file: str, text: str) -> str:
    """The module of a file that insmod names, or nvidia-peermem where its own words begin the line."""
    if file:
        return file.rpartition("/")[2].partition(".ko")[0].replace("-", "_")
    return PEERMEM if re.search(r"\bnvidia-peermem \w+:\d+ |\bnv_mem_client_init\b", text) else ""


def _of_loader(line: Line, place: int, module: str, error: str) -> Event | None:
    """A loader's line, by its error. A cut one may go on in several ways; a sentence is none of them."""
    error = error.strip().strip("`'\"").rstrip(".")
    lower = error.lower()
    whole = max((known for known in ERRORS if lower.startswith(known.lower())), key=len, default="")
    note = ""
    if whole and not re.match(r"\s*\w", error[len(whole) :]):
        codes = words.causes(whole)
    elif re.fullmatch(r"Unknown error \d+", error):
        codes = words.causes(error)
    elif error and (ways := [known for known in ERRORS if known.lower().startswith(lower)]):
        codes = tuple(dict.fromkeys(code for way in ways for code in words.causes(way)))
        note = "the line is cut: the error may go on in several ways"
    else:
        return None
    return Event(
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


def _ends(text: str, row: Message) -> bool:
    """Whether nothing is said behind the kernel's words: else they stand in a sentence."""
    if row.template.endswith("}"):
        return True
    tail = row.template.rpartition("}")[2]
    behind = text.rpartition(tail)[2].strip(" .`'\")")
    return not re.match(r"\w", behind)


def named_beside(event: Event, all_events: tuple[Event, ...]) -> str:
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
