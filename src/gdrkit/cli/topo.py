"""`gdr topo [TARGET | FILE]`: the paths between GPUs and NICs, and whether NCCL would use GPUDirect RDMA."""

from __future__ import annotations

import argparse
import os
import sys
from stat import S_ISREG
from typing import TYPE_CHECKING

from gdrkit.cli.arguments import (
    Parser,
    called,
    colours,
    encoding,
    print_notes,
    text_width,
    write,
    write_json,
)
from gdrkit.cli.exit import OK, UNKNOWN, WARNING

if TYPE_CHECKING:
    from gdrkit.fabric.topo_document import TopoDocument
    from gdrkit.fabric.topology.graph import Topology
    from gdrkit.fabric.topology.saved import SavedTopology

MAX_BYTES = 32 << 20
"""The limit of XML files: formats/xml_text.py. lstopo writes 1 MiB for 192 cores."""
PEEK_BYTES = 1 << 16


def parser() -> Parser:
    parser = Parser(
        "topo",
        "Show the PCIe tree of a node with its GPUs, NICs, NVLink and C2C, the path types between GPUs and "
        "NICs as nvidia-smi and NCCL name them, and where NCCL would use GPUDirect RDMA. Changes nothing.",
        "  gdr topo                                this machine\n"
        "  gdr topo sosreport.tar.xz               a node from its sosreport\n"
        "  gdr topo topo.xml                       XML of NCCL_TOPO_DUMP_FILE or of lstopo --of xml\n"
        "  nvidia-smi topo -m | gdr topo -         a matrix, or output of lspci -tv or lspci -vvv\n"
        "  gdr topo job.log                        the tree that NCCL_DEBUG_SUBSYS=GRAPH prints\n"
        "  gdr topo --nccl 2.27.5 --env NCCL_NET_GDR_LEVEL=PHB    the effect of a variable\n"
        "  gdr topo --write-nccl-xml topo.xml      a file for NCCL_TOPO_FILE\n"
        "  gdr topo --svg > topo.svg               a picture of the node, for a browser\n\n"
        "exit codes: 0 no obstacle on any path, 1 obstacles, or NCCL would use no direct path, "
        "3 no path is known, or no GPU-NIC pair",
    )
    parser.add_argument(
        "target",
        nargs="?",
        metavar="TARGET",
        help="any target of gdr doctor, or a saved file: XML of NCCL or hwloc, output of nvidia-smi "
        "topo -m, lspci -tv, lspci -vvv; - for standard input (default: this machine)",
    )
    parser.output()
    parser.add_argument("-v", "--verbose", action="store_true", help="show every port of a switch")
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing, only set the exit code")
    parser.add_argument(
        "--nccl",
        metavar="VERSION",
        type=_version,
        help="NCCL version to model (default: that of the node or the log, else the newest known)",
    )
    parser.add_argument(
        "--env",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        type=_assignment,
        help="show the effect of an environment variable on NCCL; may be repeated",
    )
    parser.add_argument(
        "--nvlink", action="store_true", help="read NVLink from this machine's driver (runs nvidia-smi)"
    )
    _add_outputs(parser)
    return parser


def _add_outputs(parser: Parser) -> None:
    parser.add_argument(
        "--write-nccl-xml",
        metavar="FILE",
        nargs="?",
        const="-",
        help="write a topology for NCCL_TOPO_FILE; without FILE, to standard output",
    )
    parser.force("--write-nccl-xml")
    parser.add_argument("--svg", action="store_true", help="write a picture of the node as SVG")
    parser.one_output("--json", "--verbose", "--quiet", "--svg", "--write-nccl-xml")
    for option in ("--nccl", "--env"):
        parser.never_with(option, "--svg", "--write-nccl-xml")


