"""Pages that several tests of a folder read."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.html import gallery


@pytest.fixture(scope="session")
def node_file(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The report on a node of tests/evidence, which is made once."""
    return functools.cache(lambda name: gallery.node_file(name, tmp_path_factory.mktemp(name)))
