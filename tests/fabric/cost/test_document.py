"""The concluding sentence, also if something is not known."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from gdrkit.fabric.cost.cost import Workload, cost
from gdrkit.fabric.cost.document import assumptions, conclusion, document, percent, seconds, size
from gdrkit.fabric.cost.gpus import rates_of
from gdrkit.fabric.cost.layout import ParallelLayout
from gdrkit.fabric.cost.models import known_model
from gdrkit.fabric.cost.paths import given_path
from gdrkit.fabric.cost.text import text

DIRECT, STAGED = given_path("direct", 20, 24, "test"), given_path("staged", 10, 14, "test")
HOST_MAPPED = given_path("host-mapped", 20, 24, "test")
SPARK = Workload(model=known_model("llama-3-70b"), layout=ParallelLayout(tensor=2), gpu=rates_of("GB10"))


def test_the_conclusion_names_phases_bounds_and_the_compared_path():
    sentence = conclusion(cost(SPARK, (DIRECT, STAGED)))

    assert sentence.startswith("GPUDirect would save you ")
    assert "of the prompt (0 to " in sentence
    assert "% of a token (" in sentence
    assert sentence.endswith(", compared with staged.")


def test_the_conclusion_notes_a_path_that_the_hardware_lacks():
    sentence = conclusion(cost(SPARK, (replace(DIRECT, possible=False), HOST_MAPPED)))

    assert sentence.startswith("GPUDirect, which this hardware cannot do, would save you ")
    assert sentence.endswith(", compared with host-mapped.")


def test_an_equally_fast_path_leaves_nothing_to_save():
    near = replace(DIRECT, name="host-mapped")

    assert (
        conclusion(cost(SPARK, (DIRECT, near)))
        == "GPUDirect would save you nothing compared with host-mapped."
    )


def test_a_job_without_network_traffic_saves_nothing():
    job = replace(SPARK, layout=ParallelLayout(tensor=2, gpus_per_node=8))

    assert conclusion(cost(job, (DIRECT, STAGED))) == (
        "Nothing of this job crosses the network (2 GPUs on 1 node): GPUDirect RDMA would save nothing."
    )


@pytest.mark.parametrize(
    ("job", "paths", "asks"),
    [
        (SPARK, (STAGED,), "--path"),
        (SPARK, (DIRECT,), "--path"),
        (SPARK, (DIRECT, replace(STAGED, possible=False)), "--path"),
        (replace(SPARK, gpu=None), (DIRECT, STAGED), "--gpu"),
        (SPARK, (), "--path"),
    ],
)
def test_what_is_not_known_is_reported_with_the_option_that_sets_it(job, paths, asks):
    sentence = conclusion(cost(job, paths))

    assert "not known" in sentence
    assert asks in sentence


def test_the_text_shows_every_phase_every_path_and_the_conclusion():
    shown = text(document(cost(replace(SPARK, kv_transfer=True), (DIRECT, STAGED)), ("socket: not known",)))

    for words in (
        "prefill:",
        "decode:",
        "cache transfer:",
        "direct  ",
        "staged  ",
        "? socket",
        "assumptions:",
    ):
        assert words in shown
    assert "161 x" not in shown
    assert "GPUDirect would save you" in shown


def test_weights_that_do_not_fit_are_reported():
    assert "DOES NOT FIT" in text(document(cost(replace(SPARK, layout=ParallelLayout()), (DIRECT, STAGED))))
    assert "DOES NOT FIT" not in text(document(cost(SPARK, (DIRECT, STAGED))))


def test_the_document_survives_json():
    made = document(cost(SPARK, (DIRECT, STAGED)))
    read = msgspec.json.decode(msgspec.json.encode(made))

    assert read["schema"] == "gdrkit.cost/1"
    assert read["cost"]["steps"][0]["traffic"][0]["network_bytes"] == 64 << 20
    assert read["assumptions"] == list(assumptions(made.cost))


@pytest.mark.parametrize(
    ("share", "words"),
    [(0.0, "nothing"), (0.0004, "under 0.1 %"), (0.004, "0.4 %"), (0.03, "3.0 %"), (0.4, "40 %")],
)
def test_a_share_has_a_suitable_number_of_digits(share, words):
    assert percent(share) == words


def test_units_are_decimal():
    assert size(16384) == "16.4 kB"
    assert size(999) == "999 B"
    assert size(3.58e15) == "3.58e+03 TB"
    assert seconds(0.0018) == "1.8 ms"
    assert seconds(2e-6) == "2 us"
    assert seconds(12.0) == "12 s"
