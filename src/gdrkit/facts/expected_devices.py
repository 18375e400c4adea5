"""What is expected of a machine and what it has, in the same terms.

Devices are compared by kind and number, never by name or address: mlx5_3 may be mlx5_4 after a restart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from msgspec import Struct

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.evidence.quoting import quoted
from gdrkit.facts import gpu_ids
from gdrkit.facts.commands import OFED_INFO
from gdrkit.facts.driver import driver_flavour, driver_version
from gdrkit.facts.expectation import expectation
from gdrkit.facts.gpu import product_name
from gdrkit.facts.kernel import release
from gdrkit.facts.libraries import nccl_version
from gdrkit.facts.packages import ofed
from gdrkit.facts.pci import NVIDIA, PciGpu, device_at, gpus
from gdrkit.facts.pci_registers import link
from gdrkit.facts.rdma import (
    DISTANCES,
    Pair,
    RdmaDevice,
    RdmaPort,
    distance,
    is_virtual_function,
    nic_address,
    nics,
    ports,
)
from gdrkit.formats.expectation import Rail
from gdrkit.node import Node, fact, if_missing

# -- GPUs ------------------------------------------------------------------------------------------------


@fact
def model(node: Node, gpu: PciGpu) -> str:
    """The model of a GPU, the same from every source: its name in gpu_ids, else its PCI id.

    The driver, lspci and nvidia-smi name a product differently."""
    if gpu.device_id:
        name = gpu_ids.SUPPORTED.get(gpu.device_id) or gpu_ids.INTEGRATED.get(gpu.device_id)
        return name or f"{NVIDIA}:{gpu.device_id}"
    name = product_name(node, gpu)
    return gpu_ids.SUPPORTED.get(gpu_ids.supported_name(name), name)


def is_model(node: Node, gpu: PciGpu, wanted: str) -> bool:
    """Whether a GPU is of a model, given by `model`, by PCI id or by the driver's name."""
    names = (model(node, gpu), f"{NVIDIA}:{gpu.device_id}")
    return wanted in names or wanted == if_missing("", product_name, node, gpu)


ANY_MODEL = "GPU"
"""Stands for the model where only the number of GPUs is expected."""


@fact
def missing_gpus(node: Node) -> Mapping[str, int]:
    """How many GPUs are expected and not there, by model."""
    wanted = expectation(node).content
    models = Counter(wanted.gpu_models)
    on_rails: Counter[tuple[str, str]] = Counter()
    for rail in wanted.rails:
        on_rails[rail.gpu, rail.nic] += rail.count
    for (name, _), count in on_rails.items():
        models[name] = max(models[name], count)
    total = max(wanted.gpus or 0, models.pop("", 0))
    lacking = {name: count - number_of(node, name) for name, count in models.items()}
    lacking = {name: count for name, count in lacking.items() if count > 0}
    lacking[ANY_MODEL] = total - len(gpus(node)) - sum(lacking.values())
    return {name: count for name, count in lacking.items() if count > 0}


@fact
def absent_gpus(node: Node) -> tuple[PciGpu, ...]:
    """One stand-in for the missing GPUs of each model, with the model in place of the address."""
    return tuple(PciGpu(name) for name in missing_gpus(node))


def number_of(node: Node, name: str) -> int:
    """The number of GPUs of a model, or of all."""
    return len(gpus(node)) if name == ANY_MODEL else sum(is_model(node, gpu, name) for gpu in gpus(node))


# -- NICs and rails ---------------------------------------------------------------------------------------


@fact
def counted_nics(node: Node) -> tuple[RdmaDevice, ...]:
    """The RDMA devices that count as NICs: hardware, and no virtual functions of a NIC of this machine."""
    return tuple(nic for nic in nics(node) if not if_missing(False, is_virtual_function, node, nic.name))


def kind(node: Node, nic: RdmaDevice) -> str:
    """The kind of a NIC: its board id, else its PCI id, else its driver; "" if none is known."""
    return nic.board_id or if_missing("", _pci_id, node, nic) or nic.driver


def _pci_id(node: Node, nic: RdmaDevice) -> str:
    found = device_at(node, nic_address(node, nic.name))
    return f"{found.vendor}:{found.device}"


def is_kind(node: Node, nic: RdmaDevice, wanted: str) -> bool:
    """Whether a NIC is of a kind, given in any of the three ways; "" is every kind."""
    return wanted in ("", nic.board_id, nic.driver) or wanted == if_missing("", _pci_id, node, nic)


class Track(Struct, frozen=True):
    """A rail that is expected, the GPU that it was compared with, and the NICs of that GPU."""

    rail: Rail
    gpu: PciGpu
    nics: tuple[RdmaDevice, ...]
    unique: bool  # whether every GPU of this model has such a rail: then it is this GPU that lacks a NIC


