"""The text of `lspci -nnvv`, which sosreports and bug reports have instead of sysfs.

Format: pciutils lspci.c, ls-caps.c and ls-ecaps.c, reduced to the lines that facts read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.evidence_builder.config_space import ACS_BITS
from tests.evidence_builder.pci import Device, acs_of, link_of, numa_of, resources

CLASSES = {
    0x0300: "VGA compatible controller",
    0x0302: "3D controller",
    0x0207: "Infiniband controller",
    0x0200: "Ethernet controller",
    0x0604: "PCI bridge",
    0x0600: "Host bridge",
}
VENDORS = {0x10DE: "NVIDIA Corporation", 0x15B3: "Mellanox Technologies", 0x8086: "Intel Corporation"}
WORDS = {"SV": "SrcValid", "TB": "TransBlk", "RR": "ReqRedir", "CR": "CmpltRedir", "UF": "UpstreamFwd",
         "EC": "EgressCtrl", "DT": "DirectTrans"}  # fmt: skip
PORTS = {
    "root-port": "Root Port (Slot-)",
    "switch-up": "Upstream Port",
    "switch-down": "Downstream Port (Slot-)",
}


def text(
    devices: tuple[Device, ...],
    spec: Mapping[str, Any],
    *,
    root: bool = True,
    dumps: Mapping[str, bytes] | None = None,
) -> str:
    """The output for every device, ordered by address. Without root, capabilities are denied.

    With `dumps` (address -> configuration space) it is that of `lspci -nnDvvvxxxx`."""
    several = dumps is not None or len({device.address[:4] for device in devices}) > 1
    dumped = dumps or {}
    blocks = [
        _device(device, devices, spec, root, several) + _dump(dumped.get(device.address, b""))
        for device in devices
    ]
    return "\n".join(block for _, block in sorted(zip((d.address for d in devices), blocks, strict=True)))


def _dump(raw: bytes) -> str:
    return "".join(f"{at:02x}: {raw[at : at + 16].hex(' ')}\n" for at in range(0, len(raw), 16))


def _device(
    device: Device, devices: tuple[Device, ...], spec: Mapping[str, Any], root: bool, several: bool
) -> str:
    vendor, identity, subvendor, subdevice = device.ids
    part = device.part
    title = CLASSES.get(part.class_code >> 8, "Class")
    name = f"{VENDORS.get(vendor, 'Device')} {part.name or 'Device'}".rstrip()
    where = device.address if several else device.address[5:]
    head = f"{where} {title} [{part.class_code >> 8:04x}]: {name} [{vendor:04x}:{identity:04x}]"
    lines = [head + (f" (rev {part.revision:02x})" if part.revision else "")]
    if part.class_code >> 8 == 0x0604:
        lines[0] += " (prog-if 00 [Normal decode])"
    lines.append(f"Subsystem: Device [{subvendor:04x}:{subdevice:04x}]")
    lines.append(
        "Control: I/O- Mem+ BusMaster+ SpecCycle- MemWINV- VGASnoop- ParErr+ Stepping- SERR+ FastB2B-"
    )
    if numa_of(device, spec) != "-1":
        lines.append(f"NUMA node: {numa_of(device, spec)}")
    if device.below:
        secondary, last = device.below[0], device.below[-1]
        lines.append(
            f"Bus: primary={device.address[5:7]}, secondary={secondary}, subordinate={last}, sec-latency=0"
        )
    for bar in resources(devices)[device.address]:
        kind = "64-bit, prefetchable" if bar.wide else "32-bit, non-prefetchable"
        lines.append(f"Region {bar.index}: Memory at {bar.base:x} ({kind}) [size={_size(bar.size)}]")
    lines += _capabilities(device) if root else ["Capabilities: <access denied>"]
    driver = device.attributes.get("driver", part.driver)
    if driver not in ("", "none"):
        lines += [f"Kernel driver in use: {driver}", f"Kernel modules: {driver.replace('-', '_')}"]
    return lines[0] + "\n" + "".join(f"\t{line}\n" for line in lines[1:])


def _capabilities(device: Device) -> list[str]:
    link = link_of(device)
    if link is None:
        return []
    read = device.attributes.get("mrrs", "4096" if device.part.driver == "mlx5_core" else "512")
    down = [" (downgraded)" if worse else " (ok)" for worse in (
        float(link.current_speed) < float(link.max_speed), link.current_width < link.max_width)]  # fmt: skip
    speeds = [speed.removesuffix(".0") for speed in (link.max_speed, link.current_speed)]
    lines = [
        f"Capabilities: [60] Express (v2) {PORTS.get(device.part.kind, 'Endpoint')}, MSI 00",
        "\tDevCap:\tMaxPayload 512 bytes, PhantFunc 0",
        "\tDevCtl:\tCorrErr- NonFatalErr- FatalErr- UnsupReq-",
        "\t\tRlxdOrd+ ExtTag+ PhantFunc- AuxPwr- NoSnoop+",
        f"\t\tMaxPayload 256 bytes, MaxReadReq {read} bytes",
        f"\tLnkCap:\tPort #0, Speed {speeds[0]}GT/s, Width x{link.max_width}, ASPM not supported",
        f"\tLnkSta:\tSpeed {speeds[1]}GT/s{down[0]}, Width x{link.current_width}{down[1]}",
    ]
    control = acs_of(device)
    if control is not None:
        can = ("SV", "TB", "RR", "CR", "UF", "DT")
        lines.append("Capabilities: [150 v1] Access Control Services")
        for name, bits in (("ACSCap", can), ("ACSCtl", control)):
            said = " ".join(f"{WORDS[bit]}{'+' if bit in bits else '-'}" for bit in ACS_BITS)
            lines.append(f"\t{name}:\t{said}")
    return lines


def _size(size: int) -> str:
    for unit in "", "K", "M", "G":
        if size < 1024:
            return f"{size}{unit}"
        size //= 1024
    return f"{size}T"
