"""`gdr estimate --model`: the cost of a model's traffic on a node's paths."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from gdrkit.cli.arguments import Parser, colours, number, text_width, write, write_json
from gdrkit.cli.exit import NO_INPUT, OK, UNKNOWN, USAGE

if TYPE_CHECKING:
    from gdrkit.fabric.cost.gpus import GpuRates
    from gdrkit.fabric.cost.job_machine import JobMachine
    from gdrkit.fabric.cost.models import ModelShape
    from gdrkit.fabric.cost.paths import PathCost

EXAMPLES = (
    "  gdr estimate --model llama-3-70b --tp 2 --gpus-per-node 1   two nodes, one GPU each\n"
    "  gdr estimate --model config.json --tp 16 --batch 8          a Hugging Face config\n"
    "  gdr estimate --model deepseek-v3 --ep 16 --dp 16 --dtype fp8 --kv-transfer\n"
    "  gdr estimate --model llama-3-8b --tp 2 --gpu H200 --path direct=45:48 --path staged=30:46\n"
)


GROUP = "cost of a job"
LIMIT = 1 << 20
"""As fabric/cost/layout.py: a higher number is a typing error."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options that describe a job."""
    group = parser.add_argument_group(GROUP)
    group.add_argument("--model", metavar="NAME|config.json", help="known model, or Hugging Face config")
    for option, default, words in (
        ("tp", 1, "GPUs that share each layer"), ("pp", 1, "pipeline stages"),
        ("ep", 1, "GPUs that share the experts"), ("dp", 1, "replicas"),
        ("batch", 1, "requests per replica"), ("prompt", 4096, "prompt tokens"),
        ("output", 512, "output tokens"),
    ):  # fmt: skip
        group.add_argument(
            f"--{option}", type=number(1, LIMIT), default=default, metavar="N", help=f"{words} ({default})"
        )
    group.add_argument(
        "--gpus-per-node",
        type=number(1, LIMIT),
        metavar="N",
        help="GPUs per node (default: as the target)",
    )
    group.add_argument(
        "--dtype", default="bf16", help="type of weights: bf16, fp16, fp32, fp8, int8, int4, mxfp4 (bf16)"
    )
    group.add_argument("--kv-dtype", default="bf16", help="type of the cache (bf16)")
    group.add_argument(
        "--sequence-parallel", action="store_true", help="reduce-scatter and all-gather, not all-reduce"
    )
    group.add_argument("--kv-transfer", action="store_true", help="prefill and decode on separate nodes")
    group.add_argument(
        "--training", action="store_true", help="training step, with backward pass and gradients"
    )
    group.add_argument("--gpu", metavar="PRODUCT", help="H200, GB10, A100-80GB, ... (default: the target's)")
    group.add_argument(
        "--path", action="append", default=[], metavar="NAME=LOW[:HIGH]",
        help="GB/s of a path, instead of its ceiling: direct, host-mapped, staged or socket",
    )  # fmt: skip


def add_rules(parser: Parser) -> None:
    """Which of these options have no effect without, or with, which others."""
    group = next(one for one in parser._action_groups if one.title == GROUP)
    for option in group._group_actions:
        if option.dest != "model":
            parser.only_with(option.option_strings[-1], "--model")
    parser.never_with("--model", "--measured", "--quiet")
    parser.never_with("--training", "--kv-transfer", "--kv-dtype", "--output")


