"""No RDMA device."""

from __future__ import annotations

from gdrkit.facts.pci import PciDevice, devices
from gdrkit.facts.rdma import rdma_devices
from gdrkit.facts.virtual import scope
from gdrkit.node import Node, if_missing
from gdrkit.rules.deciding_command import DEVINFO, DecidingCommand
from gdrkit.rules.rule import WIRE, Failed, Layer, Outcome, Passed, rule, the_node

"""Paths that need an RDMA device; sockets do not."""

RDMA_MODULE = {  # PCI driver -> the module that makes RDMA devices of its functions
    "mlx5_core": "mlx5_ib",
    "mlx4_core": "mlx4_ib",
    "ice": "irdma",
    "i40e": "irdma",
    "bnxt_en": "bnxt_re",
    "efa": "efa",
    "cxgb4": "iw_cxgb4",
    "qede": "qedr",
    "mana": "mana_ib",
    "erdma": "erdma",
}
"""Linux drivers/infiniband/hw: the auxiliary and PCI drivers each module binds to."""

MELLANOX = "15b3"  # pci.ids


@rule(
    "no-rdma-device",
    Layer.HARDWARE,
    per=the_node,
    takes=(WIRE,),
    permanent=(WIRE,),
    whole_machine=True,
    reported_by=(DecidingCommand(DEVINFO, "`No IB devices found`, on the host"),),
    cost="All traffic goes through sockets.",
    references=("https://docs.kernel.org/infiniband/",),
)
def no_rdma_device(node: Node, subject: str) -> Outcome:
    """There is no RDMA device in this machine.

    Cost: NCCL uses sockets: on two H200s, over the loopback device, 3.5 GB/s against 36 GB/s.

    How to tell: /sys/class/infiniband is empty or not there.

    What to do: If `lspci` shows a ConnectX, `modprobe mlx5_ib` and `rdma system`; in a container, run it
    with the RDMA device; else a NIC that has it.

    Why: No NIC that can do RDMA, or its driver made no RDMA device of it: mlx5_ib is not loaded, RoCE is off
    in firmware, or the device lives in another network namespace.

    Source: Linux drivers/infiniband/core/device.c.
    """
    found = rdma_devices(node)
    if found:
        return Passed(", ".join(device.name for device in found))
    dormant = _dormant(node)
    if dormant is not None:
        module = RDMA_MODULE.get(dormant.driver, "mlx5_ib")
        return Failed(
            seen=f"a NIC at {dormant.address} (driver {dormant.driver or 'none'}), but no RDMA device",
            expected=f"one made by {module}",
            subject=dormant.address,
            permanent=frozenset(),
        )
    return Failed(
        seen="no RDMA device",
        expected="at least one in /sys/class/infiniband",
        subject="node",
        permanent=frozenset((WIRE,)) if _is_host(node) else frozenset(),
    )


def _dormant(node: Node) -> PciDevice | None:
    """A NIC that could have RDMA devices. None also where nobody knows the devices."""
    for device in if_missing((), devices, node):
        network = device.class_code.startswith("02")  # pci.ids: 0200 Ethernet, 0207 InfiniBand
        if network and (device.vendor == MELLANOX or device.driver in RDMA_MODULE):
            return device
    return None


def _is_host(node: Node) -> bool:
    """In a container the device may be in another network namespace: rdma-system(8), exclusive mode."""
    return if_missing(True, lambda: scope(node) == "host")
