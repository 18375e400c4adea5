"""GPUs and NICs without the neighbour below their PCIe switch that their peers have."""

from __future__ import annotations

from collections.abc import Iterator

from gdrkit.facts.expectation import expectation
from gdrkit.facts.gpu_recovery import came_back, lost_gpus
from gdrkit.facts.pci import PciGpu, bridges_above, gpus
from gdrkit.facts.rdma import (
    CLASS,
    RdmaDevice,
    below_one_switch,
    hardware_pairs,
    is_virtual_function,
    nic_address,
    nics,
)
from gdrkit.facts.unused_nics import UnusedNic, judged_nics
from gdrkit.node import Node, if_absent, if_missing
from gdrkit.rules.capabilities import Need
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import (
    GPU,
    WIRE,
    Failed,
    Layer,
    NotApplicable,
    Outcome,
    Passed,
    Status,
    rule,
    the_node,
)

LEAST_PEERS = 3
"""Fewer devices that agree prove nothing: a server may have one NIC for two GPUs."""

USUAL_COUNTS = (1, 2, 4, 8, 16)
"""GPUs of one model in a baseboard, a tray, a server or a partition of NVSwitches: NVIDIA Fabric Manager
User Guide, partitions; HGX and DGX user guides."""


@rule(
    "nic-missing",
    Layer.HARDWARE,
    per=gpus,
    takes=(WIRE,),
    whole_machine=True,
    reported_by=(DecidingCommand("nvidia-smi topo -m", "one row without PIX or PXB, unlike the others"),),
    cost="This GPU's data goes through a NIC of another GPU, over a slower path.",
)
def nic_missing(node: Node, gpu: PciGpu) -> Outcome:
    """This GPU has no NIC below its PCIe switch, and the other GPUs of its kind have one.

    Cost: The GPU uses a NIC that belongs to another GPU. NCCL then copies through host memory, or through
    that GPU (PXN); a collective over all GPUs is as slow as this one.

    How to tell: In `nvidia-smi topo -m`, this GPU's row has no PIX or PXB where the others have one.
    `lspci` lists fewer NICs than the same machine beside it.

    What to do: Look for the NIC with `lspci -d 15b3:`. If it is listed but has no RDMA device, its driver
    refused it: `sudo dmesg | grep mlx5_core`. If it is not listed, it is off or broken: a cold restart, then
    reseating the card or its riser, often brings it back. If this machine is built so, write that down with
    `gdr expect -o FILE`, and judge it with `gdr doctor --expect FILE`.

    Why: The NIC failed, was removed, is turned off in firmware, belongs to a virtual machine, or its driver
    did not start.

    Source: NVIDIA DGX and HGX user guides: one NIC for each GPU, or for each two, below a common switch.
    """
    from gdrkit.facts.expected_devices import counted_nics, model  # for nodes with GPUs

    wanted = expectation(node).content
    if wanted.rails or (wanted.nics is not None and len(counted_nics(node)) >= wanted.nics):
        return NotApplicable("the expectation says which NICs there are")
    if len(gpus(node)) < LEAST_PEERS:
        return NotApplicable("too few GPUs to compare")
    if own := _near(node, gpu):
        return Passed(", ".join(own))
    kind = model(node, gpu)
    peers = [other for other in gpus(node) if other != gpu and model(node, other) == kind]
    if len(peers) < LEAST_PEERS - 1:
        return NotApplicable("too few GPUs of this kind to compare")
    equipped = [peer for peer in peers if _near(node, peer)]
    if len(equipped) < len(peers) / 2 + 1:
        return Passed("most GPUs of this kind have no NIC of their own")
    if any(isinstance(one, UnusedNic) and one.gpu == gpu.address for one in judged_nics(node)):
        return Passed("its NIC is listed, without an RDMA device")
    return Failed(
        seen=f"no NIC below this GPU's switch; {len(equipped)} other GPUs have one",
        expected="a NIC like the other GPUs",
        subject=gpu.address,
    )


