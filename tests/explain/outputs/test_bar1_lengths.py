"""A registration that BAR1 has no room for fails by it, also where BAR1 as such is well."""

from __future__ import annotations

import pytest

from tests.explain.explaining import explained

FAILED = (
    "[1574780000.2] [h1:26213:0] ib_md.c:366 UCX  ERROR ibv_reg_mr(address=0x7f1a40000000, length={length},"
    " access=0xf) failed: Bad address\n"
)
BAR1 = (
    "GPU 00000000:{bus}:00.0\n    BAR1 Memory Usage\n        Total                       : 65536 MiB\n"
    "        Used                        : 6 MiB\n        Free                        : {free} MiB\n"
)


def of(length: int, *free: int) -> str:
    """A failed registration, and GPUs with so much of BAR1 free."""
    return FAILED.format(length=length) + "".join(
        BAR1.format(bus=f"0{number}", free=mib) for number, mib in enumerate(free, start=1)
    )


@pytest.mark.parametrize(
    ("length", "free", "full"),
    [
        (230_700_001, (250,), True),  # 250 - 36 MiB are 224,395,264 bytes
        (224_395_264, (250,), False),
        (224_395_265, (250,), True),
        (4096, (250,), False),
        (230_700_001, (250, 60_000), False),  # which of them it was, the text does not say
        (230_700_001, (), False),
    ],
)
def test_the_length_and_what_the_driver_keeps_have_to_be_free(
    length: int, free: tuple[int, ...], full: bool
):
    found = explained(of(length, *free)).answer
    assert (found.cause, found.sureness) == (("bar1-exhausted", "likely") if full else (None, "possible"))
    assert found.besides == ()


def test_a_length_without_a_failure_says_nothing():
    text = of(230_700_001, 250).replace("failed: Bad address", "returned 0x5581")
    assert explained(text).answer.cause != "bar1-exhausted"


PERFTEST = "$ ib_write_bw --use_cuda=0 --use_cuda_dmabuf -d mlx5_0 {size}\nCouldn't allocate MR\n"
UNUSED = "    BAR1 Memory Usage\n        Total          : {total} MiB\n        Used           : {used} MiB\n"


@pytest.mark.parametrize(
    ("size", "total", "used", "full"),
    [
        ("-s 268435456", 256, 230, True),
        ("--size=268435456", 65536, 65400, True),
        ("-s 65536", 256, 230, True),  # the driver keeps more than is free
        ("-s 65536", 256, 3, False),
        ("-s 268435456", 65536, 6, False),
        ("", 256, 230, False),  # how much, the text does not say
    ],
)
def test_what_is_not_used_is_free_and_perftest_registers_its_size(
    size: str, total: int, used: int, full: bool
):
    found = explained(UNUSED.format(total=total, used=used) + PERFTEST.format(size=size)).answer
    assert (found.cause == "bar1-exhausted") is full
    if full:
        assert "Resizable BAR" in found.now[0] and found.lines[0].text == "Couldn't allocate MR"


def test_a_run_with_dmabuf_needs_no_module():
    text = PERFTEST.format(size="")
    assert "peermem-not-loaded" not in [one.code for one in explained(text).answer.others]
    by_address = explained(text.replace(" --use_cuda_dmabuf", "")).answer
    assert by_address.others[0].code == "peermem-not-loaded"
