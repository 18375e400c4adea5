"""Near misses: what looks like a fault of a device, in a machine that it does not change.

Each is beside a fault of dead_devices.py or hardware.py whose evidence it resembles."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

from machines import health
from machines.boot_loader import newer
from machines.faults.fault import Plant
from machines.machine import Machine


class Decoy(NamedTuple):
    """Evidence that names a device and means nothing for it."""

    name: str
    plant: Plant
    fits: Callable[[Machine], bool]


def _driven(machine: Machine) -> bool:
    driver = machine.driver
    return bool(machine.gpus) and driver is not None and driver.loaded and not machine.virtual


def _of_a_process(machine: Machine, source: random.Random) -> None:
    """RESTART_APP in the catalogue: the process is gone, and its GPU serves the next one."""
    gpu = source.choice(machine.gpus)
    known = [xid for xid in health.OF_A_PROCESS if health.logs(machine, gpu, xid)]
    machine.log += [health.xid_line(gpu, xid) for xid in source.sample(known, 2)]


def _reset(machine: Machine, source: random.Random) -> None:
    """A GPU that needed a reset, and got it: gpu.c logs when the recovery action goes back to none."""
    gpu = source.choice(machine.gpus)
    texts = (
        "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
        "GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)",
    )
    lines = [health.xid_line(gpu, health.XIDS["GSP silent"])]
    lines += [
        health.xid_line(gpu, health.Xid(154, f"pid='<unknown>', name=<unknown>, {t}", "")) for t in texts
    ]
    machine.log += lines


def _reloaded(machine: Machine, source: random.Random) -> None:
    """An Xid of the driver that ran before: it was unloaded and loaded again, which resets its GPUs."""
    gpu, kind = source.choice(machine.gpus), source.choice(("double bit error", "GSP silent"))
    xid = health.XIDS[kind if health.logs(machine, gpu, health.XIDS[kind]) else "double bit error"]
    machine.early_log += [
        "NVRM: loading NVIDIA UNIX Kernel Module  " + (machine.driver.version if machine.driver else ""),
        health.xid_line(gpu, xid),
        "nvidia-modeset: Unloading",
        "nvidia-nvlink: Unregistered Nvlink Core, major device number 238",
        "nvidia-nvlink: Nvlink Core is being initialized, major device number 238",
    ]


def _earlier_boot(machine: Machine, source: random.Random) -> None:
    """Files that outlive a boot: rsyslog's kern.log, and sosreport's journal of the boot before."""
    gpu = source.choice(machine.gpus)
    lines = [health.xid_line(gpu, health.XIDS[kind]) for kind in ("off the bus", "double bit error")]
    stamped = "".join(f"Nov 19 03:12:07 {machine.name} kernel: [81234.5] {line}\n" for line in lines)
    machine.files["var/log/kern.log"] = stamped
    machine.files["sos_commands/logs/journalctl_--no-pager_--catalog_--boot_-1"] = stamped


def _nic(lines: tuple[str, ...]) -> Plant:
    def plant(machine: Machine, source: random.Random) -> None:
        nic = source.choice([nic for nic in machine.nics if nic.bound == "mlx5_core"])
        machine.log += health.nic_lines(nic, lines)

    return plant


def _no_ids(machine: Machine, source: random.Random) -> None:
    """Virtual functions: Single Root I/O Virtualization 1.1, 3.4.1.1 and 3.4.1.2."""
    for nic in machine.nics:
        nic.own_id = False


def _next_kernel(machine: Machine, source: random.Random) -> None:
    """A new kernel for which DKMS has built the driver."""
    machine.next_kernel = newer(machine.kernel.release)


def _bare(machine: Machine) -> bool:
    own = machine.distribution.family in ("deb", "rpm") and machine.scope == "host"
    return _driven(machine) and own and not machine.next_kernel


def _logs_recovery(machine: Machine) -> bool:
    silent = health.XIDS["GSP silent"]
    return _driven(machine) and machine.branch >= 570 and all(
        health.logs(machine, gpu, silent) for gpu in machine.gpus
    )  # fmt: skip


def _mlx5(machine: Machine) -> bool:
    return machine.rdma_driver_loaded and any(nic.bound == "mlx5_core" for nic in machine.nics)


DECOYS = (
    Decoy("Xids of processes", _of_a_process, _driven),
    Decoy("GPU that was reset", _reset, _logs_recovery),
    Decoy("driver that was reloaded", _reloaded, _driven),
    Decoy("Xids of an earlier boot", _earlier_boot, _driven),
    Decoy("NIC that recovered", _nic(health.RECOVERED), _mlx5),
    Decoy("NIC that was slow to start", _nic(health.SLOW_START), _mlx5),
    Decoy("NIC that was warm", _nic(health.MINOR), _mlx5),
    Decoy("new kernel with the driver", _next_kernel, _bare),
    Decoy("virtual functions without an id", _no_ids, _mlx5),
)
DECOY_BY_NAME = {decoy.name: decoy for decoy in DECOYS}
