"""Hostlists: `gpu[001-016,20],login1` names 18 nodes.

The syntax is that of Slurm and pdsh: numbers and ranges in brackets, zeros kept, several brackets in a
name. Source: slurm.conf(5), NODE CONFIGURATION; `scontrol show hostnames` expands the same way. An address
in brackets, `[2001:db8::1]`, is an IPv6 literal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gdrkit.formats.errors import FormatError
from gdrkit.formats.regex import regex

NODES_LIMIT = 100_000
"""The most nodes that one list may name: `n[1-999999999]` must not fill the memory."""
NAME_LIMIT = 253
"""The longest host name: RFC 1035, 2.3.4."""
_DIGITS_LIMIT = 9
"""Of a number that is folded or expanded."""
_NUMBERS_LIMIT = 4
"""Numbers of a name that are folded, counted from its end: each takes one more pass over the names."""

NAME = regex(r"(?:[\w.][\w.+-]*@)?(?:[\w][\w.-]*|[0-9A-Fa-f]*:[\w:.%]+)", re.ASCII)
"""[user@]host or IPv6 address; no character that a shell would interpret."""
RESERVED = frozenset((
    "all", "default", "ungrouped",
    "localhost", "localhost4", "localhost6", "localhost.localdomain", "localhost4.localdomain4",
    "localhost6.localdomain6", "ip6-localhost", "ip6-loopback",
))  # fmt: skip
"""Names that mean something else than one node, in lower case.

