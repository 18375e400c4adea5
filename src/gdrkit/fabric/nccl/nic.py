"""NCCL's tests of a NIC's support for GPUDirect RDMA: a file for nvidia-peermem, a call for dma-buf.

Source: NCCL src/transport/net_ib.cc, from 2.29.2 on src/transport/net_ib/gdr.cc: ncclIbGdrSupport()
and ncclIbDmaBufSupport(); src/init.cc, dmaBufSupported(). Other networks, such as plugins, have tests of
their own.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from gdrkit.fabric.nccl.settings import Settings
from gdrkit.formats.versions import numbers
from gdrkit.programs.nccl.releases import Release
from gdrkit.programs.nccl.settings import selects

CUDA_WITH_DMABUF = (11, 7)
"""init.cc, dmaBufSupported(): the driver's version of CUDA; NCCL must be built with it, too."""


class NicEvidence(Struct, frozen=True):
    """The evidence of a node. None, or a device that is not named: not collected.

    `files` are those of `Release.peermem_files` that exist. `dmabuf` holds for each device, in their order,
    whether ibv_reg_dmabuf_mr() with a bad descriptor fails with another error than EOPNOTSUPP or
    EPROTONOSUPPORT."""

    files: frozenset[str] | None = None
    dmabuf: Mapping[str, bool] = {}


class GpuEvidence(Struct, frozen=True):
    """CUDA attributes 116, GPUDirect RDMA, and 124, dma-buf (None: not probed); the driver's CUDA
    version."""

    gdr: bool | None = None
    dmabuf: bool | None = None
    cuda: str = ""


class MechanismSupport(Struct, frozen=True):
    """One mechanism: whether NCCL considers it supported (None: not known), and why."""

    works: bool | None
    why: str


def peermem(rules: Release, evidence: NicEvidence) -> MechanismSupport:
    """Whether NCCL considers nvidia-peermem loaded. It only tests for a file, once for all devices."""
    wanted = rules.peermem_files
    if evidence.files is None:
        return MechanismSupport(None, f"not collected: {', '.join(wanted)}")
    found = [name for name in wanted if name in evidence.files]
    return MechanismSupport(
        bool(found), f"{found[0]} exists" if found else f"none of {', '.join(wanted)} exists"
    )


def dmabuf(
    rules: Release, settings: Settings, device: str, nics: NicEvidence, gpu: GpuEvidence
) -> MechanismSupport:
    """Whether NCCL would register dma-bufs of this GPU with this device."""
    if not settings.dmabuf:
        return MechanismSupport(False, "NCCL_DMABUF_ENABLE=0")
    if gpu.cuda and numbers(gpu.cuda) < CUDA_WITH_DMABUF:
        return MechanismSupport(False, f"the driver's CUDA is {gpu.cuda}, older than 11.7")
    if gpu.dmabuf is False:
        return MechanismSupport(False, "CUDA attribute 124 (DMA_BUF_SUPPORTED) is 0")
    name = device
    if not rules.probes_each_nic and nics.dmabuf:
        name = next(iter(nics.dmabuf))
    known = nics.dmabuf.get(name)
    asked_device = name if name == device else f"{name}, which NCCL asks for all devices,"
    if known is False:
        return MechanismSupport(
            False, f"ibv_reg_dmabuf_mr() is not supported by {asked_device} or its kernel"
        )
    if known is None or gpu.dmabuf is None:
        return MechanismSupport(None, "dma-buf support of the device and the GPU was not probed")
    return MechanismSupport(True, f"{asked_device} and the GPU support dma-buf")


def unused(settings: Settings, device: str, port: int | None = None) -> str:
    """The variable that makes NET/IB skip a port, with its value; "" if it uses the port."""
    if settings.ib_disable:
        return "NCCL_IB_DISABLE"
    if settings.net.lower() == "socket":
        return f"NCCL_NET={settings.net}"
    if settings.ib_hca and not selects(settings.ib_hca, device, port):
        return f"NCCL_IB_HCA={settings.ib_hca}"
    return ""
