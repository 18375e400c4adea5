"""NCCL's variables for nodes whose ports, GIDs and versions are varied one by one."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import cycle
from typing import Any

import pytest
from msgspec import structs

from gdrkit.evidence import Missing, MissingReason
from gdrkit.facts.driver import driver_flavour
from gdrkit.facts.libraries import nccl_version
from gdrkit.facts.rdma import RdmaPort, distance, gids, pairs, ports
from gdrkit.facts.virtual import virtual_machine
from gdrkit.repair.config import ConfigRequest
from gdrkit.repair.config.nccl_env import EnvSetting, _queue_pairs, settings
from gdrkit.repair.config.request import active_ports
from tests.repair.config.outputs import node

NOT_READ = Missing("gids", MissingReason.DENIED, "ask")
NO_NCCL = Missing("libnccl", MissingReason.NOT_COLLECTED, "ldconfig -p")
MAPPED = "0000:0000:0000:0000:0000:ffff:0a00:0001"
LOCAL = "fe80:0000:0000:0000:0000:0000:0000:0001"


def of(whole: Any, changes: Iterable[Any], name: str, **options: str) -> tuple[str, str] | None:
    """The value and the reason of a variable on a changed node; None if it is not mentioned."""
    request = ConfigRequest(node=whole.after("varied", [*changes]), **options)
    found: dict[str, EnvSetting] = {setting.name: setting for setting in settings(request)}
    return (found[name].value, found[name].why) if name in found else None


UNKNOWN = (
    "the index of the RoCE v2 GID is not known for every port: use NCCL 2.21.5 or newer, which chooses it"
)
DIFFERS = "the index of the RoCE v2 GID differs between ports: use NCCL 2.21.5 or newer, which chooses it"
RIGHT, WRONG = (3, MAPPED, "RoCE v2"), [(0, LOCAL, "RoCE v2"), (1, MAPPED, "IB/RoCE v1")]


def test_a_bond_gets_a_queue_pair_for_each_of_its_links():
    port = RdmaPort("mlx5_bond_0", 1, "ACTIVE", "LinkUp", 200.0, "Ethernet")
    why = "mlx5_bond_0 bonds two links, and a queue pair uses only one of them"

    assert _queue_pairs((port,)) == EnvSetting("NCCL_IB_QPS_PER_CONNECTION", "2", why)


@pytest.mark.parametrize(
    ("tables", "version", "found"),
    [
        ([[*WRONG, RIGHT]], "2.18.3",
         ("3", "NCCL 2.18.3 does not choose it; RoCE v2 with IPv4 has index 3 on all ports")),
        ([[*WRONG, RIGHT]], "", ("", "NCCL 2.21.5 and newer choose it; older versions need 3 here")),
        ([[*WRONG, RIGHT], [RIGHT, (4, MAPPED, "RoCE v2")]], "2.18.3",
         ("3", "NCCL 2.18.3 does not choose it; RoCE v2 with IPv4 has index 3 on all ports")),
        ([[RIGHT], [(2, MAPPED, "RoCE v2")]], "2.18.3", ("", DIFFERS)),
        ([[RIGHT], WRONG], "2.18.3", ("", UNKNOWN)),
        ([WRONG], "2.18.3", ("", UNKNOWN)),
        ([[]], "", ("", UNKNOWN)),
        ([None], "2.18.3", ("", UNKNOWN)),
        ([[RIGHT], None], "", ("", UNKNOWN)),
        ([WRONG], "2.21.5", ("", "NCCL 2.21.5 finds the RoCE v2 GID itself (since 2.21.5)")),
    ],
)  # fmt: skip
def test_the_gid_index(tables, version, found):
    whole = node("spark-two-cables")
    rows = [row for row in active_ports(whole) if row.link_layer == "Ethernet"]
    assert len(rows) > 1
    changes = [nccl_version.becomes(version or NO_NCCL)]
    changes += [
        gids.becomes(NOT_READ if table is None else tuple(table), row.device, row.number)
        for row, table in zip(rows, cycle(tables), strict=False)
    ]
    assert of(whole, changes, "NCCL_IB_GID_INDEX") == found


def test_no_list_is_written_while_half_of_a_cable_is_down():
    """The other node has both halves, and a job needs as many devices on each."""
    whole = node("spark-two-cables")
    down = RdmaPort("roceP2p1s0f0", 1, "DOWN", "Disabled", 40.0, "Ethernet")
    value, why = of(whole, [ports.becomes((down,), "roceP2p1s0f0")], "NCCL_IB_HCA")

    assert (value, why) == ("", "bring roceP2p1s0f0 up first: the other half of a cable is up")
    assert of(whole, [], "NCCL_IB_HCA")[0].count(":1") == 4


def changed(whole: Any, **fields: object) -> list[Any]:
    """The first active port with other fields."""
    first = active_ports(whole)[0]
    rows: tuple[RdmaPort, ...] = tuple(structs.replace(row, **fields) for row in ports(whole, first.device))
    return [ports.becomes(rows, first.device)]


ECMP = "1 is enough, unless switches spread flows over several paths (ECMP)"
DEFAULT = "the default, 1, is enough, since no port is a bond"


def test_queue_pairs_depend_on_the_link_layer_of_any_port():
    whole = node("dgx-a100-proprietary")
    assert of(whole, [], "NCCL_IB_QPS_PER_CONNECTION") == ("", DEFAULT)
    one = changed(whole, link_layer="Ethernet")
    assert of(whole, one, "NCCL_IB_QPS_PER_CONNECTION") == ("", ECMP)
    assert of(whole, [], "NCCL_IB_GID_INDEX") is None
    assert of(whole, one, "NCCL_IB_GID_INDEX") is not None


@pytest.mark.parametrize(
    ("types", "virtual", "value", "why"),
    [
        (("PIX",), "none", "", "the default, PXB, covers every GPU's nearest NIC"),
        (("PIX", "PXB"), "none", "", "the default, PXB, covers every GPU's nearest NIC"),
        (("PIX", "PHB"), "none", "PHB", "a GPU's nearest NIC is behind the CPU's host bridge, which the"
         " default, PXB, excludes"),
        (("PHB",), "kvm", "", "a virtual machine does not show real distances; set NCCL_TOPO_FILE instead"),
        (("PXB",), "kvm", "", "the default, PXB, covers every GPU's nearest NIC"),
        (("SYS", "PIX"), "none", "", "a GPU's nearest NIC is on another socket: SYS allows it, but may be"
         " slower; measure first"),
    ],
)  # fmt: skip
def test_the_level_depends_on_the_farthest_of_the_nearest(types, virtual, value, why):
    whole = node("dgx-a100-proprietary")
    gpus = list(dict.fromkeys(pair.gpu for pair in pairs(whole)))
    kind = {gpu: types[number % len(types)] for number, gpu in enumerate(gpus)}
    changes = [distance.becomes(kind[pair.gpu], pair) for pair in pairs(whole)]
    found = of(whole, [*changes, virtual_machine.becomes(virtual)], "NCCL_NET_GDR_LEVEL")
    assert found == (value, why)


def test_the_interface_that_is_named_is_used_alone():
    found = of(node("h200-vm"), [], "NCCL_SOCKET_IFNAME", interface="eth0")
    assert found == ("=eth0", "used for bootstrap between ranks; = means exactly this name")


@pytest.mark.parametrize(
    ("name", "path", "value", "why"),
    [
        ("h200-vm", "peermem", "0", "NCCL prefers dma-buf, and does not fall back to peermem if it fails"),
        ("gpu-operator-already-loaded", "", "0",
         "NCCL prefers dma-buf, and does not fall back to peermem if it fails"),
        ("dgx-a100-proprietary", "", "", "the proprietary driver has no dma-buf, so NCCL uses peermem"),
    ],
)  # fmt: skip
def test_dma_buf_is_turned_off_unless_nccl_finds_out_by_itself(name, path, value, why):
    """On the second node, whether dma-buf works is not known."""
    assert of(node(name), [], "NCCL_DMABUF_ENABLE", path=path) == (value, why)


def test_dma_buf_is_left_alone_where_nccl_sees_that_it_is_blocked():
    changes = [driver_flavour.becomes("open")]
    found = of(node("volta-proprietary"), changes, "NCCL_DMABUF_ENABLE")
    assert found == ("", "NCCL detects that dma-buf is not available: gpu-before-turing")


@pytest.mark.parametrize(
    ("version", "found"),
    [
        ("2.28.3", ("", "unknown to NCCL 2.28.3; from 2.30.7 on, 1 allows crossed cables")),
        ("2.30.7", ("1", "from 2.30.7 on, NCCL chooses the port in the peer's subnet")),
        (NO_NCCL, ("1", "from 2.30.7 on, NCCL chooses the port in the peer's subnet")),
    ],
)
def test_cables_may_be_crossed_from_one_version_on(version, found):
    changes = [nccl_version.becomes(version)]
    assert of(node("spark-two-cables"), changes, "NCCL_IB_SUBNET_AWARE_ROUTING") == found
