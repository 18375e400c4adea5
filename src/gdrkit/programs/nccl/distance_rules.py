"""The distance between GPU and NIC, and NCCL_NET_GDR_LEVEL, by which NCCL decides about it."""

from __future__ import annotations

from collections.abc import Iterable

from gdrkit.evidence import Confidence, EvidenceMissing, Missing, MissingReason
from gdrkit.facts.gpu import is_coherent, is_integrated
from gdrkit.facts.pci import PciGpu, gpu_at
from gdrkit.facts.rdma import NEAR, Pair, below_one_switch, distance, hardware_pairs, pairs, rdma_device
from gdrkit.facts.virtual import virtual_machine
from gdrkit.formats.whole_number import integer
from gdrkit.node import Node, if_absent, if_missing
from gdrkit.programs.environment import NCCL_CONF, Environment, ProgramSetting, environment, nccl_sources
from gdrkit.programs.job_settings import first_wrong, settings_of, taken_by
from gdrkit.programs.nccl.consumer import NCCL, installed_or_newest
from gdrkit.programs.nccl.facts import DEFAULT_FILE, distance_in_topology_file
from gdrkit.programs.nccl.log import nccl_logs
from gdrkit.programs.nccl.releases import NEWEST, release
from gdrkit.programs.nccl.settings import LEVELS, allows, gdr_level, path_type, printed_type
from gdrkit.rules.capabilities import DIRECT, REGISTRATION
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import CauseTrait, Failed, Layer, NotApplicable, Outcome, Passed, Status, rule

NAME = "NCCL_NET_GDR_LEVEL"


def pairs_or_node(node: Node) -> Iterable[Pair | str]:
    """The pairs; or the node, where the pairs are not known or there are none, as with a pasted log."""
    return if_missing(("node",), lambda: pairs(node) or ("node",))


@rule(
    "gdr-level-too-low",
    Layer.APPLICATION,
    per=pairs_or_node,
    traits=(CauseTrait.NVIDIA_ONLY,),
    takes=NCCL.own(*DIRECT),
    remedies=(RemedyName.CLEAN_NCCL_SETTINGS,),
    reported_by=(
        DecidingCommand("env | grep NCCL, in the job", "NCCL_NET_GDR_LEVEL below the pair's distance"),
    ),
    cost="NCCL copies through host memory for this pair, although a direct path exists.",
    references=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-net-gdr-level",),
)
def gdr_level_too_low(node: Node, subject: Pair | str) -> Outcome:
    """NCCL_NET_GDR_LEVEL forbids the direct path over the distance of this pair.

    Cost: Every byte of this pair is copied through host memory. None where a GPU with NVLink to this one,
    which the level allows at the NIC, sends for it (PXN).

    How to tell: The variable is set in /etc/nccl.conf or in the job (`env | grep NCCL`), and the pair is
    farther apart than it allows (`nvidia-smi topo -m`). With NCCL_DEBUG_SUBSYS=NET, the log may say
    `GPU Direct RDMA Disabled for GPU ... (distance 8 > 5)`; these numbers mean different distances in
    different versions.

    What to do: Remove the setting: NCCL's default allows every distance below one host bridge. Set PHB or
    SYS, to go farther, only if a measurement shows that it is faster: through the CPU, the direct path can
    be slower than the copy.

    Why: The level was limited on purpose: with LOC (or 0), often to test whether GPUDirect RDMA causes an
    error.

    Source: NCCL src/graph/paths.cc, ncclGetLevel() and ncclTopoCheckGdr(); user guide, environment
    variables.
    """

    def wrong(found: Environment, setting: ProgramSetting) -> Failed | None:
        level = gdr_level(setting.value, found.nccl_version)
        if level is None:
            return None
        kind = _type_of(node, subject, found.nccl_version) if level != "LOC" else "PIX"
        if kind is None or allows(level, kind) or (kind == "P2C" and level in ("PIX", "PXB")):
            return None
        if isinstance(subject, Pair) and _sent_within(node, subject, found, level):
            return None
        return Failed(
            seen=f"{NAME}={setting.value} in {node.describe_line(setting.source, setting.line)}"
            + (f", pair at {kind}" if level != "LOC" else ""),
            expected=f"{kind} or farther" if level != "LOC" else "unset",
            subject=_name(subject),
            takes=taken_by(found),
        )

    failed = first_wrong(node, NAME, wrong) or (_refused_in_log(node) if subject == "node" else None)
    return failed or Passed(f"{NAME} allows it or is not set")


def _sent_within(node: Node, pair: Pair, settings: Environment, level: str) -> bool:
    """Whether a GPU that a level allows at the NIC sends for the one of a pair."""
    from gdrkit.programs.nccl.pxn import sender

    version = settings.nccl_version or installed_or_newest(node)[0]

    def is_near(other: Pair) -> bool:
        return allows(level, _type_of(node, other, version) or "SYS")

    return sender(node, pair, version, settings, is_near) is not None


