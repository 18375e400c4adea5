"""Small machines for the tests of rules: a few files each, in the formats that the facts read."""

from __future__ import annotations

from collections.abc import Mapping

from gdrkit.evidence import Command, Missing
from gdrkit.facts.commands import DMESG
from gdrkit.facts.symvers import PEER_API
from gdrkit.node import Node
from gdrkit.rules.engine import judge
from gdrkit.rules.rule import Failed, NotApplicable, Outcome, Passed, Rule, Unknown
from gdrkit.verdict.check_results import CheckResult
from tests.index_builder import with_indexes
from tests.known_answers import note_outcome
from tests.memory_host import MemoryHost
from tests.module_builder import RELEASE, build_module

MODULES = f"lib/modules/{RELEASE}"
GPU, NIC = "0000:1b:00.0", "0000:18:00.0"
P2P = {"nvidia_p2p_get_pages": 0x11, "nvidia_p2p_put_pages": 0x12}
API = dict.fromkeys(PEER_API, 0xA1)
DMABUF = {"ib_umem_dmabuf_get": 0x31, "ib_umem_dmabuf_get_pinned": 0x32}
ODP = {"ib_umem_odp_get": 0x41}
KERNEL = {"proc/sys/kernel/osrelease": RELEASE, "proc/sys/kernel/arch": "x86_64", "proc/modules": ""}

FULL = build_module("nvidia_peermem", imports={**API, **P2P}, depends=("nvidia", "ib_core"))
STUB = build_module("nvidia_peermem", parameters={"peerdirect_support": "int"})

Files = Mapping[str, bytes | str]


def loaded(*names: str, taint: str = "") -> dict[str, bytes | str]:
    """/proc/modules with these modules loaded."""
    tail = f" ({taint})" if taint else ""
    lines = (f"{name} 16384 0 - Live 0x0000000000000000{tail}\n" for name in names)
    return {"proc/modules": "".join(lines)} | {f"sys/module/{name}/initstate": "live\n" for name in names}


def installed(modules: Mapping[str, bytes], *, exporters: Mapping[str, str] = {}) -> dict[str, bytes | str]:
    """Module files by path below the modules folder, with depmod's lists."""
    files: dict[str, bytes | str] = {
        **{f"{MODULES}/{path}": content for path, content in modules.items()},
        f"{MODULES}/modules.dep": "kernel/lib/crc32.ko:\n" + "".join(f"{path}:\n" for path in modules),
        f"{MODULES}/modules.builtin": "kernel/fs/binfmt.ko\n",
        f"{MODULES}/modules.symbols": "alias symbol:crc32_le crc32\n"
        + "".join(f"alias symbol:{symbol} {owner}\n" for symbol, owner in exporters.items()),
        f"{MODULES}/build/Module.symvers": "0x1\tmodule_layout\tvmlinux\tEXPORT_SYMBOL\t\n",
    }
    return with_indexes(files)


def peermem(
    module: bytes = FULL, *, provider: Mapping[str, int] = API, owner: str = "ib_core"
) -> dict[str, bytes | str]:
    """nvidia-peermem with the driver and the RDMA core that it depends on."""
    symbols = dict.fromkeys(P2P, "nvidia") | dict.fromkeys(provider, owner)
    return installed(
        {
            "updates/nvidia-peermem.ko": module,
            "updates/nvidia.ko": build_module("nvidia", exports=P2P, license="Dual MIT/GPL"),
            f"kernel/{owner}.ko": build_module(owner, exports=provider or {"ib_register_client": 1}),
        },
        exporters=symbols,
    )


def driver(version: str = "570.158.01", *, open_modules: bool = True) -> dict[str, bytes | str]:
    """A loaded driver, with the files that describe it."""
    flavour = "Open Kernel Module for x86_64" if open_modules else "x86_64 Kernel Module"
    build = "Release Build  (dvs-builder@U22-I3)" if open_modules else "Thu Oct 19 18:56:32 UTC 2023"
    return {
        "sys/module/nvidia/version": f"{version}\n",
        "proc/driver/nvidia/version": f"NVRM version: NVIDIA UNIX {flavour}  {version}  {build}\n",
        "proc/driver/nvidia/params": "ResmanDebugLevel: 1\nGrdmaPciTopoCheckOverride: 0\n",
    }


