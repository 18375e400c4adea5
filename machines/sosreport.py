"""The same machine as a sosreport, which holds less.

Source: sos 4.8, the plugins boot, infiniband, kernel, nvidia, pci, dpkg and rpm; sos/report/__init__.py for
its manifest. It copies depmod's tables but no module, no sysfs of PCI devices, and no EFI variables. Of PCI
devices it has what lspci prints, without capabilities here: pciutils 3.9 lspci.c, show_verbose()."""

from __future__ import annotations

import json
from pathlib import Path

from machines.compose import compose
from machines.machine import Function, Machine
from machines.pci import bars, buses, identity, real
from machines.tree import Tree

_TAKEN = (
    "boot/config-",
    "etc/",
    "proc/cmdline",
    "proc/cpuinfo",
    "proc/driver/",
    "proc/modules",
    "proc/version",
    "var/lib/dpkg/status",
)
_OF_MODULES = ("initstate", "refcnt", "taint", "version", "srcversion", "coresize")
_NAMES = {"sos_commands/gdr/nvidia-smi_-q": "sos_commands/nvidia/nvidia-smi_-q"}
_COMMANDS = ("sos_commands/kernel/", "sos_commands/infiniband/", "sos_commands/boot/", *_NAMES)


def write(machine: Machine, root: Path) -> Path:
    """Write the machine as an unpacked sosreport below `root`; returns its folder."""
    whole, report = compose(machine), Tree()
    for path, content in whole.files.items():
        if _takes(path) and path not in whole.commands:
            report.file(path, content)
    ran = []
    for path, (argv, code, status, err) in whole.commands.items():
        if path.startswith(_COMMANDS):
            name = _NAMES.get(path, path)
            # sos keeps the complaint where the output would be
            report.file(name, whole.files[path] if status == "found" else err)
            ran.append({"exec": " ".join(argv), "filepath": name, "return_code": code})
    if listed := _lspci(machine):
        name = "sos_commands/pci/lspci_-nnvv"
        report.file(name, listed)
        ran.append({"exec": "lspci -nnvv", "filepath": name, "return_code": 0})
    record = {"components": {"report": {"plugins": {"all": {"commands": ran, "files": []}}}}}
    report.file("sos_reports/manifest.json", json.dumps(record))
    report.file("version.txt", "sos report: 4.8.2 (/usr/bin/sos)\n")
    return report.write(root / f"sosreport-{machine.name}-2026-11-20-abcdefg")


def _takes(path: str) -> bool:
    if path.startswith("lib/modules/"):
        return path.rsplit("/", 1)[1].startswith("modules.")
    if path.startswith("sys/module/"):
        return path.rsplit("/", 1)[1] in _OF_MODULES or "/parameters/" in path
    return path.startswith(_TAKEN)


_CLASSES = {  # pci.ids
    0x0108: "Non-Volatile memory controller",
    0x0200: "Ethernet controller",
    0x0207: "Infiniband controller",
    0x0300: "VGA compatible controller",
    0x0302: "3D controller",
    0x0604: "PCI bridge",
    0x1200: "Processing accelerators",
}
_VENDORS = {0x10DE: "NVIDIA Corporation ", 0x15B3: "Mellanox Technologies "}  # pci.ids


def _lspci(machine: Machine) -> str:
    """What lspci prints; the domain only where one is not 0."""
    listed = [function for function in real(machine) if ":" in function.address]
    domains = any(not function.address.startswith("0000:") for function in listed)
    return "\n".join(
        _device(machine, function, function.address[0 if domains else 5 :]) for function in listed
    )


def _device(machine: Machine, function: Function, address: str) -> str:
    vendor, device, kind = identity(function)
    name = f"{_VENDORS.get(vendor, '')}Device [{vendor:04x}:{device:04x}]"
    lines = [f"{address} {_CLASSES[kind >> 8]} [{kind >> 8:04x}]: {name} (rev a1)"]
    lines += [f"NUMA node: {function.numa}"] if function.numa >= 0 else []
    for register, mib in bars(function):
        size = f"{mib}M" if mib % 1024 else f"{mib // 1024}G"
        lines.append(f"Region {register}: Memory at <ignored> (64-bit, prefetchable) [size={size}]")
    if kind >> 8 == 0x0604:
        primary, secondary, subordinate = (f"{bus:02x}" for bus in buses(machine, function))
        lines.append(
            f"Bus: primary={primary}, secondary={secondary}, subordinate={subordinate}, sec-latency=0"
        )
    lines += ["Capabilities: <access denied>"]
    lines += [f"Kernel driver in use: {function.bound}"] if function.bound else []
    return "\n\t".join(lines) + "\n"
