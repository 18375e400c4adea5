"""NVLink between hosts (MNNVL): what keeps GB200 and GB300 racks on the NICs."""

from __future__ import annotations

from collections.abc import Callable

from gdrkit.facts.gpu import is_coherent
from gdrkit.facts.pci import PciGpu, gpus
from gdrkit.node import Node
from gdrkit.programs.consumer import Switch
from gdrkit.programs.environment import nccl_sources
from gdrkit.programs.job_settings import turned_off
from gdrkit.programs.mnnvl.consumer import MNNVL
from gdrkit.programs.mnnvl.facts import CHANNELS, imex_channels, nvlink_fabric, rack_gpus
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import (
    FABRIC,
    SHOWN_BY_MESSAGES,
    Failed,
    Layer,
    NotApplicable,
    Outcome,
    Passed,
    Rule,
    rule,
    the_node,
)

_IMEX = "https://docs.nvidia.com/multi-node-nvlink-systems/imex-guide/"
_MNNVL = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-mnnvl-enable"
_SOURCE_FABRIC = "nvidia-smi -q | grep -A 6 Fabric"
_COST = "Traffic between the hosts of a rack goes through the NICs, or the job stops."


@rule(
    "mnnvl-imex-channel-missing",
    Layer.DRIVER,
    per=the_node,
    takes=(FABRIC,),
    remedies=(RemedyName.CREATE_IMEX_CHANNEL,),
    reported_by=(
        DecidingCommand("ls -l /dev/nvidia-caps-imex-channels", "no channel that the job may open"),
    ),
    cost=_COST,
    references=(_IMEX,),
)
def mnnvl_imex_channel_missing(node: Node, _: str) -> Outcome:
    """The process has no IMEX channel, so it cannot share memory over NVLink with other hosts.

    Cost: NCCL up to 2.26 goes over the NICs or stops; from 2.27.3 on it stops with a warning.

    How to tell: /dev/nvidia-caps-imex-channels has no channel0 in the host or container of the job, or its
    permissions or the container's device list forbid it. CUDA returns error 800 or 801 for a fabric handle.

    What to do: Load the driver with NVreg_CreateImexChannel0=1, or until the next boot run
    `sudo nvidia-modprobe -i 0:1`. In containers set NVIDIA_IMEX_CHANNELS=0; in Kubernetes use a
    ComputeDomain of the DRA driver (`gdr config imex`).

    Why: The driver allows sharing between hosts only to processes that hold the same channel.

    Source: NVIDIA/nccl src/mnnvl.cc; open-gpu-kernel-modules kernel-open/nvidia/nv-caps-imex.c.
    """
    if not rack_gpus(node):
        return NotApplicable("no GPU is in a fabric with other hosts")
    channels = imex_channels(node)
    if channels:
        return Passed(f"channel{channels[0]} is there")
    return Failed(seen=f"no channel in /{CHANNELS}", expected="channel0", subject=CHANNELS)


@rule(
    "mnnvl-imex-not-ready",
    Layer.APPLICATION,
    per=the_node,
    reported_by=(
        DecidingCommand("nvidia-imex-ctl -N", "a domain state other than UP, or a node not READY"),
    ),
    cost=_COST,
    references=(_IMEX,),
)
def mnnvl_imex_not_ready(node: Node, _: str) -> Outcome:
    """The IMEX daemon does not connect all hosts of the job.

    Cost: Memory of one host cannot be opened on another; NCCL from 2.25.1 on stops with a warning.

    How to tell: `nvidia-imex-ctl -N` shows a domain state other than UP, a node that is not READY, or fewer
    nodes than the job has: those are in another IMEX domain.

    What to do: Start nvidia-imex on every node with the same nodes_config.cfg and the same version, and let
    its ports through the firewall. In Kubernetes, give all pods of the job one ComputeDomain.

    Why: The daemons exchange the handles of memory over TCP. One that is missing or different breaks it.

    Source: NVIDIA/nccl src/mnnvl.cc, ncclMnnvlCheck(); NVIDIA IMEX guide.
    """
    return SHOWN_BY_MESSAGES


@rule(
    "mnnvl-fabric-incomplete",
    Layer.HARDWARE,
    per=gpus,
    takes=(FABRIC,),
    reported_by=(DecidingCommand(_SOURCE_FABRIC, "a State other than Completed, or no cluster UUID"),),
    cost=_COST,
    references=(_IMEX,),
)
def mnnvl_fabric_incomplete(node: Node, gpu: PciGpu) -> Outcome:
    """The GPU has not joined an NVLink fabric of several hosts.

    Cost: Programs use the NICs between hosts. NCCL does so without a message.

    How to tell: `nvidia-smi -q` shows a fabric State other than Completed, or a ClusterUUID of zeros. A
    single HGX host has Completed and zeros: that is normal there.

    What to do: Check the fabric manager (NMX) on the switch trays and the cabling, then reset the GPU.

    Why: The fabric manager gives each GPU its cluster and clique. Until then the driver offers no handles.

    Source: NVIDIA/nccl src/init.cc, fillInfo(); nvml.h, nvmlGpuFabricInfo_t.
    """
    fabric = nvlink_fabric(node, gpu)
    if fabric is None or (fabric.is_complete and not fabric.cluster):
        return NotApplicable("it is in no fabric with other hosts")
    if fabric.is_complete:
        return Passed("its fabric is complete")
    status = f", Status {fabric.status}" if fabric.status else ""
    return Failed(seen=f"State {fabric.state}{status}", expected="State Completed", subject=gpu.address)


