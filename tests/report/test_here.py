"""What to ask the owner of a machine for."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from gdrkit.diagnosis import node_of, report_on
from gdrkit.evidence.target import open_host
from gdrkit.report.here import OF_GUEST, advice_here, request
from tests.evidence_nodes import laid_down
from tests.rules.altered_host import AlteredHost


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("h200-vm", "My virtual machine"),
        ("no-rdma-device", ""),  # a machine of its own
        ("ubuntu-6.8-h100", ""),
    ],
)
def test_only_who_cannot_change_the_machine_asks_its_owner(name: str, asked: str):
    node = node_of(open_host(str(laid_down(name))))
    found = request(node, report_on(node))
    assert found.startswith(asked) and bool(found) is bool(asked)


def test_a_node_of_its_own_names_the_ports_whose_packets_are_small():
    """Of two nodes, the comparison says so; one alone named MTU 9000 without a port."""
    host = open_host(str(laid_down("spark-two-cables")))
    slow = {f"net/{name}/mtu": lambda text: "1500\n" for name in ("enp1s0f0np0", "enP2p1s0f1np1")}
    found = advice_here(node_of(AlteredHost(host, files=slow)), "gpu-integrated")

    command = "sudo ip link set dev enP2p1s0f1np1 mtu 9000"
    assert f"MTU 9000 on both nodes (here enP2p1s0f1np1, enp1s0f0np0 1500: `{command}`), and" in found
    assert not advice_here(node_of(host), "gpu-integrated")


def test_a_node_of_its_own_names_the_half_of_a_cable_that_is_down():
    host = open_host(str(laid_down("spark-two-cables")))
    down = {"infiniband/roceP2p1s0f0/ports/1/state": lambda text: "1: DOWN\n"}
    without_cable = down | {"infiniband/rocep1s0f0/ports/1/state": lambda text: "1: DOWN\n"}
    found = advice_here(node_of(AlteredHost(host, files=down)), "gpu-integrated")

    command = "sudo ip link set dev enP2p1s0f0np0 up"
    assert f"use both RDMA devices of a cable (here roceP2p1s0f0 is DOWN: `{command}`), MTU" in found
    assert not advice_here(node_of(AlteredHost(host, files=without_cable)), "gpu-integrated")


@pytest.mark.parametrize(
    ("code", "subject", "words"),
    [
        ("port-on-one-lane", "mlx5_0", "`sudo ibportstate -C mlx5_0 -D 0 1 query`"),
        ("nic-ats-unexpected", "mlx5_0", "`sudo mlxconfig -d 0000:18:00.0 set"),
        ("gpu-needs-reset", "0000:19:00.0", "--gpu-reset -i 0000:19:00.0`"),
        ("port-on-one-lane", "node", ""),  # nothing is known of the device
        ("link-degraded", "mlx5_0", ""),  # its page names none
        ("ofed-multiple-dkms", "mlx5_0", ""),  # its placeholder is a version
    ],
)
def test_the_advice_of_a_page_names_the_device_of_the_finding(code: str, subject: str, words: str):
    found = advice_here(node_of(open_host(str(laid_down("ubuntu-6.8-h100")))), code, "", subject)
    assert words in found and bool(found) is bool(words) and ("<" not in found)


Altered = Mapping[str, Callable[[str], str]]
IN_A_GUEST: Altered = {"proc/cpuinfo": lambda text: "processor\t: 0\nflags\t\t: fpu hypervisor\n"}


@pytest.mark.parametrize(
    ("code", "kept", "left_out"),
    [
        ("bar1-small", "", "Above 4G Decoding"),
        ("nic-missing", "`lspci -d 15b3:`", "reseating"),
        ("device-not-answering", "Drain the node and restart it.", "ipmitool"),
        ("link-narrower-than-port", "", "wider slot"),
        ("port-down", "`sudo ip link set NAME up`", "Check the cable"),
    ],
)
def test_in_a_virtual_machine_the_hands_of_its_host_are_asked_for(code: str, kept: str, left_out: str):
    node = node_of(AlteredHost(open_host(str(laid_down("ubuntu-6.8-h100"))), files=IN_A_GUEST))
    given = "Check the cable. `sudo ip link set NAME up` starts it." if code == "port-down" else ""
    found = advice_here(node, code, given)

    assert found.endswith(OF_GUEST) and kept in found and left_out not in found


@pytest.mark.parametrize(
    ("files", "code"),
    [
        ({}, "bar1-small"),  # a machine of its own
        (IN_A_GUEST, "iommu-translating"),  # the kernel of the guest decides
    ],
)
def test_what_the_owner_can_do_stays_as_the_page_has_it(files: Altered, code: str):
    host = AlteredHost(open_host(str(laid_down("ubuntu-6.8-h100"))), files=files)
    assert OF_GUEST not in advice_here(node_of(host), code)