@fact
def tracks(node: Node) -> tuple[Track, ...]:
    """Every expected rail with the GPU that fits best. Rails without a GPU are left out."""
    groups: dict[tuple[str, str], list[Rail]] = {}
    for rail in expectation(node).content.rails:
        groups.setdefault((rail.gpu, rail.nic), []).extend([rail] * rail.count)
    return tuple(track for rails in groups.values() for track in _matched(node, rails))


def _matched(node: Node, rails: list[Rail]) -> Iterator[Track]:
    name = rails[0].gpu
    free = [gpu for gpu in gpus(node) if not name or is_model(node, gpu, name)]
    unique = len(rails) >= len(free)
    for rail in rails:
        if not free:
            return
        near = {gpu: near_nics(node, gpu, rail) for gpu in free}
        best = min(free, key=lambda gpu: _misfit(node, rail, near[gpu]))
        free.remove(best)
        yield Track(rail, best, near[best], unique)


FARTHEST = DISTANCES[-1]


def near_nics(node: Node, gpu: PciGpu, rail: Rail) -> tuple[RdmaDevice, ...]:
    """The NICs of the rail's kind within its distance of a GPU, as many as it has, those that fit best."""
    alike = [nic for nic in counted_nics(node) if is_kind(node, nic, rail.nic)]
    if rail.distance:
        alike = [nic for nic in alike if _is_within(node, Pair(gpu.address, nic.name), rail.distance)]

    def misfit(nic: RdmaDevice) -> tuple[int, int]:
        far = if_missing(FARTHEST, known_distance, node, Pair(gpu.address, nic.name)) or FARTHEST
        return DISTANCES.index(far), len(if_missing((), differences, node, rail, nic))

    return tuple(sorted(alike, key=misfit)[: rail.nics])


def known_distance(node: Node, pair: Pair) -> str:
    """The distance of a pair; "" below different host bridges whose NUMA nodes are not known."""
    try:
        return distance(node, pair)
    except EvidenceMissing as error:
        if error.missing.why is not MissingReason.UNDECIDED:
            raise
        return ""


def _is_within(node: Node, pair: Pair, wanted: str) -> bool:
    found = known_distance(node, pair)
    if not found and wanted == "NODE":  # it is NODE or SYS
        return distance(node, pair) == wanted
    return DISTANCES.index(found or FARTHEST) <= DISTANCES.index(wanted)


def _misfit(node: Node, rail: Rail, found: tuple[RdmaDevice, ...]) -> tuple[int, int]:
    """How much a GPU lacks of a rail: NICs first, then what differs about them."""
    differing = sum(len(if_missing((), differences, node, rail, nic)) for nic in found)
    return max(0, rail.nics - len(found)), differing


@fact
def differences(node: Node, rail: Rail, nic: RdmaDevice) -> tuple[tuple[str, str], ...]:
    """What differs about a NIC from what a rail expects: what is there, and what was expected."""
    found: list[tuple[str, str]] = []
    port = best_port(node, nic.name) if rail.state or rail.rate else None
    if port is not None and rail.state and port.state != rail.state:
        found.append((f"port {port.number} {port.state}", rail.state))
    elif port is not None and port.rate_gbit_per_s < rail.rate:
        found.append((f"{port.rate_gbit_per_s:g} Gbit/s", f"{rail.rate:g} Gbit/s"))
    if rail.width and (width := link(node, nic_address(node, nic.name)).current_width) < rail.width:
        found.append((f"PCIe x{width}", f"x{rail.width}"))
    return tuple(found)


def gpu_differences(node: Node, rail: Rail, gpu: PciGpu) -> tuple[tuple[str, str], ...]:
    """The same for the rail's GPU: its lanes. Its speed is not compared, which it lowers when it is idle."""
    if not rail.gpu_width or (width := link(node, gpu.address).current_width) >= rail.gpu_width:
        return ()
    return ((f"GPU {gpu.address} PCIe x{width}", f"x{rail.gpu_width}"),)


def best_port(node: Node, device: str) -> RdmaPort:
    """The fastest active port, else the first. The rate of a port that is down means nothing."""
    found = ports(node, device)
    if not found:
        source = f"ports of {device}"
        raise EvidenceMissing(Missing(source, MissingReason.UNDECIDED, f"ibv_devinfo -d {quoted(device)}"))
    return max(found, key=lambda port: (port.state == "ACTIVE", port.rate_gbit_per_s, -port.number))


# -- versions ------------------------------------------------------------------------------------------


@fact
def version(node: Node, name: str) -> str:
    """The version of a piece of software, by its name in the file. Raises EvidenceMissing."""
    match name:
        case "kernel":
            return release(node)
        case "driver":
            return driver_version(node)
        case "modules":
            return driver_flavour(node)
        case "ofed":
            return _ofed_version(node)
        case _:
            return nccl_version(node)


def _ofed_version(node: Node) -> str:
    found = ofed(node)
    if found.kind != "inbox" and not found.version:
        raise EvidenceMissing(Missing("OFED version", MissingReason.NOT_COLLECTED, OFED_INFO.line))
    return found.version or found.kind
