"""Programs that go beside verbs: GDRCopy, GPUDirect Storage, and Amazon's software for EFA.

Truth: NVIDIA/gdrcopy src/gdrapi.c, src/gdrdrv/gdrdrv.c at v2.4 to v2.6; NVIDIA/gds-nvidia-fs
src/nvfs-core.c; amzn/amzn-drivers kernel/linux/efa; aws/aws-ofi-nccl v1.13 to v1.21.1;
GPUDirect Storage troubleshooting guide. Nothing here was taken from gdrkit's rules."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from machines.tree import Tree

if TYPE_CHECKING:
    from machines.machine import Function, Machine

INSTANCES = {"A100": "p4d.24xlarge", "H100": "p5.48xlarge", "H200": "p5en.48xlarge"}
STATIC_BAR1 = "RMForceStaticBar1=1"


@dataclass
class Beside:
    """Those of one machine; "" where something is not installed or not loaded."""

    gdrapi: str = ""  # libgdrapi on disk
    gdrdrv: str = ""  # the module that is loaded
    gdrdrv_node: bool = True  # /dev/gdrdrv
    gdrdrv_other: bool = False  # built for the flavour of driver that does not run
    cufile: bool = False
    nvidia_fs: str = ""  # the module that is loaded
    settings: dict[str, bool] = field(default_factory=dict)  # properties in cufile.json
    efa: str = ""  # Amazon's module; "" for the kernel's own
    provider: str = "NVIDIA"  # whose functions it has found, where it is Amazon's
    efa_peermem: bool = False  # the file of efa_nv_peermem
    libfabric: tuple[str, str] = ("", "")  # package and version
    plugin: str = ""  # of the package libnccl-ofi
    instance: str = ""

    @property
    def modules(self) -> dict[str, str]:
        """What is loaded, with its version."""
        every = {"gdrdrv": self.gdrdrv, "nvidia_fs": self.nvidia_fs}
        return {name: version for name, version in every.items() if version}


def draw(source: random.Random, machine: Machine) -> Beside:
    """What a healthy machine has."""
    found = Beside()
    assert machine.driver
    if source.random() < 0.5:
        found.gdrapi = found.gdrdrv = source.choice(("2.4", "2.5")) if machine.branch < 580 else "2.5"
    if machine.is_open and source.random() < 0.6:  # nvidia-fs is for the open driver from 2.17.5 on
        found.cufile, found.nvidia_fs = True, "2.24.2"
        found.settings = {"use_pci_p2pdma": False, "force_compat_mode": False}
    if machine.platform == "AWS":
        found.efa = source.choice(("", "2.17.3"))
        found.libfabric, found.plugin = ("libfabric1-aws", "2.1.0amzn3.0"), "1.20.0-1"
        found.instance = INSTANCES[next(gpu.part for gpu in machine.gpus)]
    return found


# -- the evidence -------------------------------------------------------------------------------------


def write(tree: Tree, machine: Machine, efas: list[str]) -> None:
    """Write the files of modules and settings, given the folders of the PCI functions of EFAs."""
    beside, driver = machine.beside, machine.driver
    if beside.gdrdrv and beside.gdrdrv_node:
        tree.file("dev/gdrdrv", "")
    if beside.gdrdrv and driver:
        opposite = driver.is_open == beside.gdrdrv_other
        flavour = "proprietary" if opposite else "opensource"
        if number(beside.gdrdrv) >= (2, 5):
            text = f"dbg traces: disabled\nBuilt for NVIDIA driver flavor: {flavour}\n"
            tree.file("proc/driver/gdrdrv/params", text)
    if beside.nvidia_fs:
        tree.file("proc/driver/nvidia-fs/version", f"version: {beside.nvidia_fs}\n")
    if beside.settings:
        text = json.dumps({"logging": {"level": "ERROR"}, "properties": beside.settings}, indent=4)
        tree.file("etc/cufile.json", "// CUFILE JSON Configurable Properties\n" + text + "\n")
    for folder in efas if beside.efa else ():
        tree.file(f"{folder}/p2p", f"{beside.provider}\n")


def log(machine: Machine) -> list[str]:
    """What gdrdrv 2.4 and newer log when they are loaded."""
    beside, driver = machine.beside, machine.driver
    if not beside.gdrdrv or number(beside.gdrdrv) < (2, 4) or driver is None:
        return []
    flavour = "proprietary" if driver.is_open == beside.gdrdrv_other else "opensource"
    said = f"loading gdrdrv version {beside.gdrdrv} built for {flavour} NVIDIA driver"
    return [f"gdrdrv:gdrdrv_init:{said}"]


def packages(machine: Machine) -> dict[str, str]:
    """Packages with their versions."""
    beside = machine.beside
    found = {beside.libfabric[0]: beside.libfabric[1], "libnccl-ofi": beside.plugin}
    return {name: version for name, version in found.items() if name and version}


# -- the truth ----------------------------------------------------------------------------------------


def number(version: str) -> tuple[int, ...]:
    """The numbers at the beginning of a version."""
    head = version.partition("-")[0].partition("amzn")[0]
    return tuple(int(part) for part in head.split(".") if part.isdigit())


def p2pdma(machine: Machine) -> bool:
    """Whether driver, settings and kernel let cuFile use the kernel's P2PDMA; drives were not drawn."""
    driver = machine.driver
    if driver is None or not driver.loaded or not driver.is_open or machine.branch < 565:
        return False
    static = STATIC_BAR1 in driver.parameters.get("RegistryDwords", "")
    on = machine.beside.settings.get("use_pci_p2pdma", False)
    return on and (static or machine.kernel.arch != "x86_64") and machine.kernel.number >= (6, 2)


