"""What container runtimes, journals, launchers and web pages put around a line, and the line inside.

A wrapper is removed only if a program's line is inside; the lines of people stay as they are. Lines of the
kernel keep a time in one of the forms that dmesg and journalctl print by default.

Sources: journalctl(1), --output=short-full, short-unix and short-monotonic; talosctl dmesg (siderolabs/talos
cmd/talosctl/cmd/talos/dmesg.go); torchrun --tee; prterun(1), --tag-output; clush(1) and pdsh(1); stern.
"""

from __future__ import annotations

import functools
import html
import re
from collections.abc import Callable
from datetime import UTC, datetime

from msgspec import Struct

from gdrkit.explain.lines.forms import form_of
from gdrkit.explain.lines.line import is_machine
from gdrkit.explain.lines.recognition import LEVEL, is_output
from gdrkit.formats.container_log import CRI
from gdrkit.formats.log_store import logged_text
from gdrkit.formats.regex import regex
from gdrkit.messages.torch_watchdog import watchdog_record

MOST_WRAPPERS = 5
"""Wrappers around one line at most: a collector's JSON, a runtime's time, a launcher's tag, and more."""


class UnwrappedLine(Struct, frozen=True):
    """A line without its wrappers."""

    text: str
    host: str = ""  # the machine that a wrapper names


def unwrap(text: str, *, fenced: bool = False) -> UnwrappedLine:
    """The line inside all wrappers if a program printed it; else the text itself, with HTML entities and
    tags decoded."""
    plain = _without_markup(text)
    if is_machine(plain) or form_of(plain, None) is not None or watchdog_record(plain) is not None:
        return UnwrappedLine(plain)  # with the rank in front of what PyTorch prints
    inner, host = plain, ""
    for _ in range(MOST_WRAPPERS):
        unwrapped = _once(inner)
        if unwrapped is None:
            break
        inner, host = unwrapped.text, unwrapped.host or host
        if is_output(inner, fenced=fenced):
            return UnwrappedLine(inner, host)
    return UnwrappedLine(plain)


def _once(text: str) -> UnwrappedLine | None:
    """The text without its outermost wrapper; None if it has none."""
    if text.lstrip()[:1] == "{":
        logged = logged_text(text.strip())
        return None if logged is None else UnwrappedLine(logged)
    for pattern, form in _wrappers():
        found = pattern.match(text)
        if found is not None:
            values = {key: value for key, value in found.groupdict().items() if value is not None}
            return UnwrappedLine(form(values), values.get("host", ""))
    return None


def _inside(values: dict[str, str]) -> str:
    return values["rest"]


def _with_date(values: dict[str, str]) -> str:
    """As journalctl --output=short-iso prints it."""
    return f"{values['date']}T{values['clock']} {values['rest']}"


def _of_seconds(values: dict[str, str]) -> str:
    time = datetime.fromtimestamp(int(values["seconds"]), UTC)
    return f"{time:%Y-%m-%dT%H:%M:%S} {values['rest']}"


def _of_talos(values: dict[str, str]) -> str:
    return f"{values['time']} {values['host']} kernel: {values['rest']}"


