"""What the device plugins of a NicClusterPolicy would find on a node: selectors that select nothing there.

The plugin for shared devices takes the network cards that fit every selector which is not empty; without
one, it offers 0 of the resource. Sources: k8s-rdma-shared-dev-plugin pkg/resources/resources_manager.go,
InitServers() and GetFilteredDevices(); sriov-network-device-plugin pkg/netdevice, pfNames.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gdrkit.facts.kubernetes import Manifest
from gdrkit.facts.pci import ROOT, device_at
from gdrkit.facts.rdma import RdmaDevice, netdev, nics, ports
from gdrkit.formats.yaml_values import Scalar, Value, YamlSequence, at, items_at
from gdrkit.node import Node, if_missing
from gdrkit.repair.config.fault import ConfigFault, fault_at
from gdrkit.repair.config.plugin_config import SHARED, Resource, resources

_LINKS = {"Ethernet": "ether", "InfiniBand": "infiniband"}
Names = frozenset[str] | None
"""What a card has of one selector; None where that is not known."""
Wanted = dict[str, tuple[Scalar, ...]]
SELECTORS = ("vendors", "deviceIDs", "drivers", "ifNames", "linkTypes")


def plugin_faults(node: Node, manifest: Manifest) -> Iterator[ConfigFault]:
    """One fault for each resource that the node offers none of, at the selector that leaves its cards out.
    A warning: the policy may be for other nodes."""
    cards = if_missing((), nics, node)
    if not cards:  # which the doctor reports
        return
    for one in resources(manifest):
        yield from _of_resource(node, cards, one)


def _of_resource(node: Node, cards: tuple[RdmaDevice, ...], one: Resource) -> Iterator[ConfigFault]:
    wanted: Wanted = {}
    for wanted in _alternatives(one):
        fitting = [[_fits(_HAS[key](node, card), given) for key, given in wanted.items()] for card in cards]
        if any(all(card) for card in fitting):
            return
    if not wanted:
        return
    none = [not any(column) for column in zip(*fitting, strict=True)]
    key = next((key for key, lacks in zip(wanted, none, strict=True) if lacks), "")
    if key:
        line, path = one.line + wanted[key][0].line, f"{one.path}.{key}"
        has = sorted({name for card in cards for name in _HAS[key](node, card) or ()})
        seen = f"no RDMA device of the node has {', '.join(value.text for value in wanted[key])[:200]}"
        expected = f"one of {', '.join(has[:16]) or 'none'}"
    else:
        line, path = one.line + one.value.line, one.path
        seen = f"no RDMA device of the node fits all of {', '.join(wanted)}"
        expected = "selectors that one device fits together"
    code = "interface-missing" if key in _INTERFACES else "hca-not-selected"
    yield fault_at(line, code, path, f"{seen}: it offers none of {one.name[:60]}", expected, "warning")


def _alternatives(one: Resource) -> Iterator[Wanted]:
    """What a card has to have, by selector; of a list of selectors, one is enough. Of virtual functions,
    which need not be made yet and have ids of their own, only the name of the physical one is compared."""
    if names := _texts(one.value, "devices"):
        yield {"devices": names}
        return
    found = at(one.value, "selectors")
    keys = SELECTORS if one.plugin == SHARED else ("pfNames",)
    for selectors in found.items if isinstance(found, YamlSequence) else (found,):
        yield {key: items for key in keys if (items := _texts(selectors, key))}


def _texts(value: Value | None, key: str) -> tuple[Scalar, ...]:
    return tuple(item for item in items_at(value, key) if isinstance(item, Scalar))


def _fits(has: Names, wanted: tuple[Scalar, ...]) -> bool:
    return has is None or any(item.text.partition("#")[0] in has for item in wanted)


def _interfaces(node: Node, card: RdmaDevice) -> Names:
    """The interfaces of a card: that of its ports, which may be a bond, and its own."""

    def own() -> tuple[str, ...]:
        return node.list(f"{ROOT}/{card.pci_address}/net")

    found = {netdev(node, card.name, port.number) for port in ports(node, card.name)}
    return frozenset({*found, *if_missing((), own)})


def _known(read: Callable[[Node, RdmaDevice], Names]) -> Callable[[Node, RdmaDevice], Names]:
    return lambda node, card: if_missing(None, read, node, card)


_INTERFACES = ("ifNames", "pfNames", "devices")
_HAS: dict[str, Callable[[Node, RdmaDevice], Names]] = {
    "vendors": _known(lambda node, card: frozenset({device_at(node, card.pci_address).vendor})),
    "deviceIDs": _known(lambda node, card: frozenset({device_at(node, card.pci_address).device})),
    "drivers": _known(lambda node, card: frozenset({card.driver}) if card.driver else None),
    "linkTypes": _known(
        lambda node, card: frozenset(_LINKS.get(port.link_layer, "") for port in ports(node, card.name))
    ),
    **dict.fromkeys(_INTERFACES, _known(_interfaces)),
}
