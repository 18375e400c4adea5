"""The whole prediction of modprobe on every node in tests/evidence, as it was reviewed."""

from __future__ import annotations

import functools

import pytest

from gdrkit.evidence import EvidenceMissing
from gdrkit.evidence.target import open_host
from gdrkit.facts.modules import PEERMEM
from gdrkit.node import Node
from tests.evidence_nodes import laid_down, names
from tests.known_answers import modprobe, note

OPTIONS = ((), ("-b",), ("-n",), ("-q", "--first-time"), ("-i", "peerdirect_support=1", "no_such=a b"))


@functools.cache
def node(name: str) -> Node:
    return Node(open_host(str(laid_down(name))))


@pytest.mark.parametrize("name", names())
def test_the_prediction(name):
    for module in (PEERMEM, "nvidia", "ib_core"):
        try:
            modprobe(node(name), module)
        except EvidenceMissing as error:
            note(f"modprobe {module}: {error.missing.source} is missing, {error.missing.ask}")


@pytest.mark.parametrize("name", ["peermem-blacklisted", "zgx-3285", "debian-12-renamed", "ofed-rebuilt"])
@pytest.mark.parametrize("options", OPTIONS, ids=" ".join)
def test_the_prediction_with_options(name, options):
    modprobe(node(name), PEERMEM, options)
