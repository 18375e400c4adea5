"""`gdr example [NAME]`: nodes to try gdr on."""

from __future__ import annotations

import os
import shlex
from importlib.resources import files
from typing import NamedTuple

from gdrkit.cli.arguments import Parser, write
from gdrkit.cli.exit import CANNOT_CREATE, OK
from gdrkit.cli.files import OutputRefused, write_output


class Example(NamedTuple):
    """What `gdr example NAME` writes. It was made by tools/examples.py; no real machine is among them."""

    file: str  # in examples/, and under this name in the reader's folder
    about: str
    command: str  # what to run; {} is the path

    @property
    def is_folder(self) -> bool:
        """Whether it is several bundles in a folder; the package has them as one archive of this name."""
        return "." not in self.file


DOCTOR = "gdr doctor {}"
EXAMPLES = {
    "h100": Example("h100.tar.xz", "an H100 server with eight rails; the port of one is down", DOCTOR),
    "spark": Example("spark", "two cabled DGX Sparks, on which nvidia-peermem fails", "gdr doctor {}/*"),
    "operator": Example("operator.tar.xz", "a Kubernetes node whose GPU Operator waits for OFED", DOCTOR),
    "geforce": Example("geforce.log.gz", "nvidia-bug-report.sh's file of a GeForce desktop", DOCTOR),
    "fleet": Example("fleet", "twelve nodes with four things wrong among them", "gdr fleet doctor {}"),
    "job": Example("job.log", "NCCL's log of a job of four ranks on two hosts", "gdr nccl {}"),
}
"""By name, in the order in which they are listed."""


def parser() -> Parser:
    parser = Parser(
        "example",
        "Write nodes or a log to try gdr on. Without NAME, list them.",
        "  gdr example h100 -o node.tar.xz               one node\n"
        "  gdr example fleet -o nodes                   twelve bundles in the folder nodes\n",
    )
    parser.add_argument("name", nargs="?", choices=(*EXAMPLES,), metavar="NAME", help=", ".join(EXAMPLES))
    parser.add_argument("-o", "--output", metavar="PATH", help="the file or folder to write")
    parser.add_argument("--force", action="store_true", help="replace existing files")
    return parser


def main(arguments: list[str]) -> int:
    options = parser().parse(arguments)
    if options.name is None:
        parser().refuse(options, ("--output", "--force"), "without the name of an example")
        width = max(map(len, EXAMPLES))
        write("".join(f"{name:<{width}}  {one.about}\n" for name, one in EXAMPLES.items()))
        return OK
    example = EXAMPLES[options.name]
    path: str = options.output or example.file
    if example.is_folder:
        _write_folder(path, example.file, force=options.force)
    else:
        write_output(path, _shipped(example.file), force=options.force)
    write(f"{path}: {example.about}\nnow: {example.command.format(shlex.quote(path))}\n")
    return OK


def _shipped(name: str) -> bytes:
    return files("gdrkit.cli").joinpath("examples", name).read_bytes()


def _write_folder(folder: str, name: str, *, force: bool) -> None:
    """Each node of an example as a bundle. Raises OutputRefused."""
    import gzip
    import io
    import tarfile

    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        words = f"cannot make the folder {folder}: {(error.strerror or str(error)).lower()}"
        raise OutputRefused(words, code=CANNOT_CREATE) from None
    archive = _shipped(f"{name}.tar.xz")
    with tarfile.open(fileobj=io.BytesIO(archive)) as nodes:
        for member in nodes:
            if (content := nodes.extractfile(member)) is not None:
                path = os.path.join(folder, f"{os.path.basename(member.name)}.gz")
                write_output(path, gzip.compress(content.read(), mtime=0), force=force)