@rule(
    "mnnvl-clique-differs",
    Layer.HARDWARE,
    per=the_node,
    takes=(FABRIC,),
    reported_by=(DecidingCommand(_SOURCE_FABRIC, "different clique IDs or cluster UUIDs on the hosts"),),
    cost="Traffic between the two groups of hosts goes through the NICs.",
    references=(_IMEX,),
)
def mnnvl_clique_differs(node: Node, _: str) -> Outcome:
    """The hosts of the job are in different NVLink cliques.

    Cost: Only hosts of the same clique reach each other over NVLink.

    How to tell: `nvidia-smi -q` shows different CliqueId or ClusterUUID on the hosts. NCCL prints
    `cliqueSize`: it is less than the ranks of the job.

    What to do: Place the job in one rack and partition, or join the partitions in the fabric manager.

    Why: A partition of the NVLink switches separates cliques, as a VLAN separates hosts.

    Source: NVIDIA/nccl src/mnnvl.cc, ncclMnnvlCheck().
    """
    found = [fabric for gpu in gpus(node) if (fabric := nvlink_fabric(node, gpu)) and fabric.cluster]
    if not found:
        return NotApplicable("no GPU is in a fabric with other hosts")
    groups = list(dict.fromkeys((fabric.cluster, fabric.clique) for fabric in found))
    if len(groups) == 1:
        return Passed("the GPUs of this host are in one clique; other hosts are not seen")
    return Failed(
        seen="; ".join(f"cluster {cluster}, clique {clique}" for cluster, clique in groups),
        expected="one clique",
        subject="node",
        takes=(),  # those of one clique still reach each other
    )


CUMEM, ENABLE = MNNVL.switches


def _rule_of(code: str, switch: Switch) -> Callable[[Callable[[Node, str], Outcome]], Rule]:
    """What the rules about NCCL's switches of MNNVL share."""
    return rule(
        code,
        Layer.APPLICATION,
        per=nccl_sources,
        takes=MNNVL.own(*switch.closes),
        reported_by=(DecidingCommand("env | grep NCCL, in the job", f"{switch.name}=0"),),
        remedies=(RemedyName.CLEAN_NCCL_SETTINGS,),
        cost=_COST,
        references=(_MNNVL,),
    )


@_rule_of("mnnvl-cumem-off", CUMEM)
def mnnvl_cumem_off(node: Node, source: str) -> Outcome:
    """NCCL_CUMEM_ENABLE=0 turns NVLink between hosts off, and symmetric memory with it.

    Cost: NCCL uses the NICs between hosts without a message.

    How to tell: The job has NCCL_CUMEM_ENABLE=0; older versions of vLLM and SGLang set it. NCCL prints
    `MNNVL 0`, or `cuMemEnable 0`.

    What to do: Remove the variable, or set it to 1.

    Why: For MNNVL, memory for other hosts must come from cuMemCreate with a fabric handle.

    Source: NVIDIA/nccl src/mnnvl.cc, and src/init.cc, initTransportsRank().
    """
    return turned_off(node, source, CUMEM)


@_rule_of("mnnvl-disabled-by-env", ENABLE)
def mnnvl_disabled_by_env(node: Node, source: str) -> Outcome:
    """NCCL_MNNVL_ENABLE=0 turns MNNVL off.

    Cost: NCCL uses the NICs between hosts without a message.

    How to tell: The variable is in /etc/nccl.conf or in the job (`env | grep NCCL`). NCCL prints `MNNVL 0`.

    What to do: Remove the setting. NCCL finds out by itself whether the hosts share a fabric.

    Why: It was set to compare with the NICs, or to work around an IMEX that was not ready.

    Source: NVIDIA/nccl src/mnnvl.cc, NCCL_PARAM(MNNVLEnable).
    """
    return turned_off(node, source, ENABLE)


@rule(
    "no-mnnvl",
    Layer.HARDWARE,
    per=the_node,
    takes=(FABRIC,),
    permanent=(FABRIC,),
    whole_machine=True,
    reported_by=(DecidingCommand(_SOURCE_FABRIC, "State N/A, or a ClusterUUID of zeros"),),
    cost="Traffic between hosts goes through the NICs.",
    references=(_IMEX,),
)
def no_mnnvl(node: Node, _: str) -> Outcome:
    """The machine has no NVLink to other hosts.

    Cost: None, unless it is meant to be in a rack such as GB200 NVL72: traffic goes through the NICs.

    How to tell: `nvidia-smi -q` shows the fabric State N/A, or Completed with a ClusterUUID of zeros, as on
    a single HGX host. Only GPUs with NVLink-C2C are built into such racks.

    What to do: Nothing on other machines. In a rack, see mnnvl-fabric-incomplete.

    Why: NVLink between hosts needs the switch trays of the rack.

    Source: nvml.h, nvmlGpuFabricInfo_t; NVIDIA/nccl src/mnnvl.cc, ncclMnnvlCheck().
    """
    every = gpus(node)
    if not every:
        return NotApplicable("there is no GPU")
    if rack_gpus(node):
        return Passed("a GPU is in a fabric with other hosts, or waits for it")
    coherent = any(is_coherent(node, gpu) for gpu in every)
    seen = "its GPUs are in no fabric with other hosts" if coherent else "no GPU with NVLink-C2C"
    return Failed(seen=seen, expected="a rack such as GB200 NVL72", subject="node")
