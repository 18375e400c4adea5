"""Options and output that all commands share."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable
from typing import NoReturn

from gdrkit.agent.streams import SafeStream, visible_json
from gdrkit.cli.exit import USAGE
from gdrkit.cli.help_formatter import HelpFormatter
from gdrkit.cli.help_text import columns
from gdrkit.formats.misspelt import did_you_mean
from gdrkit.programs.names import NAMES


def text_width() -> int:
    """Columns for text: the terminal's, within what can be read; WIDTH if the output is not a terminal."""
    from gdrkit.report.terminal import WIDTH

    return min(max(columns(WIDTH), 60), 200)


def text_rows() -> int | None:
    """Lines of the terminal; None if the output is not a terminal, or one that does not say."""
    try:
        return (sys.stdout.isatty() and os.get_terminal_size(sys.stdout.fileno()).lines) or None
    except (AttributeError, ValueError, OSError):
        return None


def colours() -> bool:
    """Whether standard output shows colours: a terminal that is not dumb, of a user who did not set NO_COLOR
    (no-color.org)."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR")


C_LOCALE = ("ANSI_X3.4-1968", "US-ASCII", "ASCII")
"""What nl_langinfo(3) calls its characters: glibc, musl and others."""


def encoding() -> str:
    """What characters standard output shows. ASCII in the C locale, although Python writes UTF-8 there
    (PEP 540)."""
    import locale

    stream = getattr(sys.stdout, "encoding", None) or "ascii"
    return stream if locale.getencoding().upper() not in C_LOCALE else "ascii"


_MISSING = "the following arguments are required"
"""How argparse begins the message about positional arguments that are missing."""


ELSEWHERE = {
    "--html": "gdr report writes the page of a node, gdr fleet report that of many",
}
"""Options that people look for, and the commands that do it."""


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that keeps the layout of examples and exits with USAGE on wrong usage."""

    def __init__(self, command: str, description: str, examples: str) -> None:
        super().__init__(
            prog=f"gdr {command}",
            description=description,
            epilog="examples:\n" + examples,
            formatter_class=HelpFormatter,
            allow_abbrev=False,
        )
        self.needed: list[tuple[str, tuple[str, ...]]] = []
        self.useless: list[tuple[str, tuple[str, ...]]] = []
        self.of_more = ""
        self.add_argument("--debug", action="store_true", help="show the traceback of an internal error")

    def only_with(self, option: str, *others: str) -> None:
        """Refuse an option unless one of the others is given too."""
        self.needed.append((option, others))

    def never_with(self, option: str, *others: str) -> None:
        """Refuse an option that has no effect with any of the others."""
        self.useless.append((option, others))

    def parse(self, arguments: list[str]) -> argparse.Namespace:
        """The options, given before, between or after the positional arguments.

        What would be taken without an effect is an error: an empty value, and an option that only works with
        or without another. `given` of the result names the options, each by the last of its names."""
        options, unknown = self.parse_known_intermixed_args(_shielded(arguments))
        _unshield(options)
        if unknown:
            self.error(f"unknown argument: {' '.join(unknown)}{self._meant(unknown[0])}")
        given = self._given(arguments)
        for option, others in self.needed:
            if option in given and given.isdisjoint(others):
                self.error(f"{option} has no effect without {' or '.join(others)}")
        for option, others in self.useless:
            if option in given and (other := next((o for o in others if o in given), "")):
                self.error(f"{option} has no effect with {other}")
        options.given = given
        return options

    def refuse(self, options: argparse.Namespace, names: Iterable[str], why: str) -> None:
        """Exit with USAGE if one of these options was given; `why` follows "has no effect"."""
        for name in sorted(options.given.intersection(names)):
            self.error(f"{name} has no effect {why}")

    def _given(self, arguments: list[str]) -> set[str]:
        """The options among the arguments, each by the last of its names."""
        given: set[str] = set()
        waits = ""
        for at, word in enumerate(arguments):
            option, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
            if not word or (equals and not value):
                self.error(f"empty value of {option or waits or 'an argument'}")
            if word == "--":
                if "" in arguments[at:]:
                    self.error("empty value of an argument")
                break
            waits = ""
            for name in self._names(option):
                action = self._option_string_actions[name]
                given.add(action.option_strings[-1])
                waits = "" if action.nargs == 0 else name
        return given

    def _meant(self, word: str) -> str:
        option = word.partition("=")[0]
        if option in ELSEWHERE:
            return f"; {ELSEWHERE[option]}"
        if word[:1] == "-":
            return did_you_mean(option, self._option_string_actions)
        return f"; of more nodes: {self.of_more}" if self.of_more else ""

    def _check_value(self, action: argparse.Action, value: object) -> None:
        """Refuse a value that is not a choice. Before Python 3.14 argparse does not suggest what was
        meant."""
        if action.choices is not None and value not in action.choices:
            choices = [*map(str, action.choices)]
            meant = did_you_mean(str(value), choices) or f" (choose from {', '.join(choices)})"
            raise argparse.ArgumentError(action, f"invalid choice: {value!r}{meant}")

    def _names(self, word: str) -> list[str]:
        """The options in a word: `--json`, and of `-qv` both; not the value in `-oFILE`."""
        if word in self._option_string_actions:
            return [word]
        names = []
        for letter in word[1:] if word.startswith("-") and not word.startswith("--") else "":
            if (action := self._option_string_actions.get(f"-{letter}")) is None:
                break
            names.append(f"-{letter}")
            if action.nargs != 0:
                break
        return names

    def error(self, message: str) -> NoReturn:
        line = message.replace("\n", "\\n")
        shown = ""
        if line.startswith(_MISSING):
            for action in self._actions:
                if action.nargs in ("*", "?"):  # argparse takes some of them for required
                    line = line.replace(f", {action.metavar or action.dest}", "")
                if action.choices and not action.option_strings:
                    choices = ", ".join(map(str, action.choices))
                    line = line.replace(action.dest, f"{action.dest} ({choices})", 1)
            shown = f"  for example: {self._first_example()}\n"
        sys.stderr.write(f"{self.prog}: {line}\n{shown}  see {self.prog} --help\n")
        raise SystemExit(USAGE)

    def _first_example(self) -> str:
        """The command of the first example, without its comment."""
        line = (self.epilog or "").split("\n")[1].strip()
        return re.split(r"\s{2,}", line)[0]

    def target(self) -> None:
        """Add TARGET: anything that holds the evidence of a node."""
        self.add_argument(
            "target",
            nargs="?",
            metavar="TARGET",
            help="a root folder, a bundle of gdr collect, a sosreport, nvidia-bug-report.log.gz, "
            "an rdma_topo dump, or ssh://[user@]host; this machine if omitted",
        )

    def force(self, *outputs: str) -> None:
        """Add --force, for the options that name an output file."""
        self.add_argument("--force", action="store_true", help="replace an existing output file")
        self.only_with("--force", *outputs)

    def output(self) -> None:
        """Add --json."""
        self.add_argument("--json", action="store_true", help="write JSON to standard output")

    def consumer(self, *more: str, default: str = NAMES[0]) -> None:
        """Add --consumer, for a program or one of the words in `more`."""
        self.add_argument(
            "--consumer",
            choices=(*NAMES, *more),
            default=default,
            metavar="PROGRAM",
            help=f"program that the verdict is about: {', '.join(NAMES)}"
            + ("; all: show every program" if more else ""),
        )

    def deadline(self) -> None:
        """Add --deadline."""
        self.add_argument(
            "--deadline",
            metavar="S",
            type=number(1, 3600),
            help="answer within S seconds, at worst with unknown",
        )

    def codes(self, option: str, what: str) -> None:
        """Add an option that takes a code of a finding, and may be given more than once."""
        self.add_argument(option, metavar="CODE", action="append", default=[], type=code, help=what)

    def need_expectation(self, options: argparse.Namespace, option: str, codes: Collection[str]) -> None:
        """Exit with USAGE for a code that only --expect can show, where it is missing."""
        if options.expect is not None or not codes:
            return
        from gdrkit.report.line import UNMET

        named = next((one for one in codes if one.startswith(UNMET)), None)
        if named is not None:
            self.error(f"{option} {named} has no effect without --expect")

    def one_output(self, *options: str) -> None:
        """Refuse two of these options together: each asks for another form of the output."""
        for number, option in enumerate(options):
            self.never_with(option, *options[:number])


