"""NCCL's view of a graph, for one version and environment: path types, and where it uses GPUDirect RDMA."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from msgspec import Struct, structs
from msgspec.structs import replace

from gdrkit.evidence import EvidenceMissing
from gdrkit.fabric.nccl.gdr_check import Condition, Mode
from gdrkit.fabric.nccl.gdr_decision import Decision, GdrEvidence, Mechanism, decide, first_checks, settled
from gdrkit.fabric.nccl.graph import GPU, NET, GraphNode, NcclSystem
from gdrkit.fabric.nccl.merge import FusedNic, fuse
from gdrkit.fabric.nccl.nic import GpuEvidence, NicEvidence, dmabuf, peermem, unused
from gdrkit.fabric.nccl.paths import compute_paths
from gdrkit.fabric.nccl.settings import Settings, settings
from gdrkit.fabric.nccl.system import number, system_of
from gdrkit.fabric.nccl.writer import system as written
from gdrkit.fabric.topology.from_nccl_xml import pci_address
from gdrkit.fabric.topology.graph import NcclNet, NcclPath, Net, Topology, TopologyGpu
from gdrkit.fabric.topology.nccl_defaults import completed
from gdrkit.fabric.topology.products import lasting
from gdrkit.fabric.topology.saved import SavedTopology
from gdrkit.facts.cuda_attributes import DMA_BUF_SUPPORTED, GPU_DIRECT_RDMA_SUPPORTED, cuda_attributes
from gdrkit.facts.pci import gpus
from gdrkit.facts.probe import verbs_calls
from gdrkit.formats.errors import FormatError
from gdrkit.formats.xml_text import XmlNode
from gdrkit.messages.errors import UNSUPPORTED
from gdrkit.node import Node, if_missing
from gdrkit.programs.nccl.releases import ModelBasis, Release, model_basis, release

# The tree that NCCL builds where it reads a topology file: the file's places, and the machine's details.
# Source: NCCL src/graph/topo.cc, ncclTopoGetSystem(), and xml.cc, ncclTopoFillGpu(), ncclTopoFillNet() and
# ncclTopoGetXmlFromSys(): a PCI function that the file has stays where it is and keeps the file's
# attributes; one that it lacks is added with the bridges above it, until a bridge or processor that is
# there.


def placed(system: XmlNode, file: XmlNode) -> XmlNode:
    """The machine's tree with the PCI functions of the file at the file's places."""
    functions = {_address(node): node for node in system.walk() if node.name == "pci"}
    there = {_address(node) for node in file.walk() if node.name == "pci"}
    own = {cpu.get("numaid"): cpu for cpu in system.all("cpu")}
    cpus = [_filled(cpu, functions, own.get(cpu.get("numaid"))) for cpu in file.all("cpu")]
    named = {cpu.get("numaid") for cpu in cpus}
    for numa, cpu in own.items():
        left = tuple(kept for child in cpu.children for kept in _without(child, there))
        if numa in named:
            cpus = [
                replace(one, children=(*one.children, *left)) if one.get("numaid") == numa else one
                for one in cpus
            ]
        elif left:
            cpus.append(replace(cpu, children=left))
    return replace(file, children=tuple(cpus))


def _filled(element: XmlNode, functions: dict[str, XmlNode], own: XmlNode | None) -> XmlNode:
    """An element of the file, with what the machine knows and the file leaves out."""
    mine = functions.get(_address(element)) if element.name == "pci" else own
    children = tuple(_filled(child, functions, None) for child in element.children)
    if mine is None:
        return replace(element, children=children)
    have = {child.name for child in children}
    details = (child for child in mine.children if child.name not in ("pci", *have))
    return replace(
        element,
        attributes={**mine.attributes, **element.attributes},
        children=(*children, *(details if element.name == "pci" else ())),
    )


def _without(element: XmlNode, there: set[str]) -> tuple[XmlNode, ...]:
    """An element without the functions that the file has; () if nothing is left of it."""
    if element.name != "pci":
        return (element,)
    children = tuple(kept for child in element.children for kept in _without(child, there))
    if _address(element) in there:
        return tuple(child for child in children if child.name == "pci")
    is_bridge = any(child.name == "pci" for child in element.children)
    if is_bridge and not any(child.name == "pci" for child in children):
        return ()
    return (replace(element, children=children),)


def _address(node: XmlNode) -> str:
    return pci_address(node.get("busid"))


# -- support for GPUDirect RDMA on the NIC's and the GPU's side, from a node's files and probes --
# The tests are those that NCCL makes.


def nic_evidence(node: Node, rules: Release) -> NicEvidence:
    """Which of the files of nvidia-peermem that this release tests exist, and the dma-buf probes of
    verbs."""
    files = if_missing(None, lambda: frozenset(name for name in rules.peermem_files if node.exists(name)))
    calls = if_missing([], lambda: [call for call in verbs_calls(node) if call.call == "ibv_reg_dmabuf_mr"])
    return NicEvidence(
        files, {call.subject or call.argument: call.result not in UNSUPPORTED for call in calls}
    )


def gpu_evidence(node: Node) -> GpuEvidence:
    """The CUDA attributes of the first GPU, if they were probed."""
    try:
        found = cuda_attributes(node, gpus(node)[0].address)
    except (EvidenceMissing, IndexError):
        return GpuEvidence()

    def is_set(attribute: int) -> bool | None:
        return found[attribute] == 1 if attribute in found else None

    return GpuEvidence(is_set(GPU_DIRECT_RDMA_SUPPORTED), is_set(DMA_BUF_SUPPORTED))


def with_nic_side(topology: Topology, node: Node, rules: Release, given: Settings) -> Topology:
    """The graph, with the NIC's side of each port set if files and probes determine it."""
    nics, gpu = nic_evidence(node, rules), gpu_evidence(node)

    def judged(net: Net) -> Net:
        works = {dmabuf(rules, given, net.device, nics, gpu).works, peermem(rules, nics).works}
        if not net.device or (True not in works and None in works):
            return net
        known = net.nccl or NcclNet()
        return structs.replace(net, nccl=structs.replace(known, gdr="1" if True in works else "0"))

    return structs.replace(topology, nets=tuple(map(judged, topology.nets)))


