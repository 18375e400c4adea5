"""Nodes that several files of this folder judge, made once."""

from __future__ import annotations

from pathlib import Path

import pytest
from machines.compose import write
from machines.fleet import bundles, fleet


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A packed bundle of a node that is ready."""
    (packed,) = bundles(fleet(0, 2).machines[:1], tmp_path_factory.mktemp("bundle"))
    return packed


@pytest.fixture(scope="session")
def trees(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Unpacked bundles of a node that is ready and of one with a fault."""
    good, odd = fleet(0, 2).machines
    folder = tmp_path_factory.mktemp("trees")
    return str(write(good, folder)), str(write(odd, folder))
