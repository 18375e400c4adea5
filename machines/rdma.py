"""RDMA devices and network interfaces in sysfs.

Formats: Linux drivers/infiniband/core/sysfs.c and device.c, drivers/infiniband/hw/mlx5/main.c,
drivers/infiniband/hw/efa, drivers/infiniband/sw/rxe."""

from __future__ import annotations

import zlib

from machines import other_programs, pci, ports
from machines.machine import Function, Machine
from machines.tree import Tree

_STATES = {
    "DOWN": ("1: DOWN", "3: Disabled"),
    "INIT": ("2: INIT", "5: LinkUp"),
    "ACTIVE": ("4: ACTIVE", "5: LinkUp"),
}
_RATES = {
    25: "25 Gb/sec (1X EDR)",
    40: "40 Gb/sec (4X QDR)",
    100: "100 Gb/sec (4X EDR)",
    200: "200 Gb/sec (4X HDR)",
    400: "400 Gb/sec (4X NDR)",
}


def write(tree: Tree, machine: Machine) -> None:
    """Write every RDMA device, every interface and the device nodes."""
    tree.line("sys/devices/virtual/net/lo/operstate", "unknown")
    tree.line("sys/devices/virtual/net/lo/type", 772)
    tree.link("sys/class/net/lo", "sys/devices/virtual/net/lo")
    if machine.rdma_driver_loaded:
        tree.folders.add("sys/class/infiniband")
        tree.line("sys/class/infiniband_verbs/abi_version", 6)
    devices = machine.nics if machine.rdma_driver_loaded else []
    for number, function in enumerate(devices):
        _device(tree, machine, function, number)
    for function in pci.real(machine):
        if function.net:
            _interface(tree, machine, function)
    if machine.device_nodes and devices:
        tree.file("dev/infiniband/rdma_cm", "")
        for number in range(len(devices)):
            tree.file(f"dev/infiniband/uverbs{number}", "")
            tree.file(f"dev/infiniband/umad{number}", "")
    ports.write(tree, machine)
    other_programs.write(tree, machine, other_programs.folders_of(machine, pci.folder))
    for bond in sorted({nic.bond for nic in devices if nic.bond}):
        _bond(tree, machine, bond)
    listing = ", ".join(f'{{"ifindex":{n},"ifname":"{f.rdma}"}}' for n, f in enumerate(devices))
    tree.command("sos_commands/gdr/rdma_-j_dev", ("rdma", "-j", "dev"), f"[{listing}]\n")
    tree.command("sos_commands/gdr/rdma_system", ("rdma", "system"), "netns shared copy-on-fork on\n")


def _bond(tree: Tree, machine: Machine, name: str) -> None:
    """A bond of the two ports of a card: Linux Documentation/networking/bonding.rst."""
    ports = [function for function in machine.functions if function.bond == name]
    at = f"sys/devices/virtual/net/{name}"
    tree.link(f"sys/class/net/{name}", at)
    tree.line(f"{at}/operstate", "up")
    tree.line(f"{at}/mtu", 9000)
    tree.line(f"{at}/type", 1)
    tree.line(f"{at}/bonding/mode", "802.3ad 4")
    tree.line(f"{at}/bonding/slaves", " ".join(port.net for port in ports))
    for port in ports:
        tree.link(f"{pci.folder(machine, port)}/net/{port.net}/master", at)


def _guid(value: int) -> str:
    text = f"{value:016x}"
    return ":".join(text[at : at + 4] for at in range(0, 16, 4))


def guids(function: Function) -> tuple[int, int]:
    """Node GUID and that of the card."""
    card = function.card or function.address[:-2]
    image = 0xA088C20300000000 | zlib.crc32(card.encode()) & 0xFFFFF0
    return image + zlib.crc32(function.address.encode()) % 16, image


