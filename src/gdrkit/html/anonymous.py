"""A page without names and addresses: the rules of `gdr collect --anonymize`, applied to what the page says.

They look at each text and each attribute alone, so a value that only its position identifies, such as a
serial number in the cell next to its label, stays. A bundle collected with --anonymize does not contain such
values.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache

import msgspec

from gdrkit.agent.collect.anonymize import Anonymizer, is_identifying
from gdrkit.fleet.document import FleetReport
from gdrkit.fleet.hostlist import expand, fold, natural
from gdrkit.fleet.racks import rack_of
from gdrkit.formats import json_text
from gdrkit.formats.errors import FormatError
from gdrkit.formats.regex import regex
from gdrkit.html.page import embedded

# A run over many nodes without their names, addresses and users, for `gdr fleet report --anonymize`. The
# names are replaced in the document and not on the page: there, a list such as gpu[001-008] has names that
# are nowhere written out.

_WORD = regex(r"[A-Za-z0-9][A-Za-z0-9._-]*")
PARTS_LIMIT = 16
"""Parts of a word, between dots and dashes, in which names are looked for."""

CLOSED = ("schema", "standing", "kind", "known_by", "remedies", "started", "since")
"""Keys whose values the schema lists, or that are times: they name no node."""
NAMES = ("name", "node", "calls_itself")
"""Keys whose values are names of nodes."""

Racks = Mapping[str, str]


def anonymous_fleet(report: FleetReport, racks: Racks) -> tuple[FleetReport, dict[str, str]]:
    """The same run, and the rack of each node, with other names. Equal names stay equal."""
    anonymizer = Anonymizer()
    lists = [change.nodes for change in report.changes]
    names = {name for row in report.nodes for name in (row.name, row.calls_itself) if name}
    names |= {name for nodes in lists for name in _expanded(nodes)}
    new = {name: anonymizer.hostname(name) for name in sorted(names, key=natural)}
    named = msgspec.to_builtins(msgspec.structs.replace(report, asked=()))
    changed = _renamed(named, "", new, _text_changer(anonymizer, new))
    return msgspec.convert(changed, FleetReport), _racks(new, racks)


def _racks(new: Mapping[str, str], racks: Racks) -> dict[str, str]:
    """The rack of each new name: the racks are numbered, in the order of their names."""
    before = {name: racks.get(name) or rack_of(name) for name in new}
    known = sorted({rack for rack in before.values() if rack}, key=natural)
    numbers = {rack: f"rack{n:02d}" for n, rack in enumerate(known, 1)}
    return {new[name]: numbers[rack] for name, rack in before.items() if rack}


def _expanded(nodes: str) -> list[str]:
    try:
        return expand(nodes)
    except FormatError:
        return [nodes]


def _text_changer(anonymizer: Anonymizer, new: Mapping[str, str]) -> Callable[[str], str]:
    """Replaces names of nodes, also without their domain, and what the collector's rules know. A word of
    `new` is looked up and not searched for, so that it takes no longer for many nodes."""
    short = {name.lower(): other for name, other in new.items() if is_identifying(name)}
    for name, other in new.items():
        first = name.partition(".")[0]
        if is_identifying(first):
            short.setdefault(first.lower(), other.partition(".")[0])

    def replaced(match: re.Match[str]) -> str:
        parts = re.split(r"([._-])", match[0], maxsplit=PARTS_LIMIT)
        at, result = 0, []
        while at < len(parts):
            for end in range(len(parts), at, -1):
                if (other := short.get("".join(parts[at:end]).lower())) is not None:
                    result.append(other)
                    at = end
                    break
            else:
                result.append(parts[at])
                at += 1
        return "".join(result)

    @cache
    def text(words: str) -> str:
        return anonymizer.words(_WORD.sub(replaced, words))

    return text


def _renamed(value: object, key: str, new: Mapping[str, str], text: Callable[[str], str]) -> object:
    """A document with every text in it changed; `nodes` are lists of names, those of `NAMES` names."""
    if key in CLOSED:
        return value
    if isinstance(value, str):
        if key == "nodes":
            return fold(new.get(name, text(name)) for name in _expanded(value))
        if key == "target" and "://" not in value:
            value = value.rpartition("/")[2]  # where a bundle lies on this machine is not about the node
        return new.get(value) or text(value) if key in NAMES else text(value)
    if isinstance(value, dict):
        free = key in ("traits", "jobs")
        return {
            text(name) if free else name: _renamed(one, "" if free else name, new, text)
            for name, one in value.items()
        }
    if isinstance(value, list | tuple):
        return [_renamed(one, "name" if key == "nodes" else key, new, text) for one in value]
    return value


_PARTS = regex(r"(<style>.*?</style>|<script[^>]*>.*?</script>|<[^>]*>)", re.DOTALL)
_DATA = regex(r'(<script type="application/json" id="data">)(.*)(</script>)', re.DOTALL)
_VALUE = regex(r'(?<==")[^"]*(?=")')


def anonymous(page: str, hosts: Iterable[str]) -> str:
    """The page with replacements for the names of hosts and for what the collector's rules know. The same
    value has the same replacement everywhere, so links still lead to their place."""
    names = {name for host in hosts if host for name in (host, host.partition(".")[0])}
    anonymizer = Anonymizer([("host", name) for name in names])
    return "".join(_part(part, anonymizer) for part in _PARTS.split(page))


def _part(part: str, anonymizer: Anonymizer) -> str:
    if match := _DATA.fullmatch(part):
        return match[1] + embedded(_walked(json_text.decode(match[2], object), anonymizer)) + match[3]
    if part.startswith(("<style>", "<script>", "<!doctype", "<meta")):
        return part  # our own; the policy has their hashes
    if part.startswith("<"):
        return _VALUE.sub(lambda value: _words(value[0], anonymizer), part)
    return _words(part, anonymizer)


def _words(text: str, anonymizer: Anonymizer) -> str:
    """Text of HTML, with the entities that html.escape() makes."""
    plain = html.unescape(text)
    changed = anonymizer.words(plain)
    return text if changed == plain else html.escape(changed)


def _walked(value: object, anonymizer: Anonymizer) -> object:
    """JSON with every text in it anonymized, names of keys as well."""
    if isinstance(value, str):
        return anonymizer.words(value)
    if isinstance(value, list):
        return [_walked(one, anonymizer) for one in value]
    if isinstance(value, dict):
        return {anonymizer.words(key): _walked(one, anonymizer) for key, one in value.items()}
    return value
