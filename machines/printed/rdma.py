"""What the programs for RDMA devices print, from sysfs.

Forms: infiniband-diags 50 (ibstat.c; scripts/ibstatus), rdma-core 50 (libibverbs/examples/devinfo.c),
iproute2 (rdma/link.c), mlnx-tools (ibdev2netdev, show_gids).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from machines.printed.files import Files

CLASS = "sys/class/infiniband"
LAYERS = {"1": "InfiniBand (0)", "2": "InfiniBand (0)", "4": "iWARP (1)", "8": "unspecified (4)"}
"""ibv_node_type as ibv_devinfo names the transport: devinfo.c, transport_str()."""


class Port:
    """A port as sysfs shows it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.number = folder, folder.name
        self.device = folder.parent.parent
        state, _, self.state = read(folder / "state").partition(": ")
        self.state_number = state or "0"
        self.physical = read(folder / "phys_state").partition(": ")[2]
        self.rate = read(folder / "rate")
        self.layer = read(folder / "link_layer")
        self.net = next((one.name for one in sorted(self.device.glob("device/net/*"))), "")


def read(file: Path) -> str:
    """The content of a file of sysfs; "" if there is none."""
    return file.read_text(errors="replace").strip() if file.is_file() else ""


def printed(files: Files) -> Iterator[tuple[str, str]]:
    """Each command with its output; none if the RDMA devices were not looked at."""
    devices = list(files.below(f"{CLASS}/*"))
    if not devices:
        if files.is_empty(CLASS):
            yield "ibv_devinfo", "No IB devices found"
            yield "ibstat", ""
        return
    ports = [Port(port) for device in devices for port in sorted(device.glob("ports/*"))]
    rows = [f"{LINK} {device.name} -> {_target(device)}" for device in devices if device.is_symlink()]
    if rows:
        yield "ls -l /sys/class/infiniband", "\n".join(("total 0", *rows))
    yield "ibstat", "\n".join(_ibstat(device, ports) for device in devices)
    yield "ibstatus", "\n\n".join(map(_ibstatus, ports))
    yield "ibv_devinfo", "\n\n".join(_devinfo(device, ports) for device in devices)
    yield "rdma link", "\n".join(map(_rdma_link, ports))
    nets = (
        f"{port.device.name} port {port.number} ==> {port.net} ({_up(port)})" for port in ports if port.net
    )
    yield "ibdev2netdev", "\n".join(nets)
    yield "show_gids", _gids(ports)


LINK = "lrwxrwxrwx 1 root root 0 Nov 24 09:12"


def _target(device: Path) -> str:
    """Where the link of a device leads, as ls -l prints it: two folders up, then its place on the bus."""
    return f"../../devices/{str(device.readlink()).partition('devices/')[2]}"


def _up(port: Port) -> str:
    return "Up" if port.state == "ACTIVE" else "Down"


def _of(device: Path, ports: list[Port]) -> list[Port]:
    return [port for port in ports if port.device == device]


def _ibstat(device: Path, ports: list[Port]) -> str:
    own = _of(device, ports)
    lines = [
        f"CA '{device.name}'",
        f"\tCA type: {read(device / 'hca_type')}",
        f"\tNumber of ports: {len(own)}",
        f"\tFirmware version: {read(device / 'fw_ver')}",
        f"\tHardware version: {read(device / 'hw_rev')}",
        f"\tNode GUID: 0x{read(device / 'node_guid').replace(':', '')}",
        f"\tSystem image GUID: 0x{read(device / 'sys_image_guid').replace(':', '')}",
    ]
    for port in own:
        lines += [
            f"\tPort {port.number}:",
            f"\t\tState: {port.state.capitalize()}",
            f"\t\tPhysical state: {port.physical}",
            f"\t\tRate: {port.rate.split(' ')[0]}",
            f"\t\tBase lid: {int(read(port.folder / 'lid') or '0', 16)}",
            "\t\tLMC: 0",
            f"\t\tSM lid: {int(read(port.folder / 'sm_lid') or '0', 16)}",
            f"\t\tCapability mask: {read(port.folder / 'cap_mask') or '0x00010000'}",
            f"\t\tPort GUID: 0x{read(port.folder / 'gids/0').replace(':', '')[16:]}",
            f"\t\tLink layer: {port.layer}",
        ]
    return "\n".join(lines)


