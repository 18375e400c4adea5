"""`gdr estimate [TARGET]`: ceilings of a node's paths, comparison with measurements, cost of a job."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from gdrkit.cli.arguments import Parser, colours, number, print_notes, text_width, write, write_json
from gdrkit.cli.exit import NO_INPUT, OK, UNKNOWN, USAGE, WARNING

if TYPE_CHECKING:
    from gdrkit.fabric.ceilings.document import EstimateDocument
    from gdrkit.fabric.ceilings.measured import Measured
    from gdrkit.fabric.ceilings.node_links import NodeLinks
    from gdrkit.fabric.cost.models import ModelShape
    from gdrkit.fabric.topology.graph import Topology
    from gdrkit.node import Node

LARGEST, LARGEST_RUN = 1 << 26, 8 << 20
"""The most bytes of a topology, and of a benchmark's output: those of a whole cluster have a few MB."""
CONFIG_BYTES = 1 << 22
"""A config.json is a few kilobytes."""
MOST_GPUS = 1 << 20
"""Of each degree of parallelism: a higher number is a typing error."""
DEGREES = (
    ("tp", "GPUs that share each layer"), ("pp", "pipeline stages"), ("ep", "GPUs that share the experts"),
    ("dp", "replicas"),
)  # fmt: skip


