"""Variables that NCCL began or ceased to read."""

from __future__ import annotations

import pytest

from gdrkit.formats.versions import numbers
from gdrkit.programs.nccl.releases import REMOVED, VARIABLE_SINCE, release
from gdrkit.programs.nccl.variables import LIVES, OTHERS, is_ineffective, life_of
from gdrkit.repair.config.check import check


def test_each_variable_has_one_row_and_ends_after_it_began():
    assert len({life.name for life in LIVES}) == len(LIVES)
    assert all(not life.until or numbers(life.until) > numbers(life.since) for life in LIVES)


def test_no_variable_is_in_two_tables():
    others = [f"NCCL_{name}" for names in OTHERS.values() for name in names.split()]
    assert len({*others, *(life.name for life in LIVES)}) == len(others) + len(LIVES)
    assert not set(others) & VARIABLE_SINCE.keys()
    assert [*OTHERS] == sorted(OTHERS, key=numbers)


def test_what_the_model_reads_agrees():
    for tag, names in REMOVED.items():
        for name in names:
            life = life_of(name)
            assert life is not None and (life.since, life.until) == (VARIABLE_SINCE[name], tag)


@pytest.mark.parametrize(
    ("name", "value", "ignored"),
    [
        ("NCCL_GDRCOPY_USE_INTERNAL_DMABUF", "2", False),
        ("NCCL_GDRCOPY_USE_INTERNAL_DMABUF", "0x1", False),
        ("NCCL_GDRCOPY_USE_INTERNAL_DMABUF", "3", True),
        ("NCCL_IB_RAIL_POLICY", "CX9:ALT", False),
        ("NCCL_IB_RAIL_POLICY", "FLIP", True),
        ("NCCL_IB_PKEY_VALUE", "anything", False),
    ],
)
def test_values_that_nccl_ignores(name: str, value: str, ignored: bool):
    life = life_of(name)

    assert life is not None and is_ineffective(life, value) is ignored


def test_a_variable_of_every_release_has_no_row():
    assert life_of("NCCL_DMABUF_ENABLE") is None


@pytest.mark.parametrize(
    ("version", "has"), [("2.30.7", False), ("2.31.2", True), ("2.32.3", True), ("", False)]
)
def test_diagnostics_exist_since_2_31_2(version: str, has: bool):
    assert release(version).has_diagnostics is has


@pytest.mark.parametrize(
    ("line", "code", "severity"),
    [
        ("export NCCL_NET_GDR_MLOPART=1", "variable-removed", "warning"),
        ("export NCCL_TOPO_SCATTER_START_NET=1", "variable-removed", "warning"),
        ("export NCCL_IB_CUDA_SUPPORT=1", "variable-removed", "warning"),
        ("export NCCL_MNNVL=1", "variable-removed", "warning"),
        ("export NCCL_IB_DATA_DIRECT=1", "variable-new", "note"),
        ("export NCCL_NET_GDR_C2C=1", "variable-new", "note"),
        ("export NCCL_IB_RAIL_POLICY=FLIP", "value-ignored", "warning"),
        ("export NCCL_RUN_DIAGNOSTICS=1", "variable-new", "note"),
        ("export NCCL_RUN_RAS_DIAGNOSTICS=1", "variable-new", "note"),
    ],
)
def test_config_check_says_which_releases_read_a_setting(line: str, code: str, severity: str):
    (fault,) = check(line.encode(), "job.sh").faults

    assert (fault.line, fault.code, fault.severity) == (1, code, severity)


def test_the_conditions_of_a_diagnosis_stand_beside_it():
    (fault,) = check(b"export NCCL_RUN_DIAGNOSTICS=1\n", "job.sh").faults

    for words in ("all ranks", "perftest", "other jobs", "DGX Spark"):
        assert words in fault.seen