PACKAGES = "usr/local/lib/python3.12/dist-packages"


def wheel(name: str, *packages: str, folder: str = PACKAGES) -> dict[str, bytes | str]:
    """A distribution of Python, "torch-2.7.1": its metadata and its packages, which may be none."""
    inside = {f"{folder}/{package}/lib/empty": "" for package in packages}
    return {f"{folder}/{name}.dist-info/WHEEL": "", **inside}


def environments(name: str, versions: tuple[str, ...], package: str) -> dict[str, bytes | str]:
    """Several versions of a distribution, each in a Python environment of its own."""
    files: dict[str, bytes | str] = {}
    for number, version in enumerate(versions):
        folder = f"opt/venv/lib/python3.{number}/site-packages"
        files |= wheel(f"{name}-{version}", package, folder=folder)
    return files


def rdma_device(name: str = "mlx5_0", address: str = NIC, pci_driver: str = "mlx5_core") -> MemoryHost:
    """One RDMA device on a PCI function, with the links of sysfs."""
    below = f"devices/pci0000:15/0000:15:01.0/{address}"
    folder = f"sys/{below}"
    return MemoryHost(
        {
            f"{folder}/infiniband/{name}/node_guid": "b8ce:f603:0011:2233\n",
            f"{folder}/vendor": "0x15b3\n",
            f"sys/bus/pci/drivers/{pci_driver}/bind": "",
        },
        links={
            f"sys/class/infiniband/{name}": f"../../{below}/infiniband/{name}",
            f"{folder}/driver": f"../../../../bus/pci/drivers/{pci_driver}",
            f"sys/bus/pci/devices/{address}": f"../../../{below}",
        },
    )


def node(
    *parts: Files | MemoryHost,
    complete: bool = True,
    log: str | None = None,
    without: str = "",
    links: Mapping[str, str] = {},
    said: Mapping[Command, str] = {},
    absent: set[str] = set(),  # noqa: B006 - never written
) -> Node:
    """A machine of these parts, later ones winning. `without` leaves files out, as if not collected."""
    files: dict[str, bytes | str] = dict(KERNEL)
    links = dict(links)
    for part in parts:
        files |= part.files if isinstance(part, MemoryHost) else part
        links |= part.links if isinstance(part, MemoryHost) else {}
    if without:
        files = {path: content for path, content in files.items() if not path.startswith(without)}
    commands = {command.argv: output for command, output in said.items()}
    if log is not None:
        commands[DMESG.argv] = log
    return Node(MemoryHost(files, links=links, commands=commands, absent=absent, complete=complete))


BOOT = "[    0.000000] Linux version 6.1.0-56-amd64 (debian-kernel@lists.debian.org)\n"


def kernel_log(*lines: str, from_boot: bool = True) -> str:
    """The kernel's log, complete or without its beginning."""
    printed = "".join(f"[   {10 + number}.000001] {line}\n" for number, line in enumerate(lines))
    return BOOT + printed if from_boot else printed or "[   99.000001] eth0: link up\n"


def outcome(machine: Node, rule: Rule, subject: object = "node") -> Outcome:
    """The outcome, which is compared whole at the end of the test."""
    found = judge(machine, rule, subject)
    note_outcome(machine, CheckResult(rule, subject, found))
    return found


def failed(machine: Node, rule: Rule, subject: object = "node") -> Failed:
    """The failure; anything else fails the test and is shown."""
    found = outcome(machine, rule, subject)
    assert isinstance(found, Failed), found
    return found


def missing(machine: Node, rule: Rule, subject: object = "node") -> Missing:
    """What is missing; anything else fails the test."""
    found = outcome(machine, rule, subject)
    assert isinstance(found, Unknown), found
    return found.missing


def passes(machine: Node, rule: Rule, subject: object = "node") -> bool:
    return isinstance(outcome(machine, rule, subject), Passed)


def does_not_apply(machine: Node, rule: Rule, subject: object = "node") -> bool:
    return isinstance(outcome(machine, rule, subject), NotApplicable)
