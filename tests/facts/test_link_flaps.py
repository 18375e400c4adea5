"""How often the kernel saw links go down in this boot."""

from __future__ import annotations

import pytest

from gdrkit.evidence import EvidenceMissing
from gdrkit.explain.outputs.pasted_host import PastedHost
from gdrkit.facts.link_errors import flapping
from gdrkit.node import Node


def node(downs: int) -> Node:
    rows = "".join(f"[{at + 100:8.6f}] mlx5_core 0000:1a:00.0 ens1np0: Link down\n" for at in range(downs))
    return Node(PastedHost(f"$ dmesg\n[    0.000000] Linux version 6.8.0-45-generic\n{rows}"))


@pytest.mark.parametrize(("downs", "seen"), [(2, ()), (3, ("3 or more",)), (40, ("10 or more",))])
def test_links_are_counted_to_the_order_of_magnitude_so_that_alike_nodes_are_alike(
    downs: int, seen: tuple[str, ...]
):
    assert flapping(node(downs)) == tuple(f"ens1np0 went down {one} times in this boot" for one in seen)


def test_without_the_log_it_is_unknown():
    with pytest.raises(EvidenceMissing):
        flapping(Node(PastedHost("$ uname -r\n6.8.0-45-generic\n")))