class DirectionView(Struct, frozen=True, omit_defaults=True):
    """Whether NCCL would use GPUDirect RDMA in one direction. `because` is the reason if not."""

    direct: bool
    because: str = ""
    mode: Mode = ""  # PCI if NCCL requests a mapping over PCIe that avoids C2C; else Default
    through: str = ""  # the GPU that sends instead of this one (PXN)
    source: str = ""  # where NCCL tests the condition that does not hold
    seen: str = ""  # what was seen of that condition
    mechanism: Mechanism = ""  # if it is direct, and both sides are known

    def __str__(self) -> str:
        """One word for a table: no, yes, PXN, PCI."""
        if not self.direct:
            return "no"
        return "PXN" if self.through else "PCI" if self.mode == "PCI" else "yes"


class NcclPair(Struct, frozen=True):
    """One GPU and one net. The path is that of the hardware, before any of NCCL's decisions."""

    path: NcclPath
    gbyte_per_s: float | None  # the bandwidth that NCCL assumes; None where links are not known
    send: DirectionView
    receive: DirectionView


class NcclView(Struct, frozen=True):
    """The view of one NCCL version. Pairs that it does not connect are left out."""

    pairs: dict[tuple[str, str], NcclPair]
    ignored: tuple[str, ...] = ()  # variables without effect, each with the reason
    assumed: tuple[str, ...] = ()  # what the source does not show
    fused: tuple[FusedNic, ...] = ()  # ports of one card that NCCL uses as one NIC
    model_basis: ModelBasis = ModelBasis.READ  # how the rules of this version are confirmed


_INIT = "src/transport/net_ib.cc (net_ib/init.cc from 2.29.2), ncclIbInitDevices()"
NO_PROGRAM = "no program can use"
WORDS = {
    Condition.NIC: "the NIC's side does not support it",
    Condition.GPU: "the GPU does not support it",
    Condition.PARTITION: "the GPU is a partition",
    Condition.READ: "NICs do not read this GPU's memory",
}


def view(saved: SavedTopology, version: str, environment: Mapping[str, str]) -> NcclView:
    """The view of one NCCL version, computed from its own file if the graph came from one.

    Raises FormatError if NCCL would fail."""
    rules = release(version)
    given = settings(rules, environment)
    topology, system = saved.topology, saved.system
    if saved.node is not None:
        topology = with_nic_side(topology, saved.node, rules, given)
    whole, assumed = completed(topology)
    if system is None or assumed or _hosts(system) > 1:
        system = _system(whole, saved.placement)
    try:
        bare = _ends(_physical(system_of(system, rules)))
    except FormatError as error:  # the file lacks attributes that the graph does not need
        assumed = (*assumed, f"attributes that the file lacks are added: {error}")
        system = _system(whole, saved.placement)
        bare = _ends(_physical(system_of(system, rules)))
    out = {net.device for net in whole.nets if net.address and left_out(given, net)}
    layers = {dev: net.link_layer for net in whole.nets if (dev := _dev(net)) is not None}
    merged, fused = fuse(system, rules, given, out, layers)
    led = system_of(merged, rules)
    checks = first_checks(compute_paths(led, given))
    ends = _ends(led) | _parts(led, system, fused)
    known = _known(saved.node, rules)
    shown = {gpu.id: gpu for gpu in topology.gpus}  # without what is assumed
    pairs = {}
    for gpu in whole.gpus:
        for net in whole.nets:
            keys = (GPU, gpu.index), (NET, _dev(net))
            if all(key in bare for key in keys) and bare[keys[1]] in bare[keys[0]].paths:
                physical = bare[keys[0]].paths[bare[keys[1]]]
                kind = NcclPath(rules.named(physical.type))
                sides = settled(known, rules, given, net.device) if known else None
                decided = partial(decide, led, ends[keys[0]], ends[keys[1]], settings=given, checks=checks)
                decided = partial(decided, evidence=sides)
                judge = partial(_direction, whole, decided, (ends[keys[0]], ends[keys[1]]), given, net)
                judge = partial(judge, lasting(topology, shown[gpu.id]), out_of_use(gpu))
                pairs[gpu.id, net.id] = NcclPair(kind, physical.bandwidth, judge(True), judge(False))
    return NcclView(pairs, ignored_settings(given), assumed, fused, model_basis(version))


