"""Faults of GDRCopy, GPUDirect Storage and Amazon's software for EFA."""

from __future__ import annotations

import random
from collections.abc import Callable

from machines.faults.fault import Evidence, Fault, Plant
from machines.machine import Machine
from machines.other_programs import STATIC_BAR1


def _change(**values: object) -> Plant:
    def plant(machine: Machine, source: random.Random) -> None:
        for name, value in values.items():
            setattr(machine.beside, name, source.choice(value) if isinstance(value, list) else value)

    return plant


def _driven(machine: Machine) -> bool:
    return machine.driver is not None and machine.driver.loaded


def _gdrcopy(machine: Machine) -> bool:
    beside = machine.beside
    return _driven(machine) and bool(beside.gdrdrv) and beside.gdrdrv_node and not beside.gdrdrv_other


def _gds(machine: Machine) -> bool:
    return _driven(machine) and bool(machine.beside.nvidia_fs)


def _serves(machine: Machine) -> bool:
    """Where nvidia-fs is not loaded, an old line of its log says nothing."""
    return _gds(machine) and "nvidia-fs-symbols-missing" not in machine.claims


def _efa(machine: Machine) -> bool:
    return _driven(machine) and machine.platform == "AWS"


def _of_amazon(machine: Machine) -> bool:
    return _efa(machine) and bool(machine.beside.efa) and machine.beside.provider == "NVIDIA"


def _symbols(machine: Machine, source: random.Random) -> None:
    """nvfs-core.c, nvfs_open(): the modules of storage that are there lack the hooks."""
    machine.log.append("nvidia-fs:nvfs modules probe failed with error :-95")
    machine.claims.add("nvidia-fs-symbols-missing")


def _compatible(machine: Machine, source: random.Random) -> None:
    machine.beside.settings["force_compat_mode"] = True


def _told(machine: Machine, source: random.Random) -> None:
    machine.environment["CUFILE_FORCE_COMPAT_MODE"] = "true"


def _new_enough(machine: Machine) -> bool:
    """Driver and kernel are: what is left are settings."""
    return _gds(machine) and machine.is_open and machine.branch >= 565 and machine.kernel.number >= (6, 2)


def _not_on(machine: Machine, source: random.Random) -> None:
    assert machine.driver
    machine.driver.parameters["RegistryDwords"] = f'"{STATIC_BAR1};RmForceDisableIomapWC=1;"'


def _not_static(machine: Machine, source: random.Random) -> None:
    machine.beside.settings["use_pci_p2pdma"] = True


def _without_keys(machine: Machine) -> bool:
    return _new_enough(machine) and "RegistryDwords" not in machine.driver.parameters  # type: ignore[union-attr]


def _old_kernel(machine: Machine, source: random.Random) -> None:
    _not_on(machine, source)
    _not_static(machine, source)


def _on_old_kernel(machine: Machine) -> bool:
    return _gds(machine) and machine.is_open and machine.branch >= 565 and machine.kernel.number < (6, 2)


def _package(name: str, version: str) -> Plant:
    return _change(libfabric=(name, version))


def _libfabric(machine: Machine) -> bool:
    return _efa(machine) and machine.beside.libfabric == ("libfabric1-aws", "2.1.0amzn3.0")


def _plugin(machine: Machine) -> bool:
    return _efa(machine) and machine.beside.plugin == "1.20.0-1"


def _proprietary(machine: Machine, source: random.Random) -> None:
    """nvidia-fs is for the open driver, and so not there either."""
    assert machine.driver
    machine.driver.is_open = False
    machine.beside.efa_peermem, machine.beside.nvidia_fs, machine.beside.gdrdrv = True, "", ""


def _open_on_efa(machine: Machine) -> bool:
    return _of_amazon(machine) and machine.is_open


def _all(*conditions: Callable[[Machine], bool]) -> Callable[[Machine], bool]:
    return lambda machine: all(condition(machine) for condition in conditions)