def _type_of(node: Node, subject: Pair | str, version: str) -> str | None:
    """NCCL's path type of a pair; None where no pair is known, so that only LOC is too low.

    A GPU that is coherent with its CPU reaches any NIC of that CPU by C2C: compared as P2C from 2.29.2 on,
    as C2C from 2.27.3 on, as PHB before.
    """
    if not isinstance(subject, Pair):
        return None
    gpu = gpu_at(node, subject.gpu)
    far = path_type(distance(node, subject))
    if gpu is None or far != "PHB" or not is_coherent(node, gpu):
        return far
    counts_as = release(version or NEWEST).c2c_counts_as
    return {"P2C": "P2C", "P2C>C2C": "C2C"}.get(counts_as, far)


def _refused_in_log(node: Node) -> Failed | None:
    """The failure if NCCL logged that a pair is too far apart; decoded if the log shows NCCL's version."""
    for log in nccl_logs(node):
        from gdrkit.programs.nccl.log_records import PairLine

        for found in log.all(PairLine):
            pair = found.record
            if pair.allowed or pair.distance is None or pair.level is None:
                continue
            kind, level = (printed_type(number, log.version) for number in (pair.distance, pair.level))
            words = f" ({kind} > {level})" if kind and level else ""
            where = node.describe_line(log.path, found.line)
            return Failed(
                seen=f"distance {pair.distance} > {pair.level}{words} in {where}",
                expected="a nearer NIC, or a level that allows it",
                subject=f"GPU {pair.gpu} HCA {pair.hca}",
            )
    return None


def _name(subject: Pair | str) -> str:
    return subject if isinstance(subject, str) else f"{subject.gpu} {subject.device}"


@rule(
    "gdr-level-ignored",
    Layer.APPLICATION,
    per=nccl_sources,
    traits=(CauseTrait.NVIDIA_ONLY,),
    default_status=Status.WARNING,
    cost="NCCL uses its default level, not the intended one.",
    references=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-net-gdr-level",),
)
def gdr_level_ignored(node: Node, source: str) -> Outcome:
    """NCCL does not understand the value of NCCL_NET_GDR_LEVEL and keeps its default.

    Cost: The setting has no effect, although it looks as if it had one.

    How to tell: `env | grep NCCL_NET_GDR_LEVEL` in the job shows a value such as ALL, NODE, sys or -1, or a
    blank after the value. NCCL prints neither `NCCL_NET_GDR_LEVEL set by environment to` nor an error.

    What to do: Set SYS for any distance, PHB for distances through one CPU, or PXB for distances below one
    host bridge. Or unset it.

    Why: NCCL compares words letter by letter with LOC, NVL, NVB, C2C, PIX, PXB, P2C, PXN, PHB and SYS, some
    of them only in newer versions. A digit is read as a number; 5 is read as 4, which is SYS. There is no
    level ALL. NODE of nvidia-smi is PHB here.

    Source: NCCL src/graph/paths.cc, ncclGetLevel(), since 2.6.4.
    """
    found = settings_of(node, source)
    setting = found.get(NAME)
    if setting is None:
        return NotApplicable(f"{source} does not set it")
    level = gdr_level(setting.value, found.nccl_version)
    if level:
        return Passed(f"understood as {level}")
    where = node.describe_line(setting.source, setting.line)
    return Failed(seen=f"{NAME}={setting.value!r}", expected=f"one of {' '.join(LEVELS)}", subject=where)


@rule(
    "gdr-level-pxb-on-c2c",
    Layer.APPLICATION,
    per=pairs,
    traits=(CauseTrait.NVIDIA_ONLY,),
    takes=NCCL.own(*DIRECT),
    cost="NCCL copies through host memory, although the GPU reaches the NIC through the CPU's own link.",
    references=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-net-gdr-c2c",),
)
def gdr_level_pxb_on_c2c(node: Node, pair: Pair) -> Outcome:
    """NCCL_NET_GDR_LEVEL is PXB or PIX on a Grace machine, where newer NCCL versions then forbid the direct
    path.

    Cost: A loss of 13 to 20 % on a GH200, in one report.

    How to tell: `env | grep NCCL_NET_GDR_LEVEL` in the job shows PXB or PIX (or 2, or 1). The GPU is
    coherent with its CPU (GH200, GB200, GB300), the NIC is attached to that CPU, and NCCL is 2.29.2 or
    newer, or of unknown version.

    What to do: Unset the variable, or set it to P2C.

    Why: From 2.29.2 on, the path over NVLink-C2C has a level of its own, P2C, which is farther than PXB.
    The default rose to P2C with it, so an explicit PXB now allows less than the default. From 2.26 to 2.28
    the setting did not matter there, and the documentation still says so.

    Source: NCCL src/graph/paths.cc, ncclTopoCheckGdr(), at 2.28.9 and 2.29.2; NVIDIA/nccl issue 1579.
    """
    gpu = gpu_at(node, pair.gpu)
    if gpu is None or not is_coherent(node, gpu):
        return NotApplicable("the GPU is not coherent with its CPU")
    if path_type(distance(node, pair)) != "PHB":
        return NotApplicable("the pair does not use C2C")

    def wrong(found: Environment, setting: ProgramSetting) -> Failed | None:
        version = found.nccl_version
        if gdr_level(setting.value, version) not in ("PIX", "PXB"):
            return None
        if not release(version or NEWEST).compares_p2c:
            return None
        return Failed(
            seen=f"{NAME}={setting.value} in {node.describe_line(setting.source, setting.line)}",
            expected="unset, or P2C",
            subject=_name(pair),
            takes=taken_by(found),
        )

    return first_wrong(node, NAME, wrong) or Passed(f"no {NAME} below P2C")


