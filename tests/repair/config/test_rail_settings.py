"""NCCL's variables that depend on rails."""

from __future__ import annotations

import pytest

from gdrkit.facts.rdma import RdmaPort
from gdrkit.node import Node
from gdrkit.repair.config.rail_settings import rail_settings
from gdrkit.repair.config.request import ConfigRequest, SavedMachine
from tests.memory_host import MemoryHost

VERBS = "sys/class/infiniband"


def port(name: str, layer: str = "Ethernet") -> RdmaPort:
    return RdmaPort(name, 1, "ACTIVE", "LinkUp", 200.0, layer)


def settings_with(*addresses: str, layer: str = "Ethernet") -> dict[str, tuple[str, str]]:
    """The settings of a node whose ports have these addresses, in hexadecimal digits."""
    files = {}
    for index, digits in enumerate(addresses):
        folder = f"{VERBS}/mlx5_{index}/ports/1"
        mapped = f"0000:0000:0000:0000:0000:ffff:{digits[:4]}:{digits[4:]}"
        files |= {f"{folder}/gids/3": mapped, f"{folder}/gid_attrs/types/3": "RoCE v2\n"}
    request = ConfigRequest(node=Node(MemoryHost(files, complete=True)))
    ports = tuple(port(f"mlx5_{index}", layer) for index in range(len(addresses)))
    return {setting.name: (setting.value, setting.why) for setting in rail_settings(request, ports)}


@pytest.mark.parametrize(
    ("addresses", "value", "words"),
    [(("0a010001", "0a010101"), "0", "2 ports are in 2 subnets"),
     (("0a010001", "0a010002"), "", "one subnet"), (("0a010001",), "", "one active port"),
     ((), "", "no active port is known"),
     (("0a010001", "0a010101", "0a010109"), "0", "3 ports are in 2 subnets")],
)  # fmt: skip
def test_channels_stay_on_their_rail_only_if_rails_are_subnets(addresses, value, words):
    found = settings_with(*addresses)
    assert found["NCCL_CROSS_NIC"][0] == value
    assert words in found["NCCL_CROSS_NIC"][1]
    assert "NCCL_IB_SUBNET_AWARE_ROUTING" not in found


def test_infiniband_has_no_subnets_of_addresses():
    assert settings_with("0a010001", "0a010101", layer="InfiniBand")["NCCL_CROSS_NIC"][0] == ""


def test_ports_without_an_address_decide_nothing():
    request = ConfigRequest(node=Node(MemoryHost({}, complete=True)))
    (found,) = rail_settings(request, (port("mlx5_0"), port("mlx5_1")))
    assert found.value == ""
    assert "not known" in found.why


def test_a_topology_shows_no_subnets():
    request = ConfigRequest(saved=SavedMachine(coherent=False, integrated=False))
    (found,) = rail_settings(request, (port("mlx5_0"), port("mlx5_1")))
    assert "not known" in found.why
