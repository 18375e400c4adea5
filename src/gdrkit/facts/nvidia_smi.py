"""The output of `nvidia-smi -q` and `nvidia-smi topo -m`.

Second-best evidence: files of the kernel take precedence. A field that is not printed is not known; one that
is printed as N/A does not exist for this GPU.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from gdrkit.evidence import Command, EvidenceAbsent, EvidenceMissing, Missing, MissingReason
from gdrkit.evidence.quoting import quoted
from gdrkit.facts.commands import NVIDIA_SMI, NVIDIA_SMI_MEMORY, NVIDIA_SMI_TOPO
from gdrkit.formats import topo_matrix
from gdrkit.formats.errors import FormatError
from gdrkit.formats.regex import regex
from gdrkit.formats.whole_number import whole_number
from gdrkit.node import Node, fact


class SmiGpu(Struct, frozen=True, kw_only=True):
    """One GPU as `nvidia-smi -q` prints it. None: not printed, or N/A (its name is in `not_available`)."""

    address: str
    device_id: str | None = None  # "2335"
    subsystem: str | None = None  # "10de:18bf"
    product_name: str | None = None
    architecture: str | None = None
    addressing_mode: str | None = None  # None, HMM, ATS
    mig_mode: str | None = None  # Enabled, Disabled
    virtualization_mode: str | None = None  # None, Pass-Through, VGPU, Host VGPU, Host VSGA
    c2c_mode: str | None = None  # Enabled, Disabled
    fabric_state: str | None = None  # Not Started, In Progress, Completed
    fabric_status: str | None = None  # Success, or an error
    clique_id: str | None = None  # "32766"
    cluster_uuid: str | None = None  # all zeros on a host alone
    generation_current: int | None = None
    generation_max: int | None = None
    width_current: int | None = None
    width_max: int | None = None
    framebuffer_mib: int | None = None
    bar1_total_mib: int | None = None
    bar1_free_mib: int | None = None
    protected_mib: int | None = None  # memory that confidential computing protects
    recovery_action: str | None = None  # None, Reset, Reboot, Drain P2P, Drain and Reset; since R565
    reset_required: str | None = None  # Yes, No; from R530 until then
    drain_recommended: str | None = None
    trouble: str = ""  # what is printed instead of a value if the driver does not reach the GPU
    not_available: frozenset[str] = frozenset()
    lines: Mapping[str, int] = {}  # the line of each field in the output


WORDS = {
    ("Product Name",): "product_name",
    ("Product Architecture",): "architecture",
    ("Addressing Mode",): "addressing_mode",
    ("MIG Mode", "Current"): "mig_mode",
    ("GPU Virtualization Mode", "Virtualization Mode"): "virtualization_mode",
    ("GPU Virtualization Mode", "Virtualization mode"): "virtualization_mode",  # before 470
    ("GPU C2C Mode",): "c2c_mode",
    ("GPU Recovery Action",): "recovery_action",
    ("GPU Reset Status", "Reset Required"): "reset_required",
    ("GPU Reset Status", "Drain and Reset Recommended"): "drain_recommended",
    ("Fabric", "State"): "fabric_state",
    ("Fabric", "Status"): "fabric_status",
    ("Fabric", "CliqueId"): "clique_id",
    ("Fabric", "ClusterUUID"): "cluster_uuid",
}
NUMBERS = {
    ("PCI", "GPU Link Info", "PCIe Generation", "Current"): "generation_current",
    ("PCI", "GPU Link Info", "PCIe Generation", "Max"): "generation_max",
    ("PCI", "GPU Link Info", "Link Width", "Current"): "width_current",
    ("PCI", "GPU Link Info", "Link Width", "Max"): "width_max",
    ("FB Memory Usage", "Total"): "framebuffer_mib",
    ("BAR1 Memory Usage", "Total"): "bar1_total_mib",
    ("BAR1 Memory Usage", "Free"): "bar1_free_mib",
    ("Conf Compute Protected Memory Usage", "Total"): "protected_mib",
}
DEPRECATED = "Requested functionality has been deprecated"
"""Printed for a field that a newer one replaces."""
LOST = ("GPU is lost", "GPU requires reset", "GPU requires restart")
"""Printed for any field of a GPU that the driver cannot use: nvml.h, nvmlReturn_t, as nvmlErrorString()
names NVML_ERROR_GPU_IS_LOST and NVML_ERROR_RESET_REQUIRED."""
UNREADABLE = ("Unknown Error", "ERR!")
"""Printed where the driver has no answer. A single sensor may have none on a GPU that works; sizes of memory
and the state of the link never fail there."""
_NO_HANDLE = regex(
    r"Unable to determine the device handle for GPU ?(?:\d{1,4}: )?"
    r"(?P<address>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]): (?P<why>.{1,200})"
)
"""Printed in place of a GPU, in three forms: `GPU 0000:3B:00.0: GPU is lost.`, `GPU0000:3B:00.0: Unknown
Error`, `GPU0: 0000:3B:00.0: Unknown Error`. Source: outputs of drivers 470, 535 and 610."""
Printed = tuple[str, int]
"""A value, and the number of its line."""

IDS = {("PCI", "Device Id"): "device_id", ("PCI", "Sub System Id"): "subsystem"}


LINE_CHARACTERS = 1000
"""How much of a complaint's line is read."""


