"""Pasted text taken apart: what a machine printed, after which command, and what a person wrote.

A forum post mixes prose, quotations, shell prompts and outputs, often of several machines. Only what a
machine printed is evidence. What a person says of it ("it is not a GeForce") is prose, and advice that
quotes an error is a quotation. When in doubt a line is prose: evidence is lost, never made up.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from gdrkit.explain import lines as lines_of
from gdrkit.explain.speakers import Speakers

LINE_CHARACTERS = 4096
"""Where a line is cut. The longest that any of these programs prints is a kernel's: Linux
include/linux/printk.h, PRINTK_MESSAGE_MAX, 2048 with its prefix."""


class TextLine(Struct, frozen=True):
    """One line, and what it is."""

    number: int  # from 1, as an editor counts
    text: str  # typographic quotation marks straightened; prompts, comment and quotation marks taken off
    kind: str  # machine, shown (in a code block, of no form that is known), typed, quoted, prose
    host: str = ""  # whose it is, as far as prompts, log prefixes and headings tell; empty if they do not
    command: str = ""  # the command line whose output it is; empty if none was shown
    asked: int = 0  # the line on which that command was typed
    cut: bool = False  # it is the text's last line and has no end, or it was too long


def read(text: str) -> tuple[TextLine, ...]:
    """Every line that is not blank, in order, with what it is."""
    return tuple(_Reader().lines(text))


def speakers(lines: tuple[TextLine, ...]) -> tuple[str, ...]:
    """The machines that speak in a text, in order of appearance; "" stands for one that nobody names."""
    found = dict.fromkeys(line.host for line in lines if line.kind in ("machine", "shown", "typed"))
    return tuple(found) or ("",)


class _Reader:
    """What carries over from one line to the next."""

    def __init__(self) -> None:
        self.speakers = Speakers()
        self.command, self.asked = "", 0
        self.fenced = self.advice = self.blank = self.listing = False

    def lines(self, text: str) -> Iterator[TextLine]:
        raw = text.split("\n")
        found: list[tuple[TextLine, str]] = []
        for number, whole in enumerate(raw, 1):
            line = self.line(number, lines_of.clean(whole[:LINE_CHARACTERS]))
            if line is None:
                continue
            if len(whole) > LINE_CHARACTERS or (number == len(raw) and whole):
                line = replace(line, cut=True)
            found.append((line, self.speakers.group))
        prose = any(line.kind == "prose" for line, _ in found)
        names = {group: self.speakers.name_of(group, prose) for group in self.speakers.groups}
        for line, group in found:
            yield line if line.host or not names[group] else replace(line, host=names[group])

    def line(self, number: int, text: str) -> TextLine | None:
        if lines_of.is_fence(text):
            self.fenced = not self.fenced
            self.command, self.asked = "", 0
            return None
        if not text.strip():
            self.blank = True
            return None
        blank, self.blank = self.blank, False
        quoted = lines_of.without_quotation_mark(text)
        if quoted is not None:
            return TextLine(number, quoted, "quoted", self.speakers.now)
        typed = lines_of.typed(text)
        if typed is not None:
            return self._typed(number, typed)
        return self._other(number, text, blank)

    def _typed(self, number: int, typed: lines_of.TypedCommand) -> TextLine:
        if typed.host:
            self.speakers.prompt(typed.host)
        self.command, self.asked = typed.command, number
        kind = "quoted" if self.advice else "typed"
        return TextLine(number, typed.command, kind, self._host(), typed.command, number)

    def _other(self, number: int, text: str, blank: bool) -> TextLine:
        machine = self._prints(text)
        heads = not machine and not self.fenced and (not self.command or blank)
        if heads and self.speakers.heading(text):
            self.command, self.asked, self.advice = "", 0, False
            return TextLine(number, text.strip(), "prose", self.speakers.now)
        if machine or self._continues(text, blank):
            text = lines_of.without_comment_mark(text)
            kind = "quoted" if self.advice else "machine"
            host = self.speakers.of_line(text) or self._host()
            return TextLine(number, text, kind, host, self.command, self.asked)
        if self.fenced:
            kind = "quoted" if self.advice else "shown"
            return TextLine(number, text, kind, self._host(), self.command, self.asked)
        self.command, self.asked = "", 0
        self.advice = lines_of.is_advice(text)
        self.speakers.introduced(text)
        return TextLine(number, text.strip(), "prose", self.speakers.now)

    def _prints(self, text: str) -> bool:
        """Whether a program printed a line. Behind `#` it did after a command: else it is a title.

        What is set in below the first line of a GPU or of a device belongs to it."""
        self.listing = lines_of.opens_listing(text) or (self.listing and lines_of.is_set_in(text))
        if self.listing:
            return True
        if text.lstrip().startswith("#") and not (self.command or self.fenced):
            return False
        return lines_of.is_machine(text)

    def _continues(self, text: str, blank: bool) -> bool:
        """Whether a line of no form that is known is the output of the command before it."""
        if not self.command:
            return False
        return self.fenced or not (blank or lines_of.is_sentence(text))

    def _host(self) -> str:
        """Whose output this is: of the machine that a command was sent to, else of the one at the prompt."""
        return self.speakers.sent_to(self.command) or self.speakers.now
