"""List wording that a native engineer would not use, and names that were replaced.

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
    r"(?<!there[ ])(?<!There[ ])\b(is|are|was|were) no (?!(longer|more|less|better)\b)": "is not a",
    r"\b(no|some)body\b|\bwho(m)?ever\b": "someone, anyone who; or the passive",
    r"\b(tell|tells|told|telling) of\b": "report, show",
    r"\b(say|says|said) nothing\b|\bnothing of\b": "does not show",
    r"\bto be had\b|\b(can|could|may|might|will)(not)? (not )?be had\b": "is not available",
    r"\bit is so\b|\bnone is known to\b|\bof no form\b": "already done; unrecognized",
    r"\bWhat would tell\b|\bfits too\b": "To find out, run; consistent with",
    r"\b(the|in|between) rooms?\b": "package",
    r"\b(PURE|EDGE)\.": "delete: a test proves it",
    r"\bmend(s|ed|ing)?\b": "fix, repair",
    r"\bhang(s)? on\b": "depends on",
    r"\bin vain\b|\bon end\b|\b(goes|go) before\b": "uselessly; concatenated; takes precedence",
    r"\b(stand|stands|stood) (in|on|at|behind|beside|above|below|between|outside|before|after|under)\b":
        "is, lies, appears",
    r"\b(stand|stands|stood) (there|twice|once|alone|where|of|with|right|left|next|still|open|as|a|the)\b":
        "is, lies, appears",
    r"\bwhat (stands|stood|hangs|hung)\b": "what is",
    r"\b(is|are|was|were|be|being|been) told\b": "is given, is configured with",
    r"\bwish(es|ed)?\b": "request, option",
    r"\bturn(s|ed)? (down|away)\b": "reject",
    r"\b(speak|speaks|speaking|spoke) (of|for)\b": "describes, applies to",
    r"\b(come|comes|came|become|becomes|became) of\b": "result of",
    r"\bgets? at\b|\blet(s)? (a|the) \w+ at\b": "reach, access",
    r"\bat hand\b": "available",
    r"\bwitness(es|ed)?\b": "observation, second source",
}  # fmt: skip
"""The patterns, and what to write instead. A space in a pattern matches any white space."""

OLD_NAMES = {
    "Lacks", "Shelf", "Words", "Sign", "Said", "Heard", "Ruling", "Judgement", "Filling", "Emptying",
    "Ends", "Doer", "Undoer", "Wish", "Order", "Patience", "Mapped", "WireChannel", "Witness",
    "Witnessed", "Tell", "At", "Bearer", "Loading", "Hidden", "aside", "attend", "notice", "agreement",
    "meeting", "patience", "in_the_way", "nobody_looked", "handed_over", "witness",
    "lacks", "shelf",
}  # fmt: skip
"""Names that newcomers did not understand: no module, class, function or field may have them."""


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
    """The matches in comments and docstrings; in src/ also in other strings, and old names."""
    tree = ast.parse(text)
    ours = path.startswith("src/")
    docstrings = {part.lineno for part in ast.walk(tree) if _is_bare_string(part)}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        is_text = token.type == tokenize.STRING and (ours or token.start[0] in docstrings)
        if (is_text or token.type == tokenize.COMMENT) and MARK not in token.line:
            yield from in_text(path, token.start[0], re.sub(r"`[^`\n]*`", "``", token.string))
    if ours:
        for name, line in [*_defined(tree), (Path(path).stem, 1)]:
            if name.lstrip("_") in OLD_NAMES:
                yield Found(path, line, name, "a replaced name")


def _is_bare_string(part: ast.AST) -> bool:
    """Whether a statement is a docstring of a module, class, function or attribute."""
    return (
        isinstance(part, ast.Expr)
        and isinstance(part.value, ast.Constant)
        and isinstance(part.value.value, str)
    )


def _defined(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """The names of classes, functions, methods, parameters and fields, with their lines."""
    for part in ast.walk(tree):
        if isinstance(part, ast.ClassDef | ast.FunctionDef):
            yield part.name, part.lineno
        elif isinstance(part, ast.arg):
            yield part.arg, part.lineno
        elif isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
            yield part.target.id, part.lineno


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
