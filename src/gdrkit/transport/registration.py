"""Memory that an RDMA device may reach: on the best path that takes it, and why the better ones did not."""

from __future__ import annotations

import os
from typing import NamedTuple

from gdrkit.agent.native.cuda_abi import HANDLE_DMA_BUF
from gdrkit.transport.buffers import Buffer
from gdrkit.transport.native.verbs import MemoryRegion, VerbsDevice, VerbsError


class RegistrationRefusal(NamedTuple):
    """A path that was tried in vain: the call that failed, and its number (an errno, or a CUresult)."""

    path: str
    call: str
    number: int
    words: str


class Registered(NamedTuple):
    """Memory on a path: `dmabuf` or `peermem` of a GPU, `host`; or `staged`, which no device reaches
    (`region` is None). `refusals` are the better paths that were tried.
    """

    buffer: Buffer
    path: str
    region: MemoryRegion | None
    refusals: tuple[RegistrationRefusal, ...] = ()


def register(device: VerbsDevice, what: Buffer) -> Registered:
    """Register memory with a device on the best path that it takes.

    GPU memory: as a dma-buf (ibv_reg_dmabuf_mr), else by its address (ibv_reg_mr, which peermem makes
    work), else it is `staged`. Host memory that no device takes raises VerbsError: there is nothing
    below it.

    Never run on a machine that has a GPU beside an RDMA device: the dma-buf export was run on an H200,
    the registration and its refusals over rdma_rxe.
    """
    if what.device is None:
        return Registered(what, "host", device.register(what.address, what.size_bytes))
    refusals: list[RegistrationRefusal] = []
    for path, attempt in (("dmabuf", _by_dmabuf), ("peermem", _by_address)):
        from gdrkit.transport.native.cuda import CudaError

        try:
            return Registered(what, path, attempt(device, what), tuple(refusals))
        except VerbsError as error:
            refusals.append(RegistrationRefusal(path, error.call, error.errno, os.strerror(error.errno)))
        except CudaError as error:
            refusals.append(RegistrationRefusal(path, error.call, error.number, error.name))
    return Registered(what, "staged", None, tuple(refusals))


def _by_address(device: VerbsDevice, what: Buffer) -> MemoryRegion:
    return device.register(what.address, what.size_bytes)


def _by_dmabuf(device: VerbsDevice, what: Buffer) -> MemoryRegion:
    """The whole allocation as a dma-buf, and our part of it registered."""
    from gdrkit.transport.native.cuda import cuda

    driver = cuda()
    base, size = driver.allocation(what.address)
    # The range has to be of whole host pages (CUDA driver API, cuMemGetHandleForAddressRange).
    page = os.sysconf("SC_PAGESIZE")
    whole = -(-size // page) * page
    descriptor = driver.number("cuMemGetHandleForAddressRange", base, whole, HANDLE_DMA_BUF, 0)
    try:
        return device.register_dmabuf(descriptor, what.address - base, what.size_bytes, what.address)
    finally:
        os.close(descriptor)  # the region holds the dma-buf now
