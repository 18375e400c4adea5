"""The arguments that a module is loaded with, and how the kernel's parser reads them.

Source: Linux kernel/params.c, parse_args(), parse_one() and param_set_*(); lib/kstrtox.c; lib/cmdline.c,
next_arg().
"""

from __future__ import annotations

import re

from msgspec import Struct

from gdrkit.facts.module_files import information
from gdrkit.facts.module_index import module_path
from gdrkit.messages.errors import EINVAL, ENOSPC, ERANGE
from gdrkit.node import Node, fact

_STRING_LIMIT = 1024  # params.c, param_set_charp()
_SIGNED = {"short": 15, "int": 31, "long": 63}  # bits without the sign; LP64
_UNSIGNED = {"byte": 8, "ushort": 16, "uint": 32, "ulong": 64, "ullong": 64, "hexint": 32}
_BOOLEAN = ("bool", "bint", "invbool")
_BUILT_IN = ("async_probe", "dyndbg")  # main.c, unknown_module_param_cb(): taken by every module


_WORD = re.compile(rb'(?:"[^"]*"?|[^\t-\r \xa0"])+')
"""lib/ctype.c: a byte A0 is a space too, so that a no-break space in UTF-8 leaves its first byte behind."""


class Argument(Struct, frozen=True):
    """One word of a module's arguments."""

    name: str
    value: str | None  # None: only a name

    @property
    def shown(self) -> str:
        """The value as the kernel prints it."""
        return self.value or ""


class ArgumentComplaint(Struct, frozen=True):
    """An argument that the parser complains about: invalid, or with errno 0 unknown and ignored."""

    argument: Argument
    errno: int


class ParsedArguments(Struct, frozen=True):
    """The result of the parser. It continues after an invalid argument, and returns the last error."""

    complaints: tuple[ArgumentComplaint, ...] = ()
    guessed: tuple[str, ...] = ()  # of a type that the module defines: the accepted values are not known

    @property
    def bad(self) -> tuple[ArgumentComplaint, ...]:
        """The complaints that prevent loading the module."""
        return tuple(complaint for complaint in self.complaints if complaint.errno)


def split_arguments(text: str) -> tuple[Argument, ...]:
    """The words of an argument string. Double quotes around a value or a whole word keep its spaces."""
    arguments = []
    octets = text.encode("utf-8", "replace")
    for found in _WORD.finditer(octets):
        word = found[0].decode("utf-8", "backslashreplace")
        if word.startswith('"'):
            word = word[1:].removesuffix('"')
        if word == "--":
            break
        name, equals, value = word.partition("=")
        if value.startswith('"'):
            value = value[1:].removesuffix('"')
        arguments.append(Argument(name, value if equals else None))
    return tuple(arguments)


@fact
def reading(node: Node, name: str, text: str) -> ParsedArguments:
    """How the kernel parses a string of arguments for a module."""
    types = information(node, module_path(node, name)).parameters
    known = {parameter.replace("-", "_"): kind for parameter, kind in types.items()}
    complaints: list[ArgumentComplaint] = []
    guessed: list[str] = []
    for argument in split_arguments(text):
        key = argument.name.replace("-", "_")
        if key not in known:
            if key.partition(".")[0] not in _BUILT_IN:
                complaints.append(ArgumentComplaint(argument, 0))
            continue
        errno = refusal(known[key], argument.value)
        if errno is None:
            guessed.append(argument.name)
        elif errno:
            complaints.append(ArgumentComplaint(argument, errno))
    return ParsedArguments(tuple(complaints), tuple(guessed))


def refusal(kind: str, value: str | None) -> int | None:
    """The errno for a value of a parameter of this type, 0 if it is accepted, None if that is not known."""
    if kind in _BOOLEAN:  # only these can be given without a value: KERNEL_PARAM_OPS_FL_NOARG
        return 0 if value is None or _boolean(value) else EINVAL
    if value is None:
        return EINVAL
    if kind == "charp":
        return ENOSPC if len(value.encode()) > _STRING_LIMIT else 0
    if kind in _SIGNED or kind in _UNSIGNED:
        return _number(kind, value)
    if kind.startswith("array of "):
        answers = [refusal(kind.removeprefix("array of "), part) for part in value.split(",")]
        # None even if all parts are valid: modinfo does not show how many the array can have.
        return next((answer for answer in answers if answer), None)
    return None


def _boolean(value: str) -> bool:
    """kstrtobool(): the first letter decides, or the second after an "o"."""
    first, second = value[:1].lower(), value[1:2].lower()
    return first in ("y", "t", "1", "n", "f", "0") or (first == "o" and second in ("n", "f"))


def _number(kind: str, value: str) -> int:
    """kstrtoint() and similar: the prefix sets the base, one line end is allowed, out of range is an
    error."""
    found = number(value, 16 if kind == "hexint" else 0)
    if found is None or (value.startswith("-") and kind not in _SIGNED):
        return EINVAL
    if kind in _SIGNED:
        limit = 2 ** _SIGNED[kind]
        return 0 if -limit <= found < limit else ERANGE
    return 0 if found < 2 ** _UNSIGNED[kind] else ERANGE


def number(value: str, base: int = 0) -> int | None:
    """The number that kstrtoint() and similar read, of any size; None if it is none."""
    found = re.fullmatch(r"([+-]?)(0[xX][0-9a-fA-F]+|[0-9a-fA-F]+)\n?", value)
    if found is None:
        return None
    digits = found[2].lower()
    if digits.startswith("0x"):
        base, digits = 16, digits[2:]
    elif base == 0:
        base = 8 if digits.startswith("0") and len(digits) > 1 else 10
    try:
        size = int(digits, base)
    except ValueError:
        return None
    return -size if found[1] == "-" else size
