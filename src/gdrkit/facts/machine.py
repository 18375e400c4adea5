"""The machine, its first processor, and the Linux distribution."""

from __future__ import annotations

from msgspec import Struct

from gdrkit.evidence import EvidenceAbsent
from gdrkit.formats.errors import FormatError
from gdrkit.node import Node, fact, if_absent


class Distribution(Struct, frozen=True):
    """A Linux distribution, as os-release(5) describes it."""

    id: str  # debian, ubuntu, rhel, rocky, sles, talos, ...
    version: str  # VERSION_ID; empty for rolling releases
    like: tuple[str, ...]  # ID_LIKE
    name: str  # PRETTY_NAME
    variant: str = ""  # VARIANT_ID: coreos, aws-k8s-1.33-nvidia

    @property
    def family(self) -> frozenset[str]:
        """Its own id and those in ID_LIKE."""
        return frozenset((self.id, *self.like))

    @property
    def systems(self) -> frozenset[str]:
        """Names of a system that boots an image: its id, and that with its variant, as `rhel/coreos`."""
        return frozenset((self.id, f"{self.id}/{self.variant}"))


class Product(Struct, frozen=True):
    """The machine, as its firmware names it. Empty: the firmware has no name."""

    vendor: str
    name: str
    board: str


@fact
def distribution(node: Node) -> Distribution:
    """The Linux distribution. Source: os-release(5); the second path is used if the first does not exist."""
    try:
        text = node.text("etc/os-release")
    except EvidenceAbsent:
        text = node.text("usr/lib/os-release")
    values: dict[str, str] = {}
    for line in text.splitlines():
        key, equals, value = line.strip().partition("=")
        if equals and not key.startswith("#"):
            values[key] = value.strip().strip("\"'")
    if not values:
        raise FormatError("no assignment in os-release")
    identity = values.get("ID", "linux")
    return Distribution(
        identity,
        values.get("VERSION_ID", ""),
        tuple(values.get("ID_LIKE", "").split()),
        values.get("PRETTY_NAME", identity),
        values.get("VARIANT_ID", ""),
    )


@fact
def product(node: Node) -> Product:
    """Vendor, product and board by DMI; on machines without DMI, the device tree's model.

    Source: Linux drivers/firmware/dmi-id.c; Devicetree specification, section 2.3.2 (model).
    """
    folder = "sys/class/dmi/id/"
    try:
        name = one_line(node.text(folder + "product_name"))
    except EvidenceAbsent:
        model = node.text("proc/device-tree/model").rstrip("\0").strip()
        vendor, _, rest = model.partition(" ")
        return Product(vendor, rest or model, "")
    return Product(
        if_absent("", lambda: node.text(folder + "sys_vendor").strip()),
        name,
        if_absent("", lambda: node.text(folder + "board_name").strip()),
    )


def colon_pairs(text: str) -> dict[str, str]:
    """The first value of each name. Raises FormatError if no line has the form `name : value`."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon:
            values.setdefault(name.strip(), value.strip())
    if not values:
        raise FormatError("no line of the form `name : value`")
    return values


def one_line(text: str) -> str:
    """The only line of a file, without its end. Raises FormatError if there is none or more than one."""
    line = text.strip("\0\n\t ")
    if not line or "\n" in line:
        raise FormatError(f"expected one line, found {len(line.splitlines())}")
    return line


@fact
def is_tegra(node: Node) -> bool:
    """Whether this is a Jetson or another Tegra, whose GPU is usually not a PCI device."""
    if node.exists("etc/nv_tegra_release"):
        return True
    return "Jetson" in product(node).name