All nodes: `NodeName=ALL` of scontrol(1), the groups `all` and `ungrouped` of Ansible ("Patterns: targeting
hosts and groups"). No node: `NodeName=DEFAULT` of slurm.conf(5). The machine where a command is typed:
nss-myhostname(8), /etc/hosts of Debian and Red Hat."""
_LOCAL = (".localhost", ".localhost.localdomain")
"""Ends of names of this machine: RFC 6761, 6.3; nss-myhostname(8)."""
_OWN = regex(r"[A-Za-z0-9][\w-]*(?:\.[A-Za-z0-9][\w-]*)*", re.ASCII)
"""What a host may be called: RFC 1123, 2.1, and the underscores that some have.

It has none of the characters by which a list means more, as `[1-3]`, `,`, `*`, `?`, `@group`, `user@`, `!`,
`&`, `^`, `~`, `%`, `:`, `/`, blanks, or a dash in front: pdsh(1), clush(1), ssh_config(5), Ansible's
patterns."""
_IPV4 = regex(r"(?:0[xX][0-9A-Fa-f]*|[0-9]+)(?:\.(?:0[xX][0-9A-Fa-f]*|[0-9]+)){0,3}", re.ASCII)
"""What inet_aton(3) takes for an address, also 2130706433 and 127.1: the name of another machine."""
_PART = regex(r"\[([^\[\]]*)\]|([^\[\],\s]+)")
_RANGE = regex(rf"(\d{{1,{_DIGITS_LIMIT}}})(?:-(\d{{1,{_DIGITS_LIMIT}}}))?", re.ASCII)
_FOLDED = regex(rf"((?<!\d)\d{{1,{_DIGITS_LIMIT}}}(?!\d))", re.ASCII)
_FIRST = regex(r"\[?(\d{1,18})", re.ASCII)


def is_name(text: str) -> bool:
    """Whether a text can be the name of a node."""
    return len(text) <= NAME_LIMIT and NAME.fullmatch(text) is not None


def means_one_node(name: str) -> bool:
    """Whether a name in a list stands for one node, for every program that the list may be given to."""
    lower = name.rpartition("@")[2].lower().rstrip(".")
    return is_name(name) and lower not in RESERVED and not lower.endswith(_LOCAL)


def is_own_name(text: str) -> bool:
    """Whether a node may be known by what it calls itself. Whoever controls a node chooses that."""
    return means_one_node(text) and _OWN.fullmatch(text) is not None and not _IPV4.fullmatch(text)


def is_same_name(asked: str, own: str) -> bool:
    """Whether a node that was asked by one name calls itself so, with or without its domain. An address has
    nothing to compare."""
    one, other = asked.rpartition("@")[2].lower(), own.lower()
    if ":" in one or _IPV4.fullmatch(one):
        return True
    return one == other or one.startswith(f"{other}.") or other.startswith(f"{one}.")


def expand(text: str) -> list[str]:
    """The nodes that a list names, in its order, each once; separated by commas or white space.

    Raises FormatError with what is wrong."""
    names: dict[str, None] = {}
    left = NODES_LIMIT  # those that are named twice count twice: they take as long
    for word in _words(text):
        found = _names(word)
        left -= len(found)
        if left < 0:
            raise FormatError(f"more than {NODES_LIMIT} nodes")
        for name in found:
            if not is_name(name):
                raise FormatError(f"not the name of a node: {name[:60]!r}")
            names[name] = None
    return list(names)


def _words(text: str) -> Iterator[str]:
    """The words of a list, split at commas and white space outside brackets."""
    if "[" not in text and "]" not in text:
        yield from text.replace(",", " ").split()
        return
    start = depth = 0
    for at, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]")
        if depth not in (0, 1):
            raise FormatError(f"brackets do not match: {text[start : start + 60]!r}")
        if not depth and (letter == "," or letter.isspace()):
            if at > start:
                yield text[start:at]
            start = at + 1
    if depth:
        raise FormatError(f"brackets do not match: {text[start : start + 60]!r}")
    if len(text) > start:
        yield text[start:]


def _names(word: str) -> list[str]:
    if "[" not in word:
        return [word]
    names = [""]
    for part in _PART.finditer(word):
        inside, plain = part.groups()
        if inside is None:
            endings = [plain]
        elif ":" in inside:
            endings = [inside]  # an IPv6 literal
        else:
            endings = list(_numbers(inside))
        if len(names) * len(endings) > NODES_LIMIT:
            raise FormatError(f"more than {NODES_LIMIT} nodes: {word[:60]!r}")
        names = [name + ending for name in names for ending in endings]
        if len(names[0]) > NAME_LIMIT:
            raise FormatError(f"not the name of a node: {word[:60]!r}")
    return names


def _numbers(inside: str) -> Iterator[str]:
    """The numbers in brackets, with the zeros of the first number of each range."""
    left = NODES_LIMIT
    for word in inside.split(","):
        found = _RANGE.fullmatch(word.strip())
        if found is None:
            raise FormatError(f"not a number or a range: {word[:30]!r}")
        first, last = found[1], found[2] or found[1]
        if int(last) < int(first):
            raise FormatError(f"range runs backwards: {word[:30]!r}")
        left -= int(last) - int(first) + 1
        if left < 0:
            raise FormatError(f"more than {NODES_LIMIT} nodes: [{inside[:60]}]")
        for number in range(int(first), int(last) + 1):
            yield str(number).zfill(len(first))


def fold(names: Iterable[str]) -> str:
    """The shortest list that `expand` turns into these names, sorted: `gpu[031-039],login1`."""
    split = {tuple(_tokens(name)) for name in names}
    for back in range(1, 2 * _NUMBERS_LIMIT, 2):  # the last number of a name, then that before it
        split = _folded(split, back)
    return ",".join("".join(tokens) for tokens in sorted(split, key=_order))


def _tokens(name: str) -> list[str]:
    """Text and numbers in turns, text first and last. An address or a user's name is not taken apart."""
    if ":" in name or "@" in name:
        return [name]
    return _FOLDED.split(name)


def _folded(split: set[tuple[str, ...]], back: int) -> set[tuple[str, ...]]:
    """Names that differ only in the number `back` tokens before the last, as one."""
    groups: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
    kept = set()
    for tokens in split:
        at = len(tokens) - 1 - back
        if at < 0:
            kept.add(tokens)
        else:
            groups.setdefault((tokens[:at], tokens[at + 1 :]), []).append(tokens[at])
    for (before, after), numbers in groups.items():
        kept.add((*before, numbers[0] if len(numbers) == 1 else f"[{_ranges(numbers)}]", *after))
    return kept


def _ranges(numbers: list[str]) -> str:
    """Numbers as ranges: `031-039,112`."""
    runs: list[list[str]] = []
    for number in sorted(numbers, key=lambda text: (int(text), len(text))):
        if runs and str(int(runs[-1][1]) + 1).zfill(len(runs[-1][0])) == number:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(first if first == last else f"{first}-{last}" for first, last in runs)


def _order(tokens: tuple[str, ...]) -> list[tuple[int, str]]:
    """Sorts n2 before n10, and a range by its first number."""
    order = []
    for token in tokens:
        number = _FIRST.match(token)
        order.append((int(number[1]) if number else -1, token))
    return order


def natural(name: str) -> list[tuple[int, str]]:
    """A key that sorts names as people do: n2 before n10."""
    return [*_order(tuple(_tokens(name))), (0, name)]
