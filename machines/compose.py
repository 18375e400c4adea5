"""From a description to the evidence that a collector would find."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from machines import boot_loader, install, nvidia, pci, rdma, system
from machines.machine import Machine
from machines.tree import Tree


def compose(machine: Machine) -> Tree:
    """The whole tree of a machine."""
    tree = Tree()
    system.write(tree, machine)
    boot_loader.write(tree, machine)
    install.write(tree, machine)
    pci.write(tree, machine)
    rdma.write(tree, machine)
    nvidia.write(tree, machine)
    for name, calls in machine.probe.items():
        rows = [
            {"call": call, "argument": argument, "device": device, "result": result, "value": value}
            for call, argument, device, result, value in calls
        ]
        text = json.dumps({"schema": f"gdrkit.probe.{name}/1", "calls": rows})
        tree.command(f"sos_commands/gdr/probe_{name}", ("gdr", "probe", name, "--json"), text)
    for path in machine.dropped:
        tree.drop(path)
    for path, content in machine.files.items():
        tree.file(path, content)
    for path, status in machine.hidden.items():
        tree.hide(path, status)
    return tree


def head(machine: Machine) -> dict[str, Any]:
    """The manifest's own fields."""
    return {
        "collector": "0.1.0",
        "collected": "2026-11-20T16:00:00Z",
        "anonymized": False,
        "scope": machine.scope,
        "user": "root",
        "kernel": machine.kernel.release,
    }


def write(machine: Machine, root: Path) -> Path:
    """Write the machine as an unpacked bundle below `root`; returns its folder."""
    return compose(machine).write(root / f"gdr-{machine.name}", head(machine))
