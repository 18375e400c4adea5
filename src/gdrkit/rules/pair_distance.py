"""How far GPU and NIC are apart."""

from __future__ import annotations

from gdrkit.consumers.nccl import NCCL
from gdrkit.consumers.nccl_levels import allows, gdr_level
from gdrkit.consumers.nccl_releases import release
from gdrkit.evidence import Confidence, EvidenceMissing, Missing, MissingReason
from gdrkit.facts.environment import NCCL_CONF, Environment, environment, integer
from gdrkit.facts.gpu import is_coherent
from gdrkit.facts.libraries import nccl_version
from gdrkit.facts.pci import gpus
from gdrkit.facts.rdma import Pair, distance, hardware_pairs
from gdrkit.node import Node
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.rule import REGISTRATION, Failed, Layer, Outcome, Passed, rule

FAR = "NODE or SYS"
NEAR = ("PIX", "PXB")
"""NCCL's default level is PXB since 2.6: src/graph/paths.cc, ncclTopoCheckGdr()."""

LEVEL = "NCCL_NET_GDR_LEVEL"

TOPOLOGY_FILE = "run/nvidia-topologyd/virtualTopology.xml"
"""NCCL reads it where it is there: src/graph/topo.cc, which says /var/run, a link to /run."""


@rule(
    "pair-distant",
    Layer.PCIE,
    per=hardware_pairs,
    takes=NCCL.own("dmabuf", "peermem"),
    reported_by=(DecidingCommand("nvidia-smi topo -m", "PHB or NODE between GPU and NIC"),),
    cost="NCCL copies this GPU's data through host memory, and does not say so unless asked.",
    references=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-net-gdr-level",),
)
def pair_distant(node: Node, pair: Pair) -> Outcome:
    """GPU and NIC are so far apart that NCCL, left alone, does not go directly.

    Cost: Host memory in between. How much that is depends on the machine; one report measured 13 against
    22 GB/s.

    How to tell: No PCIe switch above both. `nvidia-smi topo -m` prints PHB, NODE or SYS for the pair.

    What to do: A NIC below the GPU's switch. Where there is none, try NCCL_NET_GDR_LEVEL=PHB (or SYS) and
    measure: through the CPU, direct traffic can be slower than a copy, or fail with an IOMMU. In virtual
    machines that flatten the PCIe tree, a topology file (NCCL_TOPO_FILE) is the better cure.

    Only /etc/nccl.conf is looked at here; a job's own environment may say otherwise. PXN, by which a GPU
    sends through its neighbour's NIC, is not considered.

    Why: NCCL_NET_GDR_LEVEL is PXB by default: direct only where no traffic crosses the CPU. nvidia-smi's
    PHB and NODE are both NCCL's PHB. UCX and programs of your own have no such rule, and go directly at the
    CPU's speed. On GH200, GB200 and GB300, NCCL from 2.27.3 on counts a NIC at the GPU's own CPU as near;
    from 2.29.2 on an explicit level of PIX or PXB takes that back.

    Source: NCCL src/graph/paths.cc, ncclTopoCheckGdr(), v2.6 to v2.30; NCCL User Guide.
    """
    try:
        how_far = distance(node, pair)
    except EvidenceMissing as lacks:
        if lacks.missing.why is not MissingReason.UNDECIDED:
            raise
        how_far = FAR  # several host bridges, of NUMA nodes that firmware does not name
    if how_far in NEAR:
        return Passed(how_far)
    gpu = next(gpu for gpu in gpus(node) if gpu.address == pair.gpu)
    settings = _settings(node)
    if how_far in ("PHB", "NODE") and is_coherent(node, gpu) and _counts_c2c(node, settings):
        return Passed(f"{how_far}, and this NCCL counts a NIC at the GPU's own CPU as near")
    level = _level(settings)
    needed = "SYS" if how_far in ("SYS", FAR) else "PHB"
    if allows(level, needed):
        return Passed(f"{how_far}, and {NCCL_CONF} allows {level}")
    return Failed(seen=how_far, expected=f"{level} or nearer", subject=f"{pair.gpu} {pair.device}")


def _settings(node: Node) -> Environment:
    """NCCL's settings for everybody on this machine; its defaults, which is likely, where nobody looked.

    Raises EvidenceMissing where a file tells NCCL another topology than the machine's."""
    try:
        settings = environment(node, NCCL_CONF)
        told = node.exists(TOPOLOGY_FILE) or settings.get("NCCL_TOPO_FILE") is not None
    except EvidenceMissing:
        node.cite(f"{NCCL_CONF}, {TOPOLOGY_FILE}", text="not seen", confidence=Confidence.LIKELY)
        return Environment(NCCL_CONF, "node", ())
    if told:
        raise EvidenceMissing(Missing("topology file for NCCL", MissingReason.UNDECIDED, "NCCL_DEBUG=INFO"))
    return settings


def _level(settings: Environment) -> str:
    """How far NCCL goes directly. What it does not understand it ignores."""
    given = settings.get(LEVEL)
    return (gdr_level(given.value) if given else None) or "PXB"


def _counts_c2c(node: Node, settings: Environment) -> bool:
    """Whether NCCL goes directly through the CPU that a GPU is coherent with.

    NCCL_NET_GDR_C2C is 1 by default since 2.27.3; from 2.29.2 on the way is a level of its own, P2C, which
    is the default, and which an explicit PIX or PXB excludes. Source: NCCL src/graph/paths.cc at these tags.
    """
    rules = release(nccl_version(node))
    given = settings.get("NCCL_NET_GDR_C2C")
    if not rules.gdr_c2c or (given is not None and integer(given.value) == 0):
        return False
    return not rules.compares_p2c or settings.get(LEVEL) is None or allows(_level(settings), "P2C")


@rule(
    "pair-cross-socket",
    Layer.PCIE,
    per=hardware_pairs,
    slows=REGISTRATION,
    reported_by=(DecidingCommand("nvidia-smi topo -m", "SYS between GPU and NIC"),),
    cost="Traffic crosses the link between the sockets, which is slow for devices.",
)
def pair_cross_socket(node: Node, pair: Pair) -> Outcome:
    """GPU and NIC hang on different sockets.

    Cost: The link between sockets carries less than a PCIe link does for device traffic, and delays it.

    How to tell: Different NUMA nodes; `nvidia-smi topo -m` prints SYS.

    What to do: Bind each rank to the NIC nearest to its GPU (NCCL does so by itself; NCCL_IB_HCA must not
    hide it).

    Why: The machine has NICs on one socket only, or the job uses the wrong NIC.

    Source: The legend of `nvidia-smi topo -m`.
    """
    how_far = distance(node, pair)
    if how_far == "SYS":
        return Failed(seen="SYS", expected="the same NUMA node", subject=f"{pair.gpu} {pair.device}")
    return Passed(how_far)
