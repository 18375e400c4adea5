"""The bandwidth of a node on each path, from its GPUs, cards and links."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gdrkit.evidence.target import open_host
from gdrkit.fabric.ceilings.from_node import node_links
from gdrkit.fabric.ceilings.path_rates import path_rates
from gdrkit.node import Node
from tests.evidence_nodes import build


@pytest.fixture(scope="module")
def machines(tmp_path_factory):
    def one(name):
        path = build(name, tmp_path_factory.mktemp(name))
        return node_links(Node(open_host(str(path))))

    return {name: one(name) for name in ("spark-two-cables", "ubuntu-6.8-h100", "ubuntu-6.8-h100-no-verbs")}


def paths(machine, gpus=1):
    return {path.name: path for path in path_rates(machine, gpus)}


def test_a_spark_uses_both_links_and_has_no_copy_to_save(machines):
    found = paths(machines["spark-two-cables"])

    assert "staged" not in found
    assert not found["direct"].possible
    assert found["host-mapped"].possible
    assert 20 < found["host-mapped"].rate.low_gb_per_s < found["host-mapped"].rate.high_gb_per_s < 31.5
    assert found["host-mapped"].latency == found["direct"].latency  # the buffer is in the GPU's own memory


def test_eight_gpus_have_eight_times_the_bandwidth_of_one(machines):
    one, eight = (paths(machines["ubuntu-6.8-h100"], gpus)["direct"] for gpus in (1, 8))

    assert 45 < one.rate.low_gb_per_s < one.rate.high_gb_per_s < 50
    assert eight.rate.high_gb_per_s == pytest.approx(8 * one.rate.high_gb_per_s)


def test_a_copy_never_improves_bandwidth_or_latency(machines):
    found = paths(machines["ubuntu-6.8-h100"])

    assert found["staged"].rate.low_gb_per_s <= found["direct"].rate.low_gb_per_s
    assert found["staged"].latency.low_us > found["direct"].latency.low_us


def test_a_node_without_a_gpu_has_no_path(machines):
    assert path_rates(replace(machines["ubuntu-6.8-h100"], gpus=()), 1) == ()


def test_a_path_with_an_unknown_link_is_left_out(machines):
    whole = machines["ubuntu-6.8-h100"]
    blind = tuple(replace(function, port=None) for function in whole.functions)
    pairs = tuple(replace(r, function=replace(r.function, port=None)) for r in whole.pairs)

    assert path_rates(replace(whole, functions=blind, pairs=pairs), 1) == ()


def test_a_node_with_all_ports_down_has_no_path(machines):
    whole = machines["ubuntu-6.8-h100"]
    down = tuple(replace(f, down="DOWN", active=False, port=None) for f in whole.functions)

    by_name = {function.name: function for function in down}
    pairs = tuple(replace(pair, function=by_name[pair.function.name]) for pair in whole.pairs)

    assert path_rates(replace(whole, functions=down, pairs=pairs), 1) == ()
