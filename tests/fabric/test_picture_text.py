"""The picture in characters: it fits, loses no device, and every fault has a sign and a word."""

from __future__ import annotations

import re

import pytest

from gdrkit.evidence.target import open_host
from gdrkit.fabric.picture import picture
from gdrkit.fabric.picture_text import picture_text
from gdrkit.fabric.topology import from_node
from gdrkit.fabric.topology.graph import Net, Role, Topology, TopologyDevice, TopologyGpu, TopologySource
from gdrkit.node import Node
from tests.evidence_nodes import build


def topology_of(node, folder):
    return from_node.topology(Node(open_host(str(build(node, folder)))))


def drawn(topology, width=80, **options):
    return picture_text(picture(topology), width=width, **options)


def sixteen_and_sixteen():
    """Two sockets with four switches each, and two GPUs and two NICs below each switch."""
    devices, gpus, nets = [], [], []
    for switch in range(8):
        bus = 0x10 * (switch + 1)
        above = f"0000:{bus:02x}:00.0"
        where = {"numa_node": switch // 4, "host_bridge": f"0000:{bus - 1:02x}"}
        devices.append(TopologyDevice(address=above, role=Role.BRIDGE, **where))
        for number in range(4):
            address = f"0000:{bus + 2 + number:02x}:00.0"
            role = Role.GPU if number < 2 else Role.NIC
            devices.append(TopologyDevice(address=address, parent=above, role=role, **where))
            if role is Role.GPU:
                gpus.append(TopologyGpu(id=address, address=address, index=len(gpus)))
            else:
                name = f"mlx5_{len(nets)}"
                nets.append(Net(id=name, device=name, address=address, rate_gbit_per_s=400, state="ACTIVE"))
    return Topology(origin=TopologySource.SYSFS, devices=tuple(devices), gpus=tuple(gpus), nets=tuple(nets))


@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii", None])
def test_sixteen_gpus_and_nics_fit_and_none_is_lost(width, encoding):
    shown = drawn(sixteen_and_sixteen(), width, encoding=encoding)

    assert max(map(len, shown.splitlines())) <= width
    assert sorted(re.findall(r"\bGPU \d+\b", shown)) == sorted(f"GPU {n}" for n in range(16))
    assert sorted(re.findall(r"\bmlx5_\d+\b", shown)) == sorted(f"mlx5_{n}" for n in range(16))
    assert shown.isascii() == (encoding != "utf-8")
    assert len(shown.splitlines()) <= (75 if width == 60 else 40)


def test_a_redirecting_switch_has_a_double_frame_and_each_device_below_it_says_acs(tmp_path):
    shown = drawn(topology_of("acs-redirect", tmp_path))

    assert "switch 16:00.0 ! ACS ═" in shown and shown.count("! ACS") == 3
    assert "\N{MULTIPLICATION SIGN} DOWN" in shown


def test_without_acs_no_frame_is_double_and_a_narrow_link_says_so(tmp_path):
    shown = drawn(topology_of("nic-x4", tmp_path))

    assert "═" not in shown and "ACS" not in shown
    assert re.search(r"! x4\b", shown) and "of x16" in shown


def test_faults_are_words_also_without_colours_and_without_box_characters(tmp_path):
    topology = topology_of("acs-redirect", tmp_path)
    plain = drawn(topology, encoding="ascii")
    coloured = drawn(topology, encoding="ascii", colour=True)

    assert "x DOWN" in plain and "! ACS" in plain and "######" in plain and "\x1b" not in plain
    stripped = re.sub(r"\x1b\[\d*m", "", coloured)
    assert [line.rstrip() for line in stripped.splitlines()] == plain.splitlines()
    assert "\x1b[31mx DOWN" in coloured


def test_a_name_that_a_stranger_chose_breaks_no_frame():
    address = "0000:01:00.0"
    topology = Topology(
        origin=TopologySource.SYSFS,
        devices=(TopologyDevice(address=address, role=Role.NIC, numa_node=0, host_bridge="0000:00"),),
        nets=(Net(id="\x1b[2J\u4e2d" * 20, device="x", address=address),),
    )
    lines = drawn(topology, 60).splitlines()

    assert "\x1b" not in "".join(lines) and len({len(line) for line in lines}) == 1