def number(least: int, most: int) -> Callable[[str], int]:
    """A type for add_argument(): a whole number within these bounds. It raises ArgumentTypeError."""

    def parsed(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and len(text) < 20 and least <= int(text) <= most):
            raise argparse.ArgumentTypeError(f"not a number from {least} to {most}: {text!r}")
        return int(text)

    return parsed


def code(text: str) -> str:
    """A type for add_argument(): the code of a finding. It raises ArgumentTypeError."""
    from gdrkit.catalogue import CODES

    if text not in CODES:
        raise argparse.ArgumentTypeError(f"not a code: {text!r}{did_you_mean(text, CODES)}")
    return text


_SHIELD = "\ufdd0"
"""Before a word that `--` makes a positional argument: no character of Unicode, so in no word."""


def _shielded(arguments: list[str]) -> list[str]:
    """The arguments so that no word after `--` is an option.

    parse_known_intermixed_args() reads them twice, and the second time without `--` (seen in Python 3.11).
    """
    if "--" not in arguments:
        return arguments
    at = arguments.index("--")
    after = arguments[at + 1 :]
    return [*arguments[:at], *(_SHIELD + word if word[:1] == "-" != word else word for word in after)]


def _unshield(options: argparse.Namespace) -> None:
    for name, value in vars(options).items():
        match value:
            case str():
                setattr(options, name, value.removeprefix(_SHIELD))
            case list():
                words = (word.removeprefix(_SHIELD) if isinstance(word, str) else word for word in value)
                setattr(options, name, [*words])


