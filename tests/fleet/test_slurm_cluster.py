"""`gdr fleet doctor --slurm` on a real Slurm cluster of five nodes."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_streams import GDR
from tests.fleet.networks import FAST_MBIT_PER_S, NETWORK, SLOW_MBIT_PER_S, needs_networks, networks
from tests.fleet.slurm_cluster import NODES, cluster, needs_slurm

pytestmark = needs_slurm
PYTHON = """#!/bin/sh
echo $PPID >{folder}/asked-$SLURMD_NODENAME
[ ! -e {folder}/hangs-$SLURMD_NODENAME ] || exec sleep 600
cat >/dev/null
exec cat {bundle}
"""
"""What stands for python3 on the nodes, so that they answer at once, or never; $PPID is Slurm's process."""


@pytest.fixture(scope="module")
def slurm():
    with cluster() as running:
        yield running


class Nodes:
    """The cluster, with nodes that send a bundle at once or hang, and the folder in which runs are kept."""

    def __init__(self, slurm, folder: Path) -> None:
        self.slurm, self.folder = slurm, folder
        self.environment = {
            **slurm.environment,
            "PATH": f"{folder}/bin:{os.environ['PATH']}",
            "XDG_STATE_HOME": str(folder / "state"),
            "TMPDIR": str(folder),
        }

    def hang(self, *nodes: str) -> None:
        for node in nodes:
            (self.folder / f"hangs-{node}").touch()

    def start(self, *words: str, before: tuple[str, ...] = (), slurm: bool = True) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*before, *GDR, "fleet", "doctor", "--json", *(["--slurm"] if slurm else []), *words],
            env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def doctor(
        self, *words: str, before: tuple[str, ...] = (), slurm: bool = True
    ) -> dict[str, tuple[str, str]]:
        """Each node of a run with its standing and summary."""
        return rows(*self.start(*words, before=before, slurm=slurm).communicate(timeout=90))

    def asked(self) -> list[str]:
        return sorted(path.name.removeprefix("asked-") for path in self.folder.glob("asked-*"))

    def unjudged(self) -> int:
        """How many files for bundles there are: each is removed as soon as its node is judged."""
        return len(list(self.folder.glob("gdr-fleet-*/*.tar.gz")))

    def until_asked(self, node: str) -> Path:
        file = self.folder / f"asked-{node}"
        self.slurm.daemons.until(lambda: file.exists() and file.read_text())
        return file

    def bench(self, *words: str, timeout: float = 90) -> tuple[int, str, str]:
        """The exit code, the output and the errors of `gdr fleet bench`."""
        run = subprocess.run(
            [*GDR, "fleet", "bench", "--slurm", "--size=64K", *words],
            env=self.environment, capture_output=True, text=True, timeout=timeout, check=False,
        )  # fmt: skip
        return run.returncode, run.stdout, run.stderr

    def run_python(self, cases: str = "") -> None:
        """Let the nodes run this Python, perhaps some of them in another way."""
        (self.folder / "bin/python3").write_text(
            f'#!/bin/sh\ncase $SLURMD_NODENAME in {cases}\n*) exec {sys.executable} "$@";; esac\n'
        )


def rows(printed: str, errors: str) -> dict[str, tuple[str, str]]:
    assert printed, errors
    report: dict[str, Any] = json.loads(printed)
    return {row["name"]: (row["standing"], row["summary"]) for row in report["nodes"]}


@pytest.fixture
def nodes(slurm, bundle, tmp_path):
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin/python3"
    python.write_text(PYTHON.format(folder=shlex.quote(str(tmp_path)), bundle=shlex.quote(str(bundle))))
    python.chmod(0o755)
    return Nodes(slurm, tmp_path)


def standings(found):
    return {name: standing for name, (standing, _) in found.items()}


def test_the_real_collector_runs_on_each_node(slurm, nodes):
    (nodes.folder / "bin/python3").unlink()
    found = nodes.doctor("d[1-2]")

    assert list(found) == ["d1", "d2"]
    assert not {standing for standing, _ in found.values()} & {"unreachable", "unreadable"}
    assert slurm.steps() == []


def test_an_allocation_asks_its_own_nodes_and_leaves_no_step(slurm, nodes):
    found = nodes.doctor(before=("salloc", "--quiet", "--nodes=2", "--exclusive"))

    assert standings(found) == {"d1": "ready", "d2": "ready"} and nodes.asked() == ["d1", "d2"]
    assert slurm.steps() == []


def test_a_partition_and_a_list_of_nodes_restrict_who_is_asked(nodes):
    assert list(nodes.doctor("--partition", "h100")) == ["d5"]
    assert list(nodes.doctor("d[1-2]")) == ["d1", "d2"]
    assert list(nodes.doctor("d2")) == ["d2"]


def test_a_job_that_slurm_refuses_is_a_row_with_its_reason(nodes):
    found = nodes.doctor("d1", "nosuch")
    wrong = nodes.doctor("d1", "--partition", "h100")

    assert standings(found) == {"d1": "ready", "nosuch": "unreachable"}
    assert "Invalid node name specified" in found["nosuch"][1]
    assert "Requested node configuration is not available" in wrong["d1"][1]


