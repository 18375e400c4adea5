"""`gdr schema`: the JSON Schema of each command's --json output."""

from __future__ import annotations

from gdrkit.cli.arguments import Parser, write
from gdrkit.cli.exit import OK

_TYPES = {
    "report": ("gdrkit.report.document", "Report"),
    "fix": ("gdrkit.report.fix_document", "FixReport"),
    "explanation": ("gdrkit.cli.explained", "ExplainedText"),
    "nccl": ("gdrkit.jobs.document", "NcclDocument"),
    "ps": ("gdrkit.jobs.running.document", "PsDocument"),
    "topology": ("gdrkit.fabric.topo_document", "TopoDocument"),
    "estimate": ("gdrkit.fabric.ceilings.document", "EstimateDocument"),
    "cost": ("gdrkit.fabric.cost.document", "CostDocument"),
    "bench": ("gdrkit.transport.bench.document", "BenchDocument"),
    "modprobe": ("gdrkit.report.document", "ModprobeSection"),
    "fleet": ("gdrkit.fleet.document", "FleetReport"),
    "fleet-bench": ("gdrkit.fleet.pair_document", "FleetBench"),
}
"""Module and class of each document."""
DOCUMENTS = tuple(_TYPES)


def parser() -> Parser:
    parser = Parser(
        "schema",
        "Print the JSON Schema of a command's --json output, by default that of `gdr doctor`.",
        "  gdr schema > report.schema.json    of gdr doctor --json\n"
        "  gdr schema explanation             of gdr explain --json\n"
        "  gdr schema nccl                    of gdr nccl --json\n"
        "  gdr schema ps                      of gdr ps --json\n"
        "  gdr schema topology                of gdr topo --json\n"
        "  gdr schema estimate                of gdr estimate --json\n"
        "  gdr schema cost                    of gdr estimate --model --json\n"
        "  gdr schema bench                   of gdr bench --json\n"
        "  gdr schema fix                     of gdr fix --json\n"
        "  gdr schema modprobe                of gdr modprobe --json\n"
        "  gdr schema fleet                   of gdr fleet doctor --json\n"
        "  gdr schema fleet-bench             of gdr fleet bench --json",
    )
    parser.add_argument(
        "what", nargs="?", choices=DOCUMENTS, default="report", metavar="DOCUMENT", help=", ".join(DOCUMENTS)
    )
    return parser


def main(arguments: list[str]) -> int:
    what: str = parser().parse(arguments).what
    write(schema_of(_document(what), f"gdrkit.{what}/1"))
    return OK


def schema_of(document: type, name: str) -> str:
    """The JSON Schema (2020-12) of a document type, with `name` as its title."""
    import msgspec

    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": name,
        **msgspec.json.schema(document),
    }
    return msgspec.json.format(msgspec.json.encode(schema, order="sorted"), indent=2).decode() + "\n"


def _document(what: str) -> type:
    """The type of a document; imports only its module. Raises KeyError for an unknown name."""
    from importlib import import_module

    module, name = _TYPES[what]
    found: type = getattr(import_module(module), name)
    return found
