"""Adding a program takes one file and one line, and changes nothing for the others."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from gdrkit.facts.wheels import LibraryCopy
from gdrkit.programs.consumer import Consumer, PathSupport, RequiredFiles
from gdrkit.programs.old_copies import does_not_detect, version_too_old
from gdrkit.rules.capabilities import Path as Way
from gdrkit.rules.rule import Failed, NotApplicable, Outcome, Passed
from tests.evidence_nodes import build
from tests.rules.machines import Files, driver, loaded, node

SOURCE = Path(__file__).parent.parent.parent / "src"
NODES = (
    "rhel-9-mofed",
    "ubuntu-6.8-h100",
    "zgx-3285",
    "volta-proprietary",
    "no-rdma-device",
    "acs-redirect",
)
PEERMEM_ALONE = """
from gdrkit.programs.consumer import Consumer, PathSupport, RequiredFiles, Switch
from gdrkit.rules.capabilities import Path

MADE_UP = Consumer(
    name="made_up",
    title="Made-up",
    uses=(
        PathSupport(
            path=Path.PEERMEM,
            since=(2,),
            required_files=(RequiredFiles((1,), ("sys/module/nvidia_peermem/version",), "here"),),
        ),
        PathSupport(path=Path.STAGED),
    ),
    switches=(
        Switch(name="MADE_UP_GDR", closes=(Path.PEERMEM,), off=lambda value: value == "0", source="here"),
    ),
)
"""
NO_DIRECT_PATH = """
from gdrkit.programs.consumer import Consumer, PathSupport
from gdrkit.rules.capabilities import Path

MADE_UP = Consumer(name="made_up", title="Made-up", uses=(PathSupport(path=Path.STAGED),))
"""
RUN = """
import contextlib, io, json, sys
from gdrkit.cli import main
said = []
for arguments in json.loads(sys.stdin.read()):
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        code = main(arguments)
    said.append((code, output.getvalue()))