FAR = "NODE or SYS"


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

    What to do: Use a NIC below the GPU's PCIe switch. If there is none, set `NCCL_NET_GDR_LEVEL=PHB` (for a
    pair that is SYS: SYS) and measure: direct traffic can be slower than a copy, or fail with an IOMMU.

    In a virtual machine and on EFA, jobs usually give NCCL a topology file (NCCL_TOPO_FILE), which decides
    instead of the tree that the kernel shows. Without a look at the job, the answer is unknown there.

    This check reads only /etc/nccl.conf; the environment of a job may set another value. A GPU with NVLink
    to one near the NIC is not too far: NCCL sends through that one (PXN, from 2.12 on), if NVLink is known.

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
    version, lacking = installed_or_newest(node)
    if _near_by_c2c(node, gpu, how_far, version, settings):
        near = f"{how_far}, and NCCL {version} treats a NIC at the GPU's own CPU as near"
        return Passed(near, lacking=lacking)
    level = _level(settings)
    needed = "SYS" if how_far in ("SYS", FAR) else "PHB"
    if allows(level, needed):
        return Passed(f"{how_far}, and {NCCL_CONF} allows {level}")
    _check_own_topology(node, pair)
    if other := _sender(node, pair, version, settings):
        return Passed(f"{how_far}, and NCCL {version} sends through {other.address} (PXN)", lacking=lacking)
    return Failed(
        seen=how_far,
        expected=f"{level} or nearer",
        subject=f"{pair.gpu} {pair.device}",
        advice=_advice(node, gpu, needed),
        as_expected=bool(gpu and if_missing(False, is_integrated, node, gpu)),  # no place is nearer
    )


def _sender(node: Node, pair: Pair, version: str, settings: Environment) -> PciGpu | None:
    """The GPU near the NIC through which NCCL sends; None without one."""
    from gdrkit.programs.nccl.pxn import sender, serves_at_cpu  # for nodes with several GPUs

    at_its_cpu = serves_at_cpu(version, settings)

    def is_near(other: Pair) -> bool:
        far, gpu = if_missing(FAR, _distance, node, other), gpu_at(node, other.gpu)
        return far in NEAR or (at_its_cpu and _near_by_c2c(node, gpu, far, version, settings))

    return sender(node, pair, version, settings, is_near)


def _advice(node: Node, gpu: PciGpu | None, needed: str) -> str:
    """What to do about a distance for which NCCL needs a level."""
    if gpu and if_missing(False, is_integrated, node, gpu):
        return "Nothing: this GPU has no memory of its own, so that no NIC and no level gives a direct path."
    return (
        f"Use a NIC below the GPU's PCIe switch. If there is none, set `{NAME}={needed}` and measure: "
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
    given = settings.get(NAME)
    return (gdr_level(given.value) if given else None) or "PXB"


def _near_by_c2c(node: Node, gpu: PciGpu | None, how_far: str, version: str, settings: Environment) -> bool:
    """Whether a NIC at the CPU that the GPU is coherent with is near for NCCL.

    NCCL_NET_GDR_C2C is 1 by default since 2.27.3; from 2.29.2 on this path has its own level, P2C, which is
    the default. That an explicit PIX or PXB excludes it is gdr-level-pxb-on-c2c. Source: NCCL
    src/graph/paths.cc at these tags.
    """
    at_cpu = how_far in ("PHB", "NODE") and gpu is not None and is_coherent(node, gpu)
    given = settings.get("NCCL_NET_GDR_C2C")
    return at_cpu and bool(release(version).gdr_c2c) and (given is None or integer(given.value) != 0)


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

    What to do: Use a NIC at the GPU's own socket: NCCL takes it by itself, unless it is down or NCCL_IB_HCA
    leaves it out. Without one, measure whether `NCCL_NET_GDR_LEVEL=SYS` is faster than host memory.

    Why: The machine has NICs at one socket only, or the job uses the wrong NIC.

    Source: The legend of `nvidia-smi topo -m`.
    """
    how_far = distance(node, pair)
    if how_far == "SYS":
        return Failed(seen="SYS", expected="the same NUMA node", subject=f"{pair.gpu} {pair.device}")
    return Passed(how_far)
