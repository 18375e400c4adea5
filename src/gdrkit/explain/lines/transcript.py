"""Classify each line of a pasted text: machine output, a typed command, a quotation, or prose.

A forum post mixes prose, quotations, shell prompts and outputs, often from several machines. Only machine
output is evidence. A comment ("it is not a GeForce") is prose, and an error in advice is a quotation. An
ambiguous line is prose: that may lose evidence, but never invents any.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from gdrkit.explain.lines import line as lines_of
from gdrkit.explain.lines.attribution import QUOTED_POST, Attribution
from gdrkit.explain.lines.fan_out import command_there, drained, group_headers, is_ruler, labelled
from gdrkit.explain.lines.forms import form_of
from gdrkit.explain.lines.labels import together, without_labels
from gdrkit.explain.lines.novel_lines import novel
from gdrkit.explain.lines.recognition import is_output
from gdrkit.explain.lines.rejoined import rejoined
from gdrkit.explain.lines.wrappers import unwrap
from gdrkit.facts.manifest_excerpts import is_manifest
from gdrkit.formats.sentences import is_sentence

OUTPUT = ("machine", "shown")
"""The kinds of lines that programs printed."""


class TextLine(Struct, frozen=True):
    """One line and its classification."""

    number: int  # from 1, as an editor counts
    text: str  # without typographic characters, prompts, comment and quotation marks
    kind: str  # machine, shown (unrecognized, but in a code block), typed, quoted, prose
    host: str = ""  # the machine, by prompts, log prefixes and headings; empty if unknown
    command: str = ""  # the command that printed it; empty if unknown
    typed_at: int = 0  # number of the line with that command
    cut: bool = False  # the last line of the text, without a line end; or a line that is too long
    prompted: bool = False  # a typed line after a prompt
    author: str = ""  # who posted it; empty before the first post with a name


def read(text: str) -> tuple[TextLine, ...]:
    """Every line that is not blank, in order, classified."""
    return tuple(_LineClassifier().lines(text))


class Gap(Struct, frozen=True):
    """Lines that were left out of a long text."""

    after: int  # lines before the gap
    lines: int  # lines that it had


NO_GAP = Gap(0, 0)


def read_with_home(text: str, gap: Gap = NO_GAP) -> tuple[tuple[TextLine, ...], str]:
    """The lines, and the only machine that they name for certain; "" if there is none, or several."""
    reader = _LineClassifier(gap)
    lines = tuple(reader.lines(text))
    return lines, reader.attribution.home(any(line.kind == "prose" for line in lines))


def machine_names(lines: tuple[TextLine, ...]) -> tuple[str, ...]:
    """The machines in a text, in order of appearance; "" is a machine without a name."""
    found = dict.fromkeys(line.host for line in lines if line.kind in ("machine", "shown", "typed"))
    return tuple(found) or ("",)


def shows_output(lines: tuple[TextLine, ...]) -> bool:
    """Whether a program printed any of the lines, as far as their form or a code block shows."""
    return any(line.kind in ("machine", "shown") for line in lines)


class _LineClassifier:
    """Classifies lines one by one, with the state that carries over between them."""

    def __init__(self, gap: Gap = NO_GAP) -> None:
        self.gap = gap
        self.attribution = Attribution()
        self.command, self.typed_at = "", 0
        self.fenced = self.advice = self.blank = self.listing = False
        self.form: int | None = None  # the output that the line before is part of
        self.label = ""  # the machine that the label of the current line names
        self.wrapped_by = ""  # the machine that a wrapper of it names
        self.quotation: _LineClassifier | None = None  # of the quoted lines that the current one is among
        self.sent, self.there = "", ""  # the last command, and what it ran on many machines
        self.there_at = 0  # its line
        self.told: set[str] = set()  # those of them that have a line with that command
        self.group = ""  # those of them that printed the current line

    def lines(self, text: str) -> Iterator[TextLine]:
        raw = lines_of.without_common_quotation(lines_of.quoted_by_arrows(text.split("\n")))
        raw, labels = without_labels(raw)
        raw, moved = rejoined(lines_of.without_common_time(raw))
        self.fenced = is_manifest(raw) or lines_of.begins_in_code(raw)
        groups = group_headers(raw)
        rulers = {
            at for index in groups for at in (index - 1, index + 1) if any(map(is_ruler, raw[at : at + 1]))
        }
        found: list[TextLine] = []
        kept = sorted({*novel(raw), *groups}) if groups else novel(raw)
        for index in together(kept, labels):
            if index in moved or index in rulers:
                continue
            self._labelled(labels.get(index, ""))
            number, whole = index + 1, raw[index]
            if index >= self.gap.after:
                number += self.gap.lines
            if index in groups:
                found += self._group(number, groups[index])
                continue
            group = self.group
            line = self.line(number, lines_of.clean(whole[: lines_of.LINE_CHARACTERS]))
            if group and not self.group:
                found.append(self._end_of(group, number))
            if line is None:
                continue
            if len(whole) > lines_of.LINE_CHARACTERS or (index + 1 == len(raw) and whole):
                line = replace(line, cut=True)
            line = replace(line, author=line.author or self.attribution.author)
            found += self._typed_there(line)
            found += [replace(line, text=part) for part in self._parts(line)]
        prose = any(line.kind == "prose" for line in found)
        names = {author: self.attribution.name_of(author, prose) for author in self.attribution.authors}
        for line in sorted(found, key=lambda line: line.number) if labels else found:
            name = names[line.author]
            yield line if line.host or not name else replace(line, host=name)

    # -- commands that ran on many machines --------------------------------------------------------------

    def _labelled(self, machine: str) -> None:
        """Set the machine that the label of the next line names: an output ends with the lines of one."""
        if machine != self.label:
            self.label, self.listing, self.blank, self.form = machine, False, False, None

    def _group(self, number: int, name: str) -> Iterator[TextLine]:
        """Begin what a group of machines printed, and end what the one before did."""
        if self.group:
            yield self._end_of(self.group, number)
        self.attribution.group(name)
        self.group, self.command, self.typed_at = name, self.there, self.there_at
        self.advice = self.listing = self.blank = False
        self.form = None

    def _end_of(self, group: str, number: int) -> TextLine:
        """The next prompt of a group, by which its output is whole."""
        return TextLine(number, "", "typed", group, author=self.attribution.author)

    def _typed_there(self, line: TextLine) -> Iterator[TextLine]:
        """The command of a line that is the first one of a machine, as if it had been typed there."""
        if line.kind in OUTPUT and self.there and line.host and line.host not in self.told:
            self.told.add(line.host)
            yield TextLine(
                self.there_at, self.there, "typed", line.host, self.there, self.there_at, author=line.author
            )

    @staticmethod
    def _parts(line: TextLine) -> tuple[str, ...]:
        """The text of a line; what a program printed as one line for several, in parts after the whole."""
        return lines_of.fields_apart(line.text) if line.kind in OUTPUT else (line.text,)

    def line(self, number: int, text: str) -> TextLine | None:
        if lines_of.is_fence(text):
            self.fenced = not self.fenced
            self.command, self.typed_at = "", 0
            return None
        if not text.strip():
            self.blank = True
            return None
        blank, self.blank = self.blank, False
        text = self._unwrapped(text)
        quoted = lines_of.without_quotation_mark(text)
        if quoted is not None:
            return self._of_quotation(number, quoted)
        self.quotation = None
        typed = lines_of.typed(text)
        if typed is not None and not (text.strip() == "#" and self.command.startswith("ucx_info")):
            return self._typed(number, typed)
        return self._other(number, text, blank)

    def _of_quotation(self, number: int, text: str) -> TextLine | None:
        """A line of a post that another one quotes. What a program printed in it is an output as in any
        post; the rest decides nothing."""
        if self.quotation is None:
            self.quotation = _LineClassifier()
            self.quotation.attribution = self.attribution.of_quotation()
        line = self.quotation.line(number, text)
        if line is None:
            return None
        if line.kind == "prose" or self.advice:
            return replace(line, kind="quoted", host=self.attribution.machine)
        self.attribution.quotes(self.quotation.attribution)
        return replace(line, author=QUOTED_POST)

    def _unwrapped(self, text: str) -> str:
        """A line without what runtimes and launchers put around it."""
        label = labelled(text, self.sent) if self.there and not self.group else None
        if label is not None:
            self.wrapped_by, text = label
            return text
        found = unwrap(text, fenced=self.fenced)
        self.wrapped_by = found.host or drained(text, self.sent) or self.label
        return found.text

    def _typed(self, number: int, typed: lines_of.TypedCommand) -> TextLine:
        self.attribution.prompt(typed.host, typed.command)
        self.command, self.typed_at = typed.command, number
        self.group, self.sent, self.there = "", typed.command, command_there(typed.command)
        self.there_at, self.told = number, set()
        kind = "quoted" if self.advice else "typed"
        return TextLine(
            number, typed.command, kind, self._host(), typed.command, number, prompted=typed.prompted
        )

    def _other(self, number: int, text: str, blank: bool) -> TextLine:
        machine = self._prints(text)
        heads = not machine and not self.fenced and (not (self.command or self.group) or blank)
        if heads and self.attribution.heading(text):
            self.command, self.typed_at, self.advice = "", 0, False
            self.group = self.there = ""
            return TextLine(number, text.strip(), "prose", self.attribution.machine)
        if machine or self._continues(text, blank):
            if self.form is None:
                text = lines_of.without_comment_mark(text)
            kind = "quoted" if self.advice else "machine"
            host = self.attribution.of_line(text, self.wrapped_by) or self._host()
            return TextLine(number, text, kind, host, self.command, self.typed_at)
        if self.fenced:
            kind = "quoted" if self.advice else "shown"
            return TextLine(number, text, kind, self._host(), self.command, self.typed_at)
        self.command, self.typed_at = "", 0
        if not self.group:
            self.there = ""
        elif blank:
            self.group = ""
        self.advice = lines_of.is_advice(text)
        self.attribution.introduced(text)
        return TextLine(number, text.strip(), "prose", self.attribution.machine)

    def _prints(self, text: str) -> bool:
        """Whether a line is output of a program. After `#` it is output only if a command precedes it.

        Lines that are indented below the first line of a GPU or device belong to it."""
        self.listing = lines_of.opens_listing(text) or (self.listing and lines_of.continues_listing(text))
        self.form = form_of(text, self.form)
        if self.listing or self.form is not None or lines_of.lists_domains(text):
            return True
        if text.lstrip().startswith("#") and not (self.command or self.fenced):
            return False
        return is_output(text, fenced=self.fenced)

    def _continues(self, text: str, blank: bool) -> bool:
        """Whether an unrecognized line is output of the command before it."""
        if not (self.command or self.group):
            return False
        if self.fenced or lines_of.is_record(text):
            return True
        return not (blank or (is_sentence(text) and not lines_of.is_row(text)))

    def _host(self) -> str:
        """The machine that prints: the target of a remote command, else the machine of the prompt."""
        sent = self.attribution.sent_to(self.command)
        return self.label or self.group or (self.attribution.machine if sent is None else sent)
