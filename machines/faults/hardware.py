"""Faults of GPUs, NICs and firmware."""

from __future__ import annotations

import random
from dataclasses import replace

from machines.distance import own
from machines.faults.fault import Evidence, Fault
from machines.machine import Function, Machine, Peermem


def _set_products(machine: Machine, part: str) -> None:
    for gpu in machine.gpus:
        gpu.part = part
    if "cuda" in machine.probe:
        _refuse(machine)


def _consumer(machine: Machine, source: random.Random) -> None:
    assert machine.driver
    blackwell = machine.driver.branch >= 570 and machine.driver.is_open
    _set_products(machine, "RTX 5090" if blackwell else source.choice(("RTX 3090", "RTX 4090")))


def _vgpu(machine: Machine, source: random.Random) -> None:
    _set_products(machine, "A40 vGPU")


def _before_turing(machine: Machine, source: random.Random) -> None:
    """A Volta under the proprietary driver, whose nvidia-peermem was built without the API."""
    assert machine.driver
    _set_products(machine, "V100")
    machine.driver = replace(machine.driver, version="550.90.07", is_open=False)
    machine.peermem = Peermem("stub", machine.inbox_tag)


def _no_gpu(machine: Machine, source: random.Random) -> None:
    machine.functions = [function for function in machine.functions if not function.gpu]
    assert machine.driver
    machine.driver.loaded = machine.peermem.loaded = False


def _without_nics(machine: Machine) -> None:
    machine.functions = [function for function in machine.functions if not function.nic]


def _no_nic(machine: Machine, source: random.Random) -> None:
    _without_nics(machine)


def _nothing(machine: Machine, source: random.Random) -> None:
    machine.functions = [f for f in machine.functions if not f.gpu and not f.nic]
    machine.driver, machine.peermem, machine.ofed = None, Peermem("none"), None
    machine.libraries.nccl = ""


def _rdma_driver(machine: Machine, source: random.Random) -> None:
    machine.rdma_driver_loaded = machine.peermem.loaded = False
    for nic in machine.nics:
        nic.driver = ""


def _software(machine: Machine, source: random.Random) -> None:
    _without_nics(machine)
    root = next(function for function in machine.functions if function.is_bridge and not function.above)
    machine.functions.append(Function("0000:04:00.0", "igc", numa=0, driver="igc", net="eno1"))
    machine.functions.append(Function("rxe", "rxe", rdma="rxe0", numa=root.numa))


def _one_gpus_nics(machine: Machine, source: random.Random) -> list[Function]:
    return own(machine, source.choice(machine.gpus), machine.nics)


def _port_down(machine: Machine, source: random.Random) -> None:
    for nic in _one_gpus_nics(machine, source):
        nic.state = "DOWN"


def _port_init(machine: Machine, source: random.Random) -> None:
    for nic in _one_gpus_nics(machine, source):
        nic.state = "INIT"


def _spare_down(machine: Machine, source: random.Random) -> None:
    """A port without cable beside one that serves the same GPUs."""
    nearest = own(machine, machine.gpus[0], machine.nics)
    nearest[0].state = "DOWN"


def _rail_missing(machine: Machine, source: random.Random) -> None:
    for nic in _one_gpus_nics(machine, source):
        machine.functions.remove(nic)
    machine.claims.add("nic-missing")


def _gpu_missing(machine: Machine, source: random.Random) -> None:
    machine.functions.remove(source.choice(machine.gpus))


def _fallen_off(machine: Machine, source: random.Random) -> None:
    """A GPU that the kernel still lists, beside NICs that show no id of their own: those work."""
    gone = source.choice(machine.gpus)
    gone.answers = False
    gone.ill = source.choice(("off the bus", ""))  # the log may begin later
    for nic in machine.nics:
        nic.own_id = False


def _dead_nic(machine: Machine, source: random.Random) -> None:
    """The NICs of one GPU; the kernel does not know the state of their ports any more."""
    for nic in _one_gpus_nics(machine, source):
        nic.answers = False


def _small_bar(machine: Machine, source: random.Random) -> None:
    for gpu in machine.gpus:
        gpu.bar1_mib = 256


def _full_bar(machine: Machine, source: random.Random) -> None:
    source.choice(machine.gpus).bar1_free_mib = source.choice((0, 20, 36))


_CAPABILITIES = {  # CUDA C++ Programming Guide, Compute Capabilities
    "pascal": (6, 0), "volta": (7, 0), "turing": (7, 5), "ampere": (8, 0), "ada": (8, 9), "hopper": (9, 0),
    "blackwell": (10, 0),
}  # fmt: skip


def _unsupported(machine: Machine, source: random.Random) -> None:
    _refuse(machine)
    machine.claims.add("gpu-unsupported")


def _refuse(machine: Machine) -> None:
    """CUDA's answers for the products that the machine has."""
    machine.probe["cuda"] = [("cuInit", "0", "", 0, 0)]
    for gpu in machine.gpus:
        assert gpu.gpu
        major, minor = _CAPABILITIES[gpu.gpu.architecture]
        for attribute, value in (("18", 0), ("75", major), ("76", minor), ("116", 0), ("124", 0)):
            machine.probe["cuda"].append(("cuDeviceGetAttribute", attribute, gpu.address, 0, value))