_DRIVER = frozenset({Evidence.GPU})
_FILES = frozenset({Evidence.GPU, Evidence.HOST})
_NIC = frozenset({Evidence.GPU, Evidence.NIC})

OF_NO_NIC = (
    Fault("gdrdrv not loaded", ("gdrcopy-not-loaded",), _change(gdrdrv=""), _gdrcopy, needs=_DRIVER),
    Fault("no /dev/gdrdrv", ("gdrcopy-not-loaded",), _change(gdrdrv_node=False), _gdrcopy, needs=_DRIVER),
    Fault(
        "gdrdrv of GDRCopy 1", ("gdrcopy-version-mismatch",), _change(gdrdrv=["1.2", "1.3"]), _gdrcopy,
        needs=_DRIVER,
    ),
    Fault(
        "gdrdrv for the other driver", ("gdrcopy-built-for-proprietary",), _change(gdrdrv_other=True),
        _gdrcopy, needs=_DRIVER,
    ),
    Fault("nvidia-fs not loaded", ("nvidia-fs-not-loaded",), _change(nvidia_fs=""), _serves, needs=_DRIVER),
    Fault("storage modules without hooks", ("nvidia-fs-symbols-missing",), _symbols, _gds, needs=_DRIVER),
    Fault("cuFile told to copy", ("gds-compat-mode",), _compatible, _gds, needs=_DRIVER),
    Fault("CUFILE_FORCE_COMPAT_MODE=true", ("gds-compat-mode",), _told, _gds, needs=_DRIVER),
    Fault("P2PDMA not on", ("gds-p2pdma-off",), _not_on, _without_keys, needs=_DRIVER),
    Fault(
        "P2PDMA without a static BAR1", ("gds-p2pdma-off",), _not_static,
        _all(_without_keys, lambda m: m.kernel.arch == "x86_64"), needs=_DRIVER,
    ),
    Fault(
        "P2PDMA on an old kernel", ("gds-p2pdma-off",), _old_kernel,
        _all(_on_old_kernel, lambda m: "RegistryDwords" not in m.driver.parameters if m.driver else False),
        needs=_DRIVER,
    ),
)  # fmt: skip
"""Of GDRCopy and cuFile."""
OF_EFA = (
    Fault("efa without NVIDIA's functions", ("efa-p2p-unavailable",), _change(provider=""), _of_amazon,
          needs=_NIC),
    Fault(
        "efa before driver 580", ("efa-driver-too-old",), _change(efa=["2.13.0", "2.15.3"]),
        _all(_of_amazon, lambda m: m.branch >= 580), needs=_NIC,
    ),
    Fault(
        "efa_nv_peermem beside the proprietary driver", ("efa-peermem-proprietary-driver",),
        _proprietary, _open_on_efa, needs=_FILES | _NIC,
    ),
    Fault(
        "EFA without RDMA", ("efa-gdr-unsupported-instance",),
        _change(instance=["p3dn.24xlarge", "g4dn.metal"]), _efa, needs=_NIC,
    ),
    Fault("libfabric before 1.22", ("libfabric-too-old",), _package("libfabric1-aws", "1.21.0amzn1.0"),
          _libfabric, needs=_NIC),
    Fault("libfabric before dma-buf", ("libfabric-too-old",), _package("libfabric1-aws", "1.19.0amzn4.0"),
          _libfabric, needs=_NIC),
    Fault("libfabric of the distribution", ("ofi-lacks-hmem",), _package("libfabric1", "1.22.0-2"),
          _libfabric, needs=_NIC),
    Fault("plugin with dma-buf off", ("ofi-dmabuf-off-by-default",), _change(plugin="1.14.0-1"), _plugin,
          needs=_NIC),
    Fault("plugin without dma-buf on this EFA", ("ofi-dmabuf-off-by-default",), _change(plugin="1.16.2-1"),
          _plugin, needs=_NIC),
)  # fmt: skip
FAULTS = (*OF_NO_NIC, *OF_EFA)
