"""Selectors of a device plugin beside the cards of the node: which differ is said, with both lines."""

from __future__ import annotations

import pytest

from tests.explain.explaining import explained

NONE_OFFERED = '$ kubectl get node n1 -o jsonpath={{.status.allocatable}}\n{{\n  "rdma/{}": "0"\n}}\n'
LOADED = (
    "2025/06/03 09:54:41 loaded config: [{{ResourceName:{0} ResourcePrefix: RdmaHcaMax:63 Devices:[]"
    " Selectors:{{Vendors:[15b3] DeviceIDs:[{1}] Drivers:[] IfNames:[] LinkTypes:[]}}}}]\n"
)
"""Of Mellanox/k8s-rdma-shared-dev-plugin, as in Mellanox/network-operator issue 438."""
CARD = "{}:00.0 {} [02{}]: Mellanox Technologies {} [15b3:{}]\n"
CX7 = CARD.format("18", "Ethernet controller", "00", "MT2910 Family [ConnectX-7]", "1021")
CX6 = CARD.format("3b", "Infiniband controller", "07", "MT28908 Family [ConnectX-6]", "101b")


def first_step(selected: str, *cards: str, config: str = LOADED) -> str:
    text = (
        "$ kubectl logs rdma-dp\n"
        + config.format("hca_a", selected)
        + "$ ssh n1 lspci -nn\n"
        + "".join(cards)
    )
    text += NONE_OFFERED.format("hca_a")
    return explained(text).answer.now[0]


@pytest.mark.parametrize(
    ("selected", "cards", "words"),
    [
        (
            "101b",
            (CX7,),
            "deviceIDs selects 101b (line 2), but the node has 15b3:1021 (line 4): set deviceIDs",
        ),
        ("1017 1019", (CX6,), "deviceIDs selects 1017, 1019 (line 2), but the node has 15b3:101b (line 4)"),
        ("1017", (CX6, CX7), "has 15b3:101b (line 4), 15b3:1021 (line 5): set deviceIDs to 101b, 1021"),
    ],
)
def test_selectors_that_match_no_card_of_the_text_are_named_with_the_cards(
    selected: str, cards: tuple[str, ...], words: str
):
    assert words in first_step(selected, *cards)


def test_a_config_map_names_them_as_well():
    config = '{{ "resourceName": "{0}", "selectors": {{ "vendors": ["15b3"], "deviceIDs": ["{1}"] }} }}\n'
    step = first_step("101b", f"```\n{CX7}```\n", config="```\n" + config + "```\n")
    assert "deviceIDs selects 101b" in step and "1021" in step


@pytest.mark.parametrize(
    ("selected", "cards"),
    [
        ("1021", (CX7,)),  # selected: another selector is wrong
        ("101b", (CX6, CX7)),  # one of two
        ("101e", (CX7,)),  # a virtual function, which is not there yet
        ("", (CX7,)),
        ("101b", ()),
        ("101b", ("18:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H200] [10de:2335]\n",)),
    ],
)
def test_without_such_a_difference_the_step_stays(selected: str, cards: tuple[str, ...]):
    assert first_step(selected, *cards).startswith("Compare the selectors of the resource")
