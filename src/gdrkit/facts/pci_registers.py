"""A PCI function's registers: its link, ACS, ATS, read request size and memory regions.

Read from sysfs, else from the output of `lspci -nnvvv`, and for GPUs last from `nvidia-smi -q`. Only root
can read beyond the first 64 bytes (Linux drivers/pci/pci-sysfs.c, pci_read_config()).
"""

from __future__ import annotations

from typing import TypeVar

from msgspec import Struct

from gdrkit.evidence import EvidenceAbsent, EvidenceMissing, Missing, MissingReason
from gdrkit.evidence.quoting import quoted
from gdrkit.facts.nvidia_smi import printed_field, smi_gpu
from gdrkit.facts.pci import ROOT, there
from gdrkit.facts.pci_text import TextDevice, text_device
from gdrkit.facts.supplied import not_collected
from gdrkit.formats import pci_config
from gdrkit.formats.errors import FormatError
from gdrkit.formats.pci_config import Config
from gdrkit.formats.pci_express import Acs, Express
from gdrkit.formats.pci_registers import Truncated
from gdrkit.formats.whole_number import hex_number
from gdrkit.node import Node, fact, first_collected, first_of

T = TypeVar("T")


class LinkSpeeds(Struct, frozen=True):
    """A PCIe link as one of its ends reports it: downstream ports the link below, others the link above."""

    current_gt_per_s: float
    current_width: int
    max_gt_per_s: float
    max_width: int


@fact
def config(node: Node, address: str) -> Config:
    """A device's configuration space: complete for root, else the first 64 bytes."""
    return pci_config.parse(node.read(_config_file(node, address)))


@fact
def answers(node: Node, address: str) -> bool:
    """Whether a device that is listed answers reads of its configuration space.

    Only its header shows that it does not. Where that is not readable, a link that the device reports, or
    what a program printed of it, shows that it does. Raises EvidenceMissing where nothing shows either."""

    def in_link() -> bool:
        """From sysfs, where the kernel reads it from the device; all ones are `Unknown` and a width of 63:
        drivers/pci/pci-sysfs.c, current_link_width_show()."""
        folder = f"{ROOT}/{address}"
        speed = node.text(f"{folder}/current_link_speed").partition(" ")[0]
        _link(address, speed, node.text(f"{folder}/current_link_width").strip(), speed, 32)
        return True

    def in_text() -> bool:
        answered = text_device(node, address).answered
        if answered is None:
            raise not_collected(f"header of {address}", f"lspci -v -s {quoted(address)}")
        return answered

    def in_smi() -> bool:
        """The driver reads these from the GPU; of one that is lost, nvidia-smi prints no number."""
        gpu = smi_gpu(node, address)
        names = (
            name
            for name in ("generation_current", "bar1_total_mib", "framebuffer_mib")
            if getattr(gpu, name)
        )
        printed_field(node, gpu, next(names, "generation_current"))
        return True

    return first_collected(
        lambda: first_of(lambda: _header_answers(node, address), in_link), in_text, in_smi
    )


@fact
def _header_answers(node: Node, address: str) -> bool:
    file = _config_file(node, address)
    answered = pci_config.answers(node.read(file))
    if not answered:
        node.cite(file, text="ff in each of the first 64 bytes")
    return answered


@fact
def _config_file(node: Node, address: str) -> str:
    """The file that has a device's configuration space."""
    domain, bus, slot = address[:4], address[5:7], address[8:]
    folder = bus if domain == "0000" else f"{domain}:{bus}"  # drivers/pci/proc.c, pci_proc_attach_device()

    def in_sysfs() -> str:
        node.read(f"{ROOT}/{address}/config")
        return f"{ROOT}/{address}/config"

    def in_proc() -> str:
        """sosreports have these files and no sysfs. Their absence does not show that there is no device."""
        path = f"proc/bus/pci/{folder}/{slot}"
        try:
            node.read(path)
        except EvidenceAbsent:
            raise not_collected(
                f"{ROOT}/{address}/config", f"sudo lspci -vvv -s {quoted(address)}"
            ) from None
        return path

    return first_collected(in_sysfs, in_proc)


