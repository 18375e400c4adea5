"""The GPUs and RDMA devices of a node and the PCIe links above them, as far as ceilings need them."""

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


class UpstreamLink(Struct, frozen=True):
    """One PCIe link, named by the device or switch at its lower end. All functions of a device share one."""

    address: str  # 0000:1b:00.0; without the function where it is a device's own link
    pcie: PcieLink | None  # None if its speed is not known


class LinkedGpu(Struct, frozen=True):
    """One GPU, and its links up to the root complex, its own first."""

    address: str
    attachment: Attachment = Attachment.PCIE
    links: tuple[UpstreamLink, ...] = ()
    refusal: str = ""  # the code of why it can be no end of a direct path; empty if it can, or if unknown
    unusable: str = ""  # the code of why no program can use it; empty if one can, or if unknown


class NicFunction(Struct, frozen=True, kw_only=True):
    """One RDMA device: one PCIe function of a card, and the port that it shows."""

    name: str
    card: str  # one name for all functions of a card
    links: tuple[UpstreamLink, ...] = ()
    port_name: str = ""  # p0; functions of one card that show the same name share the port
    port: NetworkPort | None = None  # None if it was not readable
    active: bool = True
    down: str = ""  # DOWN, INIT, ARMED: the port is known to carry nothing; empty: in use or unknown
    interface_mtu: int | None = None

    @property
    def port_key(self) -> tuple[str, str]:
        """The physical port. A function whose port has no known name counts as having its own port."""
        return self.card, self.port_name or self.name


class CommonPoint(enum.StrEnum):
    """The lowest part of the PCIe tree that a GPU and a NIC have in common."""

    SWITCH = "switch"
    ROOT_COMPLEX = "root-complex"  # one NUMA node
    SOCKETS = "sockets"
    UNKNOWN = "unknown"


class PairLinks(Struct, frozen=True):
    """A GPU and an RDMA device, and the links that traffic between them crosses."""

    gpu: LinkedGpu
    function: NicFunction
    common_point: CommonPoint
    gpu_links: tuple[UpstreamLink, ...] = ()  # below the common point, the GPU's own first
    nic_links: tuple[UpstreamLink, ...] = ()


class NodeLinks(Struct, frozen=True, dict=True):
    """One node."""

    gpus: tuple[LinkedGpu, ...] = ()
    functions: tuple[NicFunction, ...] = ()
    pairs: tuple[PairLinks, ...] = ()

    @cached_property
    def users(self) -> dict[str, tuple[str, ...]]:
        """The GPUs and RDMA devices below each link, by the link's address. A device whose port is down does
        not count."""
        found: dict[str, list[str]] = {}
        for gpu in self.gpus:
            for link in gpu.links:
                found.setdefault(link.address, []).append(gpu.address)
        for function in in_use(self.functions):
            for link in function.links:
                found.setdefault(link.address, []).append(function.name)
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
    """Those whose port is not known to be down."""
    return tuple(function for function in functions if not function.down)


def own_links(functions: Iterable[NicFunction]) -> dict[str, UpstreamLink]:
    """The links directly above some RDMA devices, each once."""
    return {function.links[0].address: function.links[0] for function in functions if function.links}


def active_ports(functions: Iterable[NicFunction]) -> dict[tuple[str, str], NetworkPort]:
    """The physical ports in use, each once."""
    return {f.port_key: f.port for f in functions if f.active and f.port is not None}
