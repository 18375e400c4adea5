"""Faults of devices that are listed and do not work, and what somebody took away on purpose.

What each line means is in machines/health.py, with its source."""

from __future__ import annotations

import random
from collections.abc import Callable

from machines import health
from machines.distance import own
from machines.facts import GPU_EXCLUDED, GPU_REFUSED, NEEDS_RESET, NIC_GIVEN_UP, SWITCHES_WAIT
from machines.faults.fault import Evidence, Fault, Plant
from machines.machine import Fabric, Function, Machine
from machines.rack import NO_CLUSTER, SWITCHED


def _metal(machine: Machine) -> bool:
    return not machine.virtual and machine.platform in ("rails", "shared switches", "Arm server")


def _runs(machine: Machine) -> bool:
    """The driver runs, nothing answers for CUDA, and every device works."""
    driver = machine.driver
    sound = all(health.works(gpu) and not health.withheld(gpu) for gpu in machine.gpus)
    return _metal(machine) and driver is not None and driver.loaded and not machine.probe and sound


def _beside_others(machine: Machine) -> bool:
    return _runs(machine) and len(machine.gpus) > 1


def _xid(kind: str) -> Plant:
    def plant(machine: Machine, source: random.Random) -> None:
        able = [gpu for gpu in machine.gpus if health.logs(machine, gpu, health.XIDS[kind])]
        source.choice(able).ill = kind
        machine.in_use = ""

    return plant


def _can_log(kind: str) -> Callable[[Machine], bool]:
    xid = health.XIDS[kind]
    return lambda machine: _runs(machine) and any(health.logs(machine, gpu, xid) for gpu in machine.gpus)


def _refused(without_bar: bool) -> Plant:
    def plant(machine: Machine, source: random.Random) -> None:
        gpu = source.choice(machine.gpus)
        gpu.ill, gpu.driver = health.REFUSED, ""
        gpu.bar1_mib = 0 if without_bar else gpu.bar1_mib
        machine.in_use = ""

    return plant


def _excluded(machine: Machine, source: random.Random) -> None:
    """NVreg_ExcludedGpus: nv-reg.h; the kernel's log says nothing of it at the usual level."""
    source.choice(machine.gpus).excluded = True


def _one_passed_through(machine: Machine, source: random.Random) -> None:
    """For a virtual machine, while the host uses the others: nv.c, nv_module_init(), counts it."""
    source.choice(machine.gpus).driver = "vfio-pci"
    machine.early_log += [
        "NVRM: The NVIDIA probe routine was not called for 1 device(s).",
        "NVRM: This can occur when another driver was loaded and ",
        "NVRM: obtained ownership of the NVIDIA device(s).",
    ]


def _switches(state: str, status: str, of_one: bool = False) -> Plant:
    """The fabric of a host's own NVSwitches: nvml.h, nvmlGpuFabricInfo_t; NVIDIA/NVSentinel#883."""

    def plant(machine: Machine, source: random.Random) -> None:
        for gpu in [source.choice(machine.gpus)] if of_one else machine.gpus:
            gpu.switches = Fabric(state, status, 0, NO_CLUSTER)
        machine.in_use = ""

    return plant


def _behind_switches(machine: Machine) -> bool:
    """A board of SXM modules whose driver says the state of its fabric: from 550 on in these machines."""
    board = all(gpu.part in SWITCHED for gpu in machine.gpus) and machine.branch >= 550
    return _beside_others(machine) and machine.platform == "rails" and board and not machine.mig


def _given_up(kind: str) -> Plant:
    def plant(machine: Machine, source: random.Random) -> None:
        lost = source.choice([nic for nic in machine.nics if _may_be_lost(machine, nic)])
        lost.ill, lost.rdma, lost.net = kind, "", ""
        if kind == "firmware never up":
            lost.driver = ""
        machine.in_use = ""

    return plant


def _may_be_lost(machine: Machine, nic: Function) -> bool:
    """The nearest NIC of some GPU, with one RDMA device for itself."""
    near = any(nic in own(machine, gpu, machine.nics) for gpu in machine.gpus)
    return near and not nic.bond and nic.nic is not None and nic.bound == "mlx5_core"


def _several_nics(machine: Machine) -> bool:
    """The others remain, and no setting names NICs."""
    able = [nic for nic in machine.nics if _may_be_lost(machine, nic)]
    free = "NCCL_IB_HCA" not in machine.nccl_conf and machine.rdma_driver_loaded
    return _beside_others(machine) and len(able) > 1 and free


def _can_pass(machine: Machine) -> bool:
    return _beside_others(machine) and machine.iommu == "identity" and machine.kernel.arch == "x86_64"


_LIVE = frozenset({Evidence.GPU, Evidence.LOADED})
_ASKED = _LIVE | {Evidence.RUNNING}
"""What nvidia-smi alone says; it says nothing while its library and the module are of two releases."""
_NIC = frozenset({Evidence.GPU, Evidence.NIC})

FAULTS = (
    *(
        Fault(f"Xid {xid.number}, {kind}", (NEEDS_RESET,), _xid(kind), _can_log(kind), needs=_LIVE)
        for kind, xid in health.XIDS.items()
    ),
    Fault("GPU that probe found dead", (GPU_REFUSED,), _refused(False), _beside_others, needs=_LIVE),
    Fault("GPU without room for BAR1", (GPU_REFUSED,), _refused(True), _beside_others, needs=_LIVE),
    Fault("GPU excluded", (GPU_EXCLUDED,), _excluded, _beside_others, needs=_LIVE),
    Fault("one GPU passed through", ("gpu-passed-through",), _one_passed_through, _can_pass, needs=_LIVE),
    Fault("Fabric Manager not started", (SWITCHES_WAIT,), _switches("Not Started", ""), _behind_switches,
          needs=_ASKED),
    Fault("Fabric Manager not running", (SWITCHES_WAIT,), _switches("In Progress", ""), _behind_switches,
          needs=_ASKED),
    Fault("GPU that its switches refuse", (SWITCHES_WAIT,),
          _switches("Completed", "Insufficient Resources", of_one=True), _behind_switches,
          needs=_ASKED),
    *(
        Fault(f"NIC given up, {kind}", (NIC_GIVEN_UP,), _given_up(kind), _several_nics, needs=_NIC)
        for kind in health.NIC_LOGS
    ),
)  # fmt: skip