_DATE = r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d [\d:]{8} \d{4}"
"""As ctime(3) prints it, and mpirun --timestamp-output before its tag."""
_REST = r"(?P<rest>\S.*)"
_PROGRAM = r"[\w.-]+ [\w.@()/-]+(?:\[\d+\])?: "
DEVICES = (
    r"(?:mlx|ib\d|eth\d|en[ops]\d|bnxt|irdma|roce|rdma|GPU ?\d|[Rr]ank ?\d|cuda|CUDA|nv|[Ss]tep|H?CA_?\d)"
)
"""What begins a name that is not a machine's, although a number and a colon follow."""
_FORMS: tuple[tuple[str, Callable[[dict[str, str]], str]], ...] = (
    (rf"{CRI}{_REST}", _inside),
    (
        r"(?P<host>[\w.:-]{1,60}): +(?:kern|user|daemon|syslog): +\w+: +"
        rf"\[(?P<time>\d{{4}}-\d\d-\d\dT[^\]]{{4,40}})\]: {_REST}",
        _of_talos,
    ),
    (
        r"[A-Z][a-z]{2} (?P<date>\d{4}-\d\d-\d\d) (?P<clock>\d\d:\d\d:\d\d(?:\.\d+)?) [A-Z]{2,5} "
        rf"(?P<rest>{_PROGRAM}.*)",
        _with_date,
    ),
    (rf"(?P<seconds>1\d{{9}})\.\d{{6}} (?P<rest>{_PROGRAM}.*)", _of_seconds),
    (rf"\[(?:default|rank)\d{{1,7}}\]:\s?{_REST}", _inside),
    (rf"(?:{_DATE})?\[[\w.@-]{{1,80}},\d{{1,7}}\]<\w+>: ?{_REST}", _inside),
    (rf"\([^()]{{0,80}}pid=\d+[^()]{{0,80}}\)\s*{_REST}", _inside),
    (rf"\[?\d{{4}}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[0-9.,:Z+-]*\]? (?:- )?{_REST}", _inside),
    (rf"\[?\d\d:\d\d:\d\d(?:[.,]\d{{1,9}})?\]?\s{{1,4}}{_REST}", _inside),
    (
        rf"{LEVEL}:?\s+(?:\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)? )?(?:\[[\w./]+:\d+\]:? )?{_REST}",
        _inside,
    ),
    (rf"{LEVEL}:[\w.]{{1,60}}:{_REST}", _inside),
    (rf"\[?(?:pod/)?[a-z0-9][\w./-]{{2,120}}(?:\[[\w-]{{1,60}}\])?\]? ?[|\u203a>\]]:? +{_REST}", _inside),
    (rf"[a-z0-9][a-z0-9.-]{{1,80}}-[a-z0-9]{{5,10}} [a-z][a-z0-9-]* {_REST}", _inside),
    (rf"(?P<host>(?!{DEVICES})[A-Za-z][\w.-]*\d[\w.-]{{0,60}}): +{_REST}", _inside),
    (rf"\s*(?:L?\d{{1,7}}\s*[:|)\]]|\d{{1,7}}\t|#\d+ \d+\.\d+)\s*{_REST}", _inside),
    (rf"[-+] ?{_REST}", _inside),
    (r"\s*\|\s*`{0,3}(?P<rest>[^|`]+?)`{0,3}\s*\|", _inside),
)
"""Each wrapper, and what to make of the line inside it: the rest, or a line with another form of time."""


@functools.cache
def _wrappers() -> tuple[tuple[re.Pattern[str], Callable[[dict[str, str]], str]], ...]:
    return tuple((re.compile(pattern + "$"), form) for pattern, form in _FORMS)


# -- markup --------------------------------------------------------------------------------------------


_MARKUP = {
    "entity": regex(r"&(?:#\d{1,6}|#x[0-9a-fA-F]{1,6}|lt|gt|amp|quot|apos|nbsp);"),
    "tag": regex(
        r"</?(?:pre|code|p|br|div|span|samp|kbd|tt|li|td|tr|font|b|strong|em)(?: [^<>]{0,200})? ?/?>"
    ),
    "colour": regex(r"(?:\^\[|\\x1b|\\u001b|\\033|\\e)\[[0-9;]{0,12}m"),
}


def _without_markup(text: str) -> str:
    """The text with HTML entities decoded, and without HTML tags and colours that are spelt out."""
    if "<" in text and _MARKUP["tag"].search(text):
        text = _MARKUP["tag"].sub("", text)
    if "&" in text and _MARKUP["entity"].search(text):
        text = html.unescape(text).replace("\u00a0", " ")
    if "[" in text and ("\\" in text or "^" in text):
        text = _MARKUP["colour"].sub("", text)
    return text