def parse(text: str) -> tuple[SmiGpu, ...]:
    """The GPUs in an output of `nvidia-smi -q`, in order. Raises FormatError if there is none, if some are
    cut, or if there are more than are attached.

    Source of the layout: output of driver 580.159.04; sections are indented by four spaces, `key : value`.
    What follows the section of processes in a block is not read: any user chooses the name of his process,
    perhaps of several lines, and nothing that is asked for follows there.
    """
    attached: int | None = None
    gpus: list[tuple[Printed, dict[tuple[str, ...], Printed]]] = []
    sections: list[tuple[int, str]] = []
    names = False
    for number, line in enumerate(text.split("\n"), 1):
        words = line.strip()
        if not words:
            continue
        address = _header(words)
        if address is not None:
            gpus.append(((address, number), {}))
            sections, names = [], False
            continue
        names = names or words.partition(":")[0].strip() == "Processes"
        if names and gpus:
            continue
        key, colon, value = (part.strip() for part in words.partition(":"))
        if key == "Attached GPUs":
            attached = whole_number(value)
        if not gpus:
            continue
        indent = len(line) - len(line.lstrip())
        while sections and sections[-1][0] >= indent:
            sections.pop()
        if colon:
            gpus[-1][1].setdefault((*(name for _, name in sections), key), (value, number))
        else:
            sections.append((indent, key))
    if not gpus:
        complaint = " ".join(text.split())[:120]
        raise FormatError(f"no GPU in the output of nvidia-smi -q: {complaint or 'empty'}")
    if attached is not None and len(gpus) + len(without_handle(text)) < attached:
        raise FormatError(f"the output is cut: {len(gpus)} of {attached} attached GPUs")
    if attached is not None and len(gpus) > attached:
        raise FormatError(f"more GPUs than are attached: {len(gpus)} of {attached}")
    return tuple(_gpu(title, fields) for title, fields in gpus)


def _header(words: str) -> str | None:
    """The address in the line that starts a GPU's block, `GPU 00000000:1B:00.0`."""
    kind, _, address = words.partition(" ")
    if kind != "GPU" or address.count(":") != 2 or " " in address:
        return None
    try:
        return pci_address(address)
    except FormatError:
        return None


_ADDRESS = regex(r"(?:([0-9a-fA-F]{1,8}):)?([0-9a-fA-F]{1,2}):([0-9a-fA-F]{1,2})(?:\.([0-9a-fA-F]))?")


def pci_address(text: str) -> str:
    """`00000000:1B:00.0` as `0000:1b:00.0`. NVML prints domains with eight digits, sysfs with four."""
    found = _ADDRESS.fullmatch(text)
    if found is None:
        raise FormatError(f"not a PCI address: {text[:20]!r}")
    return "{:04x}:{:02x}:{:02x}.{:x}".format(*(int(number or "0", 16) for number in found.groups()))


def _gpu(title: Printed, fields: dict[tuple[str, ...], Printed]) -> SmiGpu:
    answers: dict[str, object] = {}
    address, lines = title[0], {"address": title[1]}
    not_available = set()
    trouble = next((printed for printed in fields.values() if printed[0].strip("[]. ") in LOST), None)
    for table in (WORDS, NUMBERS, IDS):
        for path, name in table.items():
            if path not in fields:
                continue
            value, lines[name] = fields[path]
            if table is NUMBERS and value.strip("[]") in UNREADABLE:
                trouble = trouble or fields[path]
            elif value == DEPRECATED:
                continue
            elif value == "N/A":
                not_available.add(name)
            elif table is WORDS:
                answers[name] = value
            elif table is NUMBERS:
                answers[name] = _number(value)
            else:
                answers[name] = _id(value, name)
    if trouble is not None:
        answers["trouble"], lines["trouble"] = trouble
    return SmiGpu(address=address, not_available=frozenset(not_available), lines=lines, **answers)  # type: ignore[arg-type]


