"""Distances in the topology file that NCCL reads instead of the kernel's tree."""

import pytest

from gdrkit.evidence import EvidenceAbsent, EvidenceMissing, MissingReason
from gdrkit.facts.rdma import Pair
from gdrkit.programs.nccl.facts import DEFAULT_FILE, distance_in_topology_file
from tests.hardware import GUEST, machine

FLAT = """
0000:00:00.0 qemu-root
0000:00:05.0 h100-sxm
0000:00:06.0 cx7-ib rdma=mlx5_0
"""
PAIR = Pair("0000:00:05.0", "mlx5_0")
GPU, NIC = '<pci busid="0000:00:05.0" class="0x030200"/>', '<pci busid="0000:00:06.0" class="0x020700"/>'


def switch(*inside: str) -> str:
    return f'<pci busid="ffff:01:00.0" class="0x060400">{"".join(inside)}</pci>'


def asked(system: str, name: str = DEFAULT_FILE, **more: str):
    return machine(FLAT, files=GUEST | {name: f'<system version="1">{system}</system>'} | more)


@pytest.mark.parametrize(
    ("system", "far"),
    [
        (f'<cpu numaid="0">{switch(GPU, NIC)}</cpu>', "PIX"),
        (f'<cpu numaid="0">{switch(GPU, switch(NIC))}</cpu>', "PXB"),
        (f'<cpu numaid="0">{switch(GPU)}{switch(NIC)}</cpu>', "PHB"),
        (f'<cpu numaid="0">{GPU}</cpu><cpu numaid="1">{NIC}</cpu>', "SYS"),
    ],
)
def test_a_pair_is_as_far_as_the_elements_that_both_are_in(system, far):
    assert distance_in_topology_file(asked(system), PAIR) == far


def test_a_file_that_a_setting_names_is_read():
    node = asked(switch(GPU, NIC), "opt/topo.xml", **{"etc/nccl.conf": "NCCL_TOPO_FILE=/opt/topo.xml\n"})
    assert distance_in_topology_file(node, PAIR) == "PIX"


@pytest.mark.parametrize("system", [switch(GPU), "", "<pci", f"{GPU}</cpu>"])
def test_a_file_without_both_or_that_is_cut_decides_nothing(system):
    with pytest.raises(EvidenceMissing) as caught:
        distance_in_topology_file(asked(system), PAIR)
    assert caught.value.missing.why is MissingReason.UNDECIDED


def test_without_a_file_there_is_no_answer():
    with pytest.raises(EvidenceAbsent):
        distance_in_topology_file(machine(FLAT, files=GUEST), PAIR)
