"""A host that prints no `DMA-BUF is available`, where the other hosts of the job do."""

from __future__ import annotations

import re

import pytest

from gdrkit.jobs.document import document
from gdrkit.jobs.hosts import by_host, contrast
from gdrkit.jobs.text import text
from tests.jobs.large_job import large_job
from tests.jobs.test_samples import analysed

LINE, NETWORK, START = "DMA-BUF is available", "Using network", "Init START"


def without(log: str, words: str, *hosts: str) -> str:
    """The log without the lines of some hosts that have these words."""
    lines = log.splitlines(keepends=True)
    return "".join(line for line in lines if not (line.startswith(hosts) and words in line))


def page(log: str) -> str:
    return text(document(analysed(log)), width=300)


@pytest.mark.parametrize(
    ("staged", "path", "words"),
    [
        (("gpu03",), "staged", "Without nvidia-peermem as well, GPU memory goes through host memory"),
        ((), "direct", "GPU memory goes directly all the same, so by nvidia-peermem"),
    ],
)
def test_the_host_is_named_with_what_follows_for_the_path_that_it_takes(
    staged: tuple[str, ...], path: str, words: str
):
    log = without(large_job(4, staged=staged), LINE, "gpu03")
    (one,) = document(analysed(log)).without_dmabuf

    assert (one.hosts, one.path, one.others) == (("gpu03",), path, 3)
    assert f"gpu03 prints no `{LINE}`, 3 other hosts do" in page(log) and words in page(log)


def test_it_is_what_differs_between_the_hosts():
    found = document(analysed(without(large_job(4, staged=("gpu03",)), LINE, "gpu03")))
    assert contrast(found, by_host(found)).endswith("only gpu03 gets no dma-buf from the GPUs")


def test_without_a_channel_both_ways_are_open():
    log = without(without(large_job(4), LINE, "gpu03"), " via NET", "gpu0")
    assert "No channel line shows whether nvidia-peermem serves them" in page(log)


def test_a_setting_is_a_cause_only_where_the_log_prints_none():
    log = without(large_job(4), LINE, "gpu03")
    (one,) = document(analysed(log)).without_dmabuf
    setting = "gpu{0:02}:{1}:{1} [0] NCCL INFO NCCL_DMABUF_ENABLE set by environment to 0\n"
    first = re.search(r"^gpu03:(\d+):", log, re.MULTILINE)

    assert one.codes[0] == "driver-proprietary"
    assert first is not None
    assert not document(analysed(setting.format(3, first[1]) + log)).without_dmabuf  # its page says so


def test_a_damaged_line_hides_one_process_and_not_all_of_a_host():
    log = without(large_job(4), LINE, "gpu03").replace(" [receive] via", " [rec\n", 1)
    found = document(analysed(log))
    assert found.damaged_lines == 1 and found.without_dmabuf


@pytest.mark.parametrize(
    "log",
    [
        large_job(4),
        without(large_job(4), LINE, "gpu0"),  # on no host
        without(without(large_job(4), LINE, "gpu03"), NETWORK, "gpu03"),  # cut before that line
        without(without(large_job(4), LINE, "gpu03"), "ncclCommInitRank", "gpu03"),  # or behind it
        without(large_job(4), f"{LINE} on GPU device 0", "gpu03"),  # of one of its processes
        without(large_job(4), LINE, "gpu03").replace(" [receive] via", " [rec\n", 9),
    ],
    ids=["everywhere", "nowhere", "cut before", "cut behind", "one process", "damaged"],
)
def test_nothing_is_known_of_a_log_that_is_whole_or_cut(log: str):
    assert not document(analysed(log)).without_dmabuf
