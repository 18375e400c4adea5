"""Selectors of the device plugins against a node, whose cards are ConnectX-7, ibp24s0 the first."""

from __future__ import annotations

import json

import pytest

from gdrkit.evidence.target import open_host
from gdrkit.node import Node
from gdrkit.repair.config.check import check
from tests.evidence_nodes import laid_down
from tests.hiding_host import HidingHost

POLICY = """\
apiVersion: mellanox.com/v1alpha1
kind: NicClusterPolicy
metadata: {{name: nic-cluster-policy}}
spec:
  {plugin}:
    image: a
    repository: b
    version: c
    config: |
      {config}
"""
PATHS = {"sys/class/infiniband", "sys/bus/pci/devices"}


def node() -> Node:
    return Node(open_host(str(laid_down("acs-redirect"))))


def faults(here: Node | None, plugin: str, *items: dict[str, object]) -> list[str]:
    name = "configList" if plugin == "rdmaSharedDevicePlugin" else "resourceList"
    config = json.dumps({name: [{"resourceName": f"r{n}", **item} for n, item in enumerate(items)]})
    text = POLICY.format(plugin=plugin, config=config).encode()
    return [f"{one.line} {one.severity} {one.code}" for one in check(text, "policy.yaml", "", here).faults]


def shared(*items: dict[str, object]) -> list[str]:
    return faults(node(), "rdmaSharedDevicePlugin", *({"rdmaHcaMax": 63, **item} for item in items))


def sriov(*selectors: object) -> list[str]:
    return faults(node(), "sriovDevicePlugin", *({"selectors": one} for one in selectors))


@pytest.mark.parametrize(
    ("wrong", "code", "right"),
    [
        ({"ifNames": ["ib0"]}, "interface-missing", {"ifNames": ["ib0", "ibp24s0"]}),
        ({"vendors": ["8086"]}, "hca-not-selected", {"vendors": ["8086", "15b3"]}),
        ({"deviceIDs": ["101b"]}, "hca-not-selected", {"deviceIDs": ["1021"]}),
        ({"drivers": ["ice"]}, "hca-not-selected", {"drivers": ["mlx5_core"]}),
        (
            {"ifNames": ["ibp24s0"], "linkTypes": ["ether"]},  # each fits a card, but not the same one
            "hca-not-selected",
            {"ifNames": ["ibp24s0"], "linkTypes": ["infiniband"]},
        ),
    ],
)
def test_a_selector_that_no_device_of_the_node_fits_is_a_warning(wrong, code, right):
    assert shared({"selectors": wrong}) == [f"10 warning {code}"]
    assert shared({"selectors": right}) == []


def test_each_resource_is_judged_by_itself_and_without_a_node_none_is():
    one, other = {"selectors": {"ifNames": ["ib0"]}}, {"selectors": {"vendors": ["15b3"]}}
    assert shared(other, one, other) == ["10 warning interface-missing"]
    assert faults(None, "rdmaSharedDevicePlugin", {"rdmaHcaMax": 63, **one}) == []


def test_of_virtual_functions_the_physical_one_is_compared():
    """They are made later, with a device id of their own; of several selectors one is enough."""
    vf = {"vendors": ["15b3"], "devices": ["101e"], "isRdma": True}
    assert sriov({**vf, "pfNames": ["ib0#0-3"]}) == ["10 warning interface-missing"]
    assert sriov({**vf, "pfNames": ["ibp24s0#0-3"]}) == sriov(vf) == []
    assert sriov([{**vf, "pfNames": ["ib0"]}, {**vf, "pfNames": ["ibp24s0"]}]) == []


@pytest.mark.parametrize("hidden", [PATHS, {"sys/bus/pci/devices"}])
def test_what_is_not_known_of_a_node_selects_nothing_and_excludes_nothing(hidden):
    here = Node(HidingHost(open_host(str(laid_down("acs-redirect"))), set(hidden)))
    item = {"rdmaHcaMax": 63, "selectors": {"deviceIDs": ["101b"]}}
    assert faults(here, "rdmaSharedDevicePlugin", item) == []