def _assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (equals and name):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def main(arguments: list[str]) -> int:
    options = parser().parse(arguments)
    if options.nvlink and options.target is not None:
        parser().error("--nvlink has no effect with a target: it asks this machine's driver")
    if options.force and options.write_nccl_xml == "-":
        parser().error("--force has no effect without a file of --write-nccl-xml")
    from gdrkit.evidence import EvidenceMissing

    try:
        source, saved = _read(options.target, options.nvlink)
    except EvidenceMissing as error:
        missing = error.missing
        why = missing.why.value.replace("-", " ")
        sys.stderr.write(f"gdr topo: not known: {missing.source} ({why})\n  {missing.ask}\n")
        return UNKNOWN
    if options.write_nccl_xml is not None:
        return _write_xml(saved, options)
    if options.svg:
        return _write_picture(source, saved.topology)
    return _report(options, source, saved)


# -- reading ---------------------------------------------------------------------------------------


def _read(target: str | None, nvlink: bool) -> tuple[str, SavedTopology]:
    """A name of the target for the report, and its graph.

    Raises TargetError, and EvidenceMissing if the PCI devices are not known."""
    from gdrkit.evidence.errors import TargetError
    from gdrkit.evidence.target import open_host
    from gdrkit.fabric.topology.saved import of_node
    from gdrkit.formats.errors import FormatError
    from gdrkit.node import Node

    if target is not None and (content := _saved_content(target)) is not None:
        return _read_file("standard input" if target == "-" else os.path.basename(target), content)
    host = open_host(target)
    print_notes(host)
    try:
        return called(target), of_node(Node(host), ask_driver=nvlink or host.source != "live")
    except FormatError as error:
        raise TargetError(f"{called(target)}: {error}") from None


def _saved_content(target: str) -> bytes | None:
    """The content of a saved topology; None for any other target, which open_host recognises."""
    from gdrkit.cli.files import STDIN, read_input
    from gdrkit.evidence.bug_report import START
    from gdrkit.evidence.errors import TargetError
    from gdrkit.fabric.topology.from_file import kind_of

    if target == STDIN:
        return read_input(
            target, MAX_BYTES, "name a saved topology, or pipe one in: nvidia-smi topo -m | gdr topo -"
        )
    try:
        if not S_ISREG(os.stat(target).st_mode):
            return None
        with open(target, "rb") as file:
            head = file.read(PEEK_BYTES)
            if kind_of(head) is None and b"\0" not in head:  # the tree in a log may come late
                head += file.read(MAX_BYTES + 1 - len(head))
            other = kind_of(head) is None or START in head
            content = b"" if other else head + file.read(MAX_BYTES + 1 - len(head))
    except (OSError, ValueError):
        return None  # open_host reports the error
    if other:
        _reject_other_text(os.path.basename(target), head, START)
        return None
    if len(content) > MAX_BYTES:
        raise TargetError(f"{target} is larger than {MAX_BYTES >> 20} MiB", "name a saved topology")
    return content


def _reject_other_text(target: str, head: bytes, start: bytes) -> None:
    """Raises TargetError for a text that is neither a topology nor a bug report."""
    from gdrkit.evidence.errors import TargetError

    text = b"\0" not in head and head[:64].isascii() and bool(head.strip())
    if text and start not in head and head.lstrip()[:1] != b"[":  # an rdma_topo dump is JSON
        raise TargetError(
            f"unsupported format: {target} is not a topology",
            "supported: XML of NCCL or hwloc, output of nvidia-smi topo -m, lspci -tv or lspci -vvv, an "
            "NCCL log with NCCL_DEBUG_SUBSYS=GRAPH; for any other log of a job: gdr nccl",
        )


def _read_file(name: str, content: bytes) -> tuple[str, SavedTopology]:
    from gdrkit.evidence.errors import TargetError
    from gdrkit.fabric.topology.from_file import read_topology
    from gdrkit.formats.errors import FormatError

    try:
        saved = read_topology(content)
    except FormatError as error:
        raise TargetError(f"{name}: {error}") from None
    return f"{name}, {saved.kind}", saved


# -- writing ---------------------------------------------------------------------------------------


