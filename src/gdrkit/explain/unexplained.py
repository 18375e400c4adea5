"""The line that shows best what failed, where no cause of it is known."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gdrkit.explain.explanation import QuotedLine
from gdrkit.explain.lines.transcript import TextLine
from gdrkit.formats.regex import regex
from gdrkit.messages.process_ends import is_raised

_FAILS = regex(
    r"\b(?:errors?|fatal|fail(?:ed|s|ure)?|undefined|unsupported|cannot|can't|could ?n[o']t|unable"
    r"|denied"
    r"|refused|rejected|not (?:found|supported|available|permitted|implemented)|no such|missing"
    r"|exception"
    r"|assert\w*|invalid|timed out|timeout|aborted|killed|traceback|segmentation fault)\b",
    re.IGNORECASE,
)
_ABILITY = regex(r"\s*(?:\w{1,12}(?:Cap|Ctl|Sta)\d?:|EmergencyPowerReduction Not)")
"""A register of a PCIe capability in lspci: it lists what a device lacks, which is not a failure. pciutils
ls-caps.c, cap_express_dev2(), goes on in a line of its own."""
_FLAGS = regex(r"(?:.{0,120}?\b\w{2,24}[+-](?=[\s,]|$)){2}")
"""Flags in lspci, set or not: `10BitTagReq- OBFF Not Supported, ExtFmt-` goes on a register's line."""
_STATES_NOTHING = regex(
    r"\s*(?:(?:#|//|;)\s|(?:[A-Z][\w/-]*+\s{0,12}+){1,12}+$|(?:X|[A-Z]{1,4}|NV#) +="
    r"|(?:export |set )?[A-Z]\w*="
    r"|(?:options|blacklist|install|alias) \w|(?:Supported|Advertised|Capabilities|Cap\w*)\b)"
    r"|\s*(?:- )?[Tt]ype: +[A-Z]\w*$"
    r"|.*: *(?:0|N/A|None|No|Not Active|Not Supported|Disabled|OK|Pass|unlimited)$"
    r"|.*#wrong\b|\| .*\| +Not Supported +\|"
)
"""Comments, titles, legends, settings, types of conditions in Kubernetes, and fields whose value says that
nothing is wrong: their words name failures without reporting any."""
_ITEM = regex(r"\s*[-*] [A-Za-z]+ [a-z]+ ")
"""An item of a list, which a person wrote in a code block."""
_GOES_ON = regex(r"NCCL (?:INFO|DIAG)\b|\bUCX  (?:DEBUG|TRACE|DIAG|INFO)\b")
"""Levels at which NCCL and UCX report what they try, and go on without: ucs/debug/log_def.h of UCX."""
_HARMLESS = regex(r"\b(?:0 errors?|no errors?|errors?[=: ]+0|without errors?)\b", re.IGNORECASE)
LINE_CHARACTERS = 600
"""How much of a line is searched for words of failure."""
MOST_LINES = 5000
"""Lines that are searched at most."""


def reports_failure(line: TextLine) -> bool:
    """Whether an output reports a failure. Programs go on after what they say at some levels."""
    if is_raised(line.text):
        return True
    if line.kind not in ("machine", "shown") or _GOES_ON.search(line.text) or _ABILITY.match(line.text):
        return False
    if _FLAGS.match(line.text) or _STATES_NOTHING.match(line.text):
        return False
    if line.kind == "shown" and _ITEM.match(line.text):
        return False
    text = line.text[:LINE_CHARACTERS]
    return _FAILS.search(text) is not None and _HARMLESS.search(text) is None


def unexplained(lines: Iterable[TextLine]) -> QuotedLine | None:
    """The first output that reports a failure; None if there is none."""
    for line, _ in zip(lines, range(MOST_LINES), strict=False):
        if reports_failure(line):
            return QuotedLine(line.number, line.text.strip())
    return None
