"""The model compared with NCCL: answers recorded on two H200s, and of NCCL's own graph code at 22 tags."""

import json
from functools import lru_cache
from pathlib import Path

import pytest
from lab.nccl.from_source import digest, predict
from lab.nccl.generate import case
from lab.nccl.judge import judge
from lab.nccl.on_gpus import PLAIN_JOBS, shape_of
from lab.nccl.record import jobs_in

from gdrkit.programs.nccl.releases import FROM_SOURCE, ON_GPUS, ModelBasis, model_basis

HERE = Path(__file__).parent


@lru_cache
def recorded():
    return jobs_in((HERE / "nccl_on_h200.json.xz").read_bytes())


def test_many_topologies_were_run_on_gpus():
    version, jobs = recorded()
    assert version == "2.28.9"
    assert sum(job.name.isdigit() for job in jobs) >= 150
    assert {job.mode for job in jobs} == {"one", "two", "alone"}
    assert set(PLAIN_JOBS) < {job.name for job in jobs}


def test_the_seeds_still_produce_the_recorded_environments():
    fixture = [job for job in recorded()[1] if job.name.isdigit()]
    gpus, nets = ("0000:00:06.0", "0000:00:07.0"), ("eth0", "eth0:1", "eth0:2", "eth0:3")
    for job in fixture:
        made = case(int(job.name), shape_of(list(gpus), list(nets), int(job.name)))
        assert made.environment == job.environment


@pytest.mark.parametrize("mode", ["one", "two", "alone"])
def test_every_path_and_decision_equals_nccls_own(mode):
    version, jobs = recorded()
    verdicts = [judge(job, version) for job in jobs if job.mode == mode]
    assert [text for verdict in verdicts for text in verdict.disagreements] == []
    assert sum(verdict.paths for verdict in verdicts) > 2_000
    assert sum(verdict.decisions for verdict in verdicts) > 200


def test_the_comparison_detects_a_wrong_model():
    _, jobs = recorded()
    wrong = [text for job in jobs for text in judge(job, "2.26.2").disagreements]
    assert len(wrong) > 500
    assert any("distance" in text for text in wrong)


def test_a_log_without_its_table_does_not_count_as_agreement():
    _, jobs = recorded()
    job = next(job for job in jobs if job.name == "default")
    assert judge(job._replace(ranks=[[], []]), "2.28.9").disagreements


@pytest.mark.parametrize("version", FROM_SOURCE)
def test_the_model_equals_nccls_own_source(version):
    answers = json.loads((HERE / "nccl_from_source.json").read_text())[version]
    assert len(answers) == 20
    assert [digest(predict(case(seed), version)) for seed in range(len(answers))] == answers


def test_versions_differ_as_expected():
    answers = json.loads((HERE / "nccl_from_source.json").read_text())
    assert len({tuple(answers[version]) for version in FROM_SOURCE}) >= 12


def test_the_basis_of_each_version_is_reported():
    assert (recorded()[0],) == ON_GPUS
    assert model_basis("2.28.9") is ModelBasis.ON_GPUS
    assert model_basis("2.27.5+cuda12.8") is ModelBasis.FROM_SOURCE
    assert model_basis("2.27.6") is ModelBasis.READ
    assert model_basis("2.39.1") is ModelBasis.UNSEEN
    assert model_basis("2.16.5") is ModelBasis.UNSEEN
    assert set(json.loads((HERE / "nccl_from_source.json").read_text())) == set(FROM_SOURCE)
