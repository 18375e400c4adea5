"""What the settings of a file bring about on a node: it is judged as if its jobs had them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gdrkit.catalogue import consumer_of, every_consumer
from gdrkit.formats.regex import regex
from gdrkit.node import Node, if_missing
from gdrkit.programs.environment import NCCL_CONF, UCX_CONF, Environment, ProgramSetting, environment
from gdrkit.programs.nccl.distance_rules import NAME as GDR_LEVEL
from gdrkit.repair.config.fault import ConfigFault, fault_at
from gdrkit.repair.config.node_check import Setting
from gdrkit.verdict import Verdict, judge_node
from gdrkit.verdict.path_state import State

_CLOSED = (State.BLOCKED, State.IMPOSSIBLE)
MOST_SETTINGS = 16
"""Settings of a file that are tried: each costs a verdict."""


def effect_faults(node: Node, settings: Iterable[Setting]) -> Iterator[ConfigFault]:
    """The settings that close a program's last direct path on the node, each at its line."""
    known = {switch.name for one in every_consumer() for switch in one.switches} | {GDR_LEVEL}
    given = {(name, value): line for line, name, value in reversed(tuple(settings)) if name in known}
    if not given:
        return
    names = {name for name, _ in given}
    before = judge_node(_with(node, names, ""))
    for (name, value), line in sorted(given.items(), key=lambda one: one[1])[:MOST_SETTINGS]:
        yield from _closed(before, judge_node(_with(node, names, name, value)), (line, name, value))


def _with(node: Node, names: set[str], name: str, value: str = "") -> Node:
    """The node as if its files set, of these variables, this one alone, or none."""
    changes = []
    for source in (NCCL_CONF, UCX_CONF):
        found = if_missing(Environment(source, "node", ()), environment, node, source)
        kept = tuple(one for one in found.settings if one.name not in names)
        added = (ProgramSetting(name, value, source, 1),) if name else ()
        changes.append(environment.becomes(Environment(source, "node", (*added, *kept)), source))
    return node.after("with the settings of the file", changes)


def _closed(before: Verdict, after: Verdict, setting: Setting) -> Iterator[ConfigFault]:
    """The fault of a setting that leaves a program no direct path: one, since it has one cause."""
    line, name, value = setting
    for state in after.states:
        if state.state not in _CLOSED or before.of(state.consumer).state in _CLOSED:
            continue
        known, now = _blocking(before, state.consumer), _blocking(after, state.consumer)
        codes = sorted({code for path, found in now.items() for code in found - known.get(path, set())})
        others = [
            f"{path} is blocked by {', '.join(sorted(found))}"
            for path, found in now.items()
            if not found - known.get(path, set())
        ]
        if codes:
            rest = f": {'; '.join(others)}" if others else ""
            seen = f"{value} leaves {state.consumer} no direct path on this node{rest}"
            yield fault_at(line, codes[0], name, seen, "no setting, unless this is meant", "warning")
            return


def _blocking(verdict: Verdict, consumer: str) -> dict[str, set[str]]:
    """The direct paths of a program that are blocked, each with the codes, at the NICs that decide."""
    paths = consumer_of(consumer).direct
    found: dict[str, set[str]] = {}
    for pair in verdict.of(consumer).pairs:
        for state in verdict.matrix[pair]:
            if state.consumer == consumer and state.path in paths and state.codes:
                found.setdefault(state.path, set()).update(state.codes)
    return found


_OF_DIRECT_PATH = regex(r"[A-Z]+_\w*(?:GDR(?!COPY)|DMABUF|GPU_DIRECT|DATA_DIRECT)\w*")
"""Variables of any program that are about GPU memory and the NIC alone: their names say so."""


def without_direct_path(faults: Iterable[ConfigFault], settings: Iterable[Setting]) -> Iterator[ConfigFault]:
    """The faults of a file for GPUs without memory of their own, of which no NIC reaches any: nothing that a
    file sets about that has an effect, so that no other value is right either."""
    lines = {line: (name, value) for line, name, value in settings if _OF_DIRECT_PATH.fullmatch(name)}
    yield from (fault for fault in faults if fault.line not in lines)
    for line, (name, value) in lines.items():
        seen = f"{value} has no effect: the GPU is integrated, and no setting opens a direct path to it"
        yield fault_at(line, "gpu-integrated", name, seen, "no such line: it can go", "warning")
