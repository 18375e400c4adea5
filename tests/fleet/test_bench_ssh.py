"""`gdr fleet bench` over a real sshd, between nodes with networks of their own of which one is slow."""

import json
import subprocess
import sys

import jsonschema
import pytest

from gdrkit.cli import main
from gdrkit.cli.exit import NO_INPUT, USAGE
from tests.cli.test_streams import GDR
from tests.fleet.daemons import free_port
from tests.fleet.networks import FAST_MBIT_PER_S, NETWORK, SLOW_MBIT_PER_S, needs_networks, networks
from tests.fleet.ssh_daemon import needs_sshd, server

pytestmark = [*needs_sshd, needs_networks]
SIZE = ("--size", "64K")
RATES = {"n1": FAST_MBIT_PER_S, "n2": FAST_MBIT_PER_S, "n3": SLOW_MBIT_PER_S, "n4": FAST_MBIT_PER_S}
GB_PER_S = 1 / 8_000


@pytest.fixture(scope="module")
def sshd():
    with server() as running, networks(RATES) as within:
        for node, words in within.items():
            running.node(node, {"python3": f'exec /usr/bin/{words} {sys.executable} "$@"'})
        running.node("dies", {"python3": f'/usr/bin/timeout -s KILL 0.1 {sys.executable} "$@"'})
        running.node("bare", {"true": "exit 0"})
        running.configure({**dict.fromkeys((*RATES, "dies", "bare"), ""), "dead": f"  Port {free_port()}"})
        yield running


def bench(sshd, *words, columns=80):
    run = subprocess.run(
        [*GDR, "fleet", "bench", *words, *SIZE],
        env={**sshd.environment, "COLUMNS": str(columns)},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return run.returncode, run.stdout, run.stderr


def test_the_slow_node_is_named_and_no_other_nor_a_pair(sshd):
    code, printed, _ = bench(sshd, "n[1-4]", "--network", NETWORK, "--json")
    document = json.loads(printed)
    rates = [pair["gb_per_s"] for pair in document["pairs"]]

    assert code == 1 and document["complete"] and document["rounds"] == 3 and len(rates) == 6
    assert [(row["node"], row["slow"], row["pairs"]) for row in document["slow_nodes"]] == [("n3", 3, 3)]
    assert document["slow_pairs"] == [] and document["reached"] == 3 and document["failures"] == []
    assert max(rates) < 1.2 * FAST_MBIT_PER_S * GB_PER_S  # a burst is a sixteenth of a message
    assert document["slow_nodes"][0]["gb_per_s"] < max(rates) / 2
    schema = subprocess.run([*GDR, "schema", "fleet-bench"], capture_output=True, text=True, check=True)
    jsonschema.validate(document, json.loads(schema.stdout))


def test_nodes_that_fail_are_named_with_their_reasons_and_the_others_have_rates(sshd):
    code, printed, errors = bench(sshd, "n1,n2,dead,bare,dies", "--network", NETWORK, "--rounds", "5")
    lines = printed.splitlines()

    assert code == 3 and all(len(line) <= 80 for line in lines)
    assert lines[0].startswith("5 nodes, ") and f"tcp, host memory, {NETWORK}," in printed
    assert "1 of 1 pair reach" in printed
    assert "dead: cannot connect to it: " in printed and "Connection refused" in printed
    assert "bare: python3 not found on it" in printed and "dies: gdr bench failed on it: " in printed
    assert [line.partition(":")[0] for line in errors.splitlines()].count("dead") == 1


def test_without_a_network_the_address_of_ssh_counts_and_two_nodes_are_one_pair(sshd):
    """Both reach each other at sshd's address, and nothing can be slow."""
    code, printed, _ = bench(sshd, "a,b")

    assert code == 0 and "2 nodes, 1 pair in 1 round: tcp, host memory" in printed
    assert "1 of 1 pair reach" in printed and "slow" not in printed


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("n1",), "a pair needs two nodes: there is 1"),
        ((), "no nodes to measure"),
        (("a,b", "--csv"), "unknown argument: --csv"),
        (("a,b", "--network", "nine"), "not a network: 'nine'"),
    ],
)
def test_what_cannot_be_measured_is_one_line_with_what_to_do(words, why, capsys):
    try:
        code = main(["fleet", "bench", *words])
    except SystemExit as wrong:
        code = wrong.code
    printed = capsys.readouterr()

    assert code in (USAGE, NO_INPUT) and printed.out == "" and why in printed.err
    assert len(printed.err.splitlines()) <= 2
