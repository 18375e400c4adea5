"""NCCL's own graph code judges the files that gdr topo writes.

`python -m lab.nccl.written WORK [FILE...]` takes the programs that lab.nccl.from_source built in WORK,
writes every evidence node of tests/ and every FILE as NCCL's XML, details filled in, and holds what each
release computes of it against gdrkit's model: paths, bandwidths, decisions, nearest GPUs and NICs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from msgspec import structs
from tests.evidence_nodes import build, names

from gdrkit.consumers.nccl_releases import FROM_SOURCE
from gdrkit.evidence import EvidenceMissing
from gdrkit.evidence.target import open_host
from gdrkit.fabric.nccl.writer import system
from gdrkit.fabric.topology import from_file, from_node
from gdrkit.fabric.topology.graph import Topology
from gdrkit.fabric.topology.nccl_defaults import completed
from gdrkit.formats import nccl_xml
from gdrkit.formats.errors import FormatError
from gdrkit.node import Node
from lab.nccl.from_source import ask, predict
from lab.nccl.generate import Case

NO_NUMA_NODE = ("CPU/ffffffffffffffff ", "CPU/ffffffffffffff ")
"""How releases before and since 2.21 number a CPU of -1."""


def graphs(files: list[Path], folder: Path) -> Iterator[tuple[str, Topology]]:
    """Every node and every file that can be read."""
    for name in names():
        place = folder / name
        place.mkdir()
        try:
            yield name, from_node.topology(Node(open_host(str(build(name, place)))))
        except EvidenceMissing:
            print(f"{name}: no list of PCI devices")
    for path in files:
        try:
            yield path.name, from_file.read(path.read_bytes()).topology
        except FormatError as error:
            print(f"{path.name}: {error}")


def written(topology: Topology) -> str:
    """The file, as of the machine that NCCL runs on: it looks for its own host among those of a file."""
    whole, _ = completed(topology)
    here = structs.replace(whole, cpus=tuple(structs.replace(cpu, host_hash="") for cpu in whole.cpus))
    return nccl_xml.written(system(here, details=True)).decode()


def main() -> int:
    """Exit code 1 where the model and NCCL differ."""
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
            said = ask(options.work / f"witness-{version}", case)
            for number in NO_NUMA_NODE:
                said = [line.replace(number, "CPU/-1 ") for line in said]
            answers += len(said)
            if sorted(said) != predict(case, version):
                wrong.append(f"{name} as NCCL {version}")
    print(
        f"{len(found)} different files, {len(FROM_SOURCE)} releases, {answers} answers, {len(wrong)} differ"
    )
    print("\n".join(wrong[:20]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
