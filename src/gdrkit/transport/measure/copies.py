"""The rates of a GPU's copy engines: between GPU and pinned memory the limit of every staged path, between
two GPUs that of `peer`.
"""

from __future__ import annotations

import statistics
import time

from gdrkit.agent.native.cuda_abi import PEER_ACCESS_ALREADY_ENABLED, REGISTER_PORTABLE
from gdrkit.transport.native.cuda import CudaError, cuda

SIZE_BYTES = 256 << 20
_REPEATS = 7


def slower_copy(device: int) -> float:
    """GB/s of the slower direction: the median of seven copies of 256 MiB. Raises CudaError,
    CudaNotAvailable.
    """
    driver = cuda()
    driver.use(device)
    gpu = driver.number("cuMemAlloc_v2", SIZE_BYTES)
    host = driver.number("cuMemHostAlloc", SIZE_BYTES, REGISTER_PORTABLE)
    try:
        return min(copy_rate(host, gpu), copy_rate(gpu, host))
    finally:
        driver.call("cuMemFreeHost", host)
        driver.call("cuMemFree_v2", gpu)


def slower_peer_copy(one: int, other: int) -> float:
    """GB/s between two GPUs, each writing into the other's memory; as `slower_copy`. One GPU is its own
    peer. Raises CudaError if they cannot access each other's memory.
    """
    return min(_peer_copy(one, other), _peer_copy(other, one))


def _peer_copy(source: int, destination: int) -> float:
    driver = cuda()
    driver.use(destination)
    target = driver.number("cuMemAlloc_v2", SIZE_BYTES)
    driver.use(source)
    what = driver.number("cuMemAlloc_v2", SIZE_BYTES)
    enabled = source != destination and _enable(driver.context(destination))
    try:
        return copy_rate(target, what)
    finally:
        if enabled:
            driver.call("cuCtxDisablePeerAccess", driver.context(destination))
        driver.call("cuMemFree_v2", what)
        driver.call("cuMemFree_v2", target)


def _enable(context: int) -> bool:
    """Let the current GPU access another one's memory. Whether it could not before."""
    try:
        cuda().call("cuCtxEnablePeerAccess", context, 0)
    except CudaError as error:
        if error.number != PEER_ACCESS_ALREADY_ENABLED:
            raise
        return False
    return True


def copy_rate(destination: int, source: int) -> float:
    """GB/s of one copy on the current GPU's default stream: the median of seven."""
    driver, samples = cuda(), []
    for _ in range(_REPEATS):
        begun = time.perf_counter()
        driver.call("cuMemcpyAsync", destination, source, SIZE_BYTES, 0)
        driver.call("cuStreamSynchronize", 0)
        samples.append(time.perf_counter() - begun)
    return SIZE_BYTES / statistics.median(samples) / 1e9
