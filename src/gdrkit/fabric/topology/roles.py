"""The role of a PCI function in a topology, by class and vendor.

Source: pci.ids, classes and vendors."""

from __future__ import annotations

from gdrkit.fabric.topology.graph import Role

NVIDIA = "10de"
DISPLAY, NETWORK, INFINIBAND, BRIDGE, NVSWITCH = ("0300", "0302"), "02", "0207", "0604", "0680"
RDMA_NICS = (("15b3", ""), ("1d0f", "efa"))
"""Vendors and prefixes of devices: Mellanox, Amazon's EFA. Their network functions are shown even without a
visible RDMA device."""


def role(class_code: str, vendor: str, device: str) -> Role:
    """The role of a function; OTHER if it is neither an end of GPU traffic nor on its path."""
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
