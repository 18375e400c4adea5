"""List wording that a native engineer would not use.

    python -m tools.plain_english [PATH ...]      exit with 1 if anything is listed

Reads the strings, comments and docstrings of src/, the comments and docstrings of tests/, lab/, tools/
and benchmarks/, and every page of prose. Output of other programs is exempt: lines with the mark `not ours`
are skipped, and so are code blocks and quoted words in pages.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PROSE = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "docs", "lab")
CODE = ("src", "tests", "lab", "tools", "benchmarks")
NOT_OURS = ("tests/evidence/nodes", "tools/plain_english.py", "lab/recordings")
MARK = "not ours"

PATTERNS = {
    # Stress where none is meant: "x is no ssh target" says more than "is not an ssh target".
    r"(?<!there[ ])(?<!There[ ])\b(is|are|was|were) no (?!(longer|more|less|better)\b)": "is not a",
    # Archaic; a reader looks for a second meaning.
    r"\b(tell|tells|told|telling) of\b": "report, show",
    r"\bto be had\b|\b(can|could|may|might|will)(not)? (not )?be had\b": "is not available",
    # Means "without success": a test "in vain" seems to have failed.
    r"\bin vain\b": "uselessly",
    # A line, a file or a value does not stand: it is somewhere. As a figure it hides what holds it.
    r"\b(stand|stands|stood) (in|on|at|behind|beside|above|below|between|outside|before|after|under)\b":
        "is, lies, appears",
    # Programs are configured or given a value; "told" reads as if a person had spoken to them.
    r"\b(is|are|was|were|be|being|been) told\b": "is given, is configured with",
}  # fmt: skip
"""The patterns, each with the reason, and what to write instead. A space matches any white space."""


class Found(NamedTuple):
    path: str
    line: int
    text: str
    instead: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}   ({self.instead})"


def in_text(path: str, number: int, text: str) -> Iterator[Found]:
    """The matches in a text that starts at a line of a file; a match may span lines."""
    for pattern, instead in PATTERNS.items():
        for found in re.finditer(pattern.replace(" ", r"\s+"), text):
            first = text.rfind("\n", 0, found.start()) + 1
            line = text[first : (text + "\n").find("\n", found.end())]
            if MARK not in line:
                shown = " ".join(text[max(0, found.start() - 30) : found.end() + 30].split())
                yield Found(path, number + text.count("\n", 0, found.start()), shown, instead)


def in_page(path: str, text: str) -> Iterator[Found]:
    """The matches in the prose of a Markdown page, without code blocks and inline code."""
    text = re.sub(r"^ *```.*?^ *```", lambda block: "\n" * block[0].count("\n"), text, flags=re.M | re.S)
    text = re.sub(r"^(?: {4}|\t).*", "", text, flags=re.M)
    text = re.sub(r"`[^`\n]*`|\"[^\"\n]*\"", "``", text)
    yield from in_text(path, 1, text)


def in_code(path: str, text: str) -> Iterator[Found]:
    """The matches in comments and docstrings; in src/ also in other strings."""
    tree = ast.parse(text)
    ours = path.startswith("src/")
    docstrings = {part.lineno for part in ast.walk(tree) if _is_bare_string(part)}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        is_text = token.type == tokenize.STRING and (ours or token.start[0] in docstrings)
        if (is_text or token.type == tokenize.COMMENT) and MARK not in token.line:
            yield from in_text(path, token.start[0], re.sub(r"`[^`\n]*`", "``", token.string))


def _is_bare_string(part: ast.AST) -> bool:
    """Whether a statement is a docstring of a module, class, function or attribute."""
    return (
        isinstance(part, ast.Expr)
        and isinstance(part.value, ast.Constant)
        and isinstance(part.value.value, str)
    )


def everything(paths: list[str]) -> Iterator[Found]:
    """The matches in the given files and folders, by default in the whole repository."""
    for name in paths or [*PROSE, *CODE]:
        root = ROOT / name
        for path in sorted(root.rglob("*")) if root.is_dir() else [root]:
            where = str(path.relative_to(ROOT))
            if where.startswith(NOT_OURS) or not path.is_file():
                continue
            if path.suffix == ".md" and (paths or name in PROSE):
                yield from in_page(where, path.read_text("utf-8"))
            elif path.suffix == ".py" and (paths or name in CODE):
                yield from in_code(where, path.read_text("utf-8"))


def main() -> int:
    found = sorted(set(everything(sys.argv[1:])))
    sys.stdout.write("".join(f"{one}\n" for one in found))
    sys.stdout.write(f"{len(found)} to reword\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