def parser() -> Parser:
    parser = Parser(
        "estimate",
        "Compute the ceiling of each path between a GPU and the network from links, ports and packet "
        "headers: the tightest limit, and how close a benchmark is to it. Measures nothing, and works "
        "without root.",
        "  gdr estimate                                  this machine\n"
        "  gdr estimate sosreport.tar.xz --json          another one\n"
        "  gdr estimate topo.xml                         XML of NCCL, or output of lspci -vvv\n"
        "  gdr estimate --measured ib_write_bw.log       a run on this machine\n"
        "  gdr estimate node17.tar.xz --measured -       a run there, from standard input\n"
        "  gdr estimate --model llama-3-70b --tp 16                does a missing path matter to this job?\n"
        "  gdr estimate --model config.json --tp 2 node17.tar.xz   a Hugging Face config, another node\n"
        "  gdr estimate --model deepseek-v3 --ep 16 --dp 16        experts on 16 GPUs\n\n"
        "exit codes: 0 ceilings are known, 3 they are not; --measured: 1 a run is far from its ceiling",
    )
    parser.target()
    parser.add_argument(
        "--measured",
        action="append",
        metavar="FILE",
        help="output of perftest, nccl-tests, NCCL's diagnostics or nvidia-smi dmon, as text or JSON; - is "
        "standard input",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing, only set the exit code")
    parser.output()
    add_options(parser)
    parser.one_output("--json", "--quiet")
    return parser


def main(arguments: list[str]) -> int:
    options = parser().parse(arguments)
    from gdrkit.evidence.target import open_host
    from gdrkit.node import Node

    measured = _read(options.measured or ())
    if measured is None:
        return NO_INPUT
    saved = saved_topology(options.target)
    if saved is not None:
        return _of_saved(options, saved, measured)
    host = open_host(options.target)
    print_notes(host)
    node = Node(host)
    links = _links(node)
    if links is None:
        return UNKNOWN
    if options.model:
        from gdrkit.fabric.ceilings.path_rates import product_of_node

        return cost(options, links, product_of_node(node))
    return _report(options, links, _hostname(node), node.host.source, measured)


def _of_saved(options: argparse.Namespace, saved: Topology, measured: list[Measured]) -> int:
    from gdrkit.fabric.ceilings.from_topology import node_links
    from gdrkit.fabric.topology.graph import OF_JOB, TopologySource

    links, part = node_links(saved), OF_JOB if saved.origin is TopologySource.NCCL_LOG else ""
    if options.model:
        from gdrkit.fabric.ceilings.path_rates import product_of_topology

        return cost(options, links, product_of_topology(saved), part)
    return _report(options, links, os.path.basename(options.target), "topology", measured, part)


def _read(names: list[str] | tuple[str, ...]) -> list[Measured] | None:
    """The runs in the files; None, after a message, if one is not readable."""
    from msgspec.structs import replace

    from gdrkit.cli.files import read_input
    from gdrkit.fabric.ceilings.measured import sniff
    from gdrkit.formats.errors import FormatError

    found: list[Measured] = []
    for name in names:
        try:
            content = read_input(name, LARGEST_RUN)
            run = sniff(content.decode("utf-8", "replace"))
            found.append(replace(run, log=_of_log(content, name)) if run.nccl else run)
        except FormatError as error:
            sys.stderr.write(f"gdr estimate: {name}: {error}\n")
            return None
    return found


def _of_log(content: bytes, name: str) -> str:
    """What the NCCL log around a run shows of its NICs; "" if there is none."""
    if b"NCCL INFO" not in content:
        return ""
    from gdrkit.jobs.nic_lists import shared_nics_words
    from gdrkit.jobs.pasted import pasted_job

    job = pasted_job(content, name, lambda causes: causes, lambda number: number)
    if not job.decides:
        return ""
    shared = map(shared_nics_words, job.log.shared_nics)
    return f"Its log: {'; '.join((job.log.verdict.summary, *shared))}. `gdr nccl` shows the rest."


def saved_topology(target: str | None) -> Topology | None:
    """A saved topology: XML of NCCL or hwloc, output of lspci -vvv. None for another target.

    Raises TargetError."""
    from gdrkit.evidence.bug_report import START
    from gdrkit.evidence.errors import TargetError
    from gdrkit.fabric.topology.from_file import kind_of, read_topology
    from gdrkit.formats.errors import FormatError

    if target is None or not os.path.isfile(target):
        return None
    try:
        with open(target, "rb") as file:
            head = file.read(1 << 16)
            if kind_of(head) is None or START in head:
                return None
            return read_topology(head + file.read(LARGEST)).topology
    except OSError:
        return None  # open_host reports the error
    except FormatError as error:
        raise TargetError(f"{target}: {error}") from None


def links_of_target(target: str | None) -> NodeLinks | None:
    """The links of a target that `gdr estimate` takes; None, after a message, if they are not known.

    Raises TargetError."""
    from gdrkit.evidence.target import open_host
    from gdrkit.node import Node

    saved = saved_topology(target)
    if saved is not None:
        from gdrkit.fabric.ceilings.from_topology import node_links

        return node_links(saved)
    return _links(Node(open_host(target)))


def _links(node: Node) -> NodeLinks | None:
    """The links of a node; None, after a message, if they are not known."""
    from gdrkit.evidence import EvidenceMissing
    from gdrkit.fabric.ceilings.from_node import node_links

    try:
        return node_links(node)
    except EvidenceMissing as error:
        missing = error.missing
        why = missing.why.replace("-", " ")
        there = "run gdr estimate on that machine, or give it the file that gdr collect writes there"
        todo = f"to find out, run: {missing.ask}" if node.host.source == "live" else there
        sys.stderr.write(f"gdr estimate: cannot tell: {missing.source}: {why}\n  {todo}\n")
        return None


def _report(
    options: argparse.Namespace, found: NodeLinks, name: str, source: str, measured: list[Measured],
    part: str = "",
) -> int:  # fmt: skip
    """`part` says of what part of a node the links are; "" for a whole one."""
    from msgspec.structs import replace

    from gdrkit.fabric.ceilings.document import document
    from gdrkit.fabric.ceilings.measured import readings

    estimate = document(
        found,
        node=name,
        source=source,
        readings=[reading for one in measured for reading in readings(found, one)],
    )
    if part:
        estimate = replace(estimate, remarks=(f"{part[:1].upper()}{part[1:]}.", *estimate.remarks))
    if options.json:
        write_json(estimate)
    elif not options.quiet:
        from gdrkit.fabric.ceilings.text import measured_text, text

        shown = measured_text if measured else text
        terminal = colours()
        write(shown(estimate, colour=terminal, width=text_width()), styled=terminal)
    return _code(estimate) if measured else OK if estimate.network.rate else UNKNOWN


def _code(estimate: EstimateDocument) -> int:
    """1 if a run is below or above the bounds of its ceiling, 3 if no run could be compared."""
    from gdrkit.fabric.ceilings.measured_rate import ROUNDING

    within = [
        reading.tightest is None
        or reading.ceiling.low_gb_per_s <= rate <= reading.ceiling.high_gb_per_s * ROUNDING
        for reading in estimate.measured
        if reading.ceiling and (rate := reading.gb_per_s) is not None
    ]
    if not within:
        return UNKNOWN
    return OK if all(within) else WARNING


def _hostname(node: Node) -> str:
    from gdrkit.facts.kernel import hostname
    from gdrkit.node import if_missing

    return if_missing("", hostname, node)


# -- the cost of a job ------------------------------------------------------------------------------


def add_options(parser: Parser) -> None:
    """The options that describe a job."""
    group = parser.add_argument_group("cost of a job")
    group.add_argument("--model", metavar="NAME|config.json", help="known model, or Hugging Face config")
    for option, words in DEGREES:
        group.add_argument(
            f"--{option}", type=number(1, MOST_GPUS), default=1, metavar="N", help=f"{words} (1)"
        )
        parser.only_with(f"--{option}", "--model")
    parser.never_with("--model", "--measured", "--quiet")


USUAL_GPUS = 8
"""GPUs of a node where none is seen: of an HGX board, for which most of these jobs are written."""


def cost(options: argparse.Namespace, links: NodeLinks, product: str, part: str = "") -> int:
    """Print the cost of a job on nodes with these links and GPUs; `part` says of what part of a node they
    are. Returns the exit code."""
    from gdrkit.fabric.ceilings.gpus import rates_of
    from gdrkit.fabric.ceilings.path_rates import path_rates
    from gdrkit.fabric.cost.document import document, text
    from gdrkit.fabric.cost.models import CostError
    from gdrkit.fabric.cost.steps import ParallelLayout
    from gdrkit.formats.errors import FormatError
    from gdrkit.formats.plural import plural

    gpus = len(links.gpus) or USUAL_GPUS
    layout = ParallelLayout(
        tensor=options.tp, pipeline=options.pp, expert=options.ep, data=options.dp, gpus_per_node=gpus
    )
    assumed = []
    if not links.gpus:
        assumed.append(f"{USUAL_GPUS} GPUs in a node, since this one shows none: name a node that has them")
    elif part:
        assumed.append(f"{plural(gpus, 'GPU')} in a node: {part}")
    try:
        model = _model(options.model)
        paths = path_rates(links, min(layout.ranks, gpus))
        found = document(model, layout, rates_of(product), paths, assumed)
    except CostError as error:
        why = str(error).replace("\n", "\\n")
        sys.stderr.write(f"gdr estimate: {why}\n  see gdr estimate --help\n")
        return USAGE
    except (FormatError, OSError) as error:
        sys.stderr.write(f"gdr estimate: {options.model}: {error}\n")
        return NO_INPUT
    if options.json:
        write_json(found)
    else:
        write(text(found, colour=colours(), width=text_width()), styled=colours())
    compared = any(on.saved is not None for step in found.steps for on in step.paths)
    return OK if compared or not any(step.network_bytes for step in found.steps) else UNKNOWN


def _model(name: str) -> ModelShape:
    """The model of a file, if the name ends in .json, else a known model."""
    from gdrkit.fabric.cost.config import parse_config
    from gdrkit.fabric.cost.models import known_model

    if not name.endswith(".json"):
        return known_model(name)
    with open(name, "rb") as file:
        return parse_config(file.read(CONFIG_BYTES), name.rpartition("/")[2])
