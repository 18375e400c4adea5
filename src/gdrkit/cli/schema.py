"""`gdr schema`: the JSON Schemas of what the commands write with --json."""

from __future__ import annotations

from gdrkit.cli.arguments import Parser, write
from gdrkit.cli.exit import OK


def parser() -> Parser:
    parser = Parser(
        "schema",
        "The JSON Schema of what `gdr doctor --json` writes, or that of another command.",
        "  gdr schema > report.schema.json\n  gdr schema explanation\n  gdr schema nccl\n"
        "  gdr schema topology",
    )
    parser.add_argument(
        "what", nargs="?", choices=("report", "explanation", "nccl", "topology"), default="report"
    )
    return parser


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    from gdrkit.report import schema

    texts = {
        "report": schema.schema_text,
        "explanation": schema.explanation_schema_text,
        "nccl": schema.nccl_schema_text,
        "topology": schema.topology_schema_text,
    }
    write(texts[options.what]())
    return OK