def _device(tree: Tree, machine: Machine, function: Function, number: int) -> None:
    nic = function.nic
    software = nic is None
    at = f"sys/devices/virtual/infiniband/{function.rdma}"
    if not software:
        at = f"{pci.folder(machine, function)}/infiniband/{function.rdma}"
        tree.link(f"{at}/device", pci.folder(machine, function))
    else:
        tree.line(f"{at}/parent", function.net or "eth0")
    tree.link(f"sys/class/infiniband/{function.rdma}", at)
    node, image = guids(function)
    tree.line(f"{at}/node_guid", _guid(node))
    tree.line(f"{at}/sys_image_guid", _guid(image))
    tree.line(f"{at}/node_type", "4: <unknown>" if function.part == "EFA" else "1: CA")
    tree.line(f"{at}/node_desc", f"{machine.name} {function.rdma}")
    tree.line(f"{at}/fw_ver", nic.firmware if nic and nic.firmware else "0.0.0")
    if nic and nic.hca:
        tree.line(f"{at}/hca_type", nic.hca)
        tree.line(f"{at}/hw_rev", 0)
        tree.line(f"{at}/board_id", "MT_0000000838")
    _port(tree, f"{at}/ports/1", machine, function, node)
    tree.line(f"sys/class/infiniband_verbs/uverbs{number}/ibdev", function.rdma)
    tree.line(f"sys/class/infiniband_verbs/uverbs{number}/abi_version", 1)
    tree.line(f"sys/class/infiniband_mad/umad{number}/ibdev", function.rdma)
    tree.line(f"sys/class/infiniband_mad/umad{number}/port", 1)


def _port(tree: Tree, at: str, machine: Machine, function: Function, node: int) -> None:
    nic = function.nic
    ethernet = nic is None or nic.ethernet
    state, physical = _STATES[function.state]
    rate = function.rate or (nic.gbit_per_s if nic else 25)
    layer = "Unspecified" if function.part == "EFA" else "Ethernet" if ethernet else "InfiniBand"
    values: dict[str, object] = {
        "state": state,
        "phys_state": physical,
        "link_layer": layer,
        "rate": _RATES[40 if function.state == "DOWN" else rate],
        "lid": "0x0" if ethernet else f"0x{node % 200 + 1:x}",
        "sm_lid": "0x0" if ethernet else "0x1",
        "cap_mask": "0x00010000" if ethernet else "0xa751e848",
    }
    for name, value in values.items():
        tree.line(f"{at}/{name}", value)
    if nic is not None and function.part != "EFA":
        ports.counters(tree, at, ethernet=ethernet)
    low = _guid(node)
    local = f"fe80:0000:0000:0000:{low}"
    gids = [(local, "IB/RoCE v1")]
    if ethernet and function.part != "EFA":
        gids.append((local, "RoCE v2"))
        if function.state == "ACTIVE":
            _, _, rail, host = map(int, ports.address(machine, function).split("."))
            mapped = f"0000:0000:0000:0000:0000:ffff:c0a8:{rail:02x}{host:02x}"
            gids += [(mapped, "IB/RoCE v1"), (mapped, "RoCE v2")]
    for index, (gid, kind) in enumerate(gids):
        tree.line(f"{at}/gids/{index}", gid)
        tree.line(f"{at}/gid_attrs/types/{index}", kind)
        if ethernet and function.net:
            tree.line(f"{at}/gid_attrs/ndevs/{index}", function.bond or function.net)


def _interface(tree: Tree, machine: Machine, function: Function) -> None:
    nic = function.nic
    at = f"{pci.folder(machine, function)}/net/{function.net}"
    up = function.state == "ACTIVE"
    tree.link(f"sys/class/net/{function.net}", at)
    tree.link(f"{at}/device", pci.folder(machine, function))
    tree.line(f"{at}/operstate", "up" if up else "down")
    tree.line(f"{at}/mtu", 9000 if nic else 1500)
    tree.line(f"{at}/type", 32 if nic and not nic.ethernet else 1)
    if up:
        tree.line(f"{at}/speed", 1000 * (nic.gbit_per_s if nic else 10))
    if nic:
        tree.line(f"{at}/phys_port_name", function.port_name)
