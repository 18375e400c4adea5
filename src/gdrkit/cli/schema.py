"""`gdr schema`: the JSON Schema of each command's --json output."""

from __future__ import annotations

from gdrkit.cli.arguments import Parser, write
from gdrkit.cli.exit import OK

_TYPES = {
    "report": ("gdrkit.report.document", "Report", "gdr doctor --json"),
    "explanation": ("gdrkit.cli.explained_document", "ExplainedText", "gdr explain --json"),
    "nccl": ("gdrkit.jobs.document", "NcclDocument", "gdr nccl --json"),
    "ps": ("gdrkit.jobs.running.document", "PsDocument", "gdr ps --json"),
    "topology": ("gdrkit.fabric.topo_document", "TopoDocument", "gdr topo --json"),
    "estimate": ("gdrkit.fabric.ceilings.document", "EstimateDocument", "gdr estimate --json"),
    "cost": ("gdrkit.fabric.cost.document", "CostDocument", "gdr estimate --model --json"),
    "bench": ("gdrkit.transport.bench.document", "BenchDocument", "gdr bench --json"),
    "fix": ("gdrkit.report.fix_document", "FixReport", "gdr fix --json"),
    "modprobe": ("gdrkit.report.document", "ModprobeSection", "gdr modprobe --json"),
    "fleet": ("gdrkit.fleet.document", "FleetReport", "gdr fleet doctor --json"),
    "fleet-bench": ("gdrkit.fleet.pair_document", "FleetBench", "gdr fleet bench --json"),
}
"""Module and class of each document, and the command that writes it."""
DOCUMENTS = tuple(_TYPES)
_BY_COMMAND = {
    "-".join(command.removeprefix("gdr ").removesuffix(" --json").split()): what
    for what, (_, _, command) in _TYPES.items()
    if command.count("--") == 1
}
"""Each document by the words of its command, as `fleet-doctor`."""


def parser() -> Parser:
    parser = Parser(
        "schema",
        "Print the JSON Schema of a command's --json output, by default that of `gdr doctor`.",
        "\n".join(map(_example, DOCUMENTS)),
    )
    parser.add_argument(
        "what",
        nargs="?",
        choices=DOCUMENTS,
        default="report",
        type=lambda word: _BY_COMMAND.get(word, word),
        metavar="DOCUMENT",
        help=f"{', '.join(DOCUMENTS)}; or the name of the command",
    )
    return parser


def _example(what: str) -> str:
    given = "> report.schema.json" if what == DOCUMENTS[0] else what
    return f"  gdr schema {given:<24}of {command_of(what)}"


def command_of(what: str) -> str:
    """The command that writes a document."""
    return _TYPES[what][2]


def main(arguments: list[str]) -> int:
    what: str = parser().parse(arguments).what
    write(schema_of(document_of(what), f"gdrkit.{what}/1"))
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


def document_of(what: str) -> type:
    """The type of a document; imports only its module. Raises KeyError for an unknown name."""
    from importlib import import_module

    module, name, _ = _TYPES[what]
    found: type = getattr(import_module(module), name)
    return found
