"""Records of jobs on two H200s, where each job is known: benchmarks/jobs.py (driver 580.159.04, torch 2.11,
NCCL 2.28.9; cgroups are left out). No network device was there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.jobs import JOBS

from gdrkit.evidence import Confidence
from tests.jobs.running.records import judged

RECORDS = json.loads(Path(__file__).with_name("h200.json").read_text())


@pytest.mark.parametrize("name", RECORDS)
def test_each_process_of_a_job_is_told_right(name):
    verdicts = [one.verdict for one in judged(RECORDS[name]).processes]

    assert len(verdicts) == JOBS[name].processes
    assert {one.path for one in verdicts} <= JOBS[name].paths


def test_every_job_is_there():
    assert RECORDS.keys() == JOBS.keys()


def test_each_process_has_the_gpu_that_it_computes_on_although_it_has_both_open():
    for record in RECORDS.values():
        gpus = [one.gpus for one in judged(record).processes]

        assert [[gpu.address for gpu in each] for each in gpus] == [["0000:00:06.0"], ["0000:00:07.0"]][
            : len(gpus)
        ]
        assert all(gpu.computes and gpu.memory_bytes > 500 << 20 for each in gpus for gpu in each)


def test_nvlink_alone_is_certain():
    certain = {
        name for name, record in RECORDS.items()
        if any(one.verdict.confidence is Confidence.CERTAIN for one in judged(record).processes)
    }  # fmt: skip

    assert certain == {"NCCL NVLink", "NCCL expandable", "gdrkit peer"}


@pytest.mark.parametrize("name", ["NCCL host memory", "NCCL host /dev/shm"])
def test_nccl_shares_memory_of_the_driver_or_files_as_it_was_told(name):
    """By default memory that no file shows; files with NCCL_CUMEM_HOST_ENABLE=0."""
    files = [one["shared"] for one in RECORDS[name]["processes"]]

    assert all(bool(each) is (name == "NCCL host /dev/shm") for each in files)


def test_the_version_of_nccl_is_that_of_its_file_and_not_of_the_environment():
    (one, _) = judged(RECORDS["NCCL NVLink"]).processes

    assert one.settings["NCCL_VERSION"] == "2.28.3-1"
    assert [each.version for each in one.libraries if each.name == "libnccl.so.2"] == ["2.28.9+cuda13.0"]


def test_torch_maps_nvshmem_without_using_it_and_hides_no_queue_pairs():
    for one in judged(RECORDS["NCCL idle"]).processes:
        assert any(each.name.startswith("libnvshmem_host") for each in one.libraries)
        assert not any("DevX" in limit for limit in one.verdict.limits)
