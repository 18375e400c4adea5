"""The networks that a port is in: addresses, routes and neighbours of its interface."""

from __future__ import annotations

import ipaddress
import re

from msgspec import Struct

from gdrkit.evidence import Command, EvidenceMissing
from gdrkit.facts.supplied import not_collected
from gdrkit.formats import json_text
from gdrkit.formats.errors import FormatError
from gdrkit.formats.regex import regex
from gdrkit.node import Node, fact, first_collected

IP_ADDR = Command(("ip", "-j", "addr"), ("sos_commands/gdr/ip_-j_addr",))
IP_ADDR_LINES = ("sos_commands/networking/ip_-o_addr",)
"""What sosreport has instead."""
ADDRESSES_LIMIT = 32
"""Addresses of an interface that are looked at."""

Interface = ipaddress.IPv4Interface | ipaddress.IPv6Interface


class NetworkInterface(Struct, frozen=True):
    """A network interface with its MAC address, "" where the source does not show it."""

    name: str
    mac: str
    addresses: tuple[str, ...]  # as 192.168.100.10/24


class _Address(Struct, frozen=True):
    local: str = ""
    prefixlen: int = -1


class _IpLink(Struct, frozen=True):
    ifname: str = ""
    address: str = ""
    addr_info: tuple[_Address, ...] = ()


class _ManifestFlags(Struct, frozen=True):
    anonymized: bool = False


@fact
def addresses_replaced(node: Node) -> bool:
    """Whether the addresses are not the machine's own: `gdr collect --anonymize` numbers them anew."""
    try:
        return json_text.decode(node.read("gdr_manifest.json"), _ManifestFlags).anonymized
    except (EvidenceMissing, FormatError):
        return False


@fact
def card(node: Node, net: str) -> NetworkInterface:
    """An interface with its addresses. Raises EvidenceMissing if they are not known or were replaced."""
    if addresses_replaced(node):
        raise not_collected(f"addresses of {net}", "gdr collect, without --anonymize")
    for found in _cards(node):
        if found.name == net:
            return found
    raise not_collected(f"addresses of {net}", "ip -j addr")


@fact
def _cards(node: Node) -> tuple[NetworkInterface, ...]:
    def in_json() -> tuple[NetworkInterface, ...]:
        links = json_text.decode(node.run(IP_ADDR), tuple[_IpLink, ...])
        return tuple(
            NetworkInterface(
                link.ifname,
                link.address.lower(),
                tuple(f"{one.local}/{one.prefixlen}" for one in link.addr_info[:ADDRESSES_LIMIT]),
            )
            for link in links
        )

    return first_collected(in_json, lambda: _in_lines(node.text(IP_ADDR_LINES[0])))


def _in_lines(text: str) -> tuple[NetworkInterface, ...]:
    """`ip -o addr`: `2: eth0    inet 192.0.2.2/24 brd ...`. Source: iproute2 ip/ipaddress.c."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        words = line.split(None, 4)
        if len(words) > 3 and words[2] in ("inet", "inet6"):
            found.setdefault(words[1], []).append(words[3])
    return tuple(
        NetworkInterface(name, "", tuple(values[:ADDRESSES_LIMIT])) for name, values in found.items()
    )


def interface_addresses(one: NetworkInterface) -> tuple[Interface, ...]:
    """Its IPv4 addresses with their networks, else those of IPv6 that are not link-local; sorted.

    NCCL takes IPv4 unless NCCL_IB_ADDR_FAMILY says otherwise; a link-local address of IPv4, as netplan gives
    it to a cable, is one that it takes."""
    found = []
    for text in one.addresses:
        try:
            found.append(ipaddress.ip_interface(text))
        except ValueError:
            continue
    old = {value for value in found if isinstance(value, ipaddress.IPv4Interface)}
    new = {v for v in found if isinstance(v, ipaddress.IPv6Interface) and not v.is_link_local}
    return tuple(sorted(old)) or tuple(sorted(new))


@fact
def networks(node: Node, net: str) -> tuple[str, ...]:
    """The networks that an interface is in, as 192.168.100.0/24; () without an address."""
    found = {str(address.network): None for address in interface_addresses(card(node, net))}
    return tuple(found)


@fact
def is_routed(node: Node, net: str) -> bool:
    """Whether a route through a gateway leaves by an interface, so that it reaches other networks.

    Source: iproute2 ip/iproute.c, print_route(): `default via 10.1.0.1 table 102`."""
    text = ask_interface(node, "ip route show table all dev", net)
    return re.search(r"\bvia (?:inet6? )?[0-9a-fA-F.:]+", text) is not None


@fact
def neighbours(node: Node, net: str) -> tuple[str, ...]:
    """The MAC addresses that the kernel has seen at the other end of an interface.

    Source: ip-neighbour(8): `192.168.100.11 lladdr 4c:bb:47:00:d1:e3 REACHABLE`."""
    text = ask_interface(node, "ip neigh show dev", net)
    found = re.findall(r"\blladdr ((?:[0-9a-f]{2}:){5}[0-9a-f]{2}) (?!FAILED|INCOMPLETE)", text)
    return tuple(sorted(set(found)))


_NAME = regex(r"\w[\w.-]{0,14}", re.ASCII)
"""Names of interfaces as udev and administrators give them (IFNAMSIZ is 16): none is an option of a command,
and each is a part of a file's name."""


def ask_interface(node: Node, command: str, net: str, plugin: str = "gdr") -> str:
    """What a command prints about an interface, whose name is its last word."""
    if not _NAME.fullmatch(net):
        raise not_collected(f"{command} of an interface with an odd name", "ip link")
    file = f"sos_commands/{plugin}/{'_'.join(command.split())}_{net}"
    return node.run(Command((*command.split(), net), (file,)))
