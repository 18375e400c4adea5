"""The CUDA driver through ctypes, on machines with and without one."""

import ctypes
import mmap

import pytest

from gdrkit.agent.native.cuda import PROTOTYPES
from gdrkit.transport.native.cuda import Cuda, CudaError, CudaNotAvailable, cuda


def test_a_machine_without_the_driver_gives_a_clear_error():
    try:
        Cuda()
    except (CudaNotAvailable, CudaError) as error:
        assert "libcuda" in str(error) or "cuInit" in str(error)


def test_an_error_names_the_call_the_number_and_the_drivers_name():
    error = CudaError("cuMemAlloc_v2", 2, "CUDA_ERROR_OUT_OF_MEMORY")
    assert str(error) == "cuMemAlloc_v2 returned 2 (CUDA_ERROR_OUT_OF_MEMORY)"


@pytest.fixture
def driver():
    try:
        return cuda()
    except (CudaNotAvailable, CudaError) as error:
        pytest.skip(f"needs an NVIDIA GPU and its driver: {error}")


def test_this_libcuda_has_every_function_with_a_prototype(driver):
    for name in PROTOTYPES:
        driver.function(name)


def test_the_device_of_a_pointer_is_found(driver):
    driver.use(0)
    pointer = driver.number("cuMemAlloc_v2", 4096)
    try:
        assert driver.device_of(pointer) == 0
        base, size = driver.allocation(pointer + 17)
        assert base <= pointer and pointer + 4096 <= base + size
    finally:
        driver.call("cuMemFree_v2", pointer)


def test_host_memory_unknown_to_cuda_has_no_device(driver):
    assert driver.device_of(id(driver)) is None


def test_the_gpu_reads_mapped_host_memory(driver):
    """The copy uses only the device address. A second registration fails, and does not undo the first."""
    with mmap.mmap(-1, 1 << 16) as memory, driver.on(0):
        memory[:4] = b"host"
        view = (ctypes.c_char * len(memory)).from_buffer(memory)
        address = ctypes.addressof(view)
        mapped, pointer = driver.map_host(address, len(memory)), driver.number("cuMemAlloc_v2", 4)
        try:
            with pytest.raises(CudaError, match="cuMemHostRegister_v2 returned 712"):
                driver.map_host(address, len(memory))
            driver.call("cuMemcpy", pointer, mapped, 4)
            found = ctypes.create_string_buffer(4)
            driver.call("cuMemcpy", ctypes.addressof(found), pointer, 4)
            assert found.raw == b"host"
        finally:
            driver.call("cuMemFree_v2", pointer)
            driver.call("cuMemHostUnregister", address)
            del view
