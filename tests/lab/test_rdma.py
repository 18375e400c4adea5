"""What tools printed in a guest with a software RDMA device, against what gdrkit reads from its bundle."""

from __future__ import annotations

import errno
import functools
import json
import re
from ipaddress import IPv6Address
from pathlib import Path

from gdrkit.evidence.target import open_host
from gdrkit.facts import perftest_log
from gdrkit.facts.probe import probe_calls
from gdrkit.facts.rdma import gids, netdev, ports, rdma_devices
from gdrkit.node import Node

HOME = Path(__file__).parent / "rdma/6.1-amd64"


def printed(name: str) -> str:
    return (HOME / name).read_text()


@functools.cache
def node() -> Node:
    return Node(open_host(str(HOME / "bundle.tar.gz")))


def test_the_device_is_the_one_that_the_rdma_tool_names_and_is_known_to_be_software() -> None:
    (device,) = rdma_devices(node())
    (witness,) = json.loads(printed("rdma_-j_dev"))
    assert device.name == witness["ifname"] == "rxe0"
    assert device.virtual


def test_its_port_is_in_the_state_that_the_rdma_tool_gives() -> None:
    (port,) = ports(node(), "rxe0")
    (witness,) = json.loads(printed("rdma_-j_link"))
    assert (port.number, port.state) == (witness["port"], witness["state"])
    assert netdev(node(), "rxe0", 1) == witness["netdev"]


def test_its_gids_are_those_that_ibv_devinfo_lists() -> None:
    listed = re.findall(r"GID\[\s*(\d+)\]:\s*([0-9a-f:.]+), (.+)", printed("ibv_devinfo"))
    read = gids(node(), "rxe0", 1)
    assert [(number, kind) for number, _, kind in read] == [(int(index), kind) for index, _, kind in listed]
    assert IPv6Address(read[1][1]) == IPv6Address(listed[1][1])  # the other one is random in each boot


def test_traffic_went_through() -> None:
    assert re.search(r"^ *65536 +100 +\d+\.\d+ +\d+\.\d+", printed("ib_write_bw"), re.MULTILINE)
    assert "rdma write: id 7 status 0 opcode 1, arrived True" in printed("verbs")


def test_the_software_device_takes_no_dmabuf_whatever_the_descriptor() -> None:
    assert printed("verbs").count(": EOPNOTSUPP") == 2


def test_gdrkits_own_probe_in_the_guest_met_the_same_answer() -> None:
    (call,) = [call for call in probe_calls(node()) if call.call == "ibv_reg_dmabuf_mr"]
    assert (call.subject, call.argument, call.result) == ("rxe0", "fd=-1", errno.EOPNOTSUPP)


def test_the_bandwidth_test_reads_as_a_run_in_host_memory_that_worked() -> None:
    for name in ("ib_write_bw", "two_guests_client_traffic"):
        run = perftest_log.parse(printed(name))
        assert (run.bandwidth_shown, run.uses_gpu, run.registration_errno) == (True, False, None)