def _capability(node: Node, address: str, found: T | Truncated) -> T:
    """A capability. Raises EvidenceMissing where the file ends before it, as for users other than root."""
    if isinstance(found, Truncated):
        raise EvidenceMissing(
            Missing(
                f"{ROOT}/{address}/config beyond byte {found.size_bytes}",
                MissingReason.DENIED,
                f"sudo lspci -vvv -s {quoted(address)}",
            )
        )
    return found


def _express(node: Node, address: str) -> Express:
    express = _capability(node, address, config(node, address).express)
    if express is None:
        raise EvidenceAbsent(
            Missing(
                f"PCI Express capability of {address}",
                MissingReason.ABSENT,
                f"lspci -vv -s {quoted(address)}",
            )
        )
    return express


@fact
def acs(node: Node, address: str) -> Acs | None:
    """A port's Access Control Services, which decide about peer traffic; None where it has none.

    Raises EvidenceMissing, and never returns None, where only the first 64 bytes are readable."""

    def in_text() -> Acs | None:
        device = _capabilities_of(node, address)
        if device.acs is None and not device.extended and "Express" not in device.class_name:
            raise not_collected(f"ACS of {address}", f"sudo lspci -vvv -s {quoted(address)}")
        return device.acs

    def in_config() -> Acs | None:
        found = _capability(node, address, config(node, address).acs)
        if found is not None:
            request, completion = ("-+"[bit] for bit in (found.request_redirect, found.completion_redirect))
            words = f"ReqRedir{request} CmpltRedir{completion}"
            node.cite(_config_file(node, address), "ACSCtl", words)
        return found

    return first_collected(in_config, in_text)


@fact
def has_ats(node: Node, address: str) -> bool:
    """Whether a device offers Address Translation Services, enabled or not: a NIC's firmware decides it."""

    def in_config() -> bool:
        return _capability(node, address, config(node, address).ats) is not None

    return first_collected(in_config, lambda: _capabilities_of(node, address).ats_enabled is not None)


@fact
def ats_enabled(node: Node, address: str) -> bool:
    """Whether Address Translation Services are enabled: the device then sends translated addresses, so that
    its peer traffic can take the direct path."""

    def in_config() -> bool:
        ats = _capability(node, address, config(node, address).ats)
        return ats is not None and ats.enabled

    return first_collected(in_config, lambda: bool(_capabilities_of(node, address).ats_enabled))


@fact
def read_request_bytes(node: Node, address: str) -> int:
    """The largest read request of a device in bytes: MaxReadReq of device control, 128 to 4096."""

    def in_text() -> int:
        device = _capabilities_of(node, address)
        if device.read_request_bytes is None:
            raise not_collected(f"MaxReadReq of {address}", f"sudo lspci -vvv -s {quoted(address)}")
        return device.read_request_bytes

    return first_collected(lambda: _express(node, address).read_request_bytes, in_text)


GENERATIONS: dict[object, float] = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}  # GT/s, PCIe 6.0


@fact
def link(node: Node, address: str) -> LinkSpeeds:
    """A device's PCIe link, current and maximum. Raises EvidenceMissing where it is not known.

    Virtual machines have devices without a link, or with links of width 0; both count as not known. A
    virtual function has the link of its physical function."""

    def in_sysfs() -> LinkSpeeds:
        folder = f"{ROOT}/{address}"
        if there(node, f"{folder}/physfn"):
            return link(node, node.resolve(f"{folder}/physfn").rsplit("/", 1)[-1])
        speeds = [node.text(f"{folder}/{when}_link_speed").partition(" ")[0] for when in ("current", "max")]
        widths = [node.text(f"{folder}/{when}_link_width").strip() for when in ("current", "max")]
        node.cite(f"{folder}/current_link_width", text=widths[0])
        node.cite(f"{folder}/max_link_width", text=widths[1])
        return _link(address, speeds[0], widths[0], speeds[1], widths[1])

    def in_text() -> LinkSpeeds:
        found = _capabilities_of(node, address).link
        if found is None:
            raise not_collected(f"link of {address}", f"sudo lspci -vvv -s {quoted(address)}")
        return _link(
            address, found.current_gt_per_s, found.current_width, found.max_gt_per_s, found.max_width
        )

    def in_smi() -> LinkSpeeds:
        gpu = smi_gpu(node, address)
        now, best = (printed_field(node, gpu, f"generation_{when}") for when in ("current", "max"))
        width, most = (printed_field(node, gpu, f"width_{when}") for when in ("current", "max"))
        return _link(address, GENERATIONS.get(now), width, GENERATIONS.get(best), most)

    return first_collected(in_sysfs, lambda: _link_in_config(node, address), in_text, in_smi)


