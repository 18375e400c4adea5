"""What to ask the owner of a machine for."""

from __future__ import annotations

import pytest

from gdrkit.diagnosis import node_of, report_on
from gdrkit.evidence.target import open_host
from gdrkit.report.here import request
from tests.evidence_nodes import laid_down


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("h200-vm", "My virtual machine"),
        ("no-rdma-device", ""),  # a machine of its own
        ("ubuntu-6.8-h100", ""),
    ],
)
def test_only_who_cannot_change_the_machine_asks_its_owner(name: str, asked: str):
    node = node_of(open_host(str(laid_down(name))))
    found = request(node, report_on(node))
    assert found.startswith(asked) and bool(found) is bool(asked)
