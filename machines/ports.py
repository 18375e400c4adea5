"""What commands and counters show of each port: addresses, routes, flow control, partitions.

Formats: iproute2 ip/ipaddress.c, ip/iproute.c and dcb/; ethtool(8); Linux drivers/infiniband/core/sysfs.c.
"""

from __future__ import annotations

import json

from machines.machine import Function, Machine
from machines.tree import Tree

PFC = "pfc-cap 8 macsec-bypass off delay 7 \n" + "prio-pfc 0:off 1:off 2:off 3:on 4:off 5:off 6:off 7:off \n"
PAUSE = "Pause parameters for {}:\nAutonegotiate:\toff\nRX:\t\toff\nTX:\t\toff\n\n"
DSCP = f"dscp-prio {' '.join(f'{dscp}:{dscp // 8}' for dscp in range(64))} \n"


def address(machine: Machine, function: Function) -> str:
    """The IPv4 address of a port: each port of a machine is in a network of its own."""
    rail = machine.nics.index(function) % 250 + 1
    return f"192.168.{rail}.{machine.number % 250 + 1}"


def mac(function: Function, machine: Machine) -> str:
    rail, number = machine.nics.index(function), machine.number
    return f"a0:88:c2:{number >> 8 & 255:02x}:{number & 255:02x}:{rail & 255:02x}"


def write(tree: Tree, machine: Machine) -> None:
    """Write what each port of a NIC with an interface shows."""
    cards = []
    for function in machine.nics:
        nic = function.nic
        if nic is None or not function.net or not nic.ethernet or function.part == "EFA" or function.bond:
            continue
        up = function.state == "ACTIVE"
        ip = address(machine, function)
        local = [{"family": "inet", "local": ip, "prefixlen": 24, "scope": "global"}] if up else []
        cards.append({"ifname": function.net, "address": mac(function, machine), "addr_info": local})
        route = f"192.168.{ip.split('.')[2]}.0/24 proto kernel scope link src {ip} \n" if up else ""
        for argv, output in (
            ("ip route show table all dev", route),
            ("dcb pfc show dev", PFC),
            ("dcb -N app show dev", DSCP),
        ):
            file = f"sos_commands/gdr/{argv.replace(' ', '_')}_{function.net}"
            tree.command(file, (*argv.split(), function.net), output)
        file = f"sos_commands/networking/ethtool_-a_{function.net}"
        tree.command(file, ("ethtool", "-a", function.net), PAUSE.format(function.net))
    if cards:
        tree.command("sos_commands/gdr/ip_-j_addr", ("ip", "-j", "addr"), json.dumps(cards) + "\n")


def counters(tree: Tree, at: str, *, ethernet: bool) -> None:
    """The counters of a port below its folder, and its partition keys."""
    tree.line(f"{at}/counters/port_rcv_packets", 5_000_000)
    if ethernet:
        tree.line(f"{at}/hw_counters/out_of_sequence", 12)
        tree.line(f"{at}/hw_counters/packet_seq_err", 0)
    tree.line(f"{at}/pkeys/0", "0xffff")
