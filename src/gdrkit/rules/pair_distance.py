"""The distance between GPU and NIC."""

from __future__ import annotations

from gdrkit.consumers.consumer import DIRECT, REGISTRATION
from gdrkit.consumers.nccl import NCCL
from gdrkit.consumers.nccl_levels import allows, gdr_level
from gdrkit.consumers.nccl_releases import release
from gdrkit.evidence import Confidence, EvidenceMissing, Missing, MissingReason
from gdrkit.facts.environment import NCCL_CONF, Environment, environment, integer
from gdrkit.facts.gpu import is_coherent, is_integrated
from gdrkit.facts.libraries import nccl_version
from gdrkit.facts.nccl_topology import DEFAULT_FILE, distance_in_topology_file
from gdrkit.facts.pci import PciGpu, gpu_at
from gdrkit.facts.rdma import NEAR, Pair, below_one_switch, distance, hardware_pairs, rdma_device
from gdrkit.facts.virtual import virtual_machine
from gdrkit.node import Node, if_absent, if_missing
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.rule import Failed, Layer, Outcome, Passed, rule

FAR = "NODE or SYS"
LEVEL = "NCCL_NET_GDR_LEVEL"


@rule(
    "pair-distant",
    Layer.PCIE,
    per=hardware_pairs,
    takes=NCCL.own(*DIRECT),
    reported_by=(DecidingCommand("nvidia-smi topo -m", "PHB or NODE between GPU and NIC"),),
    cost="NCCL copies this GPU's data through host memory, and reports it only with NCCL_DEBUG=INFO.",
    references=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-net-gdr-level",),
)
def pair_distant(node: Node, pair: Pair) -> Outcome:
    """GPU and NIC are so far apart that NCCL, by default, does not use the direct path.

    Cost: Data is copied through host memory. How much slower that is depends on the machine; one report
    measured 13 GB/s instead of 22 GB/s.

    How to tell: No PCIe switch is above both devices. `nvidia-smi topo -m` prints PHB, NODE or SYS for the
    pair.

    What to do: Use a NIC below the GPU's PCIe switch. If there is none, set `NCCL_NET_GDR_LEVEL=PHB` (or
    SYS) and measure: through the CPU, direct traffic can be slower than a copy, or fail with an IOMMU.

    In a virtual machine and on EFA, jobs usually give NCCL a topology file (NCCL_TOPO_FILE), which decides
    instead of the tree that the kernel shows. Without a look at the job, the answer is unknown there.

    This check reads only /etc/nccl.conf; the environment of a job may set another value. It does not
    consider PXN, with which a GPU sends through the NIC of its neighbour.

    Why: The default of NCCL_NET_GDR_LEVEL is PXB: NCCL uses the direct path only if no traffic crosses the
    CPU. PHB and NODE of nvidia-smi are both PHB for NCCL. UCX and your own programs have no such rule: they
    use the direct path, at the speed of the CPU. On GH200, GB200 and GB300, NCCL from 2.27.3 on treats a NIC
    at the GPU's own CPU as near; from 2.29.2 on, an explicit level of PIX or PXB disables that.

    Source: NCCL src/graph/paths.cc, ncclTopoCheckGdr(), v2.6 to v2.30; NCCL User Guide.
    """
    how_far = _distance(node, pair)
    if how_far in NEAR:  # NCCL's default level is PXB since 2.6: src/graph/paths.cc, ncclTopoCheckGdr()
        return Passed(how_far)
    gpu = gpu_at(node, pair.gpu)
    settings = _settings(node)
    if how_far in ("PHB", "NODE") and gpu and is_coherent(node, gpu) and _counts_c2c(node, settings):
        return Passed(f"{how_far}, and this NCCL treats a NIC at the GPU's own CPU as near")
    level = _level(settings)
    needed = "SYS" if how_far in ("SYS", FAR) else "PHB"
    if allows(level, needed):
        return Passed(f"{how_far}, and {NCCL_CONF} allows {level}")
    _check_own_topology(node, pair)
    return Failed(
        seen=how_far,
        expected=f"{level} or nearer",
        subject=f"{pair.gpu} {pair.device}",
        advice=_advice(node, gpu, needed),
    )


def _advice(node: Node, gpu: PciGpu | None, needed: str) -> str:
    """What to do about a distance for which NCCL needs a level."""
    if gpu and if_missing(False, is_integrated, node, gpu):
        return "Nothing: this GPU has no memory of its own, so that no NIC and no level gives a direct path."
    return (
        f"Use a NIC below the GPU's PCIe switch. If there is none, set `{LEVEL}={needed}` and measure: "
        "through the CPU, direct traffic can be slower than a copy, or fail with an IOMMU."
    )


