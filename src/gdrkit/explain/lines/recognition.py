"""Whether a line was printed by a program: by its form, or because it has a message of the catalogue."""

from __future__ import annotations

from gdrkit import catalogue
from gdrkit.explain.lines.forms import form_of
from gdrkit.explain.lines.line import is_machine, is_record
from gdrkit.formats.regex import regex
from gdrkit.messages.message import MessageTemplate
from gdrkit.messages.process_ends import LAUNCHER
from gdrkit.messages.strerror import in_english
from gdrkit.messages.torch_watchdog import watchdog_record


def is_output(text: str, *, fenced: bool = False) -> bool:
    """Whether a line has the form of a program's output, or has a known message after nothing but a prefix.

    In a code block, and after the time of a log, any text may precede a message."""
    if is_machine(text) or form_of(text, None) is not None or watchdog_record(text) is not None:
        return True
    if LAUNCHER in text:
        return True
    return is_message(text, fenced=fenced or is_record(text))


def is_message(text: str, *, fenced: bool = False) -> bool:
    """Whether a line has a message of the catalogue that reports a failure, not quoted in a sentence."""
    found = catalogue.match(in_english(text))
    if found is None or not (found.causes or "error" in found.values or _fails(found.message)):
        return False
    before, _, after = in_english(text).partition(found.words)
    return fenced or (_is_prefix(before) and not _PATTERNS["talk"].match(after))


def is_unknown_output(text: str) -> bool:
    """Whether a line that gdr does not know has a form in which programs print and people do not write."""
    return _PATTERNS["unknown"].match(text) is not None


def _fails(message: MessageTemplate) -> bool:
    return message.meaning is not None and message.meaning.effect in ("failure", "follows", "aside")


MOST_WORDS = 14
"""Words that loggers print before a message at most: a date, a level, a process, a place, a function."""


def _is_prefix(text: str) -> bool:
    """Whether a text may be what a logger prints before a message: times, levels, places; no words."""
    words = text.split()
    return len(words) <= MOST_WORDS and all(_PATTERNS["prefix"].fullmatch(word) for word in words)


LEVEL = r"(?:DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|FATAL)"
_PATTERNS = {
    # A word with a sign or a digit that no sentence has, a level, or the name of a program.
    "prefix": regex(
        r"(?=\S*[\d\[\]()<>/=_|@#{}])\S{1,200}|\S*(?:Error|Exception|Warning):|[-*.,:]+|[A-Z]{3,12}:?"
        r"|(?i:error|warning|warn|info|fatal|kernel|terminate|what):?"
    ),
    # Behind a host or a rank: a logger's time or level; what Python raised, and where; a place in a source;
    # and what a program says of itself.
    "unknown": regex(
        r"\s{0,8}(?:[\w.@-]{1,80}: {1,4}|\[?\w{1,20}\]:? {0,2}){0,2}(?:"
        r"\[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d|\[?[IWEF]\d{3,8} \d\d:\d\d:\d\d"
        rf"|\[{LEVEL}\]|{LEVEL}:? +[\d-]{{5,10}} \d\d:\d\d"
        r"|Traceback \(most recent call last\)|File \"[^\"]{1,200}\", line \d"
        r"|(?:\w{1,40}\.){0,6}\w{0,40}(?:Error|Exception): "
        r"|[\w./-]{1,200}\.(?:cc|cpp|cu|c|h|py):\d)"
        r"|\s{0,8}[\w./-]{1,80}: (?:fatal |internal )?(?:error|warning): \S"
    ),
    "talk": regex(
        r"[`'\"*.,]*\s*(?:is|was|means?|errors?|messages?|appears?|comes?|in my|when I|but|and then)\b"
    ),
}
