"""Render how two machines are connected: an answer, the cables, the rate, what to set."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Sequence

from msgspec.structs import replace

from gdrkit.facts.cable_halves import NCCL_TEST_GB_PER_S, NCCL_TEST_GBIT_PER_S
from gdrkit.fleet.cabling import halves_down
from gdrkit.fleet.document import CabledPort, Cabling, NodeRow, NodeSetting, PortPair
from gdrkit.report.terminal import Row

KNOWN_BY = {
    "network": "in one network",
    "neighbour": "seen as neighbours",
    "shared": "all in one network",
    "cable": "the same cable, no address",
}
NO_GPUDIRECT = (
    "RDMA is impossible with an integrated GPU, as the GB10 is; NCCL copies through host memory. Ignore "
    "`Invalid argument` when nvidia-peermem is loaded"
)
NOT_KNOWN = "not known which port leads where; collect both without --anonymize, with `ip` installed"
FOR_CABLES = ("NCCL_IB_HCA", "NCCL_SOCKET_IFNAME", "NCCL_CROSS_NIC", "NCCL_IB_SUBNET_AWARE_ROUTING",
              "NCCL_IB_GID_INDEX")  # fmt: skip
"""Settings that depend on how the nodes are connected."""
HCA = "NCCL_IB_HCA"
OF_PORTS = (HCA, "NCCL_CROSS_NIC")
"""Of them those that depend on which ports are up."""
SETTING = 4
"""How far the line of a setting is indented; why it is set is below it."""


def lines(cabling: Cabling, rows: Sequence[NodeRow]) -> Iterator[Row]:
    """The section about two nodes, which are among the rows."""
    one, other = (next(row for row in rows if row.name == name) for name in cabling.nodes)
    yield 0, "", ""
    yield 0, "bold", _answer(cabling)
    for problem in cabling.problems:
        yield 4, "yellow", problem, "  ! "
    is_open = any(port.addresses is None for port in (*one.ports, *other.ports))
    if cabling.problems and not cabling.pairs and is_open:
        yield _labelled("ports", NOT_KNOWN)
    yield from _pairs(cabling, one, other)
    down = [f"{name} of {row.name}" for row in (one, other) for name in _down(row)]
    if down:
        yield _labelled("down", ", ".join(down))
    if cabling.gbit_per_s is not None:
        yield _labelled("rate", _rate(cabling))
    for note in cabling.notes:
        yield _labelled("note", note)
    yield _labelled("GPUDirect", NO_GPUDIRECT)
    yield from _settings(cabling, one, other)


def _labelled(label: str, words: str) -> Row:
    return 12, "", words, f"  {label:<10}"


def _answer(cabling: Cabling) -> str:
    if cabling.problems:
        count = len(cabling.problems)
        return f"Between the two nodes: {count} problem{'s' if count > 1 else ''}"
    if not cabling.pairs:
        return f"Between the two nodes: {NOT_KNOWN}"
    rate = f", at most {cabling.gbit_per_s:.0f} Gbit/s" if cabling.gbit_per_s is not None else ""
    return f"Between the two nodes: connected{rate}"


def _pairs(cabling: Cabling, one: NodeRow, other: NodeRow) -> Iterator[Row]:
    ports = [{port.device: port for port in row.ports} for row in (one, other)]
    cables: dict[str, list[PortPair]] = {}
    for pair in cabling.pairs:
        a, b = ports[0][pair.device], ports[1][pair.other]
        name = f"{a.name or a.device} of {one.name} to {b.name or b.device} of {other.name}"
        cables.setdefault(name, []).append(pair)
    for name, pairs in cables.items():
        how = dict.fromkeys(KNOWN_BY[pair.known_by] for pair in pairs)
        yield _labelled("cable", f"{name} ({', '.join(how)})")
        for pair in pairs:
            for port in (ports[0][pair.device], ports[1][pair.other]):
                yield 6, "", _port(port), "      "


def _port(port: CabledPort) -> str:
    addresses = " ".join(port.addresses or ()) or "no address"
    gid = f"GID {port.gid}" if port.gid is not None else "no GID of RoCE v2 with IPv4"
    mtu = f"MTU {port.mtu}" if port.mtu else "MTU not known"
    return f"{port.device:<13} {port.interface:<15} {addresses:<18} {mtu}  {gid}"


def _down(row: NodeRow) -> list[str]:
    """Physical ports, where they are named, without a device that is up."""
    up = {port.name or port.device for port in row.ports if port.state == "ACTIVE"}
    return sorted({port.name or port.device for port in row.ports} - up)


def _rate(cabling: Cabling) -> str:
    words = f"at most {cabling.gbit_per_s:.0f} Gbit/s in one direction: {cabling.limited_by}"
    if cabling.gbit_per_s == NCCL_TEST_GBIT_PER_S:
        words += f"; NVIDIA's test with NCCL asks for {NCCL_TEST_GB_PER_S:.1f} GB/s"
    return words


def _settings(cabling: Cabling, one: NodeRow, other: NodeRow) -> Iterator[Row]:
    """What to set, once where both nodes need the same."""
    some, others = _for_cables(cabling, one, other)
    same = [setting for setting in some if setting in others]
    parts = (
        ("on both nodes", same),
        (f"on {one.name}", [setting for setting in some if setting not in same]),
        (f"on {other.name}", [setting for setting in others if setting not in same]),
    )
    for where, found in parts:
        if found:
            yield 0, "", ""
            yield 0, "bold", f"What to set {where}"
        for setting in found:
            head = f"{setting.name}='{setting.value}'" if setting.value else f"{setting.name} is not set"
            yield SETTING, "", head
            yield SETTING + 2, "dim", setting.why

    if one.settings or other.settings:
        command = f"gdr config nccl-env {shlex.quote(one.target)}" if one.target else "gdr config nccl-env"
        yield 2, "dim", f"`{command}` writes these and the other settings of {one.name or 'a node'}"


def _for_cables(cabling: Cabling, one: NodeRow, other: NodeRow) -> tuple[list[NodeSetting], ...]:
    """The settings of both nodes. NCCL needs as many devices on both, so where the counts differ, a node's
    own list is not what to set: those that are connected are, once no half of a cable is down."""
    found = [[setting for setting in row.settings if setting.name in FOR_CABLES] for row in (one, other)]
    first = [f"{port.device} of {row.name}" for row in (one, other) for port in halves_down(row)]
    if first:
        why = f"bring {' and '.join(first)} up first, then run this again"
        return tuple([_open(s, why) if s.name in OF_PORTS else s for s in own] for own in found)
    if len({setting.value.count(",") for own in found for setting in own if setting.name == HCA}) < 2:
        return tuple(found)
    used = [{pair.device for pair in cabling.pairs}, {pair.other for pair in cabling.pairs}]
    return tuple([_only(s, names) for s in own] for own, names in zip(found, used, strict=True))


def _open(setting: NodeSetting, why: str) -> NodeSetting:
    return replace(setting, value="", why=why)


def _only(setting: NodeSetting, devices: Collection[str]) -> NodeSetting:
    """A setting of NCCL_IB_HCA with no more than these devices."""
    if setting.name != HCA:
        return setting
    listed = setting.value.removeprefix("=").split(",")
    kept = [word for word in listed if word.partition(":")[0] in devices]
    if not kept:
        return _open(setting, "not known which devices lead to the other node")
    value = "=" + ",".join(kept)
    return replace(setting, value=value, why="the devices that lead to the other node, as many on both")
