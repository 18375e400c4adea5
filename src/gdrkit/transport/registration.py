"""Memory registered with an RDMA device: on the best path that accepts it, and why better ones did not."""

from __future__ import annotations

import errno
import os
from typing import NamedTuple

from gdrkit.agent.native.cuda_abi import HANDLE_DMA_BUF
from gdrkit.transport.buffers import Buffer
from gdrkit.transport.errors import RegistrationFailed
from gdrkit.transport.native.cuda import CudaError, cuda
from gdrkit.transport.native.verbs import MemoryRegion, VerbsDevice, VerbsError


class RegistrationRefusal(NamedTuple):
    """A path that failed: the call, its number (an errno or a CUresult), and the number's meaning."""

    path: str
    call: str
    number: int
    words: str


class Registered(NamedTuple):
    """A registration and its path: `dmabuf` or `peermem` for GPU memory, `host`; or `staged`, if no device
    accepts the memory (`region` is None). `refusals` are the better paths that failed.
    """

    path: str
    region: MemoryRegion | None
    refusals: tuple[RegistrationRefusal, ...] = ()


def register(device: VerbsDevice, what: Buffer) -> Registered:
    """Register memory with a device on the best path that the device accepts.

    GPU memory: as a dma-buf (ibv_reg_dmabuf_mr), else by its address (ibv_reg_mr, which needs peermem), else
    it is `staged`. Raises RegistrationFailed for host memory that the device refuses: there is no fallback.

    Never run on a machine with both a GPU and an RDMA device: the dma-buf export was run on an H200, the
    registration and its refusals over rdma_rxe.
    """
    if what.device is None:
        try:
            return Registered("host", _by_address(device, what))
        except VerbsError as error:
            hint = "; see ulimit -l" if error.errno == errno.ENOMEM else ""
            raise RegistrationFailed(f"{what.size_bytes} bytes of host memory: {error}{hint}") from None
    refusals: list[RegistrationRefusal] = []
    for path, attempt in (("dmabuf", _by_dmabuf), ("peermem", _by_address)):
        try:
            return Registered(path, attempt(device, what), tuple(refusals))
        except VerbsError as error:
            refusals.append(RegistrationRefusal(path, error.call, error.errno, os.strerror(error.errno)))
        except CudaError as error:
            refusals.append(RegistrationRefusal(path, error.call, error.number, error.name))
    return Registered("staged", None, tuple(refusals))


def _by_address(device: VerbsDevice, what: Buffer) -> MemoryRegion:
    return device.register(what.address, what.size_bytes)


def _by_dmabuf(device: VerbsDevice, what: Buffer) -> MemoryRegion:
    """Export the whole allocation as a dma-buf, and register our part of it."""
    driver = cuda()
    base, size = driver.allocation(what.address)
    # The range must consist of whole host pages (CUDA driver API, cuMemGetHandleForAddressRange).
    page = os.sysconf("SC_PAGESIZE")
    whole = -(-size // page) * page
    descriptor = driver.number("cuMemGetHandleForAddressRange", base, whole, HANDLE_DMA_BUF, 0)
    try:
        return device.register_dmabuf(descriptor, what.address - base, what.size_bytes, what.address)
    finally:
        os.close(descriptor)  # the region holds its own reference to the dma-buf
