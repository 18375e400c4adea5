"""What a machine has, as the expectation that `gdr expect` writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from gdrkit.evidence import EvidenceAbsent, EvidenceMissing
from gdrkit.facts.expected_devices import (
    FARTHEST,
    best_port,
    counted_nics,
    kind,
    known_distance,
    model,
    version,
)
from gdrkit.facts.pci import PciGpu, gpus
from gdrkit.facts.pci_registers import link
from gdrkit.facts.rdma import DISTANCES, Pair, RdmaDevice, nic_address
from gdrkit.formats.expectation import Expectation, ExpectedVersions, Rail
from gdrkit.node import Node, if_missing

T = TypeVar("T")


class Observer:
    """Describes a node. `unknown` lists what is left out because the evidence does not show it."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.unknown: list[str] = []

    def expectation(self) -> Expectation:
        node = self._node
        models = self._known("gpu_models", lambda: Counter(model(node, gpu) for gpu in gpus(node)))
        return Expectation(
            gpus=self._known("gpus", lambda: len(gpus(node))),
            nics=self._known("nics", lambda: len(counted_nics(node))),
            gpu_models=dict(models or {}),
            rails=self._rails(),
            firmware=self._firmware(),
            versions=ExpectedVersions(
                **{name: self._version(name) for name in ExpectedVersions.__struct_fields__}
            ),
        )

    def _known(self, what: str, ask: Callable[[], T]) -> T | None:
        try:
            return ask()
        except EvidenceMissing as error:
            if not isinstance(error, EvidenceAbsent):
                why = error.missing.why.value.replace("-", " ")
                self.unknown.append(f"{what}: {error.missing.source} ({why})")
            return None

    def _version(self, name: str) -> str | None:
        return self._known(f"versions.{name}", lambda: version(self._node, name))

    def _rails(self) -> tuple[Rail, ...]:
        """The rails, those that are alike in one entry. A GPU's rail is that of its nearest NICs."""
        found: Counter[Rail] = Counter()
        for gpu in if_missing((), gpus, self._node):
            found.update(self._known("rails", lambda gpu=gpu: self._rails_of(gpu)) or ())  # type: ignore[misc]
        return tuple(_times(rail, count) for rail, count in found.items())

    def _rails_of(self, gpu: PciGpu) -> list[Rail]:
        """One rail for each kind of NIC that is nearest to the GPU."""
        node = self._node
        distances = {nic: known_distance(node, Pair(gpu.address, nic.name)) for nic in counted_nics(node)}
        nearest = min(distances.values(), key=lambda far: DISTANCES.index(far or FARTHEST), default="")
        kinds: dict[str, list[RdmaDevice]] = {}
        for nic, found in distances.items():
            if found == nearest:
                kinds.setdefault(kind(node, nic), []).append(nic)
        return [self._rail(gpu, name, alike, nearest) for name, alike in kinds.items()]

    def _rail(self, gpu: PciGpu, name: str, alike: list[RdmaDevice], nearest: str) -> Rail:
        """A rail of NICs of one kind: of those with an active port, if there are any; with the least that
        all of them have."""
        node = self._node
        ports = {nic: if_missing(None, best_port, node, nic.name) for nic in alike}
        active = [port for port in ports.values() if port and port.state == "ACTIVE"]
        used = [nic for nic, port in ports.items() if port in active] if active else alike
        states = {port.state if port else "" for port in (active or ports.values())}
        widths = [if_missing(0, _width, node, nic) for nic in used]
        return Rail(
            gpu=model(node, gpu),
            nics=len(used),
            nic=name,
            distance=nearest,
            state=states.pop() if len(states) == 1 else "",
            rate=min((port.rate_gbit_per_s for port in active), default=0),
            width=min(widths),
            gpu_width=if_missing(0, lambda: link(node, gpu.address).current_width),
        )

    def _firmware(self) -> dict[str, str]:
        """The firmware of each kind of NIC. A kind that has several versions is left out."""
        node = self._node
        seen: dict[str, set[str]] = {}
        for nic in if_missing((), counted_nics, node):
            if nic.firmware and kind(node, nic):
                seen.setdefault(kind(node, nic), set()).add(nic.firmware)
        self.unknown += [
            f"firmware of {name}: several versions, {', '.join(sorted(versions))}"
            for name, versions in seen.items()
            if len(versions) > 1
        ]
        return {name: versions.pop() for name, versions in seen.items() if len(versions) == 1}


def _times(rail: Rail, count: int) -> Rail:
    from msgspec.structs import replace

    return replace(rail, count=count)


def _width(node: Node, nic: RdmaDevice) -> int:
    return link(node, nic_address(node, nic.name)).current_width
