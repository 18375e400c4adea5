"""A page without names and addresses: the rules of `gdr collect --anonymize`, applied to what the page says.

They see each text and each attribute by itself, so what only its place tells, such as a serial number in a
cell beside its name, stays. A bundle that was collected with --anonymize has none of that.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

from gdrkit.agent.collect.anonymize import Anonymizer
from gdrkit.formats import json_text
from gdrkit.html.page import embedded

_PARTS = re.compile(r"(<style>.*?</style>|<script[^>]*>.*?</script>|<[^>]*>)", re.DOTALL)
_DATA = re.compile(r'(<script type="application/json" id="data">)(.*)(</script>)', re.DOTALL)
_VALUE = re.compile(r'(?<==")[^"]*(?=")')


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
