"""What a node needs, as configurations ask for it."""

from __future__ import annotations

import pytest

from gdrkit.repair.config.request import is_remedy_needed
from gdrkit.rules.remedy_names import RemedyName
from tests.repair.config.outputs import node


@pytest.mark.parametrize(
    ("name", "needed"),
    [
        ("iommu-translating",
         {"USE_DMABUF", "INSTALL_OFED", "RESTART_OFED", "REBUILD_DRIVER", "IOMMU_PASSTHROUGH"}),
        ("gh200", {"LOAD_PEERMEM"}),
    ],
)  # fmt: skip
def test_remedies_of_a_failed_rule_are_needed_and_no_others(name, needed):
    found = {remedy.name for remedy in RemedyName if is_remedy_needed(node(name), remedy) is True}
    assert found == needed
