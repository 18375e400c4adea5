"""Write the generated files: a page for each finding code, the glossary, the published JSON Schemas.

`uv run python tools/pages.py` writes them; with --check it only lists outdated files, and exits 1 if any.
"""

from __future__ import annotations

import sys
from pathlib import Path

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
    files[ROOT / "src/gdrkit/report/report.schema.json"] = schema_of(Report, "gdrkit.report/1")
    files[ROOT / "src/gdrkit/jobs/nccl.schema.json"] = schema_of(NcclDocument, "gdrkit.nccl/1")
    return files


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
