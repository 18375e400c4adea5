"""Errors that people quote, and the product that they name, as lines left open. They prove nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from gdrkit import catalogue
from gdrkit.explain.explanation import QUOTED, UNUSUAL, OpenLine
from gdrkit.explain.facts import cause_of
from gdrkit.explain.lines.transcript import TextLine, shows_output
from gdrkit.explain.log_events import events, for_path
from gdrkit.explain.outputs.efa_mapping import CODE, names_efa
from gdrkit.explain.products import DATACENTER, products
from gdrkit.explain.subject import MAX_CHARACTERS
from gdrkit.formats.regex import regex
from gdrkit.messages.driver import FORCE_PCIE

MAX_MENTIONS = 8
"""Mentions that are listed at most: a text with more is documentation, not a report of one problem."""

MAX_QUOTED = 20_000
"""Lines of people and of unrecognised output that are searched for errors."""

INLINE_CODE = regex(r"`([^`]{8,400})`")


def mentioned(lines: Iterable[TextLine], established: set[str]) -> tuple[OpenLine, ...]:
    """The product that a text names, if it names only one, and the errors that people quote, each once."""
    found: dict[tuple[str, ...], OpenLine] = {}
    searched = tuple(lines)
    quoted = tuple(quoted_errors(searched))
    if names_efa(searched[:MAX_QUOTED]):
        quoted = tuple(_for_efa(line) for line in quoted)
    shows = bool(quoted) or shows_output(searched)
    for line in (*quoted, *(_product(searched) if shows else ())):
        known = found.get(line.codes)
        if not established & set(line.codes) and (known is None or (line.printed and not known.printed)):
            found[line.codes] = line
    return tuple(sorted(tuple(found.values())[:MAX_MENTIONS], key=lambda line: line.line))


def _for_efa(line: OpenLine) -> OpenLine:
    """A quoted error with the cause that it has for an EFA, where it differs."""
    refused = line.codes == FORCE_PCIE.causes
    return replace(line, causes=(cause_of(CODE, ""),)) if refused else line


def quoted_errors(lines: Iterable[TextLine]) -> Iterator[OpenLine]:
    """Errors in sentences, quotations and unrecognised output."""
    searched = (line for line in lines if line.kind in ("prose", "quoted", "shown") or line.cut)
    for line, _ in zip(searched, range(MAX_QUOTED), strict=False):
        if line.kind in ("prose", "quoted"):
            yield from _in_sentence(line)
        elif line.kind == "shown" or not events((line,)):
            yield from _printed(line)


def _printed(line: TextLine) -> tuple[OpenLine, ...]:
    """A message of the catalogue in unrecognised output."""
    for event in events((replace(line, kind="machine"),)):
        return (_open(line, event.codes, UNUSUAL, event.leads),)
    match = catalogue.match(line.text)
    codes = for_path(match.causes, line) if match is not None else ()
    if match is None or not codes:
        return ()
    return (_open(line, codes, UNUSUAL, match.message.leads),)


def _product(lines: tuple[TextLine, ...]) -> Iterator[OpenLine]:
    """Where people first name the only product of a text. A text that names two may compare them, or rule
    one out: only grammar could tell, and grammar does not generalise."""
    named = [(line, found) for line in lines[:MAX_QUOTED] if (found := products(line.text[:MAX_CHARACTERS]))]
    kinds = {code for _, found in named for code in found}
    if len(kinds) != 1 or DATACENTER in kinds:
        return
    by_people = (line for line, _ in named if line.kind in ("prose", "quoted", "shown") or line.cut)
    for line in by_people:
        yield _open(line, tuple(kinds), "named; no output shows it")
        return


def _in_sentence(line: TextLine) -> Iterator[OpenLine]:
    """An error within a sentence, preferably one in inline code, where it is quoted as it was printed."""
    for words in (*INLINE_CODE.findall(line.text), line.text):
        event = next(iter(events((TextLine(line.number, words.strip(" `"), "machine"),))), None)
        if event is not None:
            yield _open(line, event.codes, QUOTED, event.leads)
            return


def _open(line: TextLine, codes: tuple[str, ...], note: str, leads: bool = False) -> OpenLine:
    return OpenLine(
        line=line.number,
        text=line.text.strip(),
        count=1,
        subject="",
        causes=tuple(cause_of(code, "") for code in codes),
        ruled_out=(),
        note=note,
        claimed=True,
        leads=leads,
    )
