"""`gdr estimate --model`: the cost of a model's traffic on a node's paths."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from gdrkit.cli.arguments import Parser, colours, number, text_width, write, write_json
from gdrkit.cli.exit import NO_INPUT, OK, UNKNOWN, USAGE

if TYPE_CHECKING:
    from gdrkit.fabric.cost.machine import JobMachine
    from gdrkit.fabric.cost.models import ModelShape

EXAMPLES = (
    "  gdr estimate --model llama-3-70b --tp 16                does a missing path matter to this job?\n"
    "  gdr estimate --model config.json --tp 2 node17.tar.xz   a Hugging Face config, another node\n"
    "  gdr estimate --model deepseek-v3 --ep 16 --dp 16        experts on 16 GPUs\n"
)
DEGREES = (
    ("tp", "GPUs that share each layer"), ("pp", "pipeline stages"), ("ep", "GPUs that share the experts"),
    ("dp", "replicas"),
)  # fmt: skip
MOST_GPUS = 1 << 20
"""Of each degree: a higher number is a typing error."""
CONFIG_BYTES = 1 << 22
"""A config.json is a few kilobytes."""


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


def answer(options: argparse.Namespace, machine: JobMachine) -> int:
    """Print the cost of a job on a machine. Returns the exit code."""
    from gdrkit.fabric.ceilings.gpus import rates_of
    from gdrkit.fabric.cost.document import document, text
    from gdrkit.fabric.cost.models import UnknownModel
    from gdrkit.fabric.cost.steps import CostError, ParallelLayout
    from gdrkit.formats.errors import FormatError

    gpus = machine.gpus or 1
    layout = ParallelLayout(
        tensor=options.tp, pipeline=options.pp, expert=options.ep, data=options.dp, gpus_per_node=gpus
    )
    try:
        model = _model(options.model)
        paths, unknown = machine.paths(min(layout.ranks, gpus))
        found = document(model, layout, rates_of(machine.product), paths, unknown)
    except (CostError, UnknownModel) as error:
        option = "--model: " if isinstance(error, UnknownModel) else ""
        why = str(error).replace("\n", "\\n")
        sys.stderr.write(f"gdr estimate: {option}{why}\n  see gdr estimate --help\n")
        return USAGE
    except (FormatError, OSError) as error:
        sys.stderr.write(f"gdr estimate: {options.model}: {error}\n")
        return NO_INPUT
    if options.json:
        write_json(found)
    else:
        write(text(found, colour=colours(), width=text_width()), styled=colours())
    return OK if found.savings or not any(step.network_bytes for step in found.steps) else UNKNOWN


def _model(name: str) -> ModelShape:
    """The model of a file, if the name ends in .json, else a known model."""
    from gdrkit.fabric.cost.config import parse_config
    from gdrkit.fabric.cost.models import known_model

    if not name.endswith(".json"):
        return known_model(name)
    with open(name, "rb") as file:
        return parse_config(file.read(CONFIG_BYTES), name.rpartition("/")[2])
