"""One browser for all tests of pages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.html.browser import Browser


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with Browser.started() as started:
        yield started