def _lost_or_node(node: Node) -> Iterator[PciGpu | str]:
    """The GPUs that the kernel log of this boot names and that are gone, or the node where there is none."""
    yield from lost_gpus(node) or the_node(node)


def _gone(subject: PciGpu | str) -> tuple[Need, ...]:
    return (GPU,) if isinstance(subject, PciGpu) else ()  # the other GPUs are not affected


@rule(
    "gpu-missing",
    Layer.HARDWARE,
    per=_lost_or_node,
    takes=_gone,
    whole_machine=True,
    default_status=Status.WARNING,
    reported_by=(DecidingCommand("nvidia-smi -L", "fewer GPUs than the machine has"),),
    remedies=(RemedyName.POWER_CYCLE,),
    cost="Jobs that ask for all GPUs of the machine do not start, or use fewer.",
)
def gpu_missing(node: Node, subject: PciGpu | str) -> Outcome:
    """A GPU fell off the bus and is gone, or a NIC has no GPU beside it while the others of its kind have
    one.

    Cost: The machine has fewer GPUs than it should. Those that are there are not affected.

    How to tell: `nvidia-smi -L` and `lspci -d 10de:` list, say, seven GPUs on a machine of eight. If the
    kernel log of this boot names the slot, with Xid 79 or `fallen off the bus`, the machine is blocked;
    otherwise it may be built so, and this is a warning.

    What to do: Search the kernel log for `Xid` 79 and `fallen off the bus`. Reset or restart the machine
    with power removed; if the GPU stays away, it needs service. If this machine is built so, write that
    down with `gdr expect -o FILE`, and judge it with `gdr doctor --expect FILE`.

    Why: The GPU fell off the bus, failed at start, or was removed.

    Source: NVIDIA GPU Debug Guidelines, Xid 79; NVIDIA Fabric Manager User Guide, partitions.
    """
    wanted = expectation(node).content
    if wanted.gpus is not None or wanted.gpu_models:
        return NotApplicable("the expectation says how many GPUs there are")
    if isinstance(subject, PciGpu):
        if came_back(node, subject.address):
            return Passed(f"{subject.address} is listed again")
        return Failed(
            seen=f"{subject.address} fell off the bus (Xid 79) and is not listed any more",
            expected=f"a GPU at {subject.address}",
            subject=subject.address,
        )
    count = len(gpus(node))
    if not count or count in USUAL_COUNTS:
        return Passed(f"{count} GPUs")
    from gdrkit.facts.expected_devices import model

    if len({model(node, gpu) for gpu in gpus(node)}) != 1:
        return Passed(f"{count} GPUs")
    beside = {device for gpu in gpus(node) for device in _near(node, gpu)}
    for alike in _alike(node):
        alone = [device.name for device in alike if device.name not in beside]
        if alone and len(alike) - len(alone) >= LEAST_PEERS * len(alone):
            names, others = ", ".join(alone), len(alike) - len(alone)
            return Failed(
                seen=f"{count} GPUs: {names} has none beside it, {others} NICs of its kind have one",
                expected="a GPU beside every NIC of this kind",
                subject=alone[0],
            )
    for device in nics(node):
        if not device.board_id:  # some drivers have none
            if_absent("", node.text, f"{CLASS}/{device.name}/board_id")
    return Passed(f"{count} GPUs, and no NIC without a GPU that its peers have")


def _near(node: Node, gpu: PciGpu) -> list[str]:
    """The NICs below a switch that is also above the GPU."""
    mine = (pair for pair in hardware_pairs(node) if pair.gpu == gpu.address)
    return [pair.device for pair in mine if below_one_switch(node, pair)]


def _alike(node: Node) -> list[list[RdmaDevice]]:
    """The NICs by kind: the same board, equally many bridges below the root."""
    groups: dict[tuple[str, int], list[RdmaDevice]] = {}
    for device in nics(node):
        if device.board_id and not if_missing(False, is_virtual_function, node, device.name):
            bridges = bridges_above(node, nic_address(node, device.name))
            groups.setdefault((device.board_id, len(bridges)), []).append(device)
    return list(groups.values())
