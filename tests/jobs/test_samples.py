"""Logs of thirty versions and launchers, compared with results worked out by hand."""

from __future__ import annotations

import pytest

from gdrkit.jobs.analyse import analyse
from gdrkit.jobs.job import JobAnalysis, LogPosition
from gdrkit.jobs.line_counts import Tally
from gdrkit.jobs.runtime_prefixes import Unwrapper
from tests.jobs.samples import SAMPLES, Sample


def analysed(*texts: str | bytes) -> JobAnalysis:
    """The analysis of logs in separate files: log0, log1, ..."""
    tally = Tally()
    for section, text in enumerate(texts):
        data = text if isinstance(text, bytes) else text.encode()
        tally.feed(Unwrapper(data).feed(data), section)
    return analyse(tally, lambda position: LogPosition(f"log{position >> 40}", position % (1 << 40)))


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_a_log_gives_the_result_worked_out_by_hand(sample: Sample):
    found = analysed(sample.text)
    counts = found.counts

    assert found.state == sample.state
    assert (counts.direct, counts.bounced, counts.socket) == sample.legs
    assert counts.ranks == sample.ranks
    versions = {version for job in found.jobs for version in job.nccl_versions}
    assert versions == ({sample.version} if sample.version and sample.ranks else set())
    assert {finding.code for finding in found.findings} == set(sample.codes)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_possible_causes_and_names_of_devices_are_listed(sample: Sample):
    found = analysed(sample.text)
    legs = [leg for job in found.jobs for rank in job.ranks for leg in rank.legs]
    several = [reason.codes for leg in legs for reason in leg.reasons if len(reason.codes) > 1]
    several += [error.codes for error in found.errors if len(error.codes) > 1]

    assert {code for codes in several for code in codes} == set(sample.causes)
    assert {leg.device for leg in legs if leg.device} == set(sample.devices)
    assert found.damaged == 0


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_every_route_is_proven_by_a_channel_line(sample: Sample):
    lines = sample.text.split("\n")
    for rank in (rank for job in analysed(sample.text).jobs for rank in job.ranks):
        for leg in rank.legs:
            line = lines[leg.line.line - 1]
            assert " via " in line
            assert ("GDRDMA" in line) == (leg.carried == "direct")


def test_there_are_enough_samples():
    assert len(SAMPLES) >= 25