def compatible_only(machine: Machine) -> bool:
    """Whether cuFile is told to copy through host memory."""
    variable = machine.environment.get("CUFILE_FORCE_COMPAT_MODE")
    return machine.beside.settings.get("force_compat_mode", False) or variable == "true"


def takes_no_dmabuf(machine: Machine) -> bool:
    """Whether the plugin leaves dma-buf out by itself. The EFA drawn has the device id 0xefa1."""
    release = number(machine.beside.plugin)
    return bool(release) and (
        release < (1, 13)
        or release in ((1, 13, 2), (1, 14, 0), (1, 14, 1))
        or (1, 14, 2) <= release < (1, 19, 2)
    )


def serves_gdrcopy(machine: Machine) -> bool:
    """Whether the CPU can map GPU memory: no release is drawn that needs no module."""
    beside = machine.beside
    return bool(beside.gdrdrv) and beside.gdrdrv_node and not _refuses_each_other(machine)


def _refuses_each_other(machine: Machine) -> bool:
    """gdr_open(): each side requires 2.0 of the other."""
    beside = machine.beside
    return bool(beside.gdrapi and beside.gdrdrv) and number(beside.gdrdrv) < (2, 0)


def facts(machine: Machine) -> set[str]:
    """The codes that are true."""
    beside, driver, true = machine.beside, machine.driver, set()
    shown = driver is not None and driver.loaded
    true |= {"gdrcopy-not-loaded"} if shown and not (beside.gdrdrv and beside.gdrdrv_node) else set()
    true |= {"gdrcopy-version-mismatch"} if _refuses_each_other(machine) else set()
    true |= {"gdrcopy-built-for-proprietary"} if shown and beside.gdrdrv and beside.gdrdrv_other else set()
    true |= {"nvidia-fs-not-loaded"} if shown and not beside.nvidia_fs else set()
    true |= {"gds-compat-mode"} if compatible_only(machine) else set()
    true |= {"gds-p2pdma-off"} if shown and not p2pdma(machine) else set()
    return true | _of_efa(machine, shown)


def _of_efa(machine: Machine, shown: bool) -> set[str]:
    beside, true = machine.beside, set()
    if not machine.rdma_driver_loaded or not any(nic.part == "EFA" for nic in machine.nics):
        return {"no-efa-device"}
    true |= {"efa-p2p-unavailable"} if not (beside.efa and beside.provider) else set()
    true |= {"efa-driver-too-old"} if shown and _knows_old_calls(machine) else set()
    if shown and beside.efa_peermem and not machine.is_open:
        true.add("efa-peermem-proprietary-driver")
    true |= {"efa-gdr-unsupported-instance"} if beside.instance.startswith(("p3dn", "g4dn")) else set()
    name, version = beside.libfabric
    true |= {"libfabric-too-old"} if version and number(version) < (1, 22) else set()
    true |= {"ofi-lacks-hmem"} if name and not name.endswith("-aws") else set()
    return true | ({"ofi-dmabuf-off-by-default"} if takes_no_dmabuf(machine) else set())


def _knows_old_calls(machine: Machine) -> bool:
    """Driver 580 changed the functions that pin GPU memory: efa 2.17.3 knows them."""
    return bool(machine.beside.efa) and number(machine.beside.efa) < (2, 17, 3) and machine.branch >= 580


def closes_efa(machine: Machine) -> set[str]:
    """What keeps the plugin from every direct path."""
    codes = facts(machine)
    every = {"efa-gdr-unsupported-instance", "ofi-lacks-hmem", "libfabric-too-old", "no-efa-device"}
    return codes & every


def closes_efa_p2p(machine: Machine) -> set[str]:
    """What keeps efa from GPU memory where no dma-buf is used."""
    return facts(machine) & {"efa-p2p-unavailable", "efa-driver-too-old"}


def state_of_gdrcopy(machine: Machine) -> frozenset[str]:
    """The state of GDRCopy where the driver gives others the memory of each GPU."""
    return frozenset({"ready"} if serves_gdrcopy(machine) else {"blocked"})


def state_of_gds(machine: Machine) -> frozenset[str]:
    """The same for cuFile: what drives and file systems allow is in no evidence that is drawn."""
    with_module = bool(machine.beside.nvidia_fs) and "nvidia-fs-symbols-missing" not in machine.claims
    opened = not compatible_only(machine) and (with_module or p2pdma(machine))
    return frozenset({"ready", "unknown"} if opened else {"blocked"})


def folders_of(machine: Machine, folder: object) -> list[str]:
    """The PCI folders of EFAs, by a function that names them."""
    assert callable(folder)
    found: list[Function] = [nic for nic in machine.functions if nic.part == "EFA"]
    return [str(folder(machine, nic)) for nic in found]
