"""The sentences that people wrote in a pasted text, each with its line and its place.

Outputs, commands and code blocks are left out. A paragraph that is wrapped over several lines is joined
first, so that a sentence is searched as a whole. Quoted lines of a post count as sentences too.
"""

from __future__ import annotations

import enum
import functools
import itertools
import re
from collections.abc import Iterable, Iterator

from msgspec import Struct

from gdrkit.explain.attribution import is_byline, is_page_header
from gdrkit.explain.lines import is_command, is_machine
from gdrkit.explain.transcript import TextLine
from gdrkit.formats.sentences import is_sentence

MAX_SENTENCES, MAX_CHARACTERS = 400, 500
"""Sentences that are read, and the length at which one is cut. A report of a problem is shorter."""


class Place(enum.StrEnum):
    """Where in a text a sentence stands."""

    TITLE = "title"  # the first line
    HEADING = "heading"
    BODY = "body"


class Sentence(Struct, frozen=True):
    """One sentence of a person."""

    line: int  # of its first word
    text: str
    place: Place
    paragraph: int  # sentences of one paragraph have the same number
    host: str = ""  # the machine that the headings above it name
    post: int = 0  # of a thread, by its bylines; 0 if it has none


def sentences(lines: Iterable[TextLine]) -> tuple[Sentence, ...]:
    """The sentences of a text, in order."""
    found = []
    for sentence in _all(_without_page_header(tuple(lines))):
        found.append(sentence)
        if len(found) == MAX_SENTENCES:
            break
    return tuple(found)


def _without_page_header(lines: tuple[TextLine, ...]) -> tuple[TextLine, ...]:
    """The lines from the title on, where the page says above it of which repository it is."""
    return tuple(itertools.dropwhile(lambda line: is_page_header(line.text), lines))


def _all(lines: tuple[TextLine, ...]) -> Iterator[Sentence]:
    post = 0
    for number, paragraph in enumerate(_paragraphs(lines)):
        first = paragraph[0]
        if len(paragraph) == 1 and is_byline(first.text):
            post += 1
            continue
        place = Place.BODY
        if first is lines[0]:
            place = Place.TITLE
        elif len(paragraph) == 1 and _compiled("heading").match(first.text):
            place = Place.HEADING
        for line, text in _split(paragraph):
            if text.endswith(":") and text in paragraph[-1].text:
                text += _commands_after(lines, paragraph[-1].number)
            yield Sentence(line.number, text[:MAX_CHARACTERS], place, number, line.host, post)
            if place is Place.TITLE:
                place = Place.BODY  # the text has no title: only its first sentence counts as one


def _commands_after(lines: tuple[TextLine, ...], number: int) -> str:
    """The commands that a line with a colon at its end introduces: "I solved it by running:"."""
    near = (line for line in lines if number < line.number <= number + MOST_BETWEEN)
    found = []
    for line in near:
        if line.kind == "typed" or (line.kind != "prose" and is_command(line.text)):
            found.append(line.text.strip())
        elif line.kind == "prose":
            break
    return "".join(f" `{command}`" for command in found[:MOST_COMMANDS])


MOST_COMMANDS, MOST_BETWEEN = 3, 8
"""Commands that a sentence introduces, and lines between it and the last of them, at most."""


def _paragraphs(lines: tuple[TextLine, ...]) -> Iterator[list[TextLine]]:
    """Lines of people that belong together: adjacent, and none of them starts a list item or a heading."""
    current: list[TextLine] = []
    for line in lines:
        if not _is_written(line):
            if current:
                yield current
            current = []
            continue
        adjacent = bool(current) and line.number == current[-1].number + 1 and line.kind == current[-1].kind
        adjacent = adjacent and len(current) < MAX_WRAPPED
        if not adjacent or _compiled("item").match(line.text) or _ends_alone(current[-1].text):
            if current:
                yield current
            current = []
        current.append(line)
    if current:
        yield current


def _is_written(line: TextLine) -> bool:
    """Whether a person wrote a line: prose or a quotation, not a log line that no program is known for.

    A sentence right after a command looks like its output, unless it has the form of a sentence."""
    if is_logged(line.text) or any(_compiled(name).match(line.text) for name in ("code", "prompt")):
        return False
    if line.kind == "machine":
        introduces = line.text.rstrip().endswith((":", ".")) and not line.text.startswith(("/", "-"))
        if len(line.text.split()) < MIN_WORDS:
            return False
        ends = line.text.rstrip().endswith((".", "?", "!"))
        return (ends or not is_machine(line.text)) and (introduces or is_sentence(line.text))
    return line.kind in ("prose", "quoted")


