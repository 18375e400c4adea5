"""One of several equal NICs of GPUs whose port has another link layer."""

from __future__ import annotations

import pytest

from gdrkit.node import Node
from gdrkit.rules.link_layer_differs import link_layer_differs
from gdrkit.rules.rule import Failed, NotApplicable, Passed, Unknown
from tests.hardware import BARE_METAL, machine
from tests.rules.hardware import outcomes

LAYERS = ("Ethernet", *["InfiniBand"] * 3)


def folder(n: int) -> str:
    """Where sysfs has the RDMA device of a NIC."""
    above = f"0000:{n + 1}0:01.0/0000:{n + 1}1:00.0/0000:{n + 1}2:00.0"
    return f"sys/devices/pci0000:{n + 1}0/{above}/0000:{n + 1}3:00.0/infiniband/mlx5_{n}"


def rails(
    *layers: str, gpus: int = 4, boards: tuple[str, ...] = (), without: tuple[str, ...] = (), **first: str
) -> Node:
    """NICs, each with a GPU below its switch but the last; `first`: what the first has otherwise."""
    outline, files = "", dict(BARE_METAL)
    for n, layer in enumerate(layers):
        outline += (
            f"0000:{n + 1}0:01.0 spr-root\n  0000:{n + 1}1:00.0 pex89-up\n"
            f"    0000:{n + 1}2:00.0 pex89-down\n      0000:{n + 1}3:00.0 cx7-ib rdma=mlx5_{n}\n"
            + (f"    0000:{n + 1}2:01.0 pex89-down\n      0000:{n + 1}4:00.0 h100-sxm\n" if n < gpus else "")
        )
        board = boards[n] if boards else "MT_0000000838"
        own = {"board_id": board, "ports/1/link_layer": layer}
        own |= {name.replace("__", "/"): text for name, text in first.items()} if n == 0 else {}
        files |= {f"{folder(n)}/{name}": f"{text}\n" for name, text in own.items()}
    for path in without:
        files.pop(path, None)
    return machine(outline, files=files, without=without)


def test_the_only_ethernet_port_among_infiniband_ones_is_found_and_the_reverse():
    for one, usual in (("Ethernet", "InfiniBand"), ("InfiniBand", "Ethernet")):
        first, *others = outcomes(rails(one, usual, usual, usual), link_layer_differs)
        assert isinstance(first, Failed)
        assert (first.subject, first.seen) == ("mlx5_0", one)
        assert first.expected == f"{usual}, as 3 other NICs of its board"
        assert {type(found) for found in others} == {Passed}


@pytest.mark.parametrize(
    ("node", "found"),
    [
        (rails(*LAYERS[1:], "InfiniBand"), Passed),
        (rails(*LAYERS[:3], gpus=3), Passed),  # two others prove nothing
        (rails("Ethernet", "Ethernet", "InfiniBand", "InfiniBand"), Passed),
        (rails(*LAYERS, boards=("MT_0000000222", *["MT_0000000838"] * 3)), Passed),
        (rails(*LAYERS, ports__1__state="1: DOWN"), NotApplicable),  # port-down names the setting
        (rails(*LAYERS, board_id=""), NotApplicable),
    ],
)
def test_what_is_built_so_or_is_down_is_no_case_of_it(node: Node, found: type):
    first, *others = outcomes(node, link_layer_differs)
    assert isinstance(first, found)
    assert not any(isinstance(one, Failed) for one in others)


def test_a_nic_for_storage_that_is_no_gpus_own_is_no_case_of_it():
    *_, last = outcomes(rails(*["InfiniBand"] * 4, "Ethernet"), link_layer_differs)
    assert isinstance(last, NotApplicable)


def test_a_board_that_was_not_collected_leaves_it_open_only_where_layers_differ():
    unseen = tuple(f"{folder(n)}/board_id" for n in range(4))
    for layers, found in ((LAYERS, Unknown), (LAYERS[1:] + LAYERS[1:2], Passed)):
        assert {type(one) for one in outcomes(rails(*layers, without=unseen), link_layer_differs)} == {found}
