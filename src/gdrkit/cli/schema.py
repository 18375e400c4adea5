"""`gdr schema`: the JSON Schemas of what the commands write with --json."""

from __future__ import annotations

from gdrkit.cli.arguments import Parser, write
from gdrkit.cli.exit import OK

DOCUMENTS = ("report", "explanation", "nccl", "topology", "estimate", "cost", "bench", "fix", "modprobe")


def parser() -> Parser:
    parser = Parser(
        "schema",
        "The JSON Schema of what `gdr doctor --json` writes, or that of another command.",
        "  gdr schema > report.schema.json    of gdr doctor --json\n"
        "  gdr schema explanation             of gdr explain --json\n"
        "  gdr schema nccl                    of gdr nccl --json\n"
        "  gdr schema topology                of gdr topo --json\n"
        "  gdr schema estimate                of gdr estimate --json\n"
        "  gdr schema cost                    of gdr estimate --model --json\n"
        "  gdr schema bench                   of gdr bench --json\n"
        "  gdr schema fix                     of gdr fix --json\n"
        "  gdr schema modprobe                of gdr modprobe --json",
    )
    parser.add_argument("what", nargs="?", choices=DOCUMENTS, default="report")
    return parser


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    from gdrkit.report import schema

    texts = {
        "report": schema.schema_text,
        "explanation": schema.explanation_schema_text,
        "nccl": schema.nccl_schema_text,
        "topology": schema.topology_schema_text,
        "estimate": schema.estimate_schema_text,
        "cost": schema.cost_schema_text,
        "bench": schema.bench_schema_text,
        "fix": schema.fix_schema_text,
        "modprobe": schema.modprobe_schema_text,
    }
    write(texts[options.what]())
    return OK
