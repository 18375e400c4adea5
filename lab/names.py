"""Names in modules: tokens at compile time, random names in every run, so that nothing is recognised by
name.

A token has the length of the name that replaces it, so a compiled module is renamed by replacing bytes.
The kernel searches export tables by bisection, so names keep the order of their tokens.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping

from msgspec import Struct

from lab.sources import MODULES_REAL, SOURCES, SYMBOLS_REAL

_USUAL_LENGTH = 12
_TOKEN = re.compile(rb"z[qswu]\d\d[a-z]y*")
_KINDS = {"module": "q", "symbol": "s", "parameter": "w", "alias": "u", "namespace": "u"}
PARAMETERS_KEPT = ("peerdirect_support", "persistent_api_support")


class Name(Struct, frozen=True):
    """A named thing in a module: its kind, and its identity in the tables of sources."""

    kind: str
    identity: str


def _identities() -> tuple[Name, ...]:
    found: dict[Name, None] = {}
    for source in SOURCES:
        found[Name("module", source.identity)] = None
        for export in source.exports:
            found[Name("symbol", export.symbol)] = None
            if export.namespace:
                found[Name("namespace", export.namespace)] = None
        for symbol in (*source.calls, *source.weak):
            found[Name("symbol", symbol)] = None
        for _, parameter in source.parameters:
            found[Name("parameter", parameter)] = None
    found[Name("alias", "handle")] = None
    return tuple(sorted(found, key=lambda name: (name.kind, name.identity)))


IDENTITIES = _identities()


def real(name: Name) -> str | None:
    """The real name of an identity, or None."""
    if name.kind == "module":
        return MODULES_REAL.get(name.identity)
    if name.kind == "symbol":
        return SYMBOLS_REAL.get(name.identity)
    return name.identity if name.identity in PARAMETERS_KEPT else None


def token(name: Name, variant: int = 0) -> str:
    """The token for a name in compiled modules; each source that defines the name has its own variant."""
    number = [n for n in IDENTITIES if n.kind == name.kind].index(name)
    if name.kind == "namespace":
        number += 50  # namespaces share their letter with aliases
    length = len(real(name) or "") or _USUAL_LENGTH
    return f"z{_KINDS[name.kind]}{number:02d}{chr(ord('a') + variant)}".ljust(length, "y")


class Naming(Struct, frozen=True):
    """A choice of names for all identities."""

    seed: int
    names: Mapping[Name, str]

    def module(self, identity: str) -> str:
        return self.names[Name("module", identity)]

    def symbol(self, identity: str) -> str:
        return self.names[Name("symbol", identity)]

    def fill(self, text: str) -> str:
        """Text with `{module:x}`, `{symbol:x}` and so on replaced by the chosen names."""
        return fill(text, self.names)

    def apply(self, content: bytes) -> bytes:
        """A compiled module with its tokens replaced."""
        table = {token(name)[:4].encode(): value.encode() for name, value in self.names.items()}
        return _TOKEN.sub(lambda found: table.get(found[0][:4], found[0]), content)


def fill(text: str, names: Mapping[Name, str]) -> str:
    """Placeholders replaced; doubled braces become single ones, as in str.format."""
    text = re.sub(r"(?<!\{)\{(\w+):([\w-]+)\}", lambda found: names[Name(found[1], found[2])], text)
    return text.replace("{{", "{").replace("}}", "}")


_LATER = tuple(Name("module", identity) for identity in ("barred", "legacy", "wild", "wilder"))
"""Modules that came after the first recordings. Their names are drawn last, so that every other name stays
the one that was recorded. A module that is added belongs here, behind them."""


def naming(seed: int, *, real_names: bool = False) -> Naming:
    """Random names from a seed; with `real_names`, the peermem family has its real names."""
    chosen = random.Random(seed)
    names: dict[Name, str] = {}
    first = [[name for name in IDENTITIES if name.kind == kind and name not in _LATER] for kind in _KINDS]
    for rows in (*first, _LATER):
        heads = sorted("".join(chosen.choices("abcdefghijklmnoprstuv", k=6)) for _ in rows)
        for name, head in zip(rows, heads, strict=True):
            length = len(token(name))
            tail = "".join(chosen.choices("abcdefghijklmnoprstuv", k=max(0, length - len(head))))
            names[name] = (head + tail)[:length]
    for name in IDENTITIES:
        known = real(name)
        if known and (real_names or name.kind == "parameter"):
            names[name] = known
    return Naming(seed, names)