def _link_in_config(node: Node, address: str) -> LinkSpeeds:
    found = _express(node, address).link
    if found is None:
        raise EvidenceAbsent(
            Missing(f"link of {address}", MissingReason.ABSENT, f"lspci -vv -s {quoted(address)}")
        )
    return _link(address, found.current_gt_per_s, found.current_width, found.max_gt_per_s, found.max_width)


def _link(address: str, *numbers: object) -> LinkSpeeds:
    """Speeds and widths as numbers; UNDECIDED where one is `Unknown`, 0 or all ones."""
    try:
        speed, width, max_speed, max_width = (float(str(number)) for number in numbers)
    except ValueError:
        speed = width = max_speed = max_width = 0.0
    if not (speed > 0 and max_speed > 0 and 0 < width <= 32 and 0 < max_width <= 32):  # x32 is the widest
        raise EvidenceMissing(
            Missing(f"link of {address}", MissingReason.UNDECIDED, f"sudo lspci -vv -s {quoted(address)}")
        )
    return LinkSpeeds(speed, int(width), max_speed, int(max_width))


@fact
def bar1_bytes(node: Node, address: str) -> int:
    """The size in bytes of BAR1 in NVIDIA's counting: the second memory region, through which peers access
    GPU memory.

    It begins at register 1 where BAR0 is a 32-bit region, and at 2 where BAR0 is a 64-bit one (H200), which
    takes two registers. Raises EvidenceAbsent where the GPU has none, or the kernel placed none."""

    def in_sysfs() -> int:
        return _bar1(address, regions(node.text(f"{ROOT}/{address}/resource")))

    def in_text() -> int:
        device = text_device(node, address)
        if not device.regions:
            raise not_collected(f"regions of {address}", f"cat {quoted(f'/{ROOT}/{address}/resource')}")
        return _bar1(address, device.regions)

    def in_smi() -> int:
        total = printed_field(node, smi_gpu(node, address), "bar1_total_mib")
        return int(str(total)) << 20

    return first_collected(in_sysfs, in_text, in_smi)


def regions(resource: str) -> tuple[tuple[int, int], ...]:
    """The register and the size in bytes of each used memory region in a `resource` file, whose lines are
    `start end flags`.

    Source: pci-sysfs.c, resource_show(); IORESOURCE_MEM is 0x200; the seventh line is the ROM, further ones
    are for virtual functions or for the devices below a bridge."""
    found = []
    for register, line in enumerate(resource.splitlines()[:6]):
        match [hex_number(word) for word in line.split()]:
            case [int(start), int(end), int(flags)]:
                if flags & 0x200 and end > start:
                    found.append((register, end - start + 1))
            case _:
                raise FormatError(f"not a line of a resource file: {line[:40]!r}")
    return tuple(found)


def _bar1(address: str, used: tuple[tuple[int, int], ...]) -> int:
    sizes = [size for register, size in used if register in (1, 2)]
    if not sizes:
        raise EvidenceAbsent(
            Missing(
                f"BAR1 of {address}", MissingReason.ABSENT, f"cat {quoted(f'/{ROOT}/{address}/resource')}"
            )
        )
    return sizes[0]


def _capabilities_of(node: Node, address: str) -> TextDevice:
    device = text_device(node, address)
    if device.denied:
        ask = f"sudo lspci -vvv -s {quoted(address)}"
        raise EvidenceMissing(Missing(f"lspci: capabilities of {address}", MissingReason.DENIED, ask))
    return device