def matching(pattern: str, expected: str) -> Callable[[str], str]:
    """A type for add_argument(): a text that matches a pattern. It raises ArgumentTypeError."""

    def parsed(text: str) -> str:
        if not re.fullmatch(pattern, text, re.ASCII):
            raise argparse.ArgumentTypeError(f"not {expected}: {text!r}")
        return text

    return parsed


def write(text: str, *, styled: bool = False) -> None:
    """Write to standard output; `styled` text has colours of ours, and what it quotes is `visible`."""
    if styled and isinstance(sys.stdout, SafeStream):
        sys.stdout.styled(text)
    else:
        sys.stdout.write(text)


def write_lines(text: str, hanging: int) -> None:
    """Write lines to standard output, wrapped to its width; the rest of a line with columns is indented so
    far, that of another a little."""
    from gdrkit.report.terminal import Row, render

    rows: list[Row] = [(hanging if "  " in line else 2, "none", "", line) for line in text.splitlines()]
    write(render(rows, {}, width=text_width()))


def write_json(document: object, indent: int = 1) -> None:
    """Write a document to standard output as JSON: a struct, or bytes that are JSON already."""
    import msgspec

    from gdrkit.formats.json_text import encode

    encoded = document if isinstance(document, bytes) else encode(document)
    write(visible_json(msgspec.json.format(encoded, indent=indent).decode()) + "\n")


def status(text: str) -> None:
    """Show progress in one line of a terminal on standard error; "" clears it."""
    if isinstance(sys.stderr, SafeStream) and sys.stderr.isatty():
        sys.stderr.status(text)


def called(target: str | None) -> str:
    """What a target is called in a report, without the folder that it is in."""
    return "this machine" if target is None else os.path.basename(target.rstrip("/")) or target


def can_ask() -> bool:
    """Whether there is a terminal on standard input to answer a question."""
    return sys.stdin is not None and sys.stdin.isatty()


def note_if_same(one: str, other: str) -> None:
    """Say on standard error that two targets are the same, which differs in nothing."""
    try:
        same = one == other or os.path.samefile(one, other)
    except (OSError, ValueError):  # not both are files: who opens them says so
        same = False
    if same:
        sys.stderr.write("note: both are the same: what is compared with itself has no difference\n")


def print_notes(host: object) -> None:
    """Print the notes of a target to standard error: that it is truncated, that members were refused."""
    for note in getattr(host, "notes", ()):
        sys.stderr.write(f"note: {note}\n")
