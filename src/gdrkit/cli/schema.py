"""`gdr schema`: the JSON Schema of the report."""

from __future__ import annotations

from gdrkit.cli.arguments import Parser, write
from gdrkit.cli.exit import OK


def parser() -> Parser:
    return Parser(
        "schema",
        "The JSON Schema of what `gdr doctor --json` writes.",
        "  gdr schema > report.schema.json",
    )


def main(arguments: list[str]) -> int:
    parser().parse_args(arguments)
    from gdrkit.report.schema import schema_text

    write(schema_text())
    return OK
