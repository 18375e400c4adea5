"""What moves data in a node, as far as ceilings need it: GPUs, RDMA devices, the links above them."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from functools import cached_property

from msgspec import Struct

from gdrkit.fabric.ceilings.links import PcieLink
from gdrkit.fabric.ceilings.ports import NetworkPort


class Attachment(enum.StrEnum):
    """How a GPU reaches the rest of its node."""

    PCIE = "pcie"
    C2C = "c2c"  # NVLink-C2C, one GPU to one Grace
    C2C_SHARED = "c2c-shared"  # two GPUs to one Grace
    INTEGRATED = "integrated"  # no memory of its own


class Wire(Struct, frozen=True):
    """One PCIe link by the device or switch at its lower end. The functions of a device share one."""

    address: str  # 0000:1b:00.0; without the function where it is a device's own link
    link: PcieLink | None  # None where nobody can tell how fast it is


class LinkedGpu(Struct, frozen=True):
    """One GPU. Its links, own first, up to the root complex."""

    address: str
    attachment: Attachment = Attachment.PCIE
    wires: tuple[Wire, ...] = ()


class NicFunction(Struct, frozen=True, kw_only=True):
    """One RDMA device: one PCIe function of a card, and the port that it shows."""

    name: str
    card: str  # one name for all functions of a card
    wires: tuple[Wire, ...] = ()
    port_name: str = ""  # p0; functions of one card that show the same name share the port
    port: NetworkPort | None = None  # None where nobody could read it
    active: bool = True
    down: str = ""  # DOWN, INIT, ARMED, where the port is known to carry nothing; empty: in use or unknown
    interface_mtu: int | None = None

    @property
    def port_key(self) -> tuple[str, str]:
        """The physical port; a function of which nobody knows the port's name has one to itself."""
        return self.card, self.port_name or self.name


class CommonPoint(enum.StrEnum):
    """Where the way between a GPU and a NIC turns."""

    SWITCH = "switch"
    ROOT_COMPLEX = "root-complex"  # one NUMA node
    SOCKETS = "sockets"
    UNKNOWN = "unknown"


class PairRoute(Struct, frozen=True):
    """A GPU and an RDMA device, and the links that traffic between them crosses."""

    gpu: LinkedGpu
    function: NicFunction
    common_point: CommonPoint
    gpu_wires: tuple[Wire, ...] = ()  # below the meeting point, the GPU's own first
    nic_wires: tuple[Wire, ...] = ()


class NodeLinks(Struct, frozen=True, dict=True):
    """One node."""

    gpus: tuple[LinkedGpu, ...] = ()
    functions: tuple[NicFunction, ...] = ()
    routes: tuple[PairRoute, ...] = ()

    @cached_property
    def users(self) -> dict[str, tuple[str, ...]]:
        """The GPUs and RDMA devices above which each link stands, by the link's address. A device whose port
        is down needs none."""
        found: dict[str, list[str]] = {}
        for gpu in self.gpus:
            for wire in gpu.wires:
                found.setdefault(wire.address, []).append(gpu.address)
        for function in in_use(self.functions):
            for wire in function.wires:
                found.setdefault(wire.address, []).append(function.name)
        return {address: tuple(names) for address, names in found.items()}

    @cached_property
    def on_port(self) -> dict[tuple[str, str], tuple[str, ...]]:
        """The RDMA devices that show each physical port."""
        found: dict[tuple[str, str], list[str]] = {}
        for function in self.functions:
            found.setdefault(function.port_key, []).append(function.name)
        return {key: tuple(names) for key, names in found.items()}

    @cached_property
    def cards(self) -> dict[str, tuple[NicFunction, ...]]:
        """The RDMA devices of each card."""
        found: dict[str, list[NicFunction]] = {}
        for function in self.functions:
            found.setdefault(function.card, []).append(function)
        return {card: tuple(functions) for card, functions in found.items()}


def in_use(functions: Iterable[NicFunction]) -> tuple[NicFunction, ...]:
    """Those of which nobody knows that their port is down."""
    return tuple(function for function in functions if not function.down)


def own_wires(functions: Iterable[NicFunction]) -> dict[str, Wire]:
    """The links right above some RDMA devices, each once."""
    return {function.wires[0].address: function.wires[0] for function in functions if function.wires}


def active_ports(functions: Iterable[NicFunction]) -> dict[tuple[str, str], NetworkPort]:
    """The physical ports in use, each once."""
    return {f.port_key: f.port for f in functions if f.active and f.port is not None}
