"""Make the nodes that `gdr example` writes: `python -m tools.examples`.

They are shipped, so this runs only when one of them is to be another. Nodes with signed modules need the
dependency group `dev`."""

from __future__ import annotations

import argparse
import gzip
import lzma
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from machines.compose import write
from machines.fleet import incident
from machines.machine import Machine
from tests.evidence_nodes import build
from tests.fleet.sparks import two_sparks

ROOT = Path(__file__).parent.parent
HERE = ROOT / "src/gdrkit/cli/examples"
BUNDLES = {"h100": "rail-down", "operator": "gpu-operator-waits"}
"""Node of tests/evidence by example."""
BUG_REPORT = ("geforce-desktop", "nvidia-bug-report.log.gz")
LOG = ROOT / "tests/cli/examples/job.log"
SEED, NODES = 10, 12


def bundles(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Name and content of each file of the package."""
    for name, node in BUNDLES.items():
        yield f"{name}.tar.xz", compressed(packed(build(node, made(folder / name)), folder / f"{name}.tar"))
    node, file = BUG_REPORT
    tree = build(node, made(folder / "geforce"))
    text = gzip.decompress((tree if tree.is_file() else tree / file).read_bytes())
    yield "geforce.log.gz", gzip.compress(text, mtime=0)
    for name, machines in (("spark", two_sparks()), ("fleet", incident(SEED, NODES).machines)):
        tree = several(machines, made(folder / name))
        yield f"{name}.tar.xz", compressed(packed(tree, folder / f"{name}.tar"))
    yield "job.log", LOG.read_bytes()


def several(machines: Iterable[Machine], folder: Path) -> Path:
    """A folder with an archive of each machine."""
    for machine in machines:
        packed(write(machine, folder.parent / "trees"), folder / f"{machine.name}.tar")
    return folder


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def packed(tree: Path, archive: Path) -> bytes:
    """A tar archive of a folder that is the same each time, written to `archive` as well."""

    def anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = member.mtime = 0
        member.uname = member.gname = "root"
        return member

    with tarfile.open(archive, "w", format=tarfile.GNU_FORMAT) as tar:
        tar.add(tree, tree.name, filter=anonymous)
    return archive.read_bytes()


def compressed(content: bytes) -> bytes:
    return lzma.compress(content, preset=9 | lzma.PRESET_EXTREME)


def main() -> int:
    argparse.ArgumentParser(description=__doc__).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name, content in bundles(Path(folder)):
            (HERE / name).write_bytes(content)
            sys.stdout.write(f"{name}: {len(content)} bytes\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
