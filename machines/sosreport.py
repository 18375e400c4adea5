"""The same machine as a sosreport, which holds less.

Source: sos 4.8, the plugins boot, infiniband, kernel, nvidia, dpkg and rpm; sos/report/__init__.py for its
manifest. It copies depmod's tables but no module, no sysfs of PCI devices, and no EFI variables."""

from __future__ import annotations

import json
from pathlib import Path

from machines.compose import compose
from machines.machine import Machine
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
