"""What holds for one program is not said of another: each is judged as if the others were not known."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gdrkit.diagnosis import diagnose
from gdrkit.evidence.target import open_host
from gdrkit.programs.names import ALWAYS, NAMES
from gdrkit.report.programs import shown_programs
from tests.evidence_nodes import build

NODES = ("ubuntu-6.8-h100", "zgx-3285", "gb200-force-pcie", "no-gpu")
ALONE = """
import json, sys
from pathlib import Path
import gdrkit.programs.names as names

kept, *paths = json.loads(sys.stdin.read())
names.NAMES = tuple(name for name in names.NAMES if name in kept)

from gdrkit.evidence.target import open_host
from gdrkit.node import Node
from gdrkit.verdict import judge_node

def told(path):
    verdict = judge_node(Node(open_host(path)))
    states = {s.consumer: [s.state, s.path, s.best_fallback, [j.codes for j in s.judgements],
                           s.initiated and [s.initiated.by, s.initiated.codes]] for s in verdict.states}
    return {name: states[name] for name in kept}

print(json.dumps([told(path) for path in paths]))
"""


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return [str(build(name, tmp_path_factory.mktemp(name))) for name in NODES]


def told(names: list[str], machines: list[str]) -> list[dict[str, Any]]:
    """The answers about these programs on each machine, by a gdrkit that knows no others."""
    done = subprocess.run(
        [sys.executable, "-c", ALONE], input=json.dumps([names, *machines]), capture_output=True, text=True,
        check=True, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def test_each_program_is_judged_as_if_it_were_the_only_one(machines: list[str]):
    together = told(list(NAMES), machines)

    for name in NAMES:
        alone = told([name], machines)
        for machine, all_of_it, only in zip(NODES, together, alone, strict=True):
            assert only[name] == all_of_it[name], (machine, name)


def test_the_programs_do_not_all_have_one_answer(machines: list[str]):
    """The comparison above would hold of programs that are all judged alike."""
    states = [{json.dumps(answer) for answer in one.values()} for one in told(list(NAMES), machines)]

    assert max(map(len, states)) > 4


@pytest.mark.parametrize("installed", [(), ("gdrcopy",), ("gds", "gdrcopy")])
def test_doctor_shows_two_programs_always_and_others_where_they_are(
    installed: tuple[str, ...], tmp_path: Path
):
    path = build("ubuntu-6.8-h100", tmp_path)
    for name in installed:
        library = {"gdrcopy": "libgdrapi.so.2", "gds": "libcufile.so.0"}[name]
        (path / "usr/lib/x86_64-linux-gnu").mkdir(parents=True, exist_ok=True)
        (path / "usr/lib/x86_64-linux-gnu" / library).write_bytes(b"")
    report = diagnose(open_host(str(path)))

    own = {"gdrcopy", "gds", "aws-ofi-nccl", "deepep", "mnnvl"}
    shown = set(shown_programs(report))
    assert set(ALWAYS) <= shown
    assert shown & own == set(installed)
    assert set(shown_programs(report, every=True)) == set(report.consumers) == set(NAMES)
    assert (report.verdict.consumer, report.verdict.state) == (NAMES[0], report.consumers[NAMES[0]].state)
