"""The output of `ibv_devinfo -v`, as far as facts read it. Format: rdma-core
libibverbs/examples/devinfo.c."""

from __future__ import annotations

from tests.evidence_builder.pci import Device
from tests.evidence_builder.rdma import MODELS, card_guid

SPEEDS = {
    "100": "25.0 Gbps (32)",
    "200": "50.0 Gbps (64)",
    "400": "100.0 Gbps (128)",
}  # of each of four lanes
STATES = {
    "ACTIVE": "PORT_ACTIVE (4)",
    "DOWN": "PORT_DOWN (1)",
    "INIT": "PORT_INIT (2)",
    "ARMED": "PORT_ARMED (3)",
}


def text(devices: tuple[Device, ...]) -> str:
    """Every RDMA device of the outline."""
    return "\n".join(_one(device) for device in devices if "rdma" in device.attributes)


def _guid(value: int) -> str:
    return ":".join(f"{value:016x}"[at : at + 4] for at in range(0, 16, 4))


def _one(device: Device) -> str:
    image = card_guid(device)
    node = image + int(device.attributes.get("function", device.address[-1]))
    _, firmware, board = MODELS[device.ids[1]]
    ethernet = device.part.class_code == 0x020000
    rows = [
        (1, "transport", "InfiniBand (0)"),
        (1, "fw_ver", firmware),
        (1, "node_guid", _guid(node)),
        (1, "sys_image_guid", _guid(image)),
        (1, "vendor_id", "0x02c9"),
        (1, "vendor_part_id", str(device.ids[1])),
        (1, "hw_ver", "0x0"),
        (1, "board_id", board),
        (1, "phys_port_cnt", "1"),
        (2, "port", "1"),
        (3, "state", STATES[device.attributes.get("state", "ACTIVE")]),
        (3, "max_mtu", "4096 (5)"),
        (3, "active_mtu", "4096 (5)"),
        (3, "sm_lid", "0" if ethernet else "1"),
        (3, "port_lid", "0" if ethernet else "17"),
        (3, "link_layer", "Ethernet" if ethernet else "InfiniBand"),
        (3, "active_width", "4X (2)"),
        (3, "active_speed", SPEEDS[device.attributes.get("rate", "400")]),
        (
            3,
            "phys_state",
            "LINK_UP (5)" if device.attributes.get("state", "ACTIVE") == "ACTIVE" else "DISABLED (3)",
        ),
    ]
    body = "".join("\t" * (depth + (depth == 3)) + f"{name}:\t\t\t{value}\n" for depth, name, value in rows)
    return f"hca_id:\t{device.attributes['rdma']}\n{body}"
