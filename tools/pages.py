"""Write the generated files: a page for each finding code, the glossary, the commands, the index for agents,
the ordinary words.

`uv run python tools/pages.py` writes them; with --check it only lists outdated files, and exits 1 if any.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import textwrap
from pathlib import Path

import yaml

from gdrkit.cli import GROUPS
from gdrkit.cli.described import described
from gdrkit.report.glossary import GLOSSARY, Term
from gdrkit.report.pages import page, titles

ROOT = Path(__file__).parent.parent
CODES = ROOT / "docs" / "codes"
WORDS = ROOT / "src" / "gdrkit" / "agent" / "collect" / "ordinary_words.py"
READERS = ("programs", "facts", "loader", "messages")
"""Packages whose texts are words of evidence: paths, keys, lines of programs."""
WORD = re.compile(r"(?<![a-z0-9])[a-z]{5,}(?![a-z0-9])")
"""A shorter one is left alone anyway: is_identifying() in agent/collect/anonymize.py."""
WORDS_MODULE = '''"""Words that are common in kernel logs and settings, or that gdrkit looks for in evidence.

As names of machines or users they identify nothing, and replacing them would destroy the text: on a machine
called `options`, modprobe.d would have no options. Written by tools/pages.py; others are in usual_words.py.
"""

from .usual_words import USUAL

_WORDS = """
{words}
"""
ORDINARY = USUAL.union(_WORDS.split())
'''


def wanted() -> dict[Path, str]:
    """Every generated file and its content."""
    files = {CODES / f"{row.code}.md": page(row.code) for row in titles()}
    rows = "".join(f"| {row.layer} | [{row.code}]({row.code}.md) | {row.title} |\n" for row in titles())
    files[CODES / "index.md"] = f"# Finding codes\n\n| layer | code | what it is |\n|---|---|---|\n{rows}"
    files[ROOT / "docs" / "glossary.md"] = glossary_page()
    files[ROOT / "docs" / "commands.md"] = commands_page()
    files[ROOT / "docs" / "llms.txt"] = index_for_agents()
    files[WORDS] = words_module()
    return files


def glossary_page() -> str:
    """The glossary as Markdown: docs/glossary.md."""
    rows = "".join(f"| {entry.name} | {_linked(entry)} |\n" for entry in GLOSSARY)
    return (
        "# Glossary\n\n`gdr codes WORD` prints one entry, for example `gdr codes PXB`.\n\n"
        f"| word | meaning |\n|---|---|\n{rows}"
    )


def _linked(entry: Term) -> str:
    links = ", ".join(f"[{code}](codes/{code}.md)" for code in entry.codes)
    return f"{entry.text} See {links}." if links else entry.text


def index_for_agents() -> str:
    """The pages of the manual, each with its first sentence, in the form of llmstxt.org."""
    settings = (ROOT / "mkdocs.yml").read_text("utf-8")
    contents = yaml.safe_load(settings[settings.index("\nnav:") :])["nav"]
    rows = ["# gdrkit", "", "> Does GPU memory reach the network directly on this machine? If not, why?"]
    for section in contents:
        ((title, entries),) = section.items()
        rows += ["", f"## {title}", ""]
        rows += [
            f"- [{name}]({path}): {first_sentence(path)}"
            for entry in entries
            for name, path in entry.items()
        ]
    return "\n".join(rows) + "\n"


def first_sentence(path: str) -> str:
    """Of a page of the manual, past its blocks, tables and lists."""
    text = (ROOT / "docs" / path).read_text("utf-8")
    text = re.sub(r"<!--.*?-->|```.*?\n```|\[([^]]*)\]\([^)]*\)", r"\1", text, flags=re.DOTALL)
    paragraphs = [" ".join(part.split()) for part in text.split("\n\n")[1:]]
    prose = next((part for part in paragraphs if re.match(r"`?\w", part)), "")
    return re.split(r"(?<=[.?]) ", prose)[0].rstrip(":")


def words_module() -> str:
    """The module of the words that readers of evidence have in their texts."""
    words: set[str] = set()
    for reader in READERS:
        for path in (ROOT / "src" / "gdrkit" / reader).rglob("*.py"):
            words |= words_of(path.read_text("utf-8"))
    indent = " " * 4
    listed = textwrap.fill(" ".join(sorted(words)), 108, initial_indent=indent, subsequent_indent=indent)
    return WORDS_MODULE.format(words=listed)


def words_of(source: str) -> set[str]:
    """The words in the texts of a module, without its docstrings."""
    tree = ast.parse(source)
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    words: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str() | bytes() as text) if id(node) not in documentation:
                decoded = text.decode("latin-1") if isinstance(text, bytes) else text
                words.update(WORD.findall(decoded.lower()))
    return words


def commands_page() -> str:
    """Every command with its arguments, options, examples and exit codes, as its parser describes them."""
    rows = ["# Commands", "", "`gdr help COMMAND` prints the same, and `gdr man COMMAND` as a manual page."]
    for group, commands in GROUPS.items():
        rows += ["", f"## {group.capitalize()}", ""]
        rows += [f"- [gdr {name}](#gdr-{name.replace(' ', '-')}): {line}" for name, line in commands.items()]
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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if one is out of date")
    check = parser.parse_args().check
    files = wanted()
    stale = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    gone = [path for path in CODES.glob("*.md") if path not in files]
    for path in (*stale, *gone):
        sys.stdout.write(f"{path.relative_to(ROOT)}\n")
    if check:
        return 1 if stale or gone else 0
    CODES.mkdir(parents=True, exist_ok=True)
    for path in stale:
        path.write_text(files[path])
    for path in gone:
        path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