def without_handle(text: str) -> dict[str, Printed]:
    """The GPUs that nvidia-smi names and cannot open, by address: why, and the number of the line."""
    found: dict[str, Printed] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if match := _NO_HANDLE.search(line[:LINE_CHARACTERS]):
            found[pci_address(match["address"])] = match["why"].strip(), number
    return found


def _number(value: str) -> int | None:
    """`143771 MiB` or `16x` as a number."""
    digits = value.split()[0].rstrip("x") if value else ""
    return whole_number(digits)


def _id(value: str, name: str) -> str | None:
    """`0x233510DE`: the device in the upper digits, the vendor in the lower."""
    digits = value.removeprefix("0x").lower()
    if len(digits) != 8 or not all(c in "0123456789abcdef" for c in digits):
        return None
    return digits[:4] if name == "device_id" else f"{digits[4:]}:{digits[:4]}"


def would_start(node: Node) -> bool:
    """Whether to ask for this output would run nvidia-smi now, which takes 0.1 s for each GPU, and not only
    read what was collected."""
    return node.host.source == "live"


@fact
def smi_gpus(node: Node) -> tuple[SmiGpu, ...]:
    """The GPUs of `nvidia-smi -q`. On a live machine this starts the program, so try files first."""
    return parse(node.run(NVIDIA_SMI))


@fact
def smi_memory(node: Node) -> tuple[SmiGpu, ...]:
    """The GPUs of `nvidia-smi -q -d MEMORY`, a quarter of the time of `-q` (28 of 125 ms on one H200)."""
    return parse(node.run(NVIDIA_SMI_MEMORY))


def smi_gpu(node: Node, address: str) -> SmiGpu:
    """One GPU of `nvidia-smi -q`. Raises EvidenceMissing where it is not printed."""
    return _find(smi_gpus(node), address)


def smi_gpu_memory(node: Node, address: str) -> SmiGpu:
    """One GPU of `nvidia-smi -q -d MEMORY`."""
    return _find(smi_memory(node), address)


def _find(gpus: tuple[SmiGpu, ...], address: str) -> SmiGpu:
    for gpu in gpus:
        if gpu.address == address:
            return gpu
    raise EvidenceMissing(
        Missing(
            f"nvidia-smi -q of {address}", MissingReason.NOT_COLLECTED, f"nvidia-smi -q -i {quoted(address)}"
        )
    )


def printed_field(node: Node, gpu: SmiGpu, name: str, command: Command = NVIDIA_SMI) -> object:
    """A field of a GPU. Raises EvidenceAbsent where it is N/A, EvidenceMissing where it was not printed."""
    value = getattr(gpu, name)
    if name in gpu.lines:
        node.mark(command.line, gpu.lines[name], gpu.lines["address"])
    if value is not None:
        return value
    source = f"nvidia-smi -q: {name.replace('_', ' ')} of {gpu.address}"
    if name in gpu.not_available:
        raise EvidenceAbsent(
            Missing(source, MissingReason.ABSENT, f"nvidia-smi -q -i {quoted(gpu.address)}")
        )
    raise EvidenceMissing(
        Missing(source, MissingReason.NOT_COLLECTED, f"nvidia-smi -q -i {quoted(gpu.address)}")
    )


class SmiTopology(Struct, frozen=True):
    """The matrix of `nvidia-smi topo -m`."""

    names: tuple[str, ...]  # GPU0, GPU1, mlx5_0: NICs by device name, not by column name
    cells: dict[tuple[str, str], str]  # X, SYS, NODE, PHB, PXB, PIX, NV18


def parse_topology(text: str) -> SmiTopology:
    """The matrix, with NIC0 replaced by its device name in the legend. Raises FormatError, also if a row is
    cut or missing."""
    matrix = topo_matrix.parse(text)
    if len(matrix.rows) < len(matrix.names):
        raise FormatError(f"nvidia-smi topo -m is cut: {len(matrix.rows)} of {len(matrix.names)} rows")
    return SmiTopology(matrix.names, matrix.cells)


@fact
def smi_topology(node: Node) -> SmiTopology:
    """The distances between GPUs and NICs according to NVML."""
    return parse_topology(node.run(NVIDIA_SMI_TOPO))
