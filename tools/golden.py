"""Record the output of every command for every test node, topology and log, and compare two recordings.

    python -m tools.golden texts FOLDER                  once, before a change: extract the texts in tests
    python -m tools.golden record OUT --inputs FOLDER    run every command; FOLDER was written by `texts`
    python -m tools.golden compare BEFORE AFTER          exit with 1 if any output differs
    python -m tools.golden compare --structure ...       ignore wording

A change that moves code must keep every output byte for byte. A change of wording must keep exit codes, and
JSON except for sentences. `record` runs each command in this process and stores its exit code, standard
output and standard error. Commands that need a real machine (a live doctor, ssh, bench, prove, probe) are
not recorded; tests and the lab cover them.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import difflib
import hashlib
import io
import json
import os
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
TEXTS_OF = ("verdict", "facts", "rules", "cli", "loader", "explain", "jobs", "messages")
"""Folders of tests whose string literals are pasted texts, logs and command outputs."""
TABLES = ("messages/*.py", "programs/**/*messages.py", "programs/proofs.py")
"""Tables of messages, whose string literals are lines of programs."""
CONSUMERS = ("nccl", "ucx", "verbs")
MODULES = ("nvidia_peermem", "nvidia", "mlx5_ib")
STYLES = ("nagios", "npd", "slurm")
KINDS = (
    "modules-load", "modprobe", "gpu-operator", "network-operator", "machineconfig", "butane", "talos",
    "cloud-init", "nccl-env", "udev", "systemd",
)  # fmt: skip
COMMANDS = (
    "doctor", "explain", "nccl", "topo", "modprobe", "fix", "estimate", "bench", "prove", "collect", "probe",
    "codes", "schema", "config", "completion",
)  # fmt: skip
DOCUMENTS = ("report", "explanation", "nccl", "topology", "estimate", "cost", "bench", "fix", "modprobe")

Call = tuple[str, tuple[str, ...]]
"""The name of a recording, and the arguments of `gdr`."""


# -- inputs --------------------------------------------------------------------------------------------


def freeze_texts(folder: Path) -> int:
    """Write each long string literal of the tests to a file; return the number of files."""
    texts = folder / "texts"
    texts.mkdir(parents=True, exist_ok=True)
    sources = [path for name in TEXTS_OF for path in (ROOT / "tests" / name).glob("*.py")]
    for path in (*sources, *(path for table in TABLES for path in (ROOT / "src/gdrkit").glob(table))):
        for text in _literals(ast.parse(path.read_text("utf-8"))):
            content = text.encode("utf-8", "replace")
            (texts / f"{hashlib.sha1(content).hexdigest()[:12]}.txt").write_bytes(content)
    return len(list(texts.iterdir()))


def _literals(tree: ast.Module) -> Iterator[str]:
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if len(text) > 30 and id(node) not in docstrings:
                yield text


def build_nodes(folder: Path, only: Sequence[str] = ()) -> dict[str, str]:
    """Build each node of tests/evidence in a folder, or `only` these, once; return the paths by name."""
    from tests.evidence_nodes import build, names

    paths = {}
    for name in only or names():
        target, mark = folder / "nodes" / name, folder / "nodes" / f"{name}.path"
        if not mark.exists():
            target.mkdir(parents=True, exist_ok=True)
            mark.write_text(str(build(name, target)))
        path = mark.read_text()
        paths[name] = str(ROOT / "tests" / "evidence" / name / Path(path).name) if "bundle" in path else path
    return paths


# -- calls ---------------------------------------------------------------------------------------------


def calls_of_node(name: str, path: str) -> Iterator[Call]:
    """Every command that takes a node, with the options that change what it reads."""
    for consumer in CONSUMERS:
        yield f"{name}.doctor.{consumer}.json", ("doctor", path, "--json", "--consumer", consumer)
        yield f"{name}.fix.{consumer}.json", ("fix", path, "--json", "--consumer", consumer)
    yield f"{name}.doctor.txt", ("doctor", path, "-v")
    yield f"{name}.doctor.line", ("doctor", path, "--line")
    for style in STYLES:
        yield f"{name}.doctor.{style}", ("doctor", path, "-q", "--exit-style", style, "--require", "direct")
    for module in MODULES:
        yield f"{name}.modprobe.{module}.json", ("modprobe", module, path, "--json")
        yield f"{name}.modprobe.{module}.txt", ("modprobe", module, path)
    yield f"{name}.fix.txt", ("fix", path)
    yield f"{name}.fix.module.json", ("fix", path, "--module", "--json")
    for command in ("topo", "estimate"):
        yield f"{name}.{command}.json", (command, path, "--json")
        yield f"{name}.{command}.txt", (command, path)
    yield f"{name}.topo.nccl.json", ("topo", path, "--json", "--nccl", "2.27.5")
    yield f"{name}.cost.json", ("estimate", path, "--model", "llama-3-70b", "--tp", "16", "--json")
    for kind in KINDS:
        yield f"{name}.config.{kind}", ("config", kind, path, "--explain")


def calls_of_text(path: Path, text: bool) -> Iterator[Call]:
    """The commands that take a pasted text or a log."""
    yield f"text-{path.name}.explain.json", ("explain", str(path), "--json")
    yield f"text-{path.name}.nccl.json", ("nccl", str(path), "--json")
    if text:
        yield f"text-{path.name}.explain.txt", ("explain", str(path))
        yield f"text-{path.name}.nccl.txt", ("nccl", str(path))
        yield f"text-{path.name}.config-check", ("config", "check", str(path))


def calls_of_topology(path: Path) -> Iterator[Call]:
    """The commands that take a topology file."""
    yield f"topo-{path.name}.json", ("topo", str(path), "--json")
    yield f"topo-{path.name}.txt", ("topo", str(path))
    for version in ("2.18.1", "2.23.4", "2.27.5", "2.30.7"):
        yield f"topo-{path.name}.{version}", ("topo", str(path), "--nccl", version)
    yield f"topo-{path.name}.estimate", ("estimate", str(path), "--json")


def calls_without_input() -> Iterator[Call]:
    """The commands without input: help, schemas, codes, completion, and the kinds of configuration."""
    for command in COMMANDS:
        yield f"help.{command}", (command, "--help")
    yield "help", ("--help",)
    for document in DOCUMENTS:
        yield f"schema.{document}", ("schema", document)
    yield "codes", ("codes",)
    yield "codes.json", ("codes", "--json")
    for path in sorted((ROOT / "docs" / "codes").glob("*.md")):
        yield f"codes.{path.stem}", ("codes", path.stem)
    for shell in ("bash", "zsh", "fish"):
        yield f"completion.{shell}", ("completion", shell)
    yield "config.list", ("config", "--list", "--explain")


def all_calls(inputs: Path) -> list[Call]:
    """Every call on every input."""
    found = list(calls_without_input())
    for name, path in build_nodes(inputs).items():
        found += calls_of_node(name, path)
    for path in sorted((inputs / "texts").iterdir()):
        found += calls_of_text(path, text=True)
    for path in sorted(ROOT.glob("tests/evidence/*/sos_commands/**/*.log")):
        found += calls_of_text(path, text=False)
    shared = Path(os.environ.get("GDRKIT_SHARED", ROOT.parent / "shared")) / "data"
    for path in sorted(shared.rglob("*")):
        if path.suffix == ".xml":
            found += calls_of_topology(path)
        elif path.suffix in (".txt", ".log", ".md") and path.stat().st_size < 2_000_000:
            found += calls_of_text(path, text=False)
    for path in sorted(ROOT.glob("tests/**/*.xml")):
        found += calls_of_topology(path)
    return found


# -- recording -----------------------------------------------------------------------------------------


def record(out: Path, inputs: Path, workers: int, only: str) -> int:
    """Run every call and write its output to a file of its name; return the number of calls."""
    calls = [call for call in all_calls(inputs) if re.search(only, call[0])]
    out.mkdir(parents=True, exist_ok=True)
    for old in out.iterdir():
        old.unlink()
    with ProcessPoolExecutor(workers) as pool:
        for label, output in pool.map(_one, calls, chunksize=16):
            (out / label).write_text(_without_folders(output, inputs), "utf-8")
    return len(calls)


def _one(call: Call) -> tuple[str, str]:
    from gdrkit.cli import main

    warnings.simplefilter("ignore")
    label, arguments = call
    out, error = io.StringIO(), io.StringIO()
    code: object
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        try:
            code = main([*arguments, "--debug"])
        except SystemExit as stopped:
            code = stopped.code
        except Exception as fault:  # an internal error is recorded too
            code = f"{type(fault).__name__}: {fault}"
    return label, f"exit {code}\n--- out\n{out.getvalue()}--- err\n{error.getvalue()}"


def _without_folders(output: str, inputs: Path) -> str:
    """The output with placeholders for the folders of this checkout and of the inputs."""
    output = re.sub(r'"generated(_at)?":"[^"]*"', '"generated":"-"', output)
    return (
        output.replace(str(inputs), "INPUTS").replace(str(ROOT), "ROOT").replace(str(ROOT.parent), "ABOVE")
    )


# -- comparing -----------------------------------------------------------------------------------------


def differences(before: Path, after: Path, structure: bool = False) -> Iterator[tuple[str, str]]:
    """The name and the diff of each recording that differs; JSON is indented for the diff."""
    names = sorted({path.name for folder in (before, after) for path in folder.iterdir()})
    for name in names:
        first, second = (_read(folder / name) for folder in (before, after))
        if structure:
            first, second = _structure(first), _structure(second)
        if first != second:
            rows = difflib.unified_diff(_lines(first), _lines(second), "before", "after", lineterm="", n=1)
            yield name, "\n".join(rows)


def _read(path: Path) -> str:
    return path.read_text("utf-8") if path.exists() else "not recorded\n"


def _structure(text: str) -> str:
    """The exit code, and each JSON document with every sentence replaced by an ellipsis."""
    code, *rows = text.splitlines()
    documents = [json.dumps(_without_sentences(found)) for row in rows for found in _parsed(row)]
    return "\n".join([code, *documents])


def _parsed(line: str) -> list[Any]:
    try:
        return [json.loads(line)] if line.startswith("{") else []
    except ValueError:
        return []


def _without_sentences(value: Any) -> Any:
    """A JSON value with every string that has a space replaced by an ellipsis."""
    if isinstance(value, dict):
        return {key: _without_sentences(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_sentences(item) for item in value]
    return "..." if isinstance(value, str) and " " in value else value


def _lines(text: str) -> list[str]:
    return [row for line in text.splitlines() for row in _laid_out(line)]


def _laid_out(line: str) -> Iterable[str]:
    documents = _parsed(line)
    return json.dumps(documents[0], indent=1, ensure_ascii=False).splitlines() if documents else [line]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.golden", description=(__doc__ or "").split("\n")[0]
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("texts").add_argument("folder", type=Path)
    recording = verbs.add_parser("record")
    recording.add_argument("out", type=Path)
    recording.add_argument("--inputs", type=Path, required=True, help="folder that `texts` wrote")
    recording.add_argument("--only", default="", metavar="PATTERN", help="record only names that match")
    recording.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    comparing = verbs.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    comparing.add_argument("--structure", action="store_true", help="ignore sentences in JSON, and text")
    comparing.add_argument("--lines", type=int, default=12, help="lines to show of each difference")
    options = parser.parse_args(arguments)
    if options.verb == "texts":
        sys.stdout.write(f"{freeze_texts(options.folder)} texts\n")
        return 0
    if options.verb == "record":
        sys.stdout.write(f"{record(options.out, options.inputs, options.workers, options.only)} outputs\n")
        return 0
    found = list(differences(options.before, options.after, options.structure))
    for name, rows in found:
        shown = rows.splitlines()[2 : 2 + options.lines]
        sys.stdout.write(f"{name}\n" + "".join(f"    {row[:200]}\n" for row in shown))
    sys.stdout.write(f"{len(found)} differ\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
