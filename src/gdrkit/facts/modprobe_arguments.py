"""The command line of modprobe, read as getopt_long(3) reads it for kmod tools/modprobe.c, do_modprobe()."""

from __future__ import annotations

import itertools
import operator
from typing import Any

from msgspec import Struct

from gdrkit.formats.regex import regex

_SHORT = "arw:RibfDcnC:d:S:sqvVh"
_LONG = {
    "all": "a", "remove": "r", "remove-dependencies": "5", "remove-holders": "5", "wait": "w",
    "resolve-alias": "R", "first-time": "3", "ignore-install": "i", "ignore-remove": "i",
    "use-blacklist": "b", "force": "f", "force-modversion": "2", "force-vermagic": "1",
    "show-depends": "D", "showconfig": "c", "show-config": "c", "show-modversions": "4",
    "dump-modversions": "4", "show-exports": "6", "dry-run": "n", "show": "n", "config": "C",
    "dirname": "d", "set-version": "S", "syslog": "s", "quiet": "q", "verbose": "v", "version": "V",
    "help": "h",
}  # fmt: skip
_VALUED = "wCdS"
_FIELDS = {
    "a": "all_names", "r": "removes", "R": "dry_run", "3": "first_time", "i": "ignore_install",
    "b": "use_blacklist", "f": "forces", "2": "forces", "1": "forces", "D": "dry_run", "c": "shows",
    "4": "shows", "6": "shows", "n": "dry_run", "C": "elsewhere", "d": "elsewhere", "S": "elsewhere",
    "s": "to_syslog", "q": "quiet",
}  # fmt: skip
_NUMBER = regex(r"\s*[-+]?(?:0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)")  # strtoul(3) with any base


class ModprobeOptions(Struct, frozen=True):
    """modprobe's options and the module's arguments."""

    arguments: str = ""  # for the module
    use_blacklist: bool = False
    ignore_install: bool = False
    first_time: bool = False
    dry_run: bool = False
    quiet: bool = False
    to_syslog: bool = False  # instead of to standard error
    all_names: bool = False  # each word is a module to load
    removes: bool = False
    forces: bool = False  # whatever the module's versions say
    shows: bool = False  # the configuration, or what a file exports
    elsewhere: bool = False  # another configuration, folder of modules or kernel
    answers: bool = False  # its version or its help, and nothing else
    wrong: str = ""  # why getopt or modprobe refuses the command line


def read(given: tuple[str, ...]) -> tuple[ModprobeOptions, tuple[str, ...]]:
    """The options of a command line, and its other words in order. Options may follow them."""
    fields: dict[str, Any] = {}
    words: list[str] = []
    queue = list(reversed(given))
    while queue:
        word = queue.pop()
        if word == "--":
            words += reversed(queue)
            break
        if len(word) < 2 or not word.startswith("-"):
            words.append(word)
            continue
        wrong = _long(word, queue, fields) if word.startswith("--") else _short(word, queue, fields)
        if wrong:
            return ModprobeOptions(wrong=wrong), ()
        if "answers" in fields:  # before any later option is read
            break
    return ModprobeOptions(**fields), tuple(words)


def _short(word: str, queue: list[str], fields: dict[str, Any]) -> str:
    """Read a word of one-letter options; returns what is wrong with it."""
    for index, letter in enumerate(word[1:], 2):
        if letter not in _SHORT or letter == ":":
            return f"invalid option -- '{letter}'"
        if letter not in _VALUED:
            _set(letter, fields)
            continue
        value = word[index:] or (queue.pop() if queue else None)
        if value is None:
            return f"option requires an argument -- '{letter}'"
        return _set(letter, fields, value)
    return ""


def _long(word: str, queue: list[str], fields: dict[str, Any]) -> str:
    """Read a long option, perhaps abbreviated; returns what is wrong with it."""
    name, equals, given = word[2:].partition("=")
    found = [name] if name in _LONG else [option for option in _LONG if option.startswith(name)]
    if not found:
        return f"unrecognized option '--{name}{equals}{given}'"
    if len({_LONG[option] for option in found}) > 1:
        choices = " ".join(f"'--{option}'" for option in found)
        return f"option '{word}' is ambiguous; possibilities: {choices}"
    letter = _LONG[found[0]]
    if letter not in _VALUED:
        return f"option '--{found[0]}' doesn't allow an argument" if equals else _set(letter, fields)
    value = given if equals else (queue.pop() if queue else None)
    return f"option '--{found[0]}' requires an argument" if value is None else _set(letter, fields, value)


def _set(letter: str, fields: dict[str, Any], value: str = "") -> str:
    if letter == "w" and not _NUMBER.fullmatch(value):
        return f"ERROR: unexpected wait value '{value}'."
    if letter in "Vh":
        fields["answers"] = True
    elif letter in _FIELDS:
        fields[_FIELDS[letter]] = True
    return ""


def joined(words: tuple[str, ...]) -> str:
    """A module's arguments as one string. One whose value has a space gets quotes, and empty ones before all
    others leave no blank: options_from_array()."""
    arguments = []
    for word in itertools.dropwhile(operator.not_, words):
        name, equals, value = word.partition("=")
        quoted = equals and " " in value and value[:1] not in ("'", '"')
        arguments.append(f'{name}="{value}"' if quoted else word)
    return " ".join(arguments)
