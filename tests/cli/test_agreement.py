"""`gdr config check`, `gdr nccl` and `gdr explain` do not contradict each other on one text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gdrkit.cli import main
from gdrkit.rules import BY_CODE
from tests.jobs.samples import info

LOCAL = info("n1:7", 0, "comm 0x1 rank 0 nRanks 8 nNodes 1 localRanks 8 localRank 0 MNNVL 0")
REMOTE = info("n1:7", 0, "comm 0x1 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0")
DISABLED = info("n1:7", 0, "NCCL_IB_DISABLE set by environment to 1.", "Using network Socket")
POD = (
    "apiVersion: v1\nkind: Pod\nmetadata:\n  name: job\nspec:\n"
    "  containers:\n  - name: job\n    image: job\n"
    '    env:\n    - name: {}\n      value: "{}"\n'
)
TEXTS = (
    "NCCL_NET_GDR_LEVEL=ALL\n",
    "export NCCL_NET_GDR_LEVEL=everything\nexport NCCL_IB_HCA=mlx5_0\n",
    POD.format("NCCL_NET_GDR_LEVEL", "near"),
    POD.format("NCCL_NET_GDR_LEVEL", "SYS"),
    POD.format("NCCL_IB_DISABLE", "1"),
    f"$ NCCL_NET_GDR_LEVEL=far mpirun -np 2 ./job\n{REMOTE}",
    f"export NCCL_NET_GDR_LEVEL=PIX\n{REMOTE}",
    DISABLED + REMOTE,
    DISABLED + LOCAL,
    LOCAL,
)


@pytest.fixture
def answers(tmp_path: Path, capsys):
    """What each of the three commands says about one text."""

    def run(text: str) -> dict[str, dict]:
        path = tmp_path / "text"
        path.write_text(text)
        found = {}
        for name, words in (("check", ("config", "check")), ("nccl", ("nccl",)), ("explain", ("explain",))):
            main([*words, "--json", str(path)])
            found[name] = json.loads(capsys.readouterr().out)
        return found

    return run


def shown(explanation: dict) -> set[str]:
    """Every code that an explanation has, as proven, as a note or as open."""
    found = {cause["code"] for cause in explanation["answer"]["others"]} | {explanation["answer"]["cause"]}
    for machine in explanation["machines"]:
        found |= {problem["code"] for problem in (*machine["established"], *machine["notes"])}
        found |= {cause["code"] for line in machine["open"] for cause in line["causes"]}
    return found


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_what_one_command_finds_the_other_does_not_deny(answers, text: str):
    said = answers(text)
    faults = {fault["code"] for fault in said["check"]["faults"]} & BY_CODE.keys()
    failing = {one["code"] for one in said["nccl"]["findings"] if one["status"] in ("failed", "warning")}

    assert (faults | failing) - shown(said["explain"]) == set()


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_a_note_of_one_command_is_no_cause_of_the_other(answers, text: str):
    said = answers(text)
    notes = {one["code"] for one in said["nccl"]["findings"] if one["status"] == "note"}

    assert said["explain"]["answer"]["cause"] not in notes


def test_a_network_that_is_off_matters_only_where_one_is_needed(answers):
    assert answers(DISABLED + REMOTE)["explain"]["answer"]["cause"] == "ib-disabled-by-env"
    assert answers(DISABLED + LOCAL)["explain"]["answer"]["cause"] is None
