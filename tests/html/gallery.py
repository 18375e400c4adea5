"""Pages of every kind of report, for tests in a browser and for looking at them."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable
from pathlib import Path

from machines.compose import write
from machines.fleet import incident
from msgspec.structs import replace

from gdrkit.cli import main
from gdrkit.fleet.build import build as fleet_report
from gdrkit.fleet.document import FleetReport, NodeRow
from gdrkit.fleet.pool import judge_all
from gdrkit.fleet.worker import task_of
from gdrkit.html.fleet_page import fleet_page
from tests.evidence_builder import node as evidence_node
from tests.evidence_nodes import FOLDER, laid_down

SWITCH = """
0000:{b0}:01.0 spr-root numa={numa}
  0000:{b1}:00.0 pex89-up numa={numa}
    0000:{b2}:00.0 pex89-down numa={numa}
      0000:{b3}:00.0 h100-sxm numa={numa}
    0000:{b2}:01.0 pex89-down numa={numa}
      0000:{b4}:00.0 h100-sxm numa={numa}
    0000:{b2}:02.0 pex89-down numa={numa}
      0000:{b5}:00.0 h100-sxm numa={numa}
    0000:{b2}:03.0 pex89-down numa={numa}
      0000:{b6}:00.0 h100-sxm numa={numa}
    0000:{b2}:04.0 pex89-down numa={numa}
      0000:{b7}:00.0 cx7-ib numa={numa} rdma=mlx5_{n0} net=ibp{b7}s0 rate=400
    0000:{b2}:05.0 pex89-down numa={numa}
      0000:{b8}:00.0 cx7-ib numa={numa} rdma=mlx5_{n1} net=ibp{b8}s0 rate=400
    0000:{b2}:06.0 pex89-down numa={numa}
      0000:{b9}:00.0 cx7-ib numa={numa} rdma=mlx5_{n2} net=ibp{b9}s0 rate=400
    0000:{b2}:07.0 pex89-down numa={numa}
      0000:{b10}:00.0 cx7-ib numa={numa} rdma=mlx5_{n3} net=ibp{b10}s0 rate=400
"""


def sixteen(folder: Path) -> Path:
    """A node with 16 GPUs and 16 NICs below four switches."""
    page = folder / "nodes" / "sixteen"
    page.mkdir(parents=True)
    shutil.copy(FOLDER / "presets.toml", page.parent)
    outline = ""
    for number, bus in enumerate((0x15, 0x3D, 0x97, 0xBD)):
        buses = {f"b{step}": f"{bus + step:02x}" for step in range(11)}
        nics = {f"n{step}": 4 * number + step for step in range(4)}
        outline += SWITCH.format(numa=number // 2, **buses, **nics)
    text = (FOLDER / "ubuntu-6.8-h100" / "node.toml").read_text().replace("h100-07", "h100-16x16")
    (page / "node.toml").write_text(f'{text}\n[pci]\nrepeat = []\noutline = """{outline}"""\n')
    return evidence_node.write(page, folder)


def node_file(name: str, folder: Path) -> Path:
    """The report on a node of tests/evidence, as gdr writes it."""
    folder.mkdir(parents=True, exist_ok=True)
    target = sixteen(folder) if name == "sixteen" else laid_down(name)
    page = folder / f"{name}.html"
    main(["report", str(target), "-o", str(page)])
    return page


@functools.cache
def incident_rows(size: int, folder: Path) -> tuple[NodeRow, ...]:
    """The judged nodes of a fleet with four faults at once."""
    rows: list[NodeRow] = []
    judge_all([task_of(str(write(machine, folder))) for machine in incident(0, size).machines], rows.append)
    return tuple(rows)


def fleet_of(rows: tuple[NodeRow, ...], size: int, name: Callable[[int], str]) -> FleetReport:
    """A fleet of so many nodes, which repeats some that were judged."""
    many = [replace(rows[n % len(rows)], name=name(n), target=f"{name(n)}.tar.gz") for n in range(size)]
    return fleet_report(many, started="2026-11-22T23:31:05Z", seconds=30.0)


def fleet_file(report: FleetReport, path: Path) -> Path:
    path.write_text(fleet_page(report, "bundles/"))
    return path