def _distance(node: Node, pair: Pair) -> str:
    """The distance as NCCL sees it: in its topology file if there is one, else in the kernel's tree."""
    try:
        in_file = if_absent("", distance_in_topology_file, node, pair)
        if in_file:
            return in_file
    except EvidenceMissing as error:
        if error.missing.why is MissingReason.UNDECIDED:
            if if_missing(False, below_one_switch, node, pair):
                return distance(node, pair)  # NCCL adds what the file does not have
            raise
        node.cite(f"{NCCL_CONF}, {DEFAULT_FILE}", text="not seen", confidence=Confidence.LIKELY)
    try:
        return distance(node, pair)
    except EvidenceMissing as error:
        if error.missing.why is not MissingReason.UNDECIDED:
            raise
        return FAR  # several host bridges, and firmware does not name their NUMA nodes


def _settings(node: Node) -> Environment:
    """NCCL's settings for the whole machine; if the file was not collected, its defaults, as likely."""
    try:
        return environment(node, NCCL_CONF)
    except EvidenceMissing:
        node.cite(NCCL_CONF, text="not seen", confidence=Confidence.LIKELY)
        return Environment(NCCL_CONF, "node", ())


def _check_own_topology(node: Node, pair: Pair) -> None:
    """Raises EvidenceMissing where NCCL is usually given another topology than the kernel's, by the job.

    On EFA, NCCL moves data through aws-ofi-nccl, which sets NCCL_TOPO_FILE to the file of the instance type
    (its src/platform-aws.cpp, topology/). Clouds with flattened PCIe trees publish such files, too: Azure's
    ndv4-topo.xml, Google's in its plugin's image."""
    if if_missing("", lambda: rdma_device(node, pair.device).driver) == "efa":
        assumed = "the topology file that aws-ofi-nccl gives NCCL for this instance"
    elif if_missing("none", virtual_machine, node) != "none":
        assumed = "a topology file for NCCL (NCCL_TOPO_FILE) in the jobs of this virtual machine"
    else:
        return
    raise EvidenceMissing(Missing(assumed, MissingReason.UNDECIDED, "NCCL_DEBUG=INFO <command of a job>"))


def _level(settings: Environment) -> str:
    """The farthest level at which NCCL uses the direct path. NCCL ignores a value that it does not know."""
    given = settings.get(LEVEL)
    return (gdr_level(given.value) if given else None) or "PXB"


def _counts_c2c(node: Node, settings: Environment) -> bool:
    """Whether NCCL uses the direct path through the CPU that a GPU is coherent with.

    NCCL_NET_GDR_C2C is 1 by default since 2.27.3; from 2.29.2 on this path has its own level, P2C, which is
    the default. That an explicit PIX or PXB excludes it is gdr-level-pxb-on-c2c. Source: NCCL
    src/graph/paths.cc at these tags.
    """
    nccl = release(nccl_version(node))
    given = settings.get("NCCL_NET_GDR_C2C")
    return bool(nccl.gdr_c2c) and (given is None or integer(given.value) != 0)


@rule(
    "pair-cross-socket",
    Layer.PCIE,
    per=hardware_pairs,
    slows=REGISTRATION,
    reported_by=(DecidingCommand("nvidia-smi topo -m", "SYS between GPU and NIC"),),
    cost="Traffic crosses the link between the sockets, which is slow for device traffic.",
)
def pair_cross_socket(node: Node, pair: Pair) -> Outcome:
    """GPU and NIC are attached to different CPU sockets.

    Cost: For device traffic, the link between sockets has less bandwidth and more latency than a PCIe link.

    How to tell: `nvidia-smi topo -m` prints SYS for the pair: the two devices are on different NUMA nodes.

    What to do: Bind each rank to the NIC nearest to its GPU. NCCL does so by itself, unless NCCL_IB_HCA
    excludes that NIC.

    Why: The machine has NICs at one socket only, or the job uses the wrong NIC.

    Source: The legend of `nvidia-smi topo -m`.
    """
    how_far = distance(node, pair)
    if how_far == "SYS":
        return Failed(seen="SYS", expected="the same NUMA node", subject=f"{pair.gpu} {pair.device}")
    return Passed(how_far)
