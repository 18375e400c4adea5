"""What makes a network of RoCE lossless, and the partitions of InfiniBand, as each port has them."""

from __future__ import annotations

import re

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.evidence.quoting import quoted
from gdrkit.facts.networks import ask_interface
from gdrkit.facts.rdma import CLASS
from gdrkit.formats.errors import FormatError
from gdrkit.formats.whole_number import hex_number, whole_number
from gdrkit.node import Node, fact, if_absent, if_missing

MANY = 1e-4
"""Share of lost packets from which they cost bandwidth. RoCE sends everything after a lost packet again: its
throughput falls at 0.001 and above (Zhu et al., "Congestion Control for Large-Scale RDMA Deployments",
SIGCOMM 2015, section 2), and this is an order of magnitude below it."""

PACKETS_ENOUGH = 1_000_000
"""Fewer packets do not show such a share."""


@fact
def pfc(node: Node, net: str) -> str:
    """The priorities with priority flow control, as `3` or `3, 5`; `off` if there are none.

    Source: iproute2 dcb/dcb_pfc.c: `prio-pfc 0:off 1:off 2:off 3:on 4:off 5:off 6:off 7:off`."""
    text = ask_interface(node, "dcb pfc show dev", net)
    found = re.search(r"^\s*prio-pfc((?: [0-7]:(?:on|off))+)", text, re.MULTILINE)
    if found is None:
        raise FormatError(f"dcb pfc show dev {net}: no prio-pfc")
    return ", ".join(re.findall(r"([0-7]):on", found[1])) or "off"


@fact
def priorities(node: Node, net: str) -> str:
    """How a packet gets its priority: `VLAN`, or `DSCP` with the values that differ from DSCP / 8.

    Drivers list DSCP values only while they trust them. Source: dcb-app(8)."""
    text = ask_interface(node, "dcb -N app show dev", net)
    found = re.search(r"^\s*dscp-prio((?: \d{1,2}:[0-7])+)", text, re.MULTILINE)
    if found is None:
        return "VLAN"
    pairs = [(int(dscp), int(priority)) for dscp, priority in re.findall(r"(\d+):(\d)", found[1])]
    other = [f"{dscp}:{priority}" for dscp, priority in sorted(set(pairs)) if priority != dscp // 8]
    return " ".join(("DSCP", *other))


@fact
def pause(node: Node, net: str) -> str:
    """Whether an interface heeds and sends pause frames: `rx on, tx off`. Source: ethtool(8), -a."""
    text = ask_interface(node, "ethtool -a", net, "networking")
    found = dict(re.findall(r"^(RX|TX):\s+(on|off)\s*$", text, re.MULTILINE))
    if len(found) < 2:
        raise FormatError(f"ethtool -a {net}: no RX and TX")
    return f"rx {found['RX']}, tx {found['TX']}"


@fact
def ecn(node: Node, net: str) -> str:
    """The priorities on which ECN marks are answered (np) and heeded (rp), `np 3, rp 3`.

    OFED's driver shows them in sysfs; the kernel's own does not, and they are not known there."""
    both = []
    for role in ("np", "rp"):
        folder = f"sys/class/net/{net}/ecn/roce_{role}/enable"
        numbers = if_absent((), node.list, folder)
        if not numbers:
            raise EvidenceMissing(
                Missing(folder, MissingReason.UNDECIDED, f"grep . {quoted(f'/{folder}')}/*")
            )
        on = [name for name in sorted(numbers) if node.text(f"{folder}/{name}").strip() == "1"]
        both.append(f"{role} {' '.join(on) or 'off'}")
    return ", ".join(both)


@fact
def traffic_class(node: Node, device: str) -> str:
    """The traffic class that OFED's driver sets on all RDMA traffic, and its rules; `none` if it sets none.

    Source: MLNX_OFED drivers/infiniband/hw/mlx5/main.c, traffic_class_show(): `Global tclass=106`, then
    rules. The kernel's own driver has no such file, and sets none."""
    lines = if_absent("", node.text, f"{CLASS}/{device}/tc/1/traffic_class").splitlines()
    return "; ".join(" ".join(line.split()) for line in lines if line.strip()) or "none"


@fact
def partition_keys(node: Node, device: str, number: int) -> str:
    """The partition keys of a port: the first one, which programs take, then the others.

    Source: Documentation/ABI/stable/sysfs-class-infiniband. Raises EvidenceMissing if they are not known."""
    folder = f"{CLASS}/{device}/ports/{number}/pkeys"
    indexes = sorted(int(name) for name in node.list(folder) if re.fullmatch("[0-9]{1,5}", name))
    found = [(index, node.text(f"{folder}/{index}").strip().lower()) for index in indexes[:1024]]
    used = [(index, key) for index, key in found if hex_number(key)]
    first = "none" if not used or used[0][0] else used.pop(0)[1]
    return ", ".join((first, *sorted({key for _, key in used} - {first})))


@fact
def lost_packets(node: Node, device: str, number: int, net: str) -> str:
    """`few` or `many` packets that came out of sequence or were discarded since the node started.

    Sources: NVIDIA, "Understanding mlx5 Linux Counters"; Linux drivers/infiniband/hw/mlx5/counters.c. Raises
    EvidenceMissing where nothing counts them, or too little was received."""
    folder = f"{CLASS}/{device}/ports/{number}"
    counters = f"{folder}/hw_counters"
    out_of_sequence = _count(node.text(f"{counters}/out_of_sequence"))
    missed = if_absent(0, lambda: _count(node.text(f"{counters}/packet_seq_err")))
    received = _count(node.text(f"{folder}/counters/port_rcv_packets"))
    if received < PACKETS_ENOUGH:
        path = f"{folder}/counters/port_rcv_packets"
        raise EvidenceMissing(Missing(path, MissingReason.UNDECIDED, f"cat {quoted(f'/{path}')}"))
    discarded = if_missing(0, _discarded, node, net)
    return "many" if out_of_sequence + missed + discarded > MANY * received else "few"


def _discarded(node: Node, net: str) -> int:
    """Packets that the port dropped since it had no buffer for them."""
    text = ask_interface(node, "ethtool -S", net, "networking")
    found = re.search(r"^\s*rx_discards_phy: (\d+)$", text, re.MULTILINE)
    return _count(found[1]) if found else 0


def _count(text: str) -> int:
    value = whole_number(text.strip())
    if value is None:
        raise FormatError(f"not a counter: {text[:30]!r}")
    return value
