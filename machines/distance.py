"""How far a NIC is from a GPU, in the words of `nvidia-smi topo -m`."""

from __future__ import annotations

from machines.hardware import BRIDGES
from machines.machine import Function, Machine

NEAR = ("PIX", "PXB")
_ORDER = ("PIX", "PXB", "PHB", "NODE", "SYS")


def distance(machine: Machine, gpu: Function, nic: Function) -> str:
    """PIX or PXB below a common switch, PHB below one host bridge, NODE in one socket, else SYS."""
    ours, theirs = machine.chains(gpu, nic)
    return _between(gpu, ours, nic, theirs)


def _between(gpu: Function, ours: list[Function], nic: Function, theirs: list[Function]) -> str:
    above = {bridge.address for bridge in theirs}
    common = [bridge for bridge in ours if bridge.address in above]
    if any(BRIDGES[bridge.part].kind != "root" for bridge in common):
        return "PIX"
    if common or (gpu.address[:7] == nic.address[:7] and gpu.numa == nic.numa):
        return "PHB"
    return "NODE" if gpu.numa == nic.numa else "SYS"


def own(machine: Machine, gpu: Function, nics: list[Function]) -> list[Function]:
    """The NICs nearest to a GPU, whatever their ports do."""
    ours, *chains = machine.chains(gpu, *nics)
    ranks = {
        nic.address: _ORDER.index(_between(gpu, ours, nic, theirs))
        for nic, theirs in zip(nics, chains, strict=True)
    }
    # root ports of one socket are equally far, whether or not they share a host bridge
    least = max(min(ranks.values()), 0)
    allowed = {least} if least < 2 else {2, 3} if least < 4 else {4}
    return [nic for nic in nics if ranks[nic.address] in allowed]


def refused(machine: Machine, gpu: Function, nearest: list[Function]) -> bool:
    """nvidia.ko's own check, from 580.65.06 on: on Grace and Altra, GPU and NIC need a common bridge.

    Source: kernel-open/nvidia/nv-pci.c, nv_grdma_pci_topology_supported()."""
    driver = machine.driver
    if (
        not driver
        or not driver.loaded
        or driver.number < (580, 65, 6)
        or machine.cpu not in ("altra", "grace")
        or machine.virtual
    ):
        return False
    if driver.parameters.get("GrdmaPciTopoCheckOverride") == "1" or (gpu.gpu and gpu.gpu.coherent):
        return False
    return not any(distance(machine, gpu, nic) in NEAR for nic in nearest)