print(json.dumps(said))
"""


class Trees(NamedTuple):
    """Folders of sources: the original, and one with another program."""

    before: Path
    after: Path


def with_one_more(folder: Path, declaration: str) -> Trees:
    """A copy of the sources with another program."""
    shutil.copytree(SOURCE, folder / "src")
    programs = folder / "src" / "gdrkit" / "programs"
    (programs / "made_up").mkdir()
    (programs / "made_up" / "consumer.py").write_text(declaration)
    names = programs / "names.py"
    changed, lines = re.subn(r"(?ms)^(NAMES = \([^)]*?),?\s*\)$", r'\1, "made_up")', names.read_text())
    assert lines == 1
    names.write_text(changed)
    return Trees(SOURCE, folder / "src")


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return {name: str(build(name, tmp_path_factory.mktemp(name))) for name in NODES}


@pytest.fixture(scope="module")
def peermem_alone(tmp_path_factory: pytest.TempPathFactory) -> Trees:
    return with_one_more(tmp_path_factory.mktemp("one"), PEERMEM_ALONE)


@pytest.fixture(scope="module")
def no_direct_path(tmp_path_factory: pytest.TempPathFactory) -> Trees:
    return with_one_more(tmp_path_factory.mktemp("none"), NO_DIRECT_PATH)


@functools.cache
def say(source: Path, *calls: tuple[str, ...]) -> tuple[tuple[int, str], ...]:
    """The exit code and output of each `gdr` call, in a separate process with these sources."""
    done = subprocess.run(
        [sys.executable, "-c", RUN], input=json.dumps(calls), capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    return tuple((code, text) for code, text in json.loads(done.stdout))


def without_made_up(text: str) -> dict[str, Any]:
    """A report without the new program; judgements without their keys, by pair."""
    report: dict[str, Any] = json.loads(text)
    report["consumers"].pop("made_up", None)
    told = {key: sorted(_each(judgement)) for key, judgement in report.pop("judgements").items()}
    for pair in report["pairs"]:
        pair["judgements"] = sorted(cell for key in pair["judgements"] for cell in told[key])
    report["cells"] = sorted({cell for cells in told.values() for cell in cells})
    return report


def _each(judgement: dict[str, Any]) -> Iterator[str]:
    for consumer in judgement.pop("consumers"):
        if consumer != "made_up":
            yield json.dumps({**judgement, "consumer": consumer}, sort_keys=True)


def states(text: str) -> dict[str, Any]:
    return {name: section["state"] for name, section in json.loads(text)["consumers"].items()}


# -- nothing changes for the others --------------------------------------------------------------------


@pytest.mark.parametrize("declared", ["peermem_alone", "no_direct_path"])
def test_the_rest_of_the_report_does_not_change(
    declared: str, machines: dict[str, str], request: pytest.FixtureRequest
):
    trees: Trees = request.getfixturevalue(declared)
    calls = [("doctor", "--json", path) for path in machines.values()]
    before, after = say(trees.before, *calls), say(trees.after, *calls)

    for name, (old_code, old), (new_code, new) in zip(machines, before, after, strict=True):
        assert "made_up" in states(new), name
        assert without_made_up(new) == without_made_up(old), name
        assert new_code == old_code, name


def test_fix_config_and_explain_do_not_change(
    peermem_alone: Trees, machines: dict[str, str], tmp_path: Path
):
    pasted = tmp_path / "pasted.txt"
    pasted.write_text("modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument\n")
    calls = [
        ("explain", str(pasted)),
        ("fix", machines["zgx-3285"]),
        ("fix", machines["acs-redirect"]),
        ("config", "nccl-env", machines["acs-redirect"]),
    ]

    assert say(peermem_alone.before, *calls) == say(peermem_alone.after, *calls)


# -- its own results ----------------------------------------------------------------------------------


def test_its_paths_follow_from_the_capabilities_that_it_needs(
    peermem_alone: Trees, machines: dict[str, str]
):
    calls = [("doctor", "--json", path) for path in machines.values()]
    for name, (_, text) in zip(machines, say(peermem_alone.after, *calls), strict=True):
        report = json.loads(text)
        cells = [cell for cell in report["judgements"].values() if cell["path"] == "peermem"]
        mine, verbs = (
            {
                (cell["direction"], cell["state"], *cell["blocked_by"])
                for cell in cells
                if who in cell["consumers"]
            }
            for who in ("made_up", "verbs")
        )
        assert mine == verbs, name  # which has no condition of its own either
        assert report["consumers"]["made_up"]["path"] == "peermem", name


def test_a_program_without_a_direct_path_is_reported_so(no_direct_path: Trees, machines: dict[str, str]):
    path = machines["rhel-9-mofed"]
    (_, usual), (_, text), (code, asked), (_, line) = say(
        no_direct_path.after, ("doctor", path), ("doctor", path, "--consumer", "all"),
        ("doctor", path, "--consumer", "made_up"), ("doctor", path, "--consumer", "made_up", "--line"),
    )  # fmt: skip

    assert "made_up" not in usual  # it is not installed
    assert "made_up: impossible; it copies through host memory" in text
    assert code == 0
    assert asked.startswith("IMPOSSIBLE  0 of 1 GPU reaches a NIC directly.")
    assert "made_up has no direct path." in asked
    assert line == "r9-gpu01: impossible made_up has no direct path\n"


def test_its_switch_disables_only_its_own_path(peermem_alone: Trees, tmp_path: Path):
    """A report about it has a warning; the others have a note, and their exit code."""
    path = build("rhel-9-mofed", tmp_path)
    system = path / "etc" / "environment"
    ask = ("doctor", "--json", str(path))
    ((old_code, old),) = say(peermem_alone.after, ask)
    system.write_text("MADE_UP_GDR=0\n")
    (new_code, new), (asked_code, asked) = say(peermem_alone.after, ask, (*ask, "--consumer", "made_up"))

    assert (states(old)["made_up"], states(new)["made_up"]) == ("ready", "blocked")
    assert {**states(new), "made_up": "ready"} == states(old)
    assert (old_code, new_code, asked_code) == (0, 0, 2)
    assert _statuses(new)["dmabuf-disabled-by-env"] == "note"
    assert _statuses(asked)["dmabuf-disabled-by-env"] == "warning"


def _statuses(text: str) -> dict[str, str]:
    return {finding["code"]: finding["status"] for finding in json.loads(text)["findings"]}


# -- its versions, as used by rules --------------------------------------------------------------------


def made_up(version: str) -> Consumer:
    return Consumer(
        name="made_up", title="Made-up", copies=lambda node: (LibraryCopy(version, "opt/made-up"),),
        uses=(
            PathSupport(
                path=Way.PEERMEM, since=(2,),
                required_files=(
                    RequiredFiles((3,), ("sys/module/nvidia_peermem/version",), "here"),
                    RequiredFiles((0,), ("sys/kernel/mm/memory_peers/nv_mem/version",), "here"),
                ),
            ),
        ),
    )  # fmt: skip


@pytest.mark.parametrize(("version", "kind"), [("1.9", Failed), ("2.0", Passed), ("10.1", Passed)])
def test_a_rule_checks_whether_its_version_has_a_path(version: str, kind: type):
    assert isinstance(version_too_old(node(), made_up(version), "peermem"), kind)


@pytest.mark.parametrize(("version", "kind"), [("2.9", Failed), ("3.0", Passed)])
def test_a_rule_checks_whether_its_version_finds_the_module(version: str, kind: type):
    assert isinstance(does_not_detect(node(loaded("nvidia_peermem")), made_up(version)), kind)
    assert isinstance(does_not_detect(node(), made_up(version)), NotApplicable)


LEGACY_FILE, LISTED = (
    "sys/module/nv_peer_mem/version",
    {"sys/kernel/mm/memory_peers/nv_mem/version": "1.1\n"},
)


def with_legacy_client(version: str, driver_version: str = "570.158.01", *files: Files) -> Outcome:
    """The outcome where nv_peer_mem is loaded and a program looks for its own file from version 3 on."""
    row = RequiredFiles((3,), ("sys/module/nvidia_peermem/version", LEGACY_FILE), "here")
    use = PathSupport(
        path=Way.PEERMEM, since=(2,), required_files=(row, made_up(version).uses[0].required_files[1])
    )
    machine = node(loaded("nvidia", "nv_peer_mem"), driver(driver_version), *files)
    return does_not_detect(machine, replace(made_up(version), uses=(use,)))


def test_nv_peer_mem_is_found_by_its_own_file_and_in_the_folder_of_clients_only():
    """UCX looks for /sys/module/nv_peer_mem, NCCL and NVSHMEM do not: no newer version of theirs helps."""
    assert isinstance(with_legacy_client("3.0"), Passed)
    old = with_legacy_client("2.9")
    assert isinstance(old, Failed) and (old.expected, old.advice) == ("Made-up 3 or newer", "")
    assert isinstance(with_legacy_client("2.9", "570.158.01", LISTED), Passed)

    blind = does_not_detect(node(loaded("nvidia", "nv_peer_mem"), driver()), made_up("3.0"))
    assert isinstance(blind, Failed) and blind.expected == "nvidia_peermem instead of nv_peer_mem"
    assert "modprobe nvidia-peermem" in blind.advice


def test_nv_peer_mem_is_a_client_to_find_with_newer_drivers_too():
    """It does not look at the version of page tables, which 580.65.06 raised."""
    assert isinstance(with_legacy_client("2.9", driver_version="580.95.05"), Failed)
