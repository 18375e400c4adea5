"""One browser for all tests of pages."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.html import gallery
from tests.html.browser import Browser


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with Browser.started() as started:
        yield started


@pytest.fixture(scope="session")
def node_file(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The report on a node of tests/evidence, which is made once."""
    return functools.cache(lambda name: gallery.node_file(name, tmp_path_factory.mktemp(name)))
