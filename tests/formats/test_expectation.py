"""The file of an expectation: what it may have, and one clear line for what it may not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.formats.errors import FormatError
from gdrkit.formats.expectation import Expectation, ExpectedVersions, Rail, fits, parse, write

WHOLE = Expectation(
    gpus=8,
    nics=10,
    gpu_models={"NVIDIA H100 80GB HBM3": 8},
    rails=(Rail(count=8, gpu="NVIDIA H100 80GB HBM3", nic="MT_0000000838", rate=2.5, width=16),),
    firmware={"MT_0000000838": "28.43.2026"},
    versions=ExpectedVersions(kernel="6.8.0-45-generic", modules="open"),
)  # fmt: skip


def test_what_is_written_is_read_again():
    assert parse(write(WHOLE, ["a comment\nnics = 1"])) == WHOLE


def test_an_empty_file_expects_nothing():
    assert parse("") == Expectation() and write(Expectation()).strip() == ""


@given(st.text(min_size=1, max_size=30), st.text(min_size=1, max_size=30))
def test_no_name_that_a_machine_gives_breaks_the_file(name, version):
    found = Expectation(
        firmware={name: version}, rails=(Rail(gpu=name),), versions=ExpectedVersions(nccl=version)
    )
    try:
        again = parse(write(found, [name]))
    except FormatError as error:
        assert "has no number" in str(error)
    else:
        assert again == found


@pytest.mark.parametrize(
    "text, line",
    [
        ("gpu = 8", "unknown key \"gpu\", did you mean 'gpus'?"),
        ("gpu-models = 1", "unknown key \"gpu-models\", did you mean 'gpu_models'?"),
        ('[versions]\ncuda = "12"', "known: kernel, driver, modules, ofed, nccl"),
        ("[[rails]]\nspeed = 3", 'unknown key "rails.speed"'),
        ("gpus = true", "gpus: expected int"),
        ("gpus = -1", "gpus: expected `int` >= 0".replace("`", "")),
        ("gpus = 1000000", "gpus: expected int <= 256"),
        ("gpus = 1.5", "gpus: expected int"),
        ('gpus = "8"', "gpus: expected int"),
        ("rails = 3", "rails: expected array"),
        ("versions = 3", "versions: expected object"),
        ("[[rails]]\nrate = nan", "rails[0].rate: expected float >= 0"),
        ("[[rails]]\nrate = inf", "rails[0].rate: expected float <= 100000"),
        ('[[rails]]\ndistance = "NEAR"', '"NEAR" is not one of PIX, PXB, PHB, NODE, SYS'),
        ('[versions]\nmodules = "closed"', '"closed" is not open or proprietary'),
        ('[versions]\ndriver = ">= new"', 'versions.driver: ">= new" has no number'),
        ("gpus = 4\n[gpu_models]\nA = 5", "gpus: 4 is less than the sum of gpu_models"),
        ("gpus =", "not TOML: "),
        ("a = " + "[" * 5000, "not TOML: "),
        ("a = " + "9" * 5000, "not TOML: "),
        ("x" * 300 + " = 1", "unknown key"),
        ("[firmware]\n" + "".join(f'a{n} = "1"\n' for n in range(300)), "firmware: more than 256 entries"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(text, line):
    with pytest.raises(FormatError) as error:
        parse(text)
    assert line in str(error.value) and "\n" not in str(error.value)


def test_every_key_is_documented():
    from pathlib import Path

    page = (Path(__file__).parents[2] / "docs" / "expect.md").read_text()
    for kind in (Expectation, Rail, ExpectedVersions):
        for name in kind.__struct_fields__:
            assert f"`{name}`" in page, name


@pytest.mark.parametrize(
    "seen, wanted, answer",
    [
        ("570.158.01", "570.158.01", True), ("570.158.01", "570.158", False),
        ("570.158.01", ">= 570.86", True), ("570.86", ">= 570.86", True),
        ("570.158.01", ">=571", False), ("570.9", ">= 570.86", False),
        ("6.8.0-45-generic", ">= 6.8.0-40", True), ("24.10-0.7.0.0", ">= 24.10-0.7", True),
        ("inbox", ">= 24.10", False), ("inbox", "inbox", True), ("9" * 400, ">= 1", True),
    ],
)  # fmt: skip
def test_a_condition(seen, wanted, answer):
    assert fits(seen, wanted) is answer


@pytest.mark.parametrize("text", ["a." * 100_000 + "a = 1", "[" + "a." * 100_000 + "a]"])
def test_a_key_of_very_many_parts_is_refused(text):
    """Python's own reader takes hours for it."""
    with pytest.raises(FormatError, match="a line with more than 250 dots"):
        parse(text)
    assert parse(f"# {'.' * 250}") == parse("")
    with pytest.raises(FormatError, match="a line with more than 250 dots"):
        parse(f"# {'.' * 251}")