def _passthrough(machine: Machine, source: random.Random) -> None:
    for gpu in machine.gpus:
        gpu.driver = "vfio-pci"
    machine.iommu = "DMA-FQ"
    assert machine.driver
    machine.driver.loaded = machine.peermem.loaded = False


def _mig(machine: Machine, source: random.Random) -> None:
    machine.mig = True


def _confidential(machine: Machine, source: random.Random) -> None:
    machine.confidential = True


def _cdmm(machine: Machine, source: random.Random) -> None:
    assert machine.driver
    machine.driver.parameters["CoherentGPUMemoryMode"] = '"driver"'


def _nothing_to_do(machine: Machine, source: random.Random) -> None:
    """The platform is the fault."""


def _metal(machine: Machine) -> bool:
    return not machine.virtual and machine.platform in ("rails", "shared switches", "Arm server")


def _x86_metal(machine: Machine) -> bool:
    return _metal(machine) and machine.kernel.arch == "x86_64"


def _several_rails(machine: Machine) -> bool:
    """Enough rails for three to show what the fourth lacks."""
    return machine.platform in ("rails", "Arm server") and len(machine.gpus) > 3


def _infiniband(machine: Machine) -> bool:
    return any(nic.nic and not nic.nic.ethernet for nic in machine.nics) and _metal(machine)


def _spare(machine: Machine) -> bool:
    return _metal(machine) and len(own(machine, machine.gpus[0], machine.nics)) > 1


def _cuts(machine: Machine) -> bool:
    return "gpu-unsupported" not in machine.claims and all(
        gpu.part in ("A100", "H100", "H200", "B200", "H100 PCIe", "A100 PCIe") for gpu in machine.gpus
    )


def _may_be_shared(machine: Machine) -> bool:
    return machine.platform == "VM with a switch" and not machine.confidential


def _protects(machine: Machine) -> bool:
    return machine.platform == "VM with a switch" and all(
        gpu.part in ("H100", "H200") for gpu in machine.gpus
    )


def _may_be_managed(machine: Machine) -> bool:
    return machine.platform == "coherent" and machine.branch == 580


def _old_kernel(machine: Machine) -> bool:
    return _x86_metal(machine) and machine.kernel.number < (6, 9) and machine.ofed is None


_GPU, _NIC = frozenset({Evidence.GPU}), frozenset({Evidence.NIC})
_NO_GPU = frozenset({Evidence.GPU, Evidence.LOADED})
_CUDA, _HOST = frozenset({Evidence.CUDA}), frozenset({Evidence.HOST})

FAULTS = (
    Fault("consumer GPU", ("gpu-consumer",), _consumer, _x86_metal, repairable=False),
    Fault("integrated GPU", ("gpu-integrated",), _nothing_to_do, platform="Spark", repairable=False),
    Fault("Volta with a stub", ("gpu-before-turing",), _before_turing, _old_kernel, needs=_HOST),
    Fault("vGPU", ("gpu-vgpu",), _vgpu, _may_be_shared, needs=_CUDA),
    Fault("MIG", ("gpu-mig",), _mig, _cuts, needs=_CUDA),
    Fault("confidential computing", ("gpu-confidential",), _confidential, _protects, needs=_CUDA),
    Fault("CDMM", ("gpu-cdmm",), _cdmm, _may_be_managed),
    Fault("CUDA refuses", ("gpu-unsupported",), _unsupported, lambda m: _metal(m) and not m.mig, needs=_GPU),
    Fault("passed through", ("gpu-passed-through",), _passthrough, _x86_metal, removes=_NO_GPU),
    Fault("no GPU", ("no-gpu",), _no_gpu, _metal, removes=_NO_GPU),
    Fault("no NIC", ("no-rdma-device",), _no_nic, _metal, removes=_NIC),
    Fault("no RDMA driver", ("no-rdma-device",), _rdma_driver, _metal, removes=_NIC),
    Fault("neither GPU nor NIC", ("no-gpu", "no-rdma-device"), _nothing, _metal, repairable=False),
    Fault("only Soft-RoCE", ("rdma-device-software",), _software, _metal, removes=_NIC),
    Fault("WSL", ("wsl",), _nothing_to_do, platform="WSL", repairable=False),
    Fault("port down", ("port-down",), _port_down, _metal, needs=_NIC),
    Fault("port in INIT", ("port-down",), _port_init, _infiniband, needs=_NIC),
    Fault("spare port down", ("port-down",), _spare_down, _spare, needs=_NIC),
    Fault("rail without NIC", ("nic-missing",), _rail_missing, _several_rails, needs=_GPU | _NIC),
    Fault("GPU gone", ("gpu-missing",), _gpu_missing, _several_rails, needs=_GPU | _NIC),
    Fault("GPU off the bus", ("device-not-answering",), _fallen_off, _metal, needs=_GPU),
    Fault("NIC that does not answer", ("device-not-answering",), _dead_nic, _metal, needs=_NIC),
    Fault("small BAR1", ("bar1-small",), _small_bar, _metal, needs=_GPU),
    Fault("full BAR1", ("bar1-exhausted",), _full_bar, _metal, needs=_GPU),
)
