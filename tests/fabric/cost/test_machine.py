"""The bandwidth of a node on each path, from its GPUs, cards and links."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gdrkit.evidence.target import open_host
from gdrkit.fabric.ceilings.from_node import node_links
from gdrkit.fabric.cost.machine import node_paths
from gdrkit.node import Node
from tests.evidence_nodes import build


@pytest.fixture(scope="module")
def machines(tmp_path_factory):
    def one(name):
        path = build(name, tmp_path_factory.mktemp(name))
        return node_links(Node(open_host(str(path))))

    return {name: one(name) for name in ("spark-two-cables", "ubuntu-6.8-h100", "ubuntu-6.8-h100-no-verbs")}


def paths(machine, gpus=1):
    return {path.name: path for path in node_paths(machine, gpus)[0]}


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
    found, why = node_paths(replace(machines["ubuntu-6.8-h100"], gpus=()), 1)

    assert found == ()
    assert why


def test_an_unknown_link_leaves_a_path_without_a_lower_bound(machines):
    whole = machines["ubuntu-6.8-h100"]
    blind = tuple(replace(function, port=None) for function in whole.functions)
    routes = tuple(replace(r, function=replace(r.function, port=None)) for r in whole.routes)
    found, why = node_paths(replace(whole, functions=blind, routes=routes), 1)

    assert found == ()
    assert any(words.startswith("direct: not known") for words in why)


def test_a_node_with_all_ports_down_has_no_path(machines):
    whole = machines["ubuntu-6.8-h100"]
    down = tuple(replace(f, down="DOWN", active=False, port=None) for f in whole.functions)

    assert node_paths(replace(whole, functions=down), 1) == ((), ("every port of this node is down",))
