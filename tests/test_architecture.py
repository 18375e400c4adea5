"""The tree is the pipeline: a room imports what stands above it; pure ones touch no machine."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "gdrkit"
ROOMS = (
    "evidence", "node", "formats", "facts", "messages", "topology", "estimate", "nccl", "consumers",
    "rules", "loader", "verdict", "platforms", "remedies", "config", "report", "diagnosis", "collect",
    "probe", "host", "native", "apply", "transport", "measure", "fleet", "cli",
)  # fmt: skip
PURE = ROOMS[: ROOMS.index("diagnosis") + 1]
MACHINE = {"os", "subprocess", "socket", "ctypes", "time", "pathlib", "shutil", "tempfile", "signal", "mmap"}
HEAVY = {
    "rich",
    "asn1crypto",
    "cryptography",
    "subprocess",
    "json",
    "xml",
    "pathlib",
    "lzma",
    "typing_extensions",
}
ALONE = ("collect", "probe")
"""Rooms that also run by themselves on a node with an old Python, and import nothing else of ours."""
SENT = ("native", "transport", "measure")
"""Rooms that move bytes, apart from all that judges; they go to other nodes, with the standard library."""
FILES = sorted(SOURCE.rglob("*.py"))


def room(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(tree: ast.AST) -> set[str]:
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module)
    return names


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_imports_only_from_its_room_and_above(path):
    here = room(path)
    if here == "__init__":
        return
    for name in imports(ast.parse(path.read_text())):
        if not name.startswith("gdrkit."):
            continue
        there = name.split(".")[1]
        assert there == here or (ROOMS.index(there) < ROOMS.index(here) and here not in ALONE), name


@pytest.mark.parametrize(
    "path", [p for p in FILES if room(p) in PURE], ids=lambda p: str(p.relative_to(SOURCE))
)
def test_a_pure_module_touches_no_machine(path):
    assert not {name.split(".")[0] for name in imports(ast.parse(path.read_text()))} & MACHINE


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_nothing_heavy_is_imported_before_it_is_needed(path):
    if room(path) in (*ALONE, *SENT):
        return
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            assert not {name.split(".")[0] for name in imports(ast.Module([node], []))} & HEAVY


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_modules_and_functions_keep_to_their_size(path):
    text = path.read_text()
    assert text.count("\n") <= 400
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            assert (node.end_lineno or 0) - node.lineno < 50, node.name
