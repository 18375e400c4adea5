"""NIC drivers that never ask nvidia-peermem."""

from __future__ import annotations

from gdrkit.facts import modules
from gdrkit.facts.rdma import RdmaDevice, nics
from gdrkit.facts.verbs_kernel import is_built_in, verbs_module
from gdrkit.node import Node, if_missing
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.rule import ADDRESS, Failed, Layer, NotApplicable, Outcome, Passed, rule

_ASKING = "ib_umem_get_peer"

ASKING_DRIVERS = ("mlx5_ib", "mlx4_ib")
"""The drivers that come with every RDMA stack that has the peer-memory API: MLNX_OFED, DOCA-OFED, and
Ubuntu's patch (Launchpad bug 1923104)."""


@rule(
    "driver-ignores-peer-memory",
    Layer.RDMA,
    per=nics,
    takes=(ADDRESS,),
    reported_by=(
        DecidingCommand("nm -u <the NIC's driver module>", "ib_umem_get, and no ib_umem_get_peer"),
    ),
    cost="Only dma-buf gives this NIC a direct path.",
    references=("https://docs.nvidia.com/cuda/gpudirect-rdma/",),
)
def driver_ignores_peer_memory(node: Node, device: RdmaDevice) -> Outcome:
    """The driver of this NIC does not use the peer-memory API, so nvidia-peermem does nothing for it.

    Cost: The peermem path is closed for this NIC, even while nvidia-peermem is loaded. Programs that only
    look whether it is loaded, as NCCL does, try the direct path, and fail to register GPU memory (EFAULT).

    How to tell: The driver's module imports ib_umem_get, which never asks peer clients, and not
    ib_umem_get_peer: `nm -u` of the unpacked file in /lib/modules lists both.

    What to do: Use dma-buf: a kernel whose driver imports ib_umem_dmabuf_get* (bnxt_re does from Linux 6.6
    on), the open NVIDIA modules, and a program that supports it. Or use the vendor's own driver. DOCA-OFED
    is of no use: it has drivers for NVIDIA's NICs alone, and its RDMA core does not accept the kernel's
    drivers of others.

    Why: The API was never part of Linux. The RDMA stacks that add it changed the drivers of NVIDIA's NICs;
    the kernel's own irdma, bnxt_re, efa, qedr and others call the plain function.

    Source: Linux drivers/infiniband/core/umem.c, ib_umem_get(), and drivers/infiniband/hw/; Launchpad bug
    1923104, "RDMA/core: Introduce peer memory interface".
    """
    module = verbs_module(device.driver)
    if module in ASKING_DRIVERS or not module:
        return NotApplicable("the stacks with the peer-memory API have a driver for it")
    if is_built_in(node, module):
        return Failed(
            seen=f"{module} is the kernel's own, which asks no peer clients",
            expected=f"a driver that imports {_ASKING}",
            subject=device.name,
        )
    path = modules.loaded_path(node, module)
    imported = modules.imports(node, path)
    node.cite(path, ".symtab", f"{'imports' if _ASKING in imported else 'no import of'} {_ASKING}")
    if _ASKING in imported:
        return Passed(f"{module} imports {_ASKING}")
    if not modules.information(node, path).intree:
        return NotApplicable(f"{module} is the vendor's own, which may have an API of its own")
    return Failed(
        seen=f"{module} imports no {_ASKING}",
        expected=f"a driver that imports {_ASKING}",
        subject=device.name,
    )


def brought_by_ofed(node: Node) -> bool:
    """Whether OFED has a driver for every NIC of this machine. True also where the NICs are not known."""
    found = if_missing((), nics, node)
    return all(verbs_module(device.driver) in (*ASKING_DRIVERS, "") for device in found)
