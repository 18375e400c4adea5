"""RDMA devices in sysfs: sys/class/infiniband, their network interfaces, /dev/infiniband.

Attributes of the outline's lines: `rdma` the device's name, `net` its interface, `state`, `rate` in Gb/s,
`card` for functions of one card, `guid` of that card, `port_name`, `board` id. Formats: Linux
drivers/infiniband/core/sysfs.c, drivers/infiniband/hw/mlx5/main.c (hca_type, board_id)."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

from tests.evidence_builder.pci import Device
from tests.evidence_builder.tree import Tree

STATES = {"DOWN": "1: DOWN", "INIT": "2: INIT", "ARMED": "3: ARMED", "ACTIVE": "4: ACTIVE"}
PHYSICAL = {"DOWN": "3: Disabled", "INIT": "5: LinkUp", "ARMED": "5: LinkUp", "ACTIVE": "5: LinkUp"}
RATES = {
    "25": "25 Gb/sec (1X EDR)",
    "40": "40 Gb/sec (4X QDR)",
    "100": "100 Gb/sec (4X EDR)",
    "200": "200 Gb/sec (4X HDR)",
    "400": "400 Gb/sec (4X NDR)",
}
MODELS = {  # PCI device id -> hca_type, firmware, board_id
    0x1015: ("MT4117", "14.32.1010", "MT_2420110034"),
    0x1018: ("MT4120", "16.35.2000", "MT_0000000009"),
    0x1019: ("MT4121", "16.35.4030", "MT_0000000013"),
    0x101B: ("MT4123", "20.39.3004", "MT_0000000223"),
    0x101D: ("MT4125", "22.39.2048", "MT_0000000359"),
    0xEFA2: ("EFA", "0.0.0.0", ""),
    0x1021: ("MT4129", "28.43.2026", "MT_0000000838"),
}


def write(tree: Tree, devices: tuple[Device, ...], spec: Mapping[str, Any]) -> None:
    """Write every device of the outline that has an `rdma` or a `net` attribute."""
    _interface(tree, "sys/devices/virtual/net/lo", "lo", "", "unknown")
    cards = [device for device in devices if "rdma" in device.attributes]
    if spec.get("class", True):
        tree.folder("sys/class/infiniband")
    for number, device in enumerate(cards):
        _device(tree, device, number, spec)
    for device in devices:
        if "net" in device.attributes:
            up = device.attributes.get("state", "ACTIVE") == "ACTIVE"
            at = f"{device.folder}/net/{device.attributes['net']}"
            speed = int(device.attributes.get("rate", "1")) * 1000
            port = device.attributes.get("port_name", "p0" if "rdma" in device.attributes else "")
            _interface(tree, at, device.attributes["net"], port, "up" if up else "down", speed)
            tree.link(f"{at}/device", device.folder)
    if spec.get("device_nodes", True) and cards:
        tree.file("dev/infiniband/rdma_cm", "")
        for number in range(len(cards)):
            tree.file(f"dev/infiniband/uverbs{number}", "")
            tree.file(f"dev/infiniband/umad{number}", "")


def _guid(value: int) -> str:
    text = f"{value:016x}"
    return ":".join(text[at : at + 4] for at in range(0, 16, 4))


def card_guid(device: Device) -> int:
    """The GUID of a card: all its functions share it."""
    if "guid" in device.attributes:
        return int(device.attributes["guid"], 16)
    card = device.attributes.get("card", device.address.rsplit(".", 1)[0])
    return 0xA088C20300000000 | zlib.crc32(card.encode()) & 0xFFFFF0


def _device(tree: Tree, device: Device, number: int, spec: Mapping[str, Any]) -> None:
    name = device.attributes["rdma"]
    at = f"{device.folder}/infiniband/{name}"
    tree.link(f"sys/class/infiniband/{name}", at)
    tree.link(f"{at}/device", device.folder)
    tree.link(f"{at}/subsystem", "sys/class/infiniband")
    image = card_guid(device)
    node = image + int(device.attributes.get("function", device.address[-1]))
    model, firmware, board = MODELS[device.ids[1]]
    tree.line(f"{at}/node_guid", _guid(node))
    tree.line(f"{at}/sys_image_guid", _guid(image))
    tree.line(f"{at}/node_type", "1: CA")
    tree.line(f"{at}/node_desc", f"{spec.get('hostname', 'node')} {name}")
    tree.line(f"{at}/hca_type", model)
    tree.line(f"{at}/hw_rev", "0")
    tree.line(f"{at}/fw_ver", spec.get("firmware", firmware))
    tree.line(f"{at}/board_id", device.attributes.get("board", spec.get("board_id", board)))
    _port(tree, f"{at}/ports/1", device, node)
    tree.line(f"sys/class/infiniband_verbs/uverbs{number}/ibdev", name)
    tree.line(f"sys/class/infiniband_verbs/uverbs{number}/abi_version", "1")
    tree.line("sys/class/infiniband_verbs/abi_version", "6")
    tree.line(f"sys/class/infiniband_mad/umad{number}/ibdev", name)
    tree.line(f"sys/class/infiniband_mad/umad{number}/port", "1")


def _port(tree: Tree, at: str, device: Device, node_guid: int) -> None:
    state = device.attributes.get("state", "ACTIVE")
    ethernet = device.part.class_code == 0x020000
    tree.line(f"{at}/state", STATES[state])
    tree.line(f"{at}/phys_state", PHYSICAL[state])
    tree.line(f"{at}/rate", RATES[device.attributes.get("rate", "400")])
    tree.line(f"{at}/link_layer", "Ethernet" if ethernet else "InfiniBand")
    number = int(device.attributes["rdma"].rsplit("_", 1)[-1]) if "_" in device.attributes["rdma"] else 0
    tree.line(f"{at}/lid", "0x0" if ethernet else f"0x{0x10 + number:x}")
    tree.line(f"{at}/sm_lid", "0x0" if ethernet else "0x1")
    tree.line(f"{at}/cap_mask", "0x00010000" if ethernet else "0xa751e848")
    for counter in ("port_xmit_data", "port_rcv_data", "symbol_error", "link_downed"):
        tree.line(f"{at}/counters/{counter}", "0")
    low = _guid(node_guid) if not ethernet else _guid(node_guid ^ 0x0200_00FF_FE00_0000)
    gids = [f"fe80:0000:0000:0000:{low}"]
    kinds = ["IB/RoCE v1"]
    if ethernet:
        third = zlib.crc32(device.address.encode()) % 250 + 1
        mapped = f"0000:0000:0000:0000:0000:ffff:c0a8:{third:02x}01"
        gids = [gids[0], gids[0], mapped, mapped] if state == "ACTIVE" else [gids[0], gids[0]]
        kinds = ["IB/RoCE v1", "RoCE v2"] * 2
    for index in range(4):
        empty = "0000:" * 7 + "0000"
        tree.line(f"{at}/gids/{index}", gids[index] if index < len(gids) else empty)
        if index < len(gids):  # reading the type of an empty entry fails with EINVAL
            tree.line(f"{at}/gid_attrs/types/{index}", kinds[index])
            if ethernet and "net" in device.attributes:
                tree.line(f"{at}/gid_attrs/ndevs/{index}", device.attributes["net"])


def _interface(tree: Tree, at: str, name: str, port: str, state: str, speed: int = 0) -> None:
    tree.link(f"sys/class/net/{name}", at)
    tree.line(f"{at}/operstate", state)
    tree.line(f"{at}/mtu", 65536 if name == "lo" else 9000 if speed >= 25000 else 1500)
    tree.line(f"{at}/type", 772 if name == "lo" else 32 if name.startswith("ib") else 1)
    if speed and state == "up":
        tree.line(f"{at}/speed", speed)
    if port:
        tree.line(f"{at}/phys_port_name", port)
