"""Record the output of every command for every test node, topology and log, and compare two recordings.

    python -m tools.golden freeze INPUTS                 once, before a change: write the inputs
    python -m tools.golden record OUT --inputs INPUTS    run every command on them
    python -m tools.golden compare BEFORE AFTER          exit with 1 if any output differs
    python -m tools.golden compare --structure ...       ignore wording

A change that moves code must keep every output byte for byte. A change of wording must keep exit codes, and
JSON except for sentences. `record` runs each command in this process and stores its exit code, standard
output and standard error; moments since its start become NOW. Commands that need a real machine (a live
doctor, bench, prove pair, probe, collect) are not recorded; tests and the lab cover them.

Each tree records itself: `record` imports the `gdrkit` of the Python that runs it, and asks it what there is
to record. The inputs are shared, so that a change of the tests takes nothing from a comparison.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import io
import json
import os
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any

from tools.golden_calls import RUN, Call, all_calls, fleet_run
from tools.golden_inputs import ROOT, freeze

SSH = """#!/usr/bin/env python3
import sys
sys.stdin.buffer.read()
with open(f"{records}/{{sys.argv[-2]}}.json") as file:
    sys.stdout.write(file.read())
"""
"""A program in place of ssh: sends the record of the node that it is to reach."""
MOMENT = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d)(:\d\d)?( ?UTC|Z|[+]00:00)?|\b(1\d{9}(?:\.\d+)?|1\.\d+e[+]09)\b"
)
CLOCK = re.compile(r"^\d\d:\d\d:\d\d(?= )", re.MULTILINE)
"""The time before a line of `gdr watch`."""


# -- recording -----------------------------------------------------------------------------------------


def record(out: Path, inputs: Path, workers: int, only: str) -> int:
    """Run every call and write its output to a file of its name; return the number of calls."""
    out.mkdir(parents=True, exist_ok=True)
    for old in out.iterdir():
        old.unlink()
    with tempfile.TemporaryDirectory(prefix="gdrkit-golden-") as scratch:
        _prepare(Path(scratch), inputs)
        begun = time.time()
        calls = [call for call in all_calls(inputs) if re.search(only, call[0])]
        places = {scratch: "SCRATCH", str(inputs): "INPUTS", str(ROOT): "ROOT", str(ROOT.parent): "ABOVE"}
        outputs = [_one(fleet_run(inputs))] if any(label.startswith("fleet") for label, _ in calls) else []
        _fix_run(Path(scratch))
        with ProcessPoolExecutor(workers) as pool:
            for label, output in chain(outputs, pool.map(_one, calls, chunksize=16)):
                (out / label).write_text(_without_places(_without_moments(label, output, begun), places))
    return len(calls)


def _prepare(scratch: Path, inputs: Path) -> None:
    """Give every call the same surroundings: no colours, no terminal, UTC, kept runs and ssh of our own."""
    program = scratch / "bin" / "ssh"
    program.parent.mkdir()
    program.write_text(SSH.format(records=inputs / "records"))
    program.chmod(0o755)
    for name in [name for name in os.environ if name.startswith(("NCCL_", "UCX_", "GDR"))]:
        del os.environ[name]
    os.environ |= {
        "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
        "XDG_STATE_HOME": str(scratch / "state"), "TZ": "UTC", "COLUMNS": "100",
        "NO_COLOR": "1", "LC_ALL": "C.UTF-8",
    }  # fmt: skip
    time.tzset()


def _fix_run(scratch: Path) -> None:
    """Give the run that was kept a name, a start and a duration that do not change."""
    for kept in scratch.glob("state/gdrkit/fleet/*.json"):
        run = json.loads(kept.read_bytes())
        run |= {"started": f"{RUN[:4]}-01-01T00:00:00Z", "seconds": 1.0}
        kept.unlink()
        kept.with_name(f"{RUN}.json").write_text(json.dumps(run))


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


def _without_moments(label: str, output: str, begun: float) -> str:
    """The output with NOW for each moment since the recording began; moments in evidence stay."""

    def now(found: re.Match[str]) -> str:
        if found[5]:
            moment, slack = float(found[5]), 1.0
        else:
            moment = datetime.fromisoformat(f"{found[1]}T{found[2]}{found[3] or ':00'}+00:00").timestamp()
            slack = 60.0
        return "NOW" if begun - slack <= moment <= time.time() + 1 else found[0]

    def checked(found: re.Match[str]) -> str:
        try:
            return now(found)
        except ValueError:  # looks like a moment, such as 2026-13-40 25:61
            return found[0]

    output = MOMENT.sub(checked, output)
    return CLOCK.sub("NOW", output) if label.startswith("watch") else output


def _without_places(output: str, places: dict[str, str]) -> str:
    """The output with placeholders for folders: this checkout, the inputs, this recording."""
    for path, name in places.items():
        output = output.replace(path, name)
    return output


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
    verbs.add_parser("freeze", help="write the inputs").add_argument("folder", type=Path)
    recording = verbs.add_parser("record")
    recording.add_argument("out", type=Path)
    recording.add_argument("--inputs", type=Path, required=True, help="folder that `freeze` wrote")
    recording.add_argument("--only", default="", metavar="PATTERN", help="record only names that match")
    recording.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    comparing = verbs.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    comparing.add_argument("--structure", action="store_true", help="ignore sentences in JSON, and text")
    comparing.add_argument("--lines", type=int, default=12, help="lines to show of each difference")
    options = parser.parse_args(arguments)
    if options.verb == "freeze":
        found = freeze(options.folder.resolve())
        sys.stdout.write(", ".join(f"{count} {kind}" for kind, count in found.items()) + "\n")
        return 0
    if options.verb == "record":
        sys.stdout.write(
            f"{record(options.out, options.inputs.resolve(), options.workers, options.only)} outputs\n"
        )
        return 0
    found = list(differences(options.before, options.after, options.structure))
    for name, rows in found:
        shown = rows.splitlines()[2 : 2 + options.lines]
        sys.stdout.write(f"{name}\n" + "".join(f"    {row[:200]}\n" for row in shown))
    sys.stdout.write(f"{len(found)} differ\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
