"""A package imports only packages before it, and pure packages do not access the machine."""

import ast
import functools
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from tools.architecture import FEATURES, ORDER, PICTURE, SOURCE, imports_of, package_of, picture

ROOT = Path(__file__).parent.parent
EDGES = (
    "agent/",
    "evidence/",
    "repair/apply/",
    "jobs/logs.py",
    "jobs/workers.py",
    "transport/",
    "cli/",
    "fleet/client.py",
    "fleet/folder.py",
    "fleet/pool.py",
    "fleet/launcher.py",
    "fleet/kubernetes.py",
    "fleet/pair_run.py",
    "fleet/processes.py",
    "fleet/ray.py",
    "fleet/ray_api.py",
    "fleet/run.py",
    "fleet/runs.py",
    "fleet/slurm.py",
    "fleet/worker.py",
)
"""Modules that access the machine; all others are pure."""
PURE_WITHIN = ("evidence/__init__.py", "transport/proof/")
"""Modules in these packages that are pure too."""
MACHINE = {"os", "subprocess", "socket", "ctypes", "time", "pathlib", "shutil", "tempfile", "signal", "mmap"}
HEAVY = {
    "rich", "asn1crypto", "cryptography", "subprocess", "json", "xml", "pathlib", "lzma",
    "typing_extensions", "yaml",
}  # fmt: skip
SENT = ("agent/", "transport/")
"""Packages that also run on other nodes, with only the standard library, and may import it at the top."""
FILES = sorted(SOURCE.rglob("*.py"))


def name_of(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def is_pure(path: Path) -> bool:
    return name_of(path).startswith(PURE_WITHIN) or not name_of(path).startswith(EDGES)


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def origins(tree: ast.AST) -> set[str]:
    """The packages that a tree imports from, ours and others."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module)
    return {name.split(".")[0] for name in names}


def too_early(path: Path) -> set[str]:
    """The packages that a file imports although they are later than its own, or another feature."""
    here = package_of(path)
    there = {name.split(".")[1] for name in imports_of(path) if name.startswith("gdrkit.")} & set(ORDER)
    if not here:
        return there
    features = set(FEATURES) - {here} if here in FEATURES else set()
    return {name for name in there if ORDER.index(name) > ORDER.index(here)} | there & features


def test_a_module_imports_only_from_its_package_and_earlier_ones():
    assert {name_of(path): found for path in FILES if (found := too_early(path))} == {}


def test_every_package_has_its_place_in_the_order():
    assert {package_of(path) for path in FILES} - {""} == set(ORDER)


def test_a_file_of_the_agent_imports_nothing_of_ours_but_the_agent():
    agent = [path for path in FILES if package_of(path) == "agent"]
    assert agent
    assert [(name_of(p), name) for p in agent for name in imports_of(p) if name.startswith("gdrkit")] == []


def test_the_picture_of_the_packages_is_up_to_date():
    assert PICTURE.read_text("utf-8") == picture(), "run `uv run python -m tools.architecture`"


def test_a_pure_module_does_not_access_the_machine():
    pure = {name_of(path): origins(tree_of(path)) & MACHINE for path in FILES if is_pure(path)}
    assert {name: found for name, found in pure.items() if found} == {}


def test_nothing_heavy_is_imported_before_it_is_needed():
    found = {
        name_of(path): heavy
        for path in FILES
        if not name_of(path).startswith(SENT)
        for node in tree_of(path).body
        if isinstance(node, ast.Import | ast.ImportFrom) and (heavy := origins(node) & HEAVY)
    }
    assert found == {}


def test_modules_and_functions_keep_to_their_size():
    """What a reader holds in mind at once."""
    long = [name_of(path) for path in FILES if path.read_text().count("\n") > 400]
    functions = (
        node for path in FILES for node in ast.walk(tree_of(path)) if isinstance(node, ast.FunctionDef)
    )
    long += [node.name for node in functions if (node.end_lineno or 0) - node.lineno >= 50]
    assert long == []


def modules(*roots: Path) -> dict[str, Path]:
    """The files of all modules in these packages, by import name."""
    return {
        ".".join(path.relative_to(root.parent).with_suffix("").parts).removesuffix(".__init__"): path
        for root in roots
        for path in root.rglob("*.py")
    }


def imported(name: str, path: Path, known: Mapping[str, Path]) -> Iterator[str]:
    """The modules of these packages that a file imports, also within functions and only for the type
    checker.

    The packages that contain an imported module are not included, although Python imports them first.
    """
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            source = ".".join([*above, *filter(None, [node.module])])
            for alias in node.names:
                module = f"{source}.{alias.name}"
                if module in known or source in known:
                    yield module if module in known else source


def circle(roots: tuple[Path, ...]) -> list[str]:
    """Modules that import each other in a circle, each the next one; [] if there is no circle."""
    known = modules(*roots)
    graph = {name: sorted(set(imported(name, path, known)) - {name}) for name, path in known.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


@pytest.mark.parametrize("roots", [(SOURCE,), (ROOT / "lab",)], ids=["gdrkit", "lab"])
def test_no_file_imports_itself_through_others(roots):
    found = circle(roots)
    assert not found, "a circle of imports: " + " -> ".join(found)


LINKS = {
    "absolute": "from chain.{} import thing",
    "as a module": "from chain import {} as other",
    "relative": "from .{} import thing",
    "relative module": "from . import {} as other",
    "dotted": "import chain.{}",
    "lazy": "def later():\n    from chain.{} import thing",
    "for types alone": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from chain.{} import thing",
}


@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
def test_a_circle_is_found_by_whatever_import_it_is_closed_and_is_named(tmp_path, link):
    package = tmp_path / "chain"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "top.py").write_text("from chain.middle import thing")
    (package / "middle.py").write_text("from chain.bottom import thing")
    (package / "bottom.py").write_text("thing = 1")
    assert circle((package,)) == []

    (package / "bottom.py").write_text(link.format("top"))
    names = [name.removeprefix("chain.") for name in circle((package,))]
    assert " ".join(names * 2).count("top middle bottom") and len(names) == 4
