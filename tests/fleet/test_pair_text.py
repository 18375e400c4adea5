"""The answer of `gdr fleet bench`: groups and not rows, and every reason once."""

from __future__ import annotations

import pytest

from gdrkit.fleet.document import Standing
from gdrkit.fleet.exit_code import bench_exit_code
from gdrkit.fleet.judge import without_answer
from gdrkit.fleet.pair_document import PairRow, What, build, text
from gdrkit.fleet.rounds import rounds_of

NODES = [f"gpu{number:03}" for number in range(100)]
REFUSED = "ssh: connect to host {} port 22: Connection refused"


def built(rate, silent=(), nodes=NODES, rounds=3, **options):
    """The document of some rounds; `rate` gives that of a pair, or why there is none. Silent nodes have no
    pairs."""
    rows = []
    for number, pairs in zip(range(1, rounds + 1), rounds_of(nodes), strict=False):
        for pair in pairs:
            if not set(silent) & set(pair):
                found = rate(pair)
                rows.append(
                    PairRow(nodes=pair, round=number, why=found)
                    if isinstance(found, str)
                    else PairRow(nodes=pair, round=number, gb_per_s=found, streaming_gb_per_s=found)
                )
    lost = {
        node: without_answer(f"ssh://{node}", node, REFUSED.format(node), Standing.UNREACHABLE)
        for node in silent
    }
    return build(rows, lost, nodes, What("tcp", None, "", "", 1 << 24), **options)


def lines(bench, width=80):
    return text(bench, size="16 MiB", compare="gdr fleet doctor", width=width).splitlines()


def test_a_hundred_nodes_are_a_few_lines_of_80_columns():
    slow = {"gpu010": 5.0, "gpu011": 5.2, "gpu030": 20.0}
    bench = built(lambda pair: min(slow.get(node, 48.0) for node in pair), silent=("gpu050", "gpu051"))
    shown = lines(bench)

    assert max(map(len, shown)) <= 80 and len(shown) == 8
    assert shown[0] == "100 nodes, 144 pairs in 3 rounds: tcp, host memory, messages of 16 MiB"
    assert shown[2] == "typical     48 GB/s; 135 of 144 pairs reach 43.2 GB/s"
    assert shown[3] == "slow node   gpu[010-011]: 5 GB/s to 5.2 GB/s, slow in 6 of 6 pairs"
    assert shown[4] == "slow node   gpu030: 20 GB/s, slow in 3 of 3 pairs"
    assert shown[5] == "failed      gpu[050-051]: ssh: connect to its port 22: Connection refused"
    assert shown[7] == "to see how it differs: `gdr fleet doctor gpu010 gpu000 --compare gpu010 gpu000`"
    assert bench_exit_code(bench) == 3


def test_pairs_that_fail_alike_are_one_line_and_a_node_that_explains_them_is_named():
    """All pairs of one node fail; two other pairs fail alike."""
    strange = [("gpu001", "gpu098"), ("gpu002", "gpu097")]

    def rate(pair):
        return f"{pair[0]} refused" if "gpu007" in pair or pair in strange else 48.0

    bench = built(rate)
    assert [(row.kind, row.nodes, row.count, row.why) for row in bench.failures] == [
        ("node", "gpu007", 1, "it refused"),
        ("pair", "gpu[001-002,097-098]", 2, "it refused"),
    ]
    assert "failed      2 pairs of gpu[001-002,097-098]: it refused" in lines(bench)


def test_many_slow_pairs_are_cut():
    bench = built(lambda pair: 5.0 if pair[0] < "gpu015" else 48.0, rounds=1)
    shown = [line for line in lines(bench) if line.startswith("slow pair")]

    assert (len(bench.slow_pairs), len(shown)) == (15, 10)
    assert f"{'':12}and 5 more pairs: --json has all" in lines(bench)
    assert "one round does not show which of the two nodes is slow: add --rounds 3" in lines(bench)


@pytest.mark.parametrize(("rounds", "advised"), [(1, True), (2, False), (3, False)])
def test_only_after_one_round_are_more_advised_for_a_slow_pair(rounds, advised):
    first = next(iter(rounds_of(NODES)))[0]
    bench = built(lambda pair: 5.0 if pair == first else 48.0, rounds=rounds)

    assert ([row.nodes for row in bench.slow_pairs], bench.slow_nodes) == ([first], ())
    assert any("--rounds" in line for line in lines(bench)) is advised


def test_a_peer_of_failed_nodes_has_no_rate_and_says_so():
    bench = built(lambda pair: 48.0, silent=("b",), nodes=["a", "b"])

    assert bench.unmeasured == "a" and bench.measured == 0 and bench_exit_code(bench) == 3
    assert "typical     no pair was measured" in lines(bench)
    assert "no rate     a: their peers failed" in lines(bench)


@pytest.mark.parametrize(
    ("rate", "options", "code"),
    [
        (lambda pair: 48.0, {}, 0),
        (lambda pair: 5.0 if "gpu001" in pair else 48.0, {}, 1),
        (lambda pair: 5.0 if pair == ("gpu000", "gpu099") else 48.0, {}, 1),
        (lambda pair: "refused" if pair == ("gpu000", "gpu099") else 48.0, {}, 3),
        (lambda pair: 48.0, {"complete": False}, 3),
    ],
    ids=["well", "slow node", "slow pair", "failed pair", "interrupted"],
)
def test_the_exit_code_is_that_of_the_worst(rate, options, code):
    assert bench_exit_code(built(rate, **options)) == code
