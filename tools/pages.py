"""Write the generated files: a page for each finding code, the glossary, the published JSON Schemas.

`uv run python tools/pages.py` writes them; with --check it only lists outdated files, and exits 1 if any.
"""

from __future__ import annotations

import sys
from pathlib import Path

from gdrkit.cli import GROUPS
from gdrkit.cli.described import described
from gdrkit.cli.schema import schema_of
from gdrkit.jobs.document import NcclDocument
from gdrkit.report.document import Report
from gdrkit.report.glossary import glossary_page
from gdrkit.report.pages import page, titles

ROOT = Path(__file__).parent.parent
CODES = ROOT / "docs" / "codes"


def wanted() -> dict[Path, str]:
    """Every generated file and its content."""
    files = {CODES / f"{row.code}.md": page(row.code) for row in titles()}
    rows = "".join(f"| {row.layer} | [{row.code}]({row.code}.md) | {row.title} |\n" for row in titles())
    files[CODES / "index.md"] = f"# Finding codes\n\n| layer | code | what it is |\n|---|---|---|\n{rows}"
    files[ROOT / "docs" / "glossary.md"] = glossary_page()
    files[ROOT / "docs" / "commands.md"] = commands_page()
    files[ROOT / "src/gdrkit/report/report.schema.json"] = schema_of(Report, "gdrkit.report/1")
    files[ROOT / "src/gdrkit/jobs/nccl.schema.json"] = schema_of(NcclDocument, "gdrkit.nccl/1")
    return files


def commands_page() -> str:
    """Every command with its arguments, options, examples and exit codes, as its parser describes them."""
    rows = ["# Commands", "", "`gdr help COMMAND` prints the same, and `gdr man COMMAND` as a manual page."]
    for group, commands in GROUPS.items():
        rows += ["", f"## {group.capitalize()}", ""]
        rows += [f"- [gdr {name}](#gdr-{name}): {line}" for name, line in commands.items()]
    for name in (name for commands in GROUPS.values() for name in commands):
        rows += ["", f"## gdr {name}", "", *_command(name)]
    return "\n".join(rows) + "\n"


def _command(name: str) -> list[str]:
    command = described(name)
    rows = [_plain(command.text), "", "| argument or option | meaning |", "|---|---|"]
    for one in (*command.arguments, *command.options):
        names = ", ".join(f"`{word}`" for word in one.names)
        value = f"`{one.value}`" if one.value else ""
        both = f"{names} {value}".strip().replace("|", "\\|")
        rows.append(f"| {both} | {_plain(one.help).replace('|', chr(92) + '|')} |")
    width = max(len(line) for line, _ in command.examples)
    lines = [f"{line:<{width}}    # {comment}" if comment else line for line, comment in command.examples]
    rows += ["", "```sh", *lines, "```"]
    for note in command.notes:
        rows += ["", *(f"{_plain(line)}  " for line in note.splitlines())]
    return [row.rstrip() if row.startswith("|") else row for row in rows]


def _plain(text: str) -> str:
    """Text of the help in Markdown, in which `<`, `*` and `_` between words would be formatting."""
    return text.replace("<", "&lt;").replace("*", "\\*").replace("[", "\\[")


def main() -> int:
    files = wanted()
    stale = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    gone = [path for path in CODES.glob("*.md") if path not in files]
    for path in (*stale, *gone):
        sys.stdout.write(f"{path.relative_to(ROOT)}\n")
    if "--check" in sys.argv:
        return 1 if stale or gone else 0
    CODES.mkdir(parents=True, exist_ok=True)
    for path in stale:
        path.write_text(files[path])
    for path in gone:
        path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
