"""NCCL_NET_GDR_LEVEL: too low for a pair, not understood, or wrong for a machine with NVLink-C2C."""

from __future__ import annotations

from collections.abc import Iterable

from gdrkit.consumers.consumer import DIRECT
from gdrkit.consumers.nccl import NCCL
from gdrkit.consumers.nccl_levels import LEVELS, allows, gdr_level, path_type, printed_type
from gdrkit.consumers.nccl_releases import NEWEST, release
from gdrkit.facts.environment import Environment, Setting, nccl_sources
from gdrkit.facts.gpu import is_coherent
from gdrkit.facts.nccl_log import nccl_logs
from gdrkit.facts.pci import gpu_at
from gdrkit.facts.rdma import Pair, distance, pairs
from gdrkit.messages.nccl_records import PairLine
from gdrkit.node import Node, if_missing
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.job_settings import first_wrong, settings_of, taken_by
from gdrkit.rules.rule import Failed, Layer, NotApplicable, Outcome, Passed, Status, Trait, rule

NAME = "NCCL_NET_GDR_LEVEL"


def pairs_or_node(node: Node) -> Iterable[Pair | str]:
    """The pairs; or the node, where the pairs are not known or there are none, as with a pasted log."""
    return if_missing(("node",), lambda: pairs(node) or ("node",))


@rule(
    "gdr-level-too-low",
    Layer.APPLICATION,
    per=pairs_or_node,
    traits=(Trait.NVIDIA_ONLY,),
    takes=NCCL.own(*DIRECT),
    reported_by=(
        DecidingCommand("env | grep NCCL, in the job", "NCCL_NET_GDR_LEVEL below the pair's distance"),
    ),
    cost="NCCL copies through host memory for this pair, although a direct path exists.",
    references=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-net-gdr-level",),
)
def gdr_level_too_low(node: Node, subject: Pair | str) -> Outcome:
    """NCCL_NET_GDR_LEVEL forbids the direct path over the distance of this pair.

    Cost: Every byte of this pair is copied through host memory.

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

    def wrong(found: Environment, setting: Setting) -> Failed | None:
        level = gdr_level(setting.value, found.nccl_version)
        if level is None:
            return None
        kind = _type_of(node, subject, found.nccl_version) if level != "LOC" else "PIX"
        if kind is None or allows(level, kind) or (kind == "P2C" and level in ("PIX", "PXB")):
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
    traits=(Trait.NVIDIA_ONLY,),
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
    traits=(Trait.NVIDIA_ONLY,),
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

    def wrong(found: Environment, setting: Setting) -> Failed | None:
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
