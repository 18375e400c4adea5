"""The numbers of docs/cost.md on an article, derived a second time: two DGX Sparks, Llama 3 70B."""

from __future__ import annotations

import pytest

from gdrkit.fabric.cost.cost import Workload, cost
from gdrkit.fabric.cost.gpus import rates_of
from gdrkit.fabric.cost.layout import ParallelLayout
from gdrkit.fabric.cost.models import known_model
from gdrkit.fabric.cost.paths import given_path
from gdrkit.facts.pci_path import raw_gbit_per_s

CLAIMED_GB_PER_S = 15.0
PATHS = (given_path("direct", 23.5, 23.5, "the port"), given_path("staged", 12, 15, "the article"))
JOB = Workload(model=known_model("llama-3-70b"), layout=ParallelLayout(tensor=2), gpu=rates_of("GB10"))


@pytest.fixture(scope="module")
def steps():
    return {step.phase: step for step in cost(JOB, PATHS).steps}


def layer(step):
    return next(row for row in step.traffic if row.per_layer)


def test_gen5_x4_is_126_gbit_per_s_before_packets_are_counted():
    raw = raw_gbit_per_s(32.0, 4)

    assert raw == pytest.approx(126, abs=0.1)
    assert 1 - raw / 200 == pytest.approx(0.37, abs=0.005)  # of a 200 Gb/s port, for one of two links


def test_a_token_sends_16_kb_not_once_but_twice_a_layer(steps):
    row = layer(steps["decode"])

    assert row.payload_bytes == 16_384
    assert row.per_layer == 2


def test_sixteen_kilobytes_take_a_microsecond_of_wire_and_ten_of_latency(steps):
    row = layer(steps["decode"])
    staged = next(on for on in steps["decode"].paths if on.path.name == "staged")

    assert row.payload_bytes / (CLAIMED_GB_PER_S * 1e9) == pytest.approx(1.1e-6, rel=0.01)
    assert staged.communication.low_s / 161 > 10e-6
    assert staged.communication.low_s / 161 < 31e-6 < staged.communication.high_s / 161  # 31 were measured


def test_a_prompt_of_4096_sends_64_mib_not_once_but_twice_a_layer(steps):
    row = layer(steps["prefill"])
    once = row.payload_bytes / (CLAIMED_GB_PER_S * 1e9)

    assert row.payload_bytes == 64 << 20
    assert once == pytest.approx(4.5e-3, rel=0.01)  # the article: about 4 ms per layer
    assert once * row.per_layer * 80 == pytest.approx(0.72, rel=0.01)  # seconds, all layers


def test_sending_a_prompt_is_not_negligible_next_to_computing(steps):
    staged = next(on for on in steps["prefill"].paths if on.path.name == "staged")

    assert staged.share[0] > 0.10
    assert staged.share[1] < 0.25


def test_a_token_waits_for_weights_and_barely_for_its_cache(steps):
    cache = 4352 * 327_680 / 2

    assert cache / steps["decode"].compute.read_bytes < 0.011
    assert steps["decode"].compute.bound == "memory"


def test_a_token_is_barely_delayed_by_the_network(steps):
    staged = next(on for on in steps["decode"].paths if on.path.name == "staged")

    assert staged.share[1] < 0.05