def _write_xml(saved: SavedTopology, options: argparse.Namespace) -> int:
    """Writes a file for NCCL_TOPO_FILE, but never over its own input or a file of another kind, which may be
    evidence. Raises TargetError and OutputRefused."""
    from gdrkit.cli.files import OutputRefused, write_output
    from gdrkit.evidence.errors import TargetError
    from gdrkit.fabric.nccl.writer import system
    from gdrkit.formats.errors import FormatError
    from gdrkit.formats.nccl_xml import written

    name: str = options.write_nccl_xml
    if not saved.topology.devices:
        raise TargetError("the source does not show a PCIe tree", "name a bundle, or XML of NCCL or hwloc")
    try:
        content = written(system(saved.topology))
    except FormatError as error:
        raise TargetError(str(error)) from None
    if name == "-":
        write(content.decode())
        return OK
    if options.force and os.path.isfile(name) and not _is_replaceable(name):
        raise OutputRefused(f"{name} exists and is not a topology file", "name another output file")
    write_output(name, content, force=options.force, inputs=(options.target,))
    sys.stderr.write(f"{name}: set NCCL_TOPO_FILE to its path on every rank\n")
    return OK


def _write_picture(source: str, topology: Topology) -> int:
    """Writes the picture of a node. Raises TargetError where the source shows no tree to draw."""
    from gdrkit.evidence.errors import TargetError
    from gdrkit.fabric.picture import picture
    from gdrkit.fabric.picture_svg import svg

    drawn = picture(topology)
    if not topology.devices or not drawn.cpus:
        raise TargetError(
            "the source shows no GPU and no NIC in a PCIe tree", "name a bundle, or XML of NCCL or hwloc"
        )
    write(svg(drawn, source))
    return OK


def _is_replaceable(name: str) -> bool:
    from gdrkit.fabric.topology.from_file import kind_of
    from gdrkit.fabric.topology.saved import TopologyFileKind

    try:
        with open(name, "rb") as file:
            head = file.read(PEEK_BYTES)
    except OSError:
        return False
    return not head or kind_of(head) is TopologyFileKind.NCCL


def _report(options: argparse.Namespace, source: str, saved: SavedTopology) -> int:
    from gdrkit.evidence.errors import TargetError
    from gdrkit.fabric.topo_document import build
    from gdrkit.formats.errors import FormatError

    try:
        document = build(source, saved, options.nccl or "", dict(options.env))
    except FormatError as error:
        raise TargetError(f"{source}: {error}") from None
    if options.quiet:
        pass
    elif options.json:
        write_json(document)
    else:
        from gdrkit.fabric.topo_text import text

        terminal = colours()
        words = text(
            document,
            ports=options.verbose,
            colour=terminal,
            width=text_width(),
            encoding=encoding(),
        )
        write(words, styled=terminal)
    if document.nccl is None and (options.nccl or options.env) and not options.quiet:
        sys.stderr.write("gdr topo: --nccl and --env have no effect without a PCIe tree or a matrix\n")
    return _exit_code(document)


def _version(version: str) -> str:
    """A version that the model covers: one whose source was read, or a newer 2.x, which the report notes."""
    from gdrkit.programs.nccl.releases import NEWEST, OLDEST, is_modelled

    if not is_modelled(version):
        known = f"{OLDEST} to {NEWEST}, and newer 2.x, assumed to behave as {NEWEST}"
        raise argparse.ArgumentTypeError(f"unsupported NCCL version: {version}; supported: {known}")
    return version


def _exit_code(document: TopoDocument) -> int:
    """1 if a pair has an obstacle, or NCCL would use no direct path; 3 if there is no pair, or NCCL's answer
    is not known of any."""
    from gdrkit.fabric.topo_advice import all_refused

    views = [view for pair in document.pairs for view in (pair.send, pair.receive)]
    if any(pair.obstacles for pair in document.pairs) or all_refused(views):
        return WARNING
    return OK if any(view is not None for view in views) else UNKNOWN
