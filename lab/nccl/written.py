"""Checks the files that gdr topo writes with NCCL's own graph code.

`python -m lab.nccl.written WORK [FILE...]` uses the programs that lab.nccl.from_source built in WORK. It
writes every evidence node of tests/ and every FILE as NCCL's XML, with defaults filled in, and compares
each release's results with gdrkit's model: paths, bandwidths, decisions, nearest GPUs and NICs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from msgspec import structs
from tests.evidence_nodes import build, names

from gdrkit.evidence import EvidenceMissing
from gdrkit.evidence.target import open_host
from gdrkit.fabric.nccl.writer import system
from gdrkit.fabric.topology import from_file, from_node
from gdrkit.fabric.topology.graph import Topology
from gdrkit.fabric.topology.nccl_defaults import completed
from gdrkit.formats import nccl_xml
from gdrkit.formats.errors import FormatError
from gdrkit.node import Node
from gdrkit.programs.nccl.releases import FROM_SOURCE
from lab.nccl.from_source import ask, predict
from lab.nccl.generate import Case

NO_NUMA_NODE = ("CPU/ffffffffffffffff ", "CPU/ffffffffffffff ")
"""The number of a CPU with ID -1, in releases before and since 2.21."""


def graphs(files: list[Path], folder: Path) -> Iterator[tuple[str, Topology]]:
    """Every node and every file that can be read."""
    for name in names():
        node_folder = folder / name
        node_folder.mkdir()
        try:
            yield name, from_node.topology(Node(open_host(str(build(name, node_folder)))))
        except EvidenceMissing:
            print(f"{name}: no list of PCI devices")
    for path in files:
        try:
            yield path.name, from_file.read_topology(path.read_bytes()).topology
        except FormatError as error:
            print(f"{path.name}: {error}")


def written(topology: Topology) -> str:
    """The file without host hashes, since NCCL looks for its own host among those of a file."""
    whole, _ = completed(topology)
    here = structs.replace(whole, cpus=tuple(structs.replace(cpu, host_hash="") for cpu in whole.cpus))
    return nccl_xml.written(system(here, details=True)).decode()


def main() -> int:
    """Returns exit code 1 if the model and NCCL differ."""
    parser = argparse.ArgumentParser(prog="lab.nccl.written", description=__doc__)
    parser.add_argument("work", type=Path, help="where lab.nccl.from_source built")
    parser.add_argument("files", nargs="*", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found: dict[str, str] = {}
        for name, topology in graphs(options.files, Path(folder)):
            if topology.gpus and completed(topology)[0].nets:
                found.setdefault(written(topology), name)
    answers = 0
    wrong = []
    for version in FROM_SOURCE:
        for xml, name in found.items():
            case = Case(0, xml, {})
            lines = ask(options.work / f"graph-answers-{version}", case)
            for number in NO_NUMA_NODE:
                lines = [line.replace(number, "CPU/-1 ") for line in lines]
            answers += len(lines)
            if sorted(lines) != predict(case, version):
                wrong.append(f"{name} as NCCL {version}")
    print(
        f"{len(found)} different files, {len(FROM_SOURCE)} releases, {answers} answers, {len(wrong)} differ"
    )
    print("\n".join(wrong[:20]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