def answer(options: argparse.Namespace, machine: JobMachine) -> int:
    """Print the cost of a job on a machine. Returns the exit code."""
    from gdrkit.fabric.cost.cost import Workload, cost
    from gdrkit.fabric.cost.layout import CostError, ParallelLayout
    from gdrkit.fabric.cost.models import UnknownModel
    from gdrkit.formats.errors import FormatError

    try:
        model = _model(options.model)
        gpus = options.gpus_per_node or machine.gpus or 1
        given = tuple(_given(words) for words in options.path)
        if len({path.name for path in given}) < len(given):
            raise CostError(f"--path: the same path twice: {' '.join(options.path)}")
        layout = ParallelLayout(
            tensor=options.tp, pipeline=options.pp, expert=options.ep, data=options.dp, gpus_per_node=gpus
        )
        paths, unknown = _paths(machine, layout.ranks, gpus, given)
        job = Workload(
            model=model, layout=layout, batch=options.batch, prompt=options.prompt, output=options.output,
            dtype=options.dtype, kv_dtype=options.kv_dtype, sequence_parallel=options.sequence_parallel,
            kv_transfer=options.kv_transfer, training=options.training,
            gpu=_gpu(options.gpu, machine.product),
        )  # fmt: skip
        found = cost(job, paths)
    except (CostError, UnknownModel) as error:
        option = "--model: " if isinstance(error, UnknownModel) else ""
        why = str(error).replace("\n", "\\n")
        sys.stderr.write(f"gdr estimate: {option}{why}\n  see gdr estimate --help\n")
        return USAGE
    except (FormatError, OSError) as error:
        sys.stderr.write(f"gdr estimate: {options.model}: {error}\n")
        return NO_INPUT
    from gdrkit.fabric.cost.document import document

    report = document(found, unknown)
    if options.json:
        write_json(report)
    else:
        from gdrkit.fabric.cost.text import text

        write(text(report, colour=colours(), width=text_width()), styled=colours())
    return OK if found.savings or not any(step.network_bytes for step in found.steps) else UNKNOWN


def _model(name: str) -> ModelShape:
    """The model of a file, if the name ends in .json, else a known model."""
    from gdrkit.fabric.cost.models import known_model
    from gdrkit.fabric.cost.models_config import parse_config

    if not name.endswith(".json"):
        return known_model(name)
    with open(name, "rb") as file:
        content = file.read(1 << 22)  # a config.json is a few kilobytes
    return parse_config(content, name.rpartition("/")[2])


def _given(words: str) -> PathCost:
    from gdrkit.fabric.cost.layout import CostError
    from gdrkit.fabric.cost.paths import given_path

    name, _, rates = words.partition("=")
    low, _, high = rates.partition(":")
    try:
        bounds = float(low), float(high or low)
        if not 0 < bounds[0] <= bounds[1] < 1e6:
            raise CostError(f"--path {words}: must be 0 < LOW <= HIGH, in GB/s")
        return given_path(name, *bounds, "--path")
    except KeyError:
        raise CostError(
            f"--path {words}: unknown path {name!r}; known: direct, host-mapped, staged, socket"
        ) from None
    except ValueError as error:
        raise (
            error if isinstance(error, CostError) else CostError(f"--path {words}: must be NAME=LOW[:HIGH]")
        ) from None


def _paths(
    machine: JobMachine, ranks: int, gpus: int, given: tuple[PathCost, ...]
) -> tuple[tuple[PathCost, ...], tuple[str, ...]]:
    """The given paths and the machine's other ones, and why the rest are missing."""
    names = {path.name for path in given}
    if len(names) == 4:
        return given, ()
    if machine.links is None:
        return given, (f"paths of this node: {machine.missing}",)
    from gdrkit.fabric.cost.node import node_paths

    found, unknown = node_paths(machine.links, min(ranks, gpus))
    kept = tuple(path for path in found if path.name not in names)
    order = ("direct", "host-mapped", "staged", "socket")
    missing = tuple(words for words in unknown if words.partition(":")[0] not in names)
    return tuple(sorted(given + kept, key=lambda path: order.index(path.name))), missing


def _gpu(named: str | None, product: str) -> GpuRates | None:
    """The rates of a named product, which must be known; else of the machine's, or None."""
    from gdrkit.fabric.cost.gpus import GPUS, rates_of
    from gdrkit.fabric.cost.layout import CostError

    if named is None:
        return rates_of(product) if product else None
    rates = rates_of(named)
    if rates is None:
        raise CostError(f"--gpu: unknown product {named!r}; known: {', '.join(gpu.name for gpu in GPUS)}")
    return rates