def is_logged(text: str) -> bool:
    """Whether a line begins as those of a log do."""
    return _compiled("logged").match(text) is not None


MIN_WORDS = 5
"""Words of a sentence among lines of output, at least."""


def _ends_alone(text: str) -> bool:
    """Whether a line is too short to be wrapped, or a heading: the next line starts anew."""
    return len(text) < MIN_WRAPPED or text.lstrip().startswith("#")


MAX_WRAPPED = 60
"""Lines of a paragraph at most."""
MIN_WRAPPED = 45
"""Length of the shortest line that an editor wraps; a shorter one ends where its writer ended it."""


def _split(paragraph: list[TextLine]) -> Iterator[tuple[TextLine, str]]:
    """The sentences of a paragraph, each with the line on which it starts."""
    text, starts = "", []
    for line in paragraph:
        starts.append((len(text), line))
        text += line.text.strip() + " "
    at = 0
    for end in (*(found.end() for found in _compiled("end").finditer(text)), len(text)):
        words = _compiled("addressed").sub("", text[at:end].strip(), count=1)
        if words:
            yield next(line for start, line in reversed(starts) if start <= at), words
        at = end


@functools.cache
def _compiled(name: str) -> re.Pattern[str]:
    return re.compile(_PATTERNS[name])


_PATTERNS = {
    "item": r"\s*(?:[-*+\u2022|]|#{1,6}|\d{1,2}[.)])\s",
    "heading": r"\s*#{1,6}\s|\*\*[^*]+\*\*:?\s*$|[^.?!:\u3002]{1,40}:\s*$"
    r"|[A-Z][a-z'-]+(?: (?:[A-Z][a-z'-]+|of|the|and|to|for|in)){1,4}\s*$|[^\x00-\x7f]{2,12}$",
    "code": (
        r"\s*(?:echo|logger|printf|elif|import|static|#include|#define) \S|\s*(?:fi|done|then|else)\s*$"
        r"|\s*(?:if \[|for \w+ in |while \[|def \w+\(|class \w+[(:]|from \S+ import |return [\w(]+;)"
    ),
    # time stamps of glog, PyTorch, vLLM, ISO, the kernel and syslog; mpirun --tag-output; NCCL's prefix
    "logged": (
        r"\s*(?:(?:\[\w{1,20}\d{1,6}\]: ?)?\[?[IWEF]\d{4} [\d:]{8}|\[rank\d{1,6}\]:"
        r"|(?:DEBUG|INFO|WARNING|ERROR) \d\d-\d\d [\d:]{8} "
        r"|\[?\d{4}-\d\d-\d\d[T ]\d\d:|\[ *\d+\.\d+\]|\[\d+,\d+\]<"
        r"|[A-Z][a-z]{2} [ \d]\d [\d:]{8} |[\w.<>-]{1,60}:\d+:\d+ \[-?\d+\] "
        r"|[^\W\d]{0,9}\d{0,2}[^\W\d]{0,9}\.? ?\d{1,2} [\d:]{8} [\w.-]{1,60} [\w.@()/-]{1,60}(?:\[\d+\])?: )"
    ),
    "prompt": r"\s*(?:\([\w.-]+\)\s*)?\[?[\w.-]{1,40}@[\w.-]{1,60}[: ][^\s$#]{0,160}\]?[$#] ",
    # of whom a reply is for: no word of what it says
    "addressed": r"^(?:(?:[Hh]i|[Hh]ello|[Hh]ey),? )?(?:@[\w-]{1,40}[,:]?\s{1,4})+(?=\S)",
    # Not after a single letter or a number ("e.g. this", "version 2. 1"). Names of programs are lower-case.
    "end": (
        r"(?<=[\w)\]`'\"*])[.?!](?=\s{1,4}(?:dmesg|lsmod|modprobe|nvidia[-_]\w+|ib[v_]\w+|ucx_\w+|lib[a-z]\w+)\b)|"
        r"(?<=[\w)\]`'\"*]{2})[.?!](?=[\s\"')*]{1,4}[^a-z])|(?<=[Bb]/s)\.(?=\s)|(?<=\w\w)\?(?=\s)|[\u3002\uff01\uff1f]"
    ),
}
