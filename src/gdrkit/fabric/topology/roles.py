"""What a PCI function is to a topology, by class and vendor.

Source: pci.ids, classes and vendors."""

from __future__ import annotations

from gdrkit.fabric.topology.graph import Role

NVIDIA = "10de"
DISPLAY, NETWORK, INFINIBAND, BRIDGE, NVSWITCH = ("0300", "0302"), "02", "0207", "0604", "0680"
RDMA_NICS = (("15b3", ""), ("1d0f", "efa"))
"""Vendors and beginnings of devices: Mellanox, Amazon's EFA. Their network functions are shown even where no
RDMA device is seen on them."""


def role(class_code: str, vendor: str, device: str) -> Role:
    """OTHER for all that is neither on the way of GPU traffic nor at its ends."""
    if vendor == NVIDIA and class_code[:4] in DISPLAY:
        return Role.GPU
    if vendor == NVIDIA and class_code.startswith(NVSWITCH):
        return Role.NVSWITCH
    if class_code.startswith(INFINIBAND):
        return Role.NIC
    if class_code.startswith(NETWORK):
        known = any(vendor == maker and device.startswith(start) for maker, start in RDMA_NICS)
        return Role.NIC if known else Role.OTHER
    return Role.BRIDGE if class_code.startswith(BRIDGE) else Role.OTHER
