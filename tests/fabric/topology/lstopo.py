"""The real lstopo on an evidence node's tree: hwloc reads a copied /sys like a machine's own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.system_programs import found

PROGRAM = os.environ.get("GDRKIT_LSTOPO") or found("lstopo-no-graphics") or ""


def export(tree: Path) -> bytes:
    """The output of `lstopo --whole-io --of xml` for a tree, after adding the processors that hwloc
    needs."""
    _add_processors(tree)
    argv = [PROGRAM, "--input", str(tree), "--input-format", "fsroot", "--whole-io", "--of", "xml", "-"]
    return subprocess.run(argv, capture_output=True, check=True).stdout


def _add_processors(tree: Path) -> None:
    """Adds two packages of two processors, a NUMA node each; every PCI device is near its node."""
    system = tree / "sys/devices/system"
    for cpu in range(4):
        package, mask = cpu // 2, f"{1 << cpu:x}\n"
        folder = system / f"cpu/cpu{cpu}/topology"
        folder.mkdir(parents=True, exist_ok=True)
        siblings = f"{3 << package * 2:x}\n"
        for name, text in {
            "physical_package_id": f"{package}\n", "core_id": f"{cpu % 2}\n", "core_cpus": mask,
            "thread_siblings": mask, "package_cpus": siblings, "core_siblings": siblings,
        }.items():  # fmt: skip
            (folder / name).write_text(text)
    for number in range(2):
        folder = system / f"node/node{number}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cpumap").write_text(f"{3 << number * 2:x}\n")
        (folder / "meminfo").write_text(f"Node {number} MemTotal: 1000 kB\n")
        (folder / "distance").write_text("10 20\n" if number == 0 else "20 10\n")
    (system / "cpu/online").write_text("0-3\n")
    (system / "node/online").write_text("0-1\n")
    for place in (tree / "sys/devices").rglob("numa_node"):
        number = int(place.read_text())
        (place.parent / "local_cpus").write_text(f"{3 << number * 2 if number >= 0 else 15:x}\n")
