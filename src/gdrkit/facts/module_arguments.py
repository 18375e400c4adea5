"""The arguments that a module is loaded with, and how the kernel's parser reads them.

Source: Linux kernel/params.c, parse_args(), parse_one() and param_set_*(); lib/kstrtox.c; lib/cmdline.c,
next_arg().
"""

from __future__ import annotations

import re

import msgspec
from msgspec import Struct

from gdrkit.agent.collect.module_parameters import DROPPED
from gdrkit.facts.kernel import config_option
from gdrkit.facts.module_files import information
from gdrkit.facts.module_index import module_path
from gdrkit.messages.errors import EINVAL, ENOSPC, ERANGE
from gdrkit.node import Node, fact, if_missing

_STRING_LIMIT = 1024  # params.c, param_set_charp()
_SIGNED = {"short": 15, "int": 31, "long": 63}  # bits without the sign; LP64
_UNSIGNED = {"byte": 8, "ushort": 16, "uint": 32, "ulong": 64, "ullong": 64, "hexint": 32}
_BOOLEAN = ("bool", "bint", "invbool")
_SPACES = b"\t\n\v\f\r \xa0"
"""lib/ctype.c: a byte A0 is a space too, so that a no-break space in UTF-8 leaves its first byte behind."""
_END = "--"


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


class DebugQuery(Struct, frozen=True):
    """A query of dynamic debug, which every module takes as `dyndbg`."""

    query: str


class ParsedArguments(Struct, frozen=True):
    """The result of the parser. It continues after an invalid argument, and returns the last error."""

    events: tuple[ArgumentComplaint | DebugQuery, ...] = ()  # in order
    guessed: tuple[str, ...] = ()  # of a type that the module defines: the accepted values are not known
    behind_dashes: str | None = None  # what follows `--`, which is not read; None: there is no `--`

    @property
    def complaints(self) -> tuple[ArgumentComplaint, ...]:
        return tuple(event for event in self.events if isinstance(event, ArgumentComplaint))

    @property
    def bad(self) -> tuple[ArgumentComplaint, ...]:
        """The complaints that prevent loading the module."""
        return tuple(complaint for complaint in self.complaints if complaint.errno)


def split_arguments(text: str) -> tuple[Argument, ...]:
    """The words of an argument string before `--`. Double quotes around a value or a whole word keep its
    spaces."""
    return _split(text)[0]


def _split(text: str) -> tuple[tuple[Argument, ...], str | None]:
    """The words before `--`, and what follows it; None without it: parse_args()."""
    arguments: list[Argument] = []
    whole = text.encode("utf-8", "replace").lstrip(_SPACES)
    at = 0
    while at < len(whole):
        argument, at = _next(whole, at)
        if argument == Argument(_END, None):
            return tuple(arguments), whole[at:].decode("utf-8", "backslashreplace")
        arguments.append(argument)
    return tuple(arguments), None


def _next(whole: bytes, at: int) -> tuple[Argument, int]:
    """The word that begins there, and where the next one begins: next_arg(). An equals sign that begins a
    word is a part of its name."""
    quoted = inside = whole.startswith(b'"', at)
    begin = at + 1 if quoted else at
    equals, end = 0, begin
    while end < len(whole) and (inside or whole[end] not in _SPACES):
        if not equals and whole[end] == ord("="):
            equals = end - begin
        inside ^= whole[end] == ord('"')
        end += 1
    word, following = whole[begin:end], end + 1
    while following < len(whole) and whole[following] in _SPACES:
        following += 1
    name, value = (word[:equals], word[equals + 1 :]) if equals else (word, None)
    if value is not None and value.startswith(b'"'):
        value = value[1:].removesuffix(b'"')
    elif quoted and value is not None:
        value = value.removesuffix(b'"')
    elif quoted:
        name = name.removesuffix(b'"')
    return Argument(_decoded(name), None if value is None else _decoded(value)), following


def _decoded(word: bytes) -> str:
    return word.decode("utf-8", "backslashreplace")


@fact
def reading(node: Node, name: str, text: str) -> ParsedArguments:
    """How the kernel parses a string of arguments for a module."""
    types = information(node, module_path(node, name)).parameters
    known = {parameter.replace("-", "_"): kind for parameter, kind in types.items()}
    events: list[ArgumentComplaint | DebugQuery] = []
    guessed: list[str] = []
    arguments, behind = _split(text)
    for argument in arguments:
        key = argument.name.replace("-", "_")
        if key not in known:
            event = _of_every_module(node, argument)
            events += () if event is None else (event,)
            continue
        errno = refusal(known[key], argument.value)
        if errno is None:
            guessed.append(argument.name)
        elif errno:
            events.append(ArgumentComplaint(argument, errno))
    found = ParsedArguments(tuple(events), tuple(guessed), behind)
    return msgspec.structs.replace(found, behind_dashes=None) if found.bad else found


def _of_every_module(node: Node, argument: Argument) -> ArgumentComplaint | DebugQuery | None:
    """What the kernel makes of an argument that the module does not define: unknown_module_param_cb(),
    ddebug_dyndbg_param_cb(). Dynamic debug cuts the name at its first dot, and looks at the second part."""
    if argument.name == "async_probe":
        return None
    first, dot, second = argument.name.partition(".")
    cut = has_dynamic_debug(node)
    if (second if dot and cut else argument.name) == "dyndbg":
        return DebugQuery("+p" if argument.value is None else argument.value)
    return ArgumentComplaint(Argument(first, argument.value) if cut else argument, 0)


@fact
def has_dynamic_debug(node: Node) -> bool:
    """Whether the kernel reads `dyndbg` of modules, as those of all distributions do."""
    return if_missing("y", config_option, node, "CONFIG_DYNAMIC_DEBUG_CORE") == "y" or (
        if_missing("y", config_option, node, "CONFIG_DYNAMIC_DEBUG") == "y"
    )


def refusal(kind: str, value: str | None) -> int | None:
    """The errno for a value of a parameter of this type, 0 if it is accepted, None if that is not known, as
    for one that the collector removed."""
    if value is not None and DROPPED.decode() in value:
        return None
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