def test_a_node_without_python_is_a_row_with_its_reason(nodes):
    python = nodes.folder / "bin/python3"
    python.write_text(python.read_text().replace("cat >", "[ $SLURMD_NODENAME != d1 ] || exit 127\ncat >"))
    found = nodes.doctor("d[1-2]")

    assert found["d1"] == ("unreachable", "python3 not found on slurm://d1")
    assert standings(found)["d2"] == "ready"


def test_whatever_happens_to_a_node_is_its_row_and_leaves_no_job(slurm, nodes):
    """A program hangs, a slurmd hangs, a node dies in mid-run, and one is down."""
    program, daemon, dies, down = NODES[1:]
    nodes.hang(program, dies)
    slurm.run("scontrol", "update", f"nodename={down}", "state=down", "reason=cable of leaf 4")
    os.kill(slurm.daemons.pid(daemon), signal.SIGSTOP)
    run = nodes.start("--timeout", "10")
    step = int(nodes.until_asked(dies).read_text())
    slurm.daemons.end(dies, signal.SIGKILL)
    os.kill(step, signal.SIGKILL)
    found = rows(*run.communicate(timeout=90))
    os.kill(slurm.daemons.pid(daemon), signal.SIGCONT)
    slurm.run("scontrol", "update", f"nodename={dies}", "state=down", "reason=died")
    slurm.start_node(dies)
    slurm.run("scontrol", "update", f"nodename={down}", "state=resume")

    assert found.pop(NODES[0])[0] == "ready" and set(standings(found).values()) == {"unreachable"}
    assert found.pop(down)[1] == "Slurm has it as down: cable of leaf 4"
    assert {summary[:20] for _, summary in found.values()} == {"timed out: no bundle"}
    assert down not in nodes.asked()
    slurm.daemons.until(lambda: slurm.run("squeue", "--noheader") == "")


@pytest.mark.parametrize(
    "before", [(), ("salloc", "--quiet", "--nodelist=d[1-3]")], ids=["plain", "allocation"]
)
def test_an_interrupt_keeps_what_came_and_leaves_no_step_and_the_rest_is_asked_again(slurm, nodes, before):
    nodes.hang("d2")
    script = (*before, "sh", "-c", 'echo $$ >"$0"; exec "$@"', str(nodes.folder / "pid"))
    run = nodes.start(*([] if before else ["d[1-3]"]), before=script)
    nodes.until_asked("d2")
    slurm.daemons.until(lambda: nodes.asked() == ["d1", "d2", "d3"] and nodes.unjudged() == 1)
    os.kill(int((nodes.folder / "pid").read_text()), signal.SIGINT)
    found = rows(*run.communicate(timeout=90))

    assert standings(found) == {"d1": "ready", "d2": "unreachable", "d3": "ready"}
    assert "interrupted" in found["d2"][1]
    slurm.daemons.until(lambda: slurm.steps() == [])
    for file in (*nodes.folder.glob("asked-*"), *nodes.folder.glob("hangs-*")):
        file.unlink()
    assert standings(nodes.doctor("--resume", slurm=False)) == {"d1": "ready", "d2": "ready", "d3": "ready"}
    assert nodes.asked() == ["d2"]


@needs_networks
def test_the_slow_node_of_pairs_is_named(slurm, nodes):
    rates = {"d1": FAST_MBIT_PER_S, "d2": SLOW_MBIT_PER_S, "d3": FAST_MBIT_PER_S}
    with networks(rates) as within:
        nodes.run_python(
            "".join(f'{node}) exec {words} {sys.executable} "$@";;' for node, words in within.items())
        )
        code, printed, errors = nodes.bench("d[1-3]", "--network", NETWORK, "--json")
    document = json.loads(printed)

    assert (code, errors) == (1, "") and document["measured"] == 3
    assert [(row["node"], row["slow"], row["pairs"]) for row in document["slow_nodes"]] == [("d2", 2, 2)]
    assert document["slow_pairs"] == [] and slurm.steps() == []


def test_a_node_that_dies_in_a_pair_is_named_and_its_peers_have_rates(slurm, nodes):
    """Without --network nodes reach each other at the addresses that Slurm has; here all have the same."""
    nodes.run_python("d3) kill -9 $PPID; exit 1;;")
    code, printed, errors = nodes.bench("d[1-3]", "--timeout", "30")

    assert (
        code == 3
        and "1 of 1 pair reach" in printed
        and "failed      d3: it did not answer in time" in printed
    )
    assert errors == "d3: it did not answer in time\n"
    slurm.daemons.until(lambda: slurm.run("squeue", "--noheader") == "")


def test_gpus_outside_an_allocation_are_refused_with_what_to_do(nodes):
    code, printed, errors = nodes.bench("--gpu", "0")

    assert code == 66 and printed == "" and "salloc" in errors and len(errors.splitlines()) == 2