def _ibstatus(port: Port) -> str:
    rows = {
        "default gid": read(port.folder / "gids/0"),
        "base lid": read(port.folder / "lid"),
        "sm lid": read(port.folder / "sm_lid"),
        "state": f"{port.state_number}: {port.state}",
        "phys state": read(port.folder / "phys_state"),
        "rate": port.rate,
        "link_layer": port.layer,
    }
    lines = "\n".join(
        f"\t{key}:\t{' ' * (key in ('base lid', 'sm lid', 'state'))}{rows[key]}" for key in rows
    )
    return f"Infiniband device '{port.device.name}' port {port.number} status:\n{lines}"


def _devinfo(device: Path, ports: list[Port]) -> str:
    own = _of(device, ports)
    kind = read(device / "node_type").partition(":")[0]
    lines = [
        f"hca_id:\t{device.name}",
        f"\ttransport:\t\t\t{LAYERS.get(kind, 'InfiniBand (0)')}",
        f"\tfw_ver:\t\t\t\t{read(device / 'fw_ver')}",
        f"\tnode_guid:\t\t\t{read(device / 'node_guid')}",
        f"\tsys_image_guid:\t\t\t{read(device / 'sys_image_guid')}",
        "\tvendor_id:\t\t\t0x02c9",
        f"\tvendor_part_id:\t\t\t{read(device / 'hca_type').removeprefix('MT')}",
        f"\thw_ver:\t\t\t\t0x{read(device / 'hw_rev') or '0'}",
        f"\tboard_id:\t\t\t{read(device / 'board_id')}",
        f"\tphys_port_cnt:\t\t\t{len(own)}",
    ]
    for port in own:
        lines += [
            f"\t\tport:\t{port.number}",
            f"\t\t\tstate:\t\t\tPORT_{port.state} ({port.state_number})",
            "\t\t\tmax_mtu:\t\t4096 (5)",
            "\t\t\tactive_mtu:\t\t4096 (5)",
            f"\t\t\tsm_lid:\t\t\t{int(read(port.folder / 'sm_lid') or '0', 16)}",
            f"\t\t\tport_lid:\t\t{int(read(port.folder / 'lid') or '0', 16)}",
            "\t\t\tport_lmc:\t\t0x00",
            f"\t\t\tlink_layer:\t\t{port.layer}",
        ]
    return "\n".join(lines)


PHYSICAL = {"LinkUp": "LINK_UP", "Disabled": "DISABLED", "Polling": "POLLING", "Sleep": "SLEEP"}


def _rdma_link(port: Port) -> str:
    fabric = ""
    if port.layer == "InfiniBand":
        prefix = read(port.folder / "gids/0")[:19]
        lids = [int(read(port.folder / name) or "0", 16) for name in ("lid", "sm_lid")]
        fabric = f"subnet_prefix {prefix} lid {lids[0]} sm_lid {lids[1]} lmc 0 "
    net = f" netdev {port.net}" if port.net and not fabric else ""
    physical = PHYSICAL.get(port.physical, port.physical.upper())
    return (
        f"link {port.device.name}/{port.number} {fabric}state {port.state} physical_state {physical}{net} "
    )


def _gids(ports: list[Port]) -> str:
    rows = []
    for port in ports:
        for file in sorted(port.folder.glob("gids/*"), key=lambda one: int(one.name)):
            gid, kind = read(file), read(port.folder / "gid_attrs/types" / file.name)
            if gid.replace(":", "").strip("0"):
                version = "v2" if "v2" in kind else "v1"
                rows.append(
                    f"{port.device.name}\t{port.number}\t{file.name}\t{gid}\t\t\t{version}\t{port.net}"
                )
    return "\n".join((
        "DEV\tPORT\tINDEX\tGID\t\t\t\t\tIPv4  \t\tVER\tDEV",
        "---\t----\t-----\t---\t\t\t\t\t------------  \t---\t---",
        *rows,
        f"n_gids_found={len(rows)}",
    ))  # fmt: skip
