"""`gdr schema`: the JSON Schemas of what the commands write with --json."""

from __future__ import annotations

from gdrkit.cli.arguments import Parser, write
from gdrkit.cli.exit import OK


def parser() -> Parser:
    parser = Parser(
        "schema",
        "The JSON Schema of what `gdr doctor --json` writes, or `gdr explain --json`.",
        "  gdr schema > report.schema.json\n  gdr schema explanation",
    )
    parser.add_argument("what", nargs="?", choices=("report", "explanation"), default="report")
    return parser


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    from gdrkit.report.schema import explanation_schema_text, schema_text

    write(schema_text() if options.what == "report" else explanation_schema_text())
    return OK