def ignored_settings(given: Settings) -> tuple[str, ...]:
    """The variables without effect, each with the reason."""
    return tuple(f"{setting.name}={setting.value}: {setting.why}" for setting in given.ignored)


def _system(whole: Topology, placement: XmlNode | None) -> XmlNode:
    """NCCL's tree of a graph, and of the topology file that NCCL reads, if there is one."""
    system = written(whole, details=True)
    return system if placement is None else placed(system, placement)


def _parts(
    led: NcclSystem, system: XmlNode, fused: tuple[FusedNic, ...]
) -> dict[tuple[str, int | None], GraphNode]:
    """The fused NIC of each of its ports, by the number of the port."""
    by_name = {node.name: node for node in led.nodes[NET]}
    numbers = {net.get("name"): net.get("dev") for net in system.walk() if net.name == "net"}
    return {(NET, number(numbers[part])): by_name[one.name] for one in fused for part in one.parts}


def _known(node: Node | None, rules: Release) -> GdrEvidence | None:
    if node is None:
        return None
    return GdrEvidence(nic_evidence(node, rules), gpu_evidence(node))


def _hosts(system: XmlNode) -> int:
    return len({cpu.get("host_hash") for cpu in system.all("cpu")})


def _dev(net: Net) -> int | None:
    """The number that NCCL gave a net."""
    text = net.nccl.dev if net.nccl else ""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _physical(system: NcclSystem) -> NcclSystem:
    """The paths of the hardware: with nothing refused, NCCL does not route around anything."""
    for node in (*system.nodes[GPU], *system.nodes[NET]):
        node.gdr = 1
    compute_paths(system, Settings(gdr_level="SYS", gdr_read=1, gdr_mlopart=1, pxn_disable=True))
    return system


def _ends(system: NcclSystem) -> dict[tuple[str, int | None], GraphNode]:
    return {(kind, node.dev): node for kind in (GPU, NET) for node in system.nodes[kind]}


def _direction(
    topology: Topology,
    decided: Callable[..., Decision],
    ends: tuple[GraphNode, GraphNode],
    given: Settings,
    port: Net,
    never: str,
    without_gpu: str,
    sends: bool,
) -> DirectionView:
    gpu, net = ends
    if without_gpu:
        return DirectionView(False, without_gpu, source=_INIT)
    if port.address and (without := left_out(given, port)):
        return DirectionView(False, without, source=_INIT)
    if net not in gpu.paths or gpu not in net.paths:
        return DirectionView(False, "NCCL does not connect them")
    found = decided(sends)
    through = _name(topology, found.via) if sends and found.via is not None else ""
    reason = found.because
    if reason is None and never:  # the support of its GPU was only assumed
        return DirectionView(False, never, "", through)
    if reason is None:
        return DirectionView(True, "", found.mode, through, mechanism=found.mechanism)
    because = never or WORDS.get(reason.condition) or reason.seen
    return DirectionView(False, because, "", through, reason.source, reason.seen)


def left_out(given: Settings, port: Net) -> str:
    """Why NET/IB does not use a port; "" if it does, or if the port's state is not known."""
    if port.unusable:
        return out_of_use(port)
    if port.state and port.state != "ACTIVE":
        return f"the port is {port.state}"
    return unused(given, port.device, port.number)


def out_of_use(device: TopologyGpu | Net) -> str:
    """Why NCCL has nothing of a GPU or a NIC: no program can use it; "" if one can, or if not known."""
    kind = "GPU" if isinstance(device, TopologyGpu) else "NIC"
    return f"{NO_PROGRAM} the {kind} ({device.unusable})" if device.unusable else ""


def _name(topology: Topology, node: GraphNode) -> str:
    return next((gpu.id for gpu in topology.gpus if gpu.index == node.dev), "")
