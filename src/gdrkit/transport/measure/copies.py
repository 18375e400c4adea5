"""The rate of a GPU's copy engine between GPU and pinned memory: the limit of every staged path."""

from __future__ import annotations

import statistics
import time

from gdrkit.agent.native.cuda_abi import REGISTER_PORTABLE
from gdrkit.transport.native.cuda import cuda

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
        return min(_copy(host, gpu), _copy(gpu, host))
    finally:
        driver.call("cuMemFreeHost", host)
        driver.call("cuMemFree_v2", gpu)


def _copy(destination: int, source: int) -> float:
    driver, samples = cuda(), []
    for _ in range(_REPEATS):
        begun = time.perf_counter()
        driver.call("cuMemcpyAsync", destination, source, SIZE_BYTES, 0)
        driver.call("cuStreamSynchronize", 0)
        samples.append(time.perf_counter() - begun)
    return SIZE_BYTES / statistics.median(samples) / 1e9
