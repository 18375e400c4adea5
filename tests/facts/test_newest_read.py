"""How far knowledge reaches, and what is less sure beyond it."""

from __future__ import annotations

import ast
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from gdrkit.evidence import Confidence
from gdrkit.facts.newest_read import NEWEST, is_newer, newest_read, table
from gdrkit.programs.mooncake.consumer import NEWEST_READ
from gdrkit.programs.nccl import releases
from gdrkit.programs.nccl.library_rules import nccl_lacks_dmabuf
from gdrkit.rules.engine import judge
from gdrkit.rules.p2p_page_table_version import p2p_page_table_version
from gdrkit.rules.rule import Failed, Passed
from tests.rules.machines import node


def test_each_program_has_one_row_with_a_date_that_exists():
    assert len({row.subject for row in NEWEST}) == len(NEWEST)
    assert all(row.release and row.read for row in NEWEST)
    assert all(date.fromisoformat(row.date) for row in NEWEST if row.date)


@pytest.mark.parametrize(("subject", "release"), [("NCCL", releases.NEWEST), ("Mooncake", NEWEST_READ)])
def test_a_program_with_a_table_of_its_own_has_the_same_end(subject: str, release: str):
    row = newest_read(subject)

    assert row is not None and row.release == release


@pytest.mark.parametrize(
    ("version", "newer"),
    [("2.32.3", False), ("2.32.6", True), ("2.33.0", True), ("2.4.2", False)],
)
def test_only_a_version_beyond_the_end_is_newer(version: str, newer: bool):
    assert is_newer("NCCL", version) is newer


@pytest.mark.parametrize(
    ("version", "newer"), [("6.14.0-37-generic", False), ("6.15.1", True), ("7.0", True)]
)
def test_a_build_of_the_newest_release_is_not_newer(version: str, newer: bool):
    assert is_newer("Linux", version) is newer


def test_a_program_without_a_row_is_never_newer():
    assert not is_newer("a program", "99")


@pytest.mark.parametrize(
    ("version", "outcome", "confidence"),
    [
        ("2.12.7", Failed, Confidence.CERTAIN),
        ("2.32.3", Passed, Confidence.CERTAIN),
        ("2.33.1", Passed, Confidence.LIKELY),
    ],
)
def test_what_rests_on_releases_is_likely_for_a_newer_one(
    version: str, outcome: type, confidence: Confidence
):
    machine = node({"sos_commands/nccl/a": f"NCCL version {version}+cuda13.4\n"})

    assert isinstance(judge(machine, nccl_lacks_dmabuf, "node"), outcome)
    trail = machine.trail(judge, nccl_lacks_dmabuf, "node")
    assert trail.confidence is confidence
    assert any("newer than 2.32.3" in source.text for source in trail.sources) is (version == "2.33.1")


def test_the_command_prints_the_table():
    run = subprocess.run([sys.executable, "-m", "gdrkit", "--version", "-v"], capture_output=True, text=True)

    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.endswith(table())
    assert "NCCL " in run.stdout


SOURCE = Path(__file__).parents[2] / "src" / "gdrkit"
EXEMPT = {
    "libraries._packaged_nccl": "a version's form",
    "facts.ucx_version": "a version's form",
    "module_state.kernel_match": "the loader, which is compared with kernels that run",
    "trust.untested_digest": "a digest that no kernel tests is open, whatever its release",
    "rules.efa_p2p_unavailable": "efa, of which no release ends what is known",
    "rules.libfabric_too_old": "libfabric, likewise",
    "rules._plugin_needs": "aws-ofi-nccl, likewise",
    "lock_inversion.lock_inversion": "a fault of old releases",
    "peermem_registration_refused._cause_is_gone": "a line of the log",
}
"""Functions that compare releases, and do not rest on newer ones being like those that were read."""


def _comparing_releases() -> dict[str, str]:
    """The functions of rules, facts and programs that compare the release of something on a node."""
    found = {}
    files = (*SOURCE.glob("rules/*.py"), *SOURCE.glob("facts/*.py"), *SOURCE.glob("programs/**/*.py"))
    for path in files:
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef) and any(a.arg == "node" for a in function.args.args):
                text = ast.unparse(function)
                if any(_compares_release(part) for part in ast.walk(function)):
                    found[f"{path.stem}.{function.name}"] = text
    return found


def _compares_release(part: ast.AST) -> bool:
    if not isinstance(part, ast.Compare):
        return False
    if not any(isinstance(op, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for op in part.ops):
        return False
    calls = (inner.func for inner in ast.walk(part) if isinstance(inner, ast.Call))
    return any(isinstance(called, ast.Name) and called.id in ("numbers", "version") for called in calls)


def test_each_claim_from_releases_says_where_knowledge_ends():
    found = _comparing_releases()
    silent = {name for name, text in found.items() if "cite" not in text}

    assert {"topology_refused.topology_refused", "old_copies.version_too_old"} <= found.keys()
    assert silent == EXEMPT.keys()


@pytest.mark.parametrize(
    ("driver", "confidence"), [("580.65.06", Confidence.CERTAIN), ("700.1.1", Confidence.LIKELY)]
)
def test_page_tables_of_a_newer_driver_are_likely_those_of_the_newest_read(
    driver: str, confidence: Confidence
):
    machine = node(
        {
            "proc/modules": "".join(
                f"{name} 24576 0 - Live 0x0000000000000000\n" for name in ("nvidia", "gdrdrv")
            ),
            "sys/module/nvidia/version": f"{driver}\n",
            "sys/module/nvidia/initstate": "live\n",
            "sys/module/gdrdrv/version": "2.6\n",
            "sys/module/gdrdrv/initstate": "live\n",
        }
    )
    outcome = judge(machine, p2p_page_table_version, "node")

    assert isinstance(outcome, Passed)
    assert machine.trail(judge, p2p_page_table_version, "node").confidence is confidence
