"""What makes RoCE lossless, as each port has it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.evidence import EvidenceAbsent, EvidenceMissing
from gdrkit.facts import flow_control
from gdrkit.node import Node
from tests.memory_host import MemoryHost

PORT = "sys/class/infiniband/mlx5_0/ports/1"
TC = "sys/class/infiniband/mlx5_0/tc/1/traffic_class"
DEFAULT = " ".join(f"{dscp}:{dscp // 8}" for dscp in range(64))


def asked(argv, output):
    return Node(MemoryHost({}, commands={(*argv.split(), "eth1"): output}))


def files(content):
    return Node(MemoryHost(content, complete=True))


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("prio-pfc 0:off 1:off 2:off 3:on 4:off 5:off 6:off 7:off ", "3"),
        ("prio-pfc 0:off 1:off 2:off 3:on 4:off 5:on 6:off 7:off ", "3, 5"),
        ("prio-pfc 0:off 1:off 2:off 3:off 4:off 5:off 6:off 7:off ", "off"),
    ],
)
def test_priorities_with_flow_control(line, found):
    node = asked("dcb pfc show dev", f"pfc-cap 8 macsec-bypass off delay 7 \n{line}\n")
    assert flow_control.pfc(node, "eth1") == found


@pytest.mark.parametrize(
    ("output", "found"),
    [
        ("", "VLAN"),
        ("default-prio 3 \n", "VLAN"),
        (f"dscp-prio {DEFAULT} \n", "DSCP"),
        (f"dscp-prio {DEFAULT.replace('26:3', '26:5').replace('59:7', '59:5')} \n", "DSCP 26:5 59:5"),
    ],
)
def test_where_a_packet_has_its_priority_from(output, found):
    assert flow_control.priorities(asked("dcb -N app show dev", output), "eth1") == found


def test_pause_frames():
    text = "Pause parameters for eth1:\nAutonegotiate:\toff\nRX:\t\ton\nTX:\t\toff\n\n"
    assert flow_control.pause(asked("ethtool -a", text), "eth1") == "rx on, tx off"


@pytest.mark.parametrize(
    ("argv", "fact"),
    [
        ("dcb pfc show dev", flow_control.pfc),
        ("ethtool -a", flow_control.pause),
        ("dcb -N app show dev", flow_control.priorities),
    ],
)
def test_what_no_command_showed_is_not_known(argv, fact):
    with pytest.raises(EvidenceMissing):
        fact(asked("ls", ""), "eth1")
    if fact is not flow_control.priorities:  # no output means that nothing was set
        with pytest.raises(EvidenceMissing):
            fact(asked(argv, "something else\n"), "eth1")


def test_ecn_by_priority_as_ofed_shows_it():
    folder = "sys/class/net/eth1/ecn"
    found = {
        f"{folder}/roce_{role}/enable/{n}": f"{int(n == 3)}\n" for role in ("np", "rp") for n in range(8)
    }

    assert flow_control.ecn(files(found), "eth1") == "np 3, rp 3"


def test_ecn_is_not_known_with_the_kernels_own_driver():
    """Its firmware answers marks by default, and nothing in sysfs says so."""
    with pytest.raises(EvidenceMissing) as raised:
        flow_control.ecn(files({"sys/class/net/eth1/mtu": "9000\n"}), "eth1")
    assert not isinstance(raised.value, EvidenceAbsent)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("", "none"),
        ("Global tclass=236\n", "Global tclass=236"),
        (
            "Global tclass=106\ntclass=96 dst_ip=10.0.0.0/8\n",
            "Global tclass=106; tclass=96 dst_ip=10.0.0.0/8",
        ),
    ],
)
def test_the_traffic_class(content, found):
    assert flow_control.traffic_class(files({TC: content}), "mlx5_0") == found


def test_partition_keys_begin_with_the_one_that_programs_take():
    keys = {f"{PORT}/pkeys/{n}": key for n, key in enumerate(("0x8001\n", "0xffff\n", "0x0000\n"))}

    assert flow_control.partition_keys(files(keys), "mlx5_0", 1) == "0x8001, 0xffff"
    del keys[f"{PORT}/pkeys/0"]
    assert flow_control.partition_keys(files(keys), "mlx5_0", 1) == "none, 0xffff"


def counted(lost, received, discards="0"):
    host = MemoryHost(
        {
            f"{PORT}/hw_counters/out_of_sequence": f"{lost}\n",
            f"{PORT}/hw_counters/packet_seq_err": "0\n",
            f"{PORT}/counters/port_rcv_packets": f"{received}\n",
        },
        commands={("ethtool", "-S", "eth1"): f"NIC statistics:\n     rx_discards_phy: {discards}\n"},
    )
    return Node(host)


@pytest.mark.parametrize(
    ("lost", "received", "discards", "found"),
    [
        (0, 10**9, 0, "few"),
        (99_999, 10**9, 0, "few"),
        (100_001, 10**9, 0, "many"),
        (0, 10**9, 200_000, "many"),
    ],
)
def test_packets_that_are_lost_are_many_from_a_share_on(lost, received, discards, found):
    assert flow_control.lost_packets(counted(lost, received, discards), "mlx5_0", 1, "eth1") == found


def test_a_port_that_received_little_says_nothing():
    with pytest.raises(EvidenceMissing):
        flow_control.lost_packets(counted(500, 999_999), "mlx5_0", 1, "eth1")


@given(st.text())
def test_no_text_crashes_them(text):
    for argv, fact in (
        ("dcb pfc show dev", flow_control.pfc),
        ("dcb -N app show dev", flow_control.priorities),
        ("ethtool -a", flow_control.pause),
    ):
        try:
            fact(asked(argv, text), "eth1")
        except EvidenceMissing:
            continue
    node = files({TC: text, f"{PORT}/pkeys/0": text, f"{PORT}/hw_counters/out_of_sequence": text})
    flow_control.traffic_class(node, "mlx5_0")
    flow_control.partition_keys(node, "mlx5_0", 1)
    with pytest.raises(EvidenceMissing):
        flow_control.lost_packets(node, "mlx5_0", 1, "eth1")
