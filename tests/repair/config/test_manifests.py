"""`gdr config check` on manifests that people publish, whose truth was written down first."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import toml

from gdrkit.repair.config.check import check

FOLDER = Path(__file__).parent / "manifests"
TRUTH = toml.decode((FOLDER / "truth.toml").read_bytes())


def test_each_file_has_its_truth():
    assert {path.stem for path in FOLDER.glob("*.yaml")} == set(TRUTH)


@pytest.mark.parametrize("name", TRUTH)
def test_a_published_manifest_has_the_faults_that_it_has(name):
    found = check((FOLDER / f"{name}.yaml").read_bytes(), name)
    assert [f"{fault.line} {fault.severity} {fault.code}" for fault in found.faults] == TRUTH[name]["faults"]
    assert {one.kind for one in found.documents if one.judged} == set(TRUTH[name]["judged"])
    assert {one.kind for one in found.documents if not one.judged} == set(TRUTH[name]["not_judged"])
