"""Every prediction that a test asks for is compared whole, with tests/loader/__snapshots__."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from syrupy.assertion import SnapshotAssertion

from tests import known_answers


@pytest.fixture(autouse=True)
def whole_predictions(request: pytest.FixtureRequest, snapshot: SnapshotAssertion) -> Iterator[None]:
    yield from known_answers.compare(request, snapshot)
