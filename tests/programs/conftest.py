"""Every outcome that a test asks a rule for is compared whole, with the snapshots beside the test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from syrupy.assertion import SnapshotAssertion

from tests import known_answers


@pytest.fixture(autouse=True)
def whole_outcomes(request: pytest.FixtureRequest, snapshot: SnapshotAssertion) -> Iterator[None]:
    yield from known_answers.compare(request, snapshot)
