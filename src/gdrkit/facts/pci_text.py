"""PCI devices as `lspci -nnvvv` prints them.

Second-best evidence: sosreports and forum posts contain it, but not sysfs. Source of the layout: pciutils
3.9 lspci.c (show_terse, show_verbose, show_size), ls-caps.c (cap_express), ls-ecaps.c (cap_acs, cap_ats). A
device's lines begin with one tab, those of a capability with two.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

from gdrkit.evidence.quoting import quoted
from gdrkit.facts.commands import LSPCI
from gdrkit.facts.supplied import not_collected
from gdrkit.formats.errors import FormatError
from gdrkit.formats.pci_express import Acs
from gdrkit.formats.regex import regex
from gdrkit.formats.whole_number import whole_number
from gdrkit.node import Node, fact


class TextLink(Struct, frozen=True):
    """The link in LnkCap and LnkSta. A speed is None where lspci prints `unknown`."""

    max_gt_per_s: float | None
    max_width: int
    current_gt_per_s: float | None
    current_width: int


class TextDevice(Struct, frozen=True, kw_only=True):
    """One device of the listing. Empty and None: not printed."""

    address: str
    class_name: str  # "3D controller"
    name: str  # "NVIDIA Corporation GH100 [H100 SXM5 80GB]"
    class_code: str = ""  # "030200"; two digits shorter where the interface is not printed
    vendor: str = ""
    device: str = ""
    subsystem: str = ""  # "10de:16c1"
    revision: str = ""
    driver: str = ""
    buses: tuple[int, int] | None = None  # a bridge's secondary and subordinate bus
    regions: tuple[tuple[int, int], ...] = ()  # number and size in bytes of each used memory region
    port_type: str = ""  # "Endpoint", "Root Port", "Upstream Port", "Downstream Port"
    link: TextLink | None = None
    read_request_bytes: int | None = None
    payload_bytes: int | None = None
    max_payload_bytes: int | None = None
    acs: Acs | None = None
    ats_enabled: bool | None = None
    iommu_group: str = ""
    numa_node: int | None = None
    verbose: bool = False  # something is printed below the first line
    answered: bool | None = None  # whether the device did; None: only the kernel's list of it is printed
    denied: bool = False  # "<access denied>": the capabilities need root
    extended: bool = False  # an extended capability is printed, so one that is not printed does not exist
    line: int = 0  # the line of its title in the listing


CLASS_OF = {  # pci.ids, the names of classes; for listings without -nn
    "3D controller": "0302",
    "VGA compatible controller": "0300",
    "Ethernet controller": "0200",
    "Infiniband controller": "0207",
    "Network controller": "0280",
    "PCI bridge": "0604",
    "Host bridge": "0600",
}
VENDOR_OF = {"NVIDIA Corporation": "10de", "Mellanox Technologies": "15b3"}  # pci.ids
ACS_BITS = ("SrcValid", "TransBlk", "ReqRedir", "CmpltRedir", "UpstreamFwd", "EgressCtrl", "DirectTrans")
SIZES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}  # lspci.c, show_size()


def parse(text: str) -> tuple[TextDevice, ...]:
    """Every device in the listing, in order. Raises FormatError if there is none."""
    start = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([01][0-9a-f])\.([0-7]) (\S.*)")
    devices: list[TextDevice] = []
    head: re.Match[str] | None = None
    titled = 0
    below: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        match = start.fullmatch(line.rstrip())
        if match and _is_title(match[5]):
            if head:
                devices.append(_device(head, titled, below))
            head, titled, below = match, number, []
        elif line[:1] in ("\t", " "):
            below.append(line)
    if head:
        devices.append(_device(head, titled, below))
    if not devices:
        complaint = " ".join(text.split())[:120]
        raise FormatError(f"no device in the output of lspci: {complaint or 'empty'}")
    return tuple(devices)


def _is_title(rest: str) -> bool:
    """Whether the text after an address is a device's title and not prose: it has a class, number or
    name."""
    kind = rest.partition(": ")[0]
    return bool(re.search(r" \[[0-9a-f]{4}\]$|(?i:controller|bridge|memory|class|device|accelerator)", kind))


def _device(head: re.Match[str], line: int, below: list[str]) -> TextDevice:
    domain, bus, slot, function, rest = head.groups()
    return TextDevice(
        address=f"{int(domain or '0', 16):04x}:{bus}:{slot}.{function}",
        line=line,
        verbose=any(line.strip() for line in below),
        answered=_answered(rest, below),
        **_title(rest),  # type: ignore[arg-type]
        **_body(below),  # type: ignore[arg-type]
    )


def _answered(rest: str, below: list[str]) -> bool | None:
    """Whether the device answered lspci; None where nothing printed is from its configuration space.

    All ones are the unknown header type 7f. With any known type, -v prints flags, -vv the command register;
    -k alone prints neither. The revision is read from the device up to pciutils 3.7, later from sysfs.
    Source: lspci.c, show_verbose() and show_terse(); pciutils ChangeLog, 3.8.0.
    """
    keys = {line.strip().partition(":")[0] for line in below}
    if "!!! Unknown header type 7f" in keys:
        return False
    if not keys.isdisjoint(("Control", "Flags")):
        return True
    return False if "(rev ff)" in rest else None


def _title(rest: str) -> dict[str, object]:
    """`3D controller [0302]: NVIDIA Corporation GH100 [10de:2330] (rev a1)`, with or without the numbers."""
    match = re.fullmatch(
        r"(?P<class>.+?)(?: \[(?P<code>[0-9a-f]{4})\])?: (?P<name>.*?)"
        r"(?: \[(?P<vendor>[0-9a-f]{4}):(?P<device>[0-9a-f]{4})\])?"
        r"(?: \(rev (?P<rev>[0-9a-f]{2})\))?(?: \(prog-if (?P<if>[0-9a-f]{2}).*)?",
        rest,
    )
    if match is None:
        return {"class_name": rest, "name": ""}
    name, kind = match["name"], match["class"]
    vendor = match["vendor"] or next((v for words, v in VENDOR_OF.items() if name.startswith(words)), "")
    code = match["code"] or CLASS_OF.get(kind, "")
    return {
        "class_name": kind,
        "name": name,
        "class_code": code + (match["if"] or "00") if code else "",
        "vendor": vendor,
        "device": match["device"] or "",
        "revision": match["rev"] or "",
    }


_LINK = regex(r"Speed (\d{1,4}(?:\.\d{1,4})?)?(?:GT/s|unknown).*?Width x(\d{1,3})")
_BUSES = regex(r"secondary=([0-9a-f]{1,4}), subordinate=([0-9a-f]{1,4})")


def _body(below: list[str]) -> dict[str, object]:
    answers: dict[str, object] = {}
    regions: list[tuple[int, int]] = []
    link: dict[str, tuple[float | None, int]] = {}
    acs: dict[str, int] = {}
    for line in below:
        key, colon, value = (part.strip() for part in line.partition(":"))
        if not colon:
            if words := re.search(r"MaxReadReq (\d{1,9}) bytes", line):  # second line of DevCtl
                answers["read_request_bytes"] = int(words[1])
            if words := re.search(r"MaxPayload (\d{1,9}) bytes", line):
                answers["payload_bytes"] = int(words[1])
            continue
        if region := re.fullmatch(r"Region (\d{1,3})", key):
            if (size := re.search(r"\[size=(\d{1,9})([KMGT]?)\]", value)) and value.startswith("Memory"):
                regions.append((int(region[1]), int(size[1]) * SIZES[size[2]]))
        elif key == "DevCap" and (words := re.match(r"MaxPayload (\d{1,9}) bytes", value)):
            answers["max_payload_bytes"] = int(words[1])
        elif key in ("LnkCap", "LnkSta"):
            if found := _LINK.search(value):
                link[key] = float(found[1]) if found[1] else None, int(found[2])
        elif key in ("ACSCap", "ACSCtl"):
            acs[key] = sum(1 << i for i, bit in enumerate(ACS_BITS) if f"{bit}+" in value)
        else:
            answers.update(_field(key, value))
    answers["regions"] = tuple(sorted(regions))
    if len(link) == 2:
        answers["link"] = TextLink(*link["LnkCap"], *link["LnkSta"])
    if len(acs) == 2:
        answers["acs"] = Acs(capability=acs["ACSCap"], control=acs["ACSCtl"])
    return answers


def _field(key: str, value: str) -> Iterator[tuple[str, object]]:
    """The fields in one line `key: value`."""
    if key == "Subsystem" and (ids := re.search(r"\[([0-9a-f]{4}:[0-9a-f]{4})\]$", value)):
        yield "subsystem", ids[1]
    elif key == "Bus" and (buses := _BUSES.search(value)):
        yield "buses", (int(buses[1], 16), int(buses[2], 16))
    elif key == "Capabilities":
        if value == "<access denied>":
            yield "denied", True
        elif kind := re.match(r"\[[0-9a-f]+\] Express (?:\(v\d+\) )?([A-Za-z/ -]+?)(?: \(|,|$)", value):
            yield "port_type", kind[1]
        elif re.match(r"\[[0-9a-f]{3} v\d+\] ", value):
            yield "extended", True
    elif key == "ATSCtl":
        yield "ats_enabled", value.startswith("Enable+")
    elif key == "IOMMU group" and whole_number(value) is not None:
        yield "iommu_group", value
    elif key == "NUMA node" and (number := whole_number(value)) is not None:
        yield "numa_node", number
    elif key == "Kernel driver in use":
        yield "driver", value


@fact
def text_devices(node: Node) -> tuple[TextDevice, ...]:
    """Every device that `lspci -nnvvv` prints."""
    return parse(node.run(LSPCI))


@fact
def _by_address(node: Node) -> Mapping[str, TextDevice]:
    """Each device of the listing; of one that is listed twice, the first."""
    return {device.address: device for device in reversed(text_devices(node))}


def text_device(node: Node, address: str) -> TextDevice:
    """One device of the listing. Raises EvidenceMissing where it is not listed."""
    device = _by_address(node).get(address)
    if device is None:
        raise not_collected(f"lspci of {address}", f"lspci -nnvvv -s {quoted(address)}")
    node.mark(LSPCI.line, device.line)
    return device
