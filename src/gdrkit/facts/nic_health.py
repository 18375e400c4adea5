"""Functions of mlx5 NICs whose firmware failed in this boot, or never started, by the kernel log and the PCI
id.

    mlx5_core 0000:18:00.0: poll_health:952:(pid 0): device's health compromised - reached miss count
    mlx5_core 0000:18:00.0: mlx5_health_try_recover:371:(pid 9): health recovery succeeded
    mlx5_core 0000:18:00.0: mlx5_function_enable:1130:(pid 17): Firmware over 120000 MS in pre-initializing \
state, aborting

Source: Linux drivers/net/ethernet/mellanox/mlx5/core/health.c, main.c and fw_reset.c.
"""

from __future__ import annotations

from gdrkit.evidence import Confidence, EvidenceMissing
from gdrkit.facts import kernel_log
from gdrkit.facts.pci import PciDevice, device_at
from gdrkit.facts.rdma import nic_address, nics, ports
from gdrkit.formats.regex import regex
from gdrkit.formats.whole_number import hex_number
from gdrkit.node import Node, each_known, fact, if_missing

MELLANOX = "15b3"  # pci.ids
FIRST_RECOVERY_ID, LAST_RECOVERY_ID = 0x0209, 0x0221
"""pci.ids: the ids of ConnectX-4 to ConnectX-8 and BlueField in flash recovery, 0209 to 0221: their firmware
did not start, and nothing but flashing works."""

_MLX5 = regex(
    r"mlx5_core(?:: probe of)? (?P<address>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]):? (?P<text>.*)"
)
"""`mlx5_core: probe of 0000:18:00.0 failed with error -16` before Linux 6.12, from then on `mlx5_core
0000:18:00.0: probe with driver mlx5_core failed with error -16`: drivers/base/dd.c, call_driver_probe()."""
_FAILED = regex(
    r"device's health compromised|PCI slot is unavailable|Fatal error \d+ detected"
    r"|handling bad device here|starting health recovery flow|health recovery (?:failed|flow aborted)"
    r"|Firmware over \d+ MS in (?:pre-)?initializing state"
    r"|init_one failed with error code|failed with error -\d+"
)
_WORKS = regex(
    r"health recovery succeeded|health revovery succeded"  # misspelt before Linux 5.13
    r"|firmware version: (?!65535\.65535)\d"  # the function starts anew; all ones if it cannot be read
)


@fact
def nic_fault(node: Node, address: str) -> str:
    """How the firmware of a NIC failed; "" if it works.

    Without the kernel log, a port that is active shows that it likely works; otherwise raises
    EvidenceMissing."""
    known = if_missing(None, device_at, node, address)
    if known is not None and is_in_recovery(known):
        return f"it is in flash recovery ({known.vendor}:{known.device})"
    try:
        log = kernel_log.lines(node)
    except EvidenceMissing:
        if known is not None and known.driver != "mlx5_core":
            return ""
        if not _has_active_port(node, address):
            raise
        node.cite(f"health of {address}", text="a port is active", confidence=Confidence.LIKELY)
        return ""
    for line in reversed(log.lines):
        about, text = _about(line.text)
        if about != address:
            continue
        if _WORKS.search(text):
            return ""
        if _FAILED.search(text):
            node.cite(log.source, text=line.text, line=line.number)
            return text
    return ""


def _about(text: str) -> tuple[str, str]:
    """The function that a line of mlx5_core is about, and the rest of the line; "" for any other line."""
    found = _MLX5.match(text)
    return (found["address"], found["text"]) if found else ("", "")


def is_in_recovery(device: PciDevice) -> bool:
    """Whether a function is a NIC that waits for its firmware to be flashed."""
    number = hex_number(device.device)
    return (
        device.vendor == MELLANOX and number is not None and FIRST_RECOVERY_ID <= number <= LAST_RECOVERY_ID
    )


def _has_active_port(node: Node, address: str) -> bool:
    names = each_known(lambda nic: (nic.name, nic_address(node, nic.name)), if_missing((), nics, node))
    return any(
        port.state == "ACTIVE"
        for name, own in tuple(names)
        if own == address
        for port in if_missing((), ports, node, name)
    )
