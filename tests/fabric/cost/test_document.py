"""The concluding sentence, also if something is not known."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from gdrkit.fabric.ceilings.gpus import rates_of
from gdrkit.fabric.cost.document import document, percent, seconds, size, text
from gdrkit.fabric.cost.models import known_model
from tests.fabric.cost.test_steps import layout, path

DIRECT, STAGED = path(), path("staged", 10, 14)
HOST_MAPPED = path("host-mapped", 10, 14)
LLAMA = known_model("llama-3-70b")


def made(*paths, gpu="GB10", model=LLAMA, **changes):
    return document(model, layout(**(changes or {"tp": 2})), rates_of(gpu) if gpu else None, paths)


def test_the_conclusion_names_steps_bounds_and_the_compared_path():
    sentence = made(DIRECT, STAGED).conclusion

    assert sentence.startswith("GPUDirect would save you ")
    assert "% of a token, up to " in sentence and "% of the prompt and up to " in sentence
    assert sentence.endswith(" of a training step, compared with staged.")


def test_the_conclusion_notes_a_path_that_the_hardware_lacks():
    sentence = made(replace(DIRECT, possible=False), HOST_MAPPED).conclusion

    assert sentence.startswith("GPUDirect, which this hardware cannot do, would save you ")
    assert sentence.endswith(", compared with host-mapped.")


def test_an_equally_fast_path_leaves_nothing_to_save():
    sentence = made(DIRECT, replace(DIRECT, name="host-mapped")).conclusion

    assert sentence == "GPUDirect would save you nothing compared with host-mapped."


def test_a_job_without_network_traffic_saves_nothing():
    assert made(DIRECT, STAGED, tp=2, gpus=8).conclusion == (
        "Nothing of this job crosses the network (2 GPUs on 1 node): GPUDirect RDMA would save nothing."
    )


@pytest.mark.parametrize(
    ("paths", "gpu", "missing"),
    [
        ((STAGED,), "GB10", "direct path"),
        ((DIRECT,), "GB10", "no other path"),
        ((DIRECT, STAGED), None, "rates of this GPU"),
        ((), "GB10", "direct path"),
    ],
)
def test_what_is_not_known_is_named(paths, gpu, missing):
    sentence = made(*paths, gpu=gpu).conclusion

    assert "not known" in sentence
    assert missing in sentence


def saved(document, path="staged") -> dict[str, tuple[float, float] | None]:
    return {step.step: on.saved for step in document.steps for on in step.paths if on.path == path}


def test_a_token_cannot_hide_its_traffic_and_a_prompt_can():
    found = saved(made(DIRECT, STAGED))

    assert found["decode"][0] > 0
    assert found["prefill"][0] == found["training"][0] == 0


def test_a_slower_other_path_means_a_larger_saving():
    ours, theirs = (saved(made(DIRECT, path("staged", *rates)))["decode"] for rates in ((10, 14), (2, 3)))

    assert theirs[1] > ours[1] > 0


def test_without_a_gpu_or_a_direct_path_no_saving_is_claimed():
    assert set(saved(made(DIRECT, STAGED, gpu=None)).values()) == {None}
    assert set(saved(made(STAGED, HOST_MAPPED)).values()) == {None}
    assert set(saved(made(DIRECT, STAGED), "direct").values()) == {None}


def test_the_text_shows_every_step_every_path_and_the_conclusion():
    shown = text(made(DIRECT, STAGED))

    for words in (
        "a token: ",
        "the prompt: ",
        "a training step: ",
        "  direct  ",
        "  staged  ",
        "assumptions:",
    ):
        assert words in shown
    assert "GPUDirect would save you" in shown
    assert shown.count("the direct path saves up to") == 2 and "the direct path saves 0." in shown


def test_the_document_survives_json():
    document = made(DIRECT, STAGED)
    read = msgspec.json.decode(msgspec.json.encode(document))

    assert read["schema"] == "gdrkit.cost/1"
    assert read["steps"][1]["traffic"][0]["network_bytes"] == 64 << 20
    assert read["assumptions"] == list(document.assumptions)


@pytest.mark.parametrize(
    ("share", "words"), [(0.0004, "under 0.1 %"), (0.004, "0.4 %"), (0.03, "3.0 %"), (0.4, "40 %")]
)
def test_a_share_has_a_suitable_number_of_digits(share, words):
    assert percent(share) == words


def test_units_are_decimal():
    assert size(16384) == "16.4 kB"
    assert size(999) == "999 B"
    assert size(3.58e15) == "3.58e+03 TB"
    assert size(4.2e12) == "4.2 TB"
    assert seconds(0.0018) == "1.8 ms"
    assert seconds(2e-6) == "2 us"
    assert seconds(12.0) == "12 s"
