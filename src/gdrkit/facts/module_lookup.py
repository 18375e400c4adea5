"""The names that modprobe looks up in depmod's indexes: aliases, symbols, and modules of the kernel image.

Source: kmod libkmod/libkmod.c, kmod_load_resources() and kmod_lookup_alias_from_*_file().
"""

from __future__ import annotations

import re
from collections.abc import Callable

from gdrkit.evidence import Confidence, EvidenceAbsent, EvidenceMissing, Missing, MissingReason
from gdrkit.facts.module_index import (
    builtin,
    compiled,
    index_bytes,
    index_file,
    modules_dir,
    symbol_owner,
)
from gdrkit.formats import kmod_index
from gdrkit.formats.module_name import canonical
from gdrkit.node import Node, fact, if_absent, if_missing

_ORDER = ("dep", "alias", "symbols", "builtin.alias", "builtin")
_OPTIONAL = "builtin.alias"
_SYMBOL = "symbol:"


@fact
def aliases(node: Node, alias: str) -> tuple[str, ...]:
    """The modules for an alias in depmod's list, best first; () if none."""
    return _matches(node, "alias", alias, lambda: _aliases_of_text(node, alias))


@fact
def builtin_aliases(node: Node, alias: str) -> tuple[str, ...]:
    """The parts of the kernel image with an alias; () if none."""
    return _matches(node, _OPTIONAL, alias, lambda: ())


@fact
def symbol_provider(node: Node, name: str) -> tuple[str, ...]:
    """The modules for `symbol:NAME`; () if none, and for other names."""
    if not name.startswith(_SYMBOL):
        return ()

    def by_text() -> tuple[str, ...]:
        owner = if_absent("", symbol_owner, node, name.removeprefix(_SYMBOL))
        return (owner,) if owner else ()

    return _matches(node, "symbols", name, by_text)


@fact
def taken_for_builtin(node: Node, name: str) -> bool:
    """Whether modprobe takes a module for a part of the kernel image. It asks the index alone, which may be
    missing where the text beside it is not."""
    try:
        return compiled(node, "builtin").search(canonical(name)) is not None
    except EvidenceAbsent:
        return False
    except EvidenceMissing as error:
        if error.missing.why is not MissingReason.NOT_COLLECTED:
            raise
        return builtin(node, name)


def _matches(node: Node, index: str, name: str, by_text: Callable[[], tuple[str, ...]]) -> tuple[str, ...]:
    """The values of an index for a name; where the index was not collected, of the text beside it."""
    try:
        found = compiled(node, index).matches(name)
    except kmod_index.NotCollected:
        path = index_file(node, index)
        ask = "modprobe --resolve-alias NAME"
        raise EvidenceMissing(Missing(f"{path} ({name})", MissingReason.NOT_COLLECTED, ask)) from None
    except EvidenceAbsent:
        return ()
    except EvidenceMissing as error:
        if error.missing.why is not MissingReason.NOT_COLLECTED:
            raise
        modules = by_text()
        if modules:
            node.cite(f"modules.{index}", text="the text alone", confidence=Confidence.LIKELY)
        return modules
    return tuple(canonical(module) for module in found)


def _aliases_of_text(node: Node, alias: str) -> tuple[str, ...]:
    """The same from modules.alias, which has fnmatch(3) patterns."""
    text = if_absent("", lambda: node.text(f"{modules_dir(node)}/modules.alias"))
    if alias not in text and ":" not in alias:  # only aliases of devices, which have a colon, have wildcards
        return ()
    from fnmatch import fnmatchcase

    head = re.escape(alias[:1])
    return tuple(
        canonical(found[2])
        for found in re.finditer(rf"^alias ({head}\S*) (\S+)$", text, re.MULTILINE)
        if fnmatchcase(alias, found[1])
    )


@fact
def index_complaints(node: Node) -> tuple[str, ...]:
    """What kmod says when it opens the indexes: it stops at the first that is missing or of another kind.

    Where one was not collected, nothing is known of the others, and nothing is said.
    """
    said = []
    for index in _ORDER:
        data = if_missing(b"", index_bytes, node, index)
        wrong = "" if kmod_index.is_ignored(data) else kmod_index.complaint(data)
        if wrong:
            node.cite(index_file(node, index), text=wrong)
            said.append(wrong)
        if index != _OPTIONAL and (wrong or kmod_index.is_ignored(data)):
            break
    return tuple(said)
