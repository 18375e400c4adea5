"""RDMA devices as `ibv_devinfo -v` prints them.

Second-best evidence, for sosreports. Source of the layout: rdma-core libibverbs/examples/devinfo.c,
print_hca_cap(): a device's lines begin with one tab, a port's with three.
"""

from __future__ import annotations

from msgspec import Struct

from gdrkit.evidence.quoting import quoted
from gdrkit.facts.commands import IBV_DEVINFO
from gdrkit.facts.supplied import not_collected
from gdrkit.formats.errors import FormatError
from gdrkit.formats.whole_number import whole_number
from gdrkit.node import Node, fact

NONE_FOUND = "No IB devices found"  # devinfo.c, main(); sosreports keep stderr with the output


class TextPort(Struct, frozen=True):
    """One port of the listing."""

    number: int
    state: str  # ACTIVE, DOWN, INIT, ARMED
    physical_state: str  # LINK_UP; empty where it is not printed
    rate_gbit_per_s: float
    link_layer: str


class TextRdmaDevice(Struct, frozen=True, kw_only=True):
    """One device of the listing."""

    name: str
    firmware: str = ""
    node_guid: str = ""
    sys_image_guid: str = ""
    board_id: str = ""
    ports: tuple[TextPort, ...] = ()


def parse(text: str) -> tuple[TextRdmaDevice, ...]:
    """Every device of the listing. Raises FormatError where it has none and does not report that."""
    blocks: list[tuple[dict[str, str], list[dict[str, str]]]] = []
    for line in text.splitlines():
        key, colon, value = (part.strip() for part in line.partition(":"))
        if not colon:
            continue
        if key == "hca_id":
            blocks.append(({"name": value}, []))
        elif not blocks:
            continue
        elif key == "port":
            if whole_number(value) is None:
                raise FormatError(f"not the number of a port: {value[:20]!r}")
            blocks[-1][1].append({"number": value})
        else:
            device, ports = blocks[-1]
            (ports[-1] if ports else device).setdefault(key, value)
    if not blocks and NONE_FOUND not in text:
        complaint = " ".join(text.split())[:120]
        raise FormatError(f"no device in the output of ibv_devinfo: {complaint or 'empty'}")
    return tuple(
        TextRdmaDevice(
            name=device["name"],
            firmware=device.get("fw_ver", ""),
            node_guid=device.get("node_guid", ""),
            sys_image_guid=device.get("sys_image_guid", ""),
            board_id=device.get("board_id", ""),
            ports=tuple(_port(port) for port in ports),
        )
        for device, ports in blocks
    )


def _port(fields: dict[str, str]) -> TextPort:
    """A port; `active_speed: 100.0 Gbps (128)` is for one lane, `active_width: 4X (2)` is the lane count."""
    try:
        state = fields["state"].split()[0].removeprefix("PORT_")
        width = float(fields["active_width"].split("X")[0])
        speed = float(fields["active_speed"].split()[0])
    except (KeyError, ValueError, IndexError) as error:
        raise FormatError(f"port {fields['number']} of ibv_devinfo is incomplete: {error}") from None
    physical = fields.get("phys_state", "").split()
    return TextPort(
        number=int(fields["number"]),
        state=state,
        physical_state=physical[0] if physical else "",
        rate_gbit_per_s=width * speed,
        link_layer=fields.get("link_layer", ""),
    )


@fact
def listed_rdma_devices(node: Node) -> tuple[TextRdmaDevice, ...]:
    """Every device that `ibv_devinfo -v` prints."""
    return parse(node.run(IBV_DEVINFO))


def listed_rdma_device(node: Node, device: str) -> TextRdmaDevice:
    """One device of the listing. Raises EvidenceMissing where it is not in it."""
    for found in listed_rdma_devices(node):
        if found.name == device:
            return found
    raise not_collected(f"ibv_devinfo of {device}", f"ibv_devinfo -v -d {quoted(device)}")
