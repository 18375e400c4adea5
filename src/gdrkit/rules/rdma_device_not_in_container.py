"""RDMA devices that a container cannot open."""

from __future__ import annotations

from gdrkit.evidence import Confidence, EvidenceAbsent, EvidenceMissing
from gdrkit.facts.rdma import RdmaDevice, character_device, has_device_file, rdma_devices
from gdrkit.facts.virtual import scope
from gdrkit.node import Node
from gdrkit.rules.deciding_command import DEVINFO, DecidingCommand
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import WIRE, Failed, Layer, NotApplicable, Outcome, Passed, rule


@rule(
    "rdma-device-not-in-container",
    Layer.RDMA,
    per=rdma_devices,
    takes=(WIRE,),
    remedies=(RemedyName.GIVE_CONTAINER_DEVICES,),
    reported_by=(DecidingCommand(DEVINFO, "devices on the host, none in the container"),),
    cost="Programs in this container see the device in sysfs but cannot open it; they use sockets.",
    references=("https://github.com/Mellanox/k8s-rdma-shared-dev-plugin",),
)
def rdma_device_not_in_container(node: Node, device: RdmaDevice) -> Outcome:
    """The container sees an RDMA device, but has no device file to open it.

    Cost: `ibv_devices` finds nothing; NCCL says `NET/IB : No device found` and uses sockets.

    How to tell: In the container, /sys/class/infiniband lists the device, but its /dev/infiniband/uverbs<n>
    does not exist.

    What to do: With Docker, start the container with `--device=/dev/infiniband` and `--ulimit memlock=-1`.
    With Kubernetes, request the resource of the RDMA device plugin (`rdma/...`), of SR-IOV, or on EKS
    `vpc.amazonaws.com/efa`, and add the capability IPC_LOCK. `gdr config container` writes either. With
    enroot or pyxis, set MELLANOX_VISIBLE_DEVICES=all before `srun`: enroot's hook 99-mellanox.sh mounts the
    devices then, and none without that variable.

    Why: sysfs shows every device of the host, but device files are given to containers one by one: a pod
    that requests one of eight has one, and needs eight for all.

    Source: Linux drivers/infiniband/core/uverbs_main.c; NCCL src/transport/net_ib; NVIDIA/enroot
    conf/hooks/99-mellanox.sh.
    """
    try:
        inside = scope(node) == "container"
    except EvidenceMissing:
        node.cite("scope", text="assumed to be the host", confidence=Confidence.LIKELY)
        inside = False
    if not inside:
        return NotApplicable("not known to be in a container")
    try:
        path = character_device(node, device.name)
        found = has_device_file(node, device.name)
    except EvidenceAbsent as absent:
        return Failed(
            seen=f"no {absent.missing.source}", expected="ib_uverbs on the host", subject=device.name
        )
    if found:
        return Passed(f"/{path}")
    return Failed(seen=f"no /{path}", expected=f"/{path} in the container", subject=device.name)
