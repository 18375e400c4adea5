"""Tools' output in a guest with a software RDMA device, compared with gdrkit's facts from its bundle."""

from __future__ import annotations

import errno
import functools
import json
import re
from ipaddress import IPv6Address
from pathlib import Path

from gdrkit.evidence.target import open_host
from gdrkit.facts.probe import probe_calls
from gdrkit.facts.rdma import gids, netdev, ports, rdma_devices
from gdrkit.node import Node
from gdrkit.programs.verbs import perftest_log

HOME = Path(__file__).parent / "rdma/6.1-amd64"


def printed(name: str) -> str:
    return (HOME / name).read_text()


@functools.cache
def node() -> Node:
    return Node(open_host(str(HOME / "bundle.tar.gz")))


def test_the_device_is_the_one_that_the_rdma_tool_lists_and_is_virtual() -> None:
    (device,) = rdma_devices(node())
    (listed,) = json.loads(printed("rdma_-j_dev"))
    assert device.name == listed["ifname"] == "rxe0"
    assert device.virtual


def test_its_port_has_the_state_that_the_rdma_tool_shows() -> None:
    (port,) = ports(node(), "rxe0")
    (listed,) = json.loads(printed("rdma_-j_link"))
    assert (port.number, port.state) == (listed["port"], listed["state"])
    assert netdev(node(), "rxe0", 1) == listed["netdev"]


def test_its_gids_are_those_that_ibv_devinfo_shows() -> None:
    listed = re.findall(r"GID\[\s*(\d+)\]:\s*([0-9a-f:.]+), (.+)", printed("ibv_devinfo"))
    read = gids(node(), "rxe0", 1)
    assert [(number, kind) for number, _, kind in read] == [(int(index), kind) for index, _, kind in listed]
    assert IPv6Address(read[1][1]) == IPv6Address(listed[1][1])  # the other one is random for each boot


def test_traffic_was_transferred() -> None:
    assert re.search(r"^ *65536 +100 +\d+\.\d+ +\d+\.\d+", printed("ib_write_bw"), re.MULTILINE)
    assert "rdma write: id 7 status 0 opcode 1, arrived True" in printed("verbs")


def test_the_software_device_refuses_every_dmabuf_descriptor() -> None:
    assert printed("verbs").count(": EOPNOTSUPP") == 2


def test_gdrkits_own_probe_in_the_guest_got_the_same_errno() -> None:
    (call,) = [call for call in probe_calls(node()) if call.call == "ibv_reg_dmabuf_mr"]
    assert (call.subject, call.argument, call.result) == ("rxe0", "fd=-1", errno.EOPNOTSUPP)


def test_the_bandwidth_test_is_read_as_a_successful_run_in_host_memory() -> None:
    for name in ("ib_write_bw", "two_guests_client_traffic"):
        run = perftest_log.parse(printed(name))
        assert (run.bandwidth_shown, run.uses_gpu, run.registration_errno) == (True, False, None)
