"""Missing evidence makes a prediction less certain, or a check unknown, but never changes the prediction."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gdrkit.evidence import Confidence, EvidenceMissing
from gdrkit.evidence.missing import not_collected
from gdrkit.loader import Prediction
from gdrkit.loader import modprobe as predicted
from gdrkit.node import Node
from tests.facts.test_trust import MOK, OTHER, PLAIN, altered, secured
from tests.kernel_tree import FOLDER, KernelTree
from tests.known_answers import modprobe, note, wrapped
from tests.loader.shared import full, stub
from tests.memory_host import MemoryHost
from tests.module_builder import sign


class Unseen(MemoryHost):
    """The same machine, but one path was not collected."""

    def __init__(self, whole: MemoryHost, hidden: str) -> None:
        super().__init__(whole.files, commands=whole.commands, links=whole.links, complete=whole.complete)
        self.hidden = hidden

    def _check(self, path: str) -> None:
        if path == self.hidden:
            raise not_collected(path)

    def read(self, path: str) -> bytes:
        self._check(path)
        return super().read(path)

    def list(self, path: str) -> tuple[str, ...]:
        self._check(path)
        return super().list(path)

    def exists(self, path: str) -> bool:
        self._check(path)
        return super().exists(path)


def pair(wanted: int) -> KernelTree:
    tree = KernelTree().module("provider", exports={"hello": 7}, loaded="OE")
    return tree.module("x", imports={"hello": wanted}, depends=("provider",))


TREES: dict[str, Callable[[], KernelTree]] = {
    "loads": lambda: KernelTree().module("x"),
    "stub": lambda: KernelTree().module("x", content=stub()),
    "full": lambda: full(KernelTree()),
    "crc": lambda: pair(8),
    "pair": lambda: pair(7),
    "unsigned": lambda: secured().module("x"),
    "unknown-key": lambda: secured().module("x", content=sign(PLAIN, OTHER)),
    "signed": lambda: secured().module("x", content=sign(PLAIN, MOK)),
    "altered": lambda: secured().module("x", content=altered(sign(PLAIN, MOK))),
    "install": lambda: KernelTree().module("x").put("etc/modprobe.d/a.conf", "install x /bin/false\n"),
    "blacklisted": lambda: KernelTree().module("x").put("proc/cmdline", "module_blacklist=x\n"),
    "layout": lambda: KernelTree().module("x", module_layout=1),
    "disabled": lambda: KernelTree().module("x").put("proc/sys/kernel/modules_disabled", "1\n"),
    "parameter": lambda: (
        KernelTree().module("x", parameters={"n": "int"}).put("etc/modprobe.d/a.conf", "options x n=one\n")
    ),
    "absent": KernelTree,
}


def opened(host: MemoryHost, name: str) -> tuple[Prediction, list[str]]:
    prediction = modprobe(Node(host), name)
    return prediction, list(dict.fromkeys(host.opened))


def sureness(whole: Prediction, found: Prediction) -> str:
    """How sure the same prediction still is, or what is predicted instead."""
    same = (found.exit_code, found.loaded, found.reason) == (whole.exit_code, whole.loaded, whole.reason)
    instead = "" if same else f"exit {found.exit_code} {found.reason}".strip()
    unless = f"unless {', '.join(found.unless)}" if found.unless else ""
    return ", ".join(filter(None, (instead, found.confidence.value, unless)))


@pytest.mark.parametrize("case", TREES)
def test_hiding_any_source_never_changes_the_prediction(case: str) -> None:
    tree = TREES[case]()
    name = "nvidia_peermem" if case == "full" else "x"
    whole, paths = opened(tree.host(), name)
    without: dict[str, list[str]] = {}
    for path in paths:
        try:
            found = predicted(Node(Unseen(tree.host(), path)), name)
        except EvidenceMissing as error:
            source = "that" if error.missing.source == path else error.missing.source
            without.setdefault(f"unknown for want of {source}", []).append(path)
            continue
        without.setdefault(sureness(whole, found), []).append(path)
        same = (found.exit_code, found.loaded, found.reason) == (whole.exit_code, whole.loaded, whole.reason)
        open_now = found.unless or found.result_unknown
        assert same or (open_now and found.confidence < Confidence.CERTAIN), (path, whole, found)
        assert found.confidence <= whole.confidence, (path, whole, found)
    for said, hidden in without.items():
        short = [path.removeprefix(f"{FOLDER}/") for path in hidden]
        note("\n".join(wrapped(f"{said}, without", short, ", ")))
