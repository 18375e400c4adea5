"""GPUs: what they are, what state they are in, and whether CUDA gives a NIC access to their memory.

A probe takes precedence over a file, and a file over a product name. Only CUDA's answer is certain:
attribute 116 for both direct paths, and also 124 for dma-buf (NCCL src/init.cc and src/plugin/net.cc query
the same two).
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from gdrkit.evidence import Confidence, EvidenceAbsent, EvidenceMissing, Missing, MissingReason
from gdrkit.evidence.quoting import quoted
from gdrkit.facts import gpu_ids
from gdrkit.facts.cuda_attributes import (
    ASK_PROBE,
    DMA_BUF_SUPPORTED,
    GPU_DIRECT_RDMA_SUPPORTED,
    INTEGRATED,
    MAJOR,
    MINOR,
    cuda_attributes,
    direct_refused,
    missing_attributes,
)
from gdrkit.facts.driver import gpu_information
from gdrkit.facts.kernel import product
from gdrkit.facts.pci import PciGpu, devices, gpus
from gdrkit.facts.supplied import not_collected
from gdrkit.facts.virtual import virtual_machine
from gdrkit.formats.errors import FormatError
from gdrkit.formats.regex import regex
from gdrkit.formats.whole_number import whole_number
from gdrkit.node import Node, each_known, fact, first_collected, if_absent, if_missing


class GpuSupport(Struct, frozen=True):
    """Whether a GPU can be one end of a direct path, and the code of the rule that reports it."""

    state: str  # yes, no, unknown
    code: str  # of the reason for no or unknown; gpu-unsupported where it is yes
    why: str
    permanent: bool = False  # of gpu-unsupported: the product, not this node, is the reason
    lacking: tuple[Missing, ...] = ()  # evidence that would make it certain, or known at all


def _printed(node: Node, gpu: PciGpu, field: str) -> object:
    """A field of `nvidia-smi -q`, whose reader is imported where nothing better was collected."""
    from gdrkit.facts.nvidia_smi import printed_field, smi_gpu

    return printed_field(node, smi_gpu(node, gpu.address), field)


def _is_confidential(node: Node, gpu: PciGpu) -> bool:
    from gdrkit.facts.gpu_confidential import confidential_compute

    return confidential_compute(node, gpu)


# -- what it is ------------------------------------------------------------------------------------


@fact
def driver_name(node: Node, gpu: PciGpu) -> str:
    """`NVIDIA H100 80GB HBM3`, as the driver names it. A driver older than the GPU has no name of it, but
    `NVIDIA Graphics Device`."""
    return first_collected(
        lambda: gpu_information(node, gpu.address)["Model"],
        lambda: str(_printed(node, gpu, "product_name")),
    )


@fact
def product_name(node: Node, gpu: PciGpu) -> str:
    """The driver's name; else lspci's, which differs; else by the id."""

    def in_text() -> str:
        from gdrkit.facts.pci_text import text_device

        name = text_device(node, gpu.address).name
        _, bracket, rest = name.rpartition("[")
        if not bracket:  # "NVIDIA Corporation Device": the pci.ids file is older than the GPU
            raise not_collected(f"name of {gpu.address}", f"lspci -s {quoted(gpu.address)}")
        return rest.rstrip("]")

    try:
        return first_collected(lambda: driver_name(node, gpu), in_text)
    except EvidenceMissing:
        name = gpu_ids.INTEGRATED.get(gpu.device_id) or gpu_ids.SUPPORTED.get(gpu.device_id)
        if name is None:
            raise
        _cite_line(node, gpu, name)
        return name


@fact
def has_gb10(node: Node) -> bool:
    """Whether it is a Spark or a relative: their one NIC has two links of four lanes, soldered.
    Source: DGX Spark User Guide, hardware overview."""
    return any(gpu.device_id in gpu_ids.INTEGRATED for gpu in gpus(node))


@fact
def is_integrated(node: Node, gpu: PciGpu) -> bool:
    """Whether the GPU shares the CPU's memory and has no memory of its own."""
    found = if_missing({}, cuda_attributes, node, gpu.address)
    if INTEGRATED in found:
        return found[INTEGRATED] == 1
    if gpu.device_id in gpu_ids.INTEGRATED:
        _cite_id(node, gpu)
        return True
    if gpu.device_id in gpu_ids.SUPPORTED or gpu_ids.is_consumer(gpu.device_id):
        return False
    name = product_name(node, gpu)
    if gpu_ids.is_integrated_name(name):
        _cite_line(node, gpu, name)
        return True
    if is_consumer(node, gpu) or gpu_ids.supported_name(name):
        return False
    if _data_centre_name(node, gpu):
        _cite_line(node, gpu, name)
        return False
    raise EvidenceMissing(Missing(f"cuda-attribute-{INTEGRATED}", MissingReason.NOT_COLLECTED, ASK_PROBE))


@fact
def is_consumer(node: Node, gpu: PciGpu) -> bool:
    """Whether it is a GeForce or TITAN, for which NVIDIA's CUDA library does not allow GPUDirect RDMA."""
    if gpu.device_id in gpu_ids.SUPPORTED or gpu.device_id in gpu_ids.INTEGRATED:
        return False
    if gpu_ids.is_consumer(gpu.device_id):
        _cite_line(node, gpu, "GeForce or TITAN")
        return True
    name = product_name(node, gpu)
    _cite_line(node, gpu, name)
    return gpu_ids.is_consumer_name(name)


@fact
def is_coherent(node: Node, gpu: PciGpu) -> bool:
    """Whether the GPU is connected to its CPU by NVLink-C2C, as GH200, GB200 and GB300 are."""
    if gpu.device_id in gpu_ids.COHERENT:
        _cite_id(node, gpu)
        return True
    if gpu.device_id in gpu_ids.SUPPORTED or gpu.device_id in gpu_ids.INTEGRATED:
        return False
    if gpu_ids.is_consumer(gpu.device_id):
        return False
    if gpu_ids.is_self_hosted(gpu.device_id):
        _cite_line(node, gpu, "coherent with its CPU")
        return True
    name = if_missing("", product_name, node, gpu)
    if gpu_ids.is_coherent_name(name):
        _cite_line(node, gpu, name)
        return True
    return _printed(node, gpu, "c2c_mode") == "Enabled"


@fact
def is_before_turing(node: Node, gpu: PciGpu) -> bool:
    """Whether the GPU is a Volta or older, for which there is no open kernel module, hence no dma-buf.

    Source: open-gpu-kernel-modules README.md, "Turing or later"; compute capability 7.5 is Turing's."""
    found = if_missing({}, cuda_attributes, node, gpu.address)
    if MAJOR in found and MINOR in found:
        return (found[MAJOR], found[MINOR]) < (7, 5)
    if gpu.device_id:
        _cite_id(node, gpu)
        return int(gpu.device_id, 16) < gpu_ids.FIRST_TURING
    known = gpu_ids.supported_name(product_name(node, gpu))
    if known:
        return int(known, 16) < gpu_ids.FIRST_TURING
    architecture = _printed(node, gpu, "architecture")
    return architecture in ("Fermi", "Kepler", "Maxwell", "Pascal", "Volta")


def any_before_turing(node: Node) -> bool:
    """Whether a GPU is known to be one that the open kernel modules do not support."""
    return any(each_known(lambda gpu: is_before_turing(node, gpu), gpus(node)))


@fact
def addressing_mode(node: Node, gpu: PciGpu) -> str:
    """None, HMM or ATS, as nvidia-smi prints it. ATS does not decide: GH200 has it and is supported."""
    return str(_printed(node, gpu, "addressing_mode"))


# -- what state it is in ---------------------------------------------------------------------------


@fact
def mig_enabled(node: Node, gpu: PciGpu) -> bool:
    """Whether the GPU is split into MIG instances.

    The driver shows an instance as capabilities/gpu<minor>/mig/gi<n>. Source: NVIDIA Multi-Instance GPU User
    Guide, "Device Nodes and Capabilities"."""
    if gpu.device_id and not gpu.device_id.startswith(gpu_ids.MIG_CHIPS):
        return False

    def by_driver() -> bool:
        minor = gpu_information(node, gpu.address).get("Device Minor", "")
        if whole_number(minor) is None:
            raise FormatError(f"not a device's minor number: {minor[:20]!r}")
        folder = f"proc/driver/nvidia/capabilities/gpu{minor}/mig"
        # The driver has no capabilities for a GPU that cannot be split.
        return if_absent(False, lambda: any(name.startswith("gi") for name in node.list(folder)))

    def by_smi() -> bool:
        return if_absent("N/A", lambda: str(_printed(node, gpu, "mig_mode"))) == "Enabled"

    try:
        return first_collected(by_driver, by_smi)
    except EvidenceAbsent:  # no driver is loaded
        node.cite("MIG mode", text="off unless it was enabled", confidence=Confidence.LIKELY)
        return False


VGPU_NAME = regex(r"\b[^\WA-Z]*+[A-Z]\w*+(?:-\d)?-\d{1,3}(?:[ABCQ]|CME)$|\bGRID ")
"""A vGPU is called by its board, the memory of its share in GiB and its series, such as `NVIDIA A30-8C` or
`GRID A100-1-5C`. Source: NVIDIA vGPU User Guide, virtual GPU types."""
_LIKE_A_VGPU = regex(r"-\d{1,3}(?:[ABCQ]\w*)?$")
"""Names that vGPUs for games have as well, such as `NVIDIA A40-12`, and a few boards, such as
`NVIDIA A100-PG509-200`: open-gpu-kernel-modules 595.45.04 src/nvidia/generated/g_nv_name_released.h."""
NOT_STARTED = ("", "Unknown")  # kernel-open/nvidia/nv-procfs.c


@fact
def vgpu_guest(node: Node, gpu: PciGpu) -> bool:
    """Whether this is a virtual GPU: a share of a GPU, assigned to a virtual machine."""

    def by_machine() -> bool:
        if virtual_machine(node) in ("none", "wsl"):
            return False
        raise not_collected(f"virtualization mode of {gpu.address}", "nvidia-smi -q")

    def by_smi() -> bool:
        try:
            mode = _printed(node, gpu, "virtualization_mode")
        except EvidenceMissing:
            if not _is_whole_board(node, gpu):
                raise
            return False
        return str(mode).upper() == "VGPU"

    def by_name() -> bool:
        """The driver of a guest has the name of a vGPU from the host, and that of a board from its own table
        (src/nvidia/src/kernel/gpu/gpu_vgpu.c, gpuGetNameString_VF); pci.ids has boards alone."""
        if VGPU_NAME.search(product_name(node, gpu)):
            return True
        name = if_missing("", driver_name, node, gpu)
        if name in NOT_STARTED or _LIKE_A_VGPU.search(name):
            raise not_collected(f"virtualization mode of {gpu.address}", "nvidia-smi -q")
        node.cite(f"name of {gpu.address}", text=f"{name}: no vGPU's", confidence=Confidence.LIKELY)
        return False

    return first_collected(by_machine, by_smi, by_name)


def _is_whole_board(node: Node, gpu: PciGpu) -> bool:
    """Whether the PCI function has the subsystem id of a board, which no vGPU has."""
    own = next((one.subsystem for one in devices(node) if one.address == gpu.address), "")
    vendor, _, board = own.partition(":")
    return vendor == "10de" and board in gpu_ids.BOARDS.get(gpu.device_id, "").split()


# -- whether CUDA gives a NIC access ---------------------------------------------------------------


@fact
def gpu_support(node: Node, gpu: PciGpu, path: str) -> GpuSupport:
    """Whether a GPU can be one end of a direct path, `dmabuf` or `peermem`."""
    return (
        _by_instance(node, gpu)
        or _by_probe(node, gpu, path)
        or _by_kind(node, gpu, path)
        or _by_state(node, gpu, path)
        or _by_product(node, gpu, path)
    )


_L40S = "26b9"  # pci.ids: AD102GL [L40S], the GPU of EC2's g6e


def _by_instance(node: Node, gpu: PciGpu) -> GpuSupport | None:
    """By the instance type, which DMI names on EC2: g6e has EFA without GPUDirect, whatever CUDA says of its
    GPU. Source: aws-ofi-nccl, issue 547."""
    name = if_missing("", lambda: product(node).name) if gpu.device_id == _L40S else ""
    if not name.startswith("g6e."):
        return None
    return GpuSupport("no", "gpu-unsupported", f"EC2's {name} has EFA without GPUDirect", True)


def _by_probe(node: Node, gpu: PciGpu, path: str) -> GpuSupport | None:
    """By CUDA's answer, where the probe has one."""
    found = if_missing({}, cuda_attributes, node, gpu.address)
    if if_missing(False, direct_refused, node, gpu.address):
        code = _kind_of_refusal(node, gpu, path)
        # Of a supported product the cause is on this node; of one whose id is hidden it may be.
        elsewhere = not gpu.device_id or gpu.device_id in gpu_ids.SUPPORTED
        permanent = code == "gpu-unsupported" and not elsewhere
        return GpuSupport("no", code, "CUDA attribute 116 (GPU_DIRECT_RDMA_SUPPORTED) is 0", permanent)
    if path == "dmabuf" and found.get(DMA_BUF_SUPPORTED) == 0:
        code = "gpu-before-turing" if is_before_turing(node, gpu) else "gpu-unsupported"
        return GpuSupport("no", code, "CUDA attribute 124 (DMA_BUF_SUPPORTED) is 0")
    if GPU_DIRECT_RDMA_SUPPORTED not in found or (path == "dmabuf" and DMA_BUF_SUPPORTED not in found):
        return None  # no probe, or a libcuda older than the attribute
    return GpuSupport("yes", "gpu-unsupported", "reported by CUDA")


def _kind_of_refusal(node: Node, gpu: PciGpu, path: str) -> str:
    """The code of the most specific reason why CUDA refuses."""
    reasons: tuple[tuple[str, Callable[[], bool]], ...] = (
        ("gpu-integrated", lambda: is_integrated(node, gpu)),
        ("gpu-consumer", lambda: is_consumer(node, gpu)),
        ("gpu-before-turing", lambda: _too_old(node, gpu, path)),
        ("gpu-vgpu", lambda: vgpu_guest(node, gpu)),
        ("gpu-confidential", lambda: _is_confidential(node, gpu)),
        ("gpu-mig", lambda: mig_enabled(node, gpu)),
    )
    for code, ask in reasons:
        if if_missing(False, ask):
            return code
    return "gpu-unsupported"


def _by_kind(node: Node, gpu: PciGpu, path: str) -> GpuSupport | None:
    """By properties of the product that no setting changes."""
    kinds: tuple[tuple[str, str, Callable[[], bool]], ...] = (
        ("gpu-integrated", "it has no memory of its own", lambda: is_integrated(node, gpu)),
        ("gpu-consumer", "a GeForce or TITAN", lambda: is_consumer(node, gpu)),
        ("gpu-before-turing", "older than Turing", lambda: _too_old(node, gpu, path)),
    )
    for code, why, ask in kinds:
        if if_missing(False, ask):
            return GpuSupport("no", code, why)
    return None


def _too_old(node: Node, gpu: PciGpu, path: str) -> bool:
    """Whether the open modules, which alone export dma-buf, do not support the GPU."""
    return path == "dmabuf" and is_before_turing(node, gpu)


def _by_state(node: Node, gpu: PciGpu, path: str) -> GpuSupport | None:
    """By states in which support depends on the configuration, so that only CUDA's answer decides."""
    states: tuple[tuple[str, str, Callable[[], bool]], ...] = (
        ("gpu-vgpu", "a vGPU: support depends on its profile", lambda: vgpu_guest(node, gpu)),
        ("gpu-confidential", "confidential computing is on", lambda: _is_confidential(node, gpu)),
        ("gpu-mig", "MIG is on", lambda: mig_enabled(node, gpu)),
    )
    for code, why, ask in states:
        try:
            if ask():
                return GpuSupport("unknown", code, why, lacking=missing_attributes(path))
        except EvidenceMissing as error:
            return GpuSupport("unknown", code, f"not known: {why}", lacking=(error.missing,))
    return None


def _by_product(node: Node, gpu: PciGpu, path: str) -> GpuSupport:
    """By product line, which is likely at best, never certain."""
    name = gpu_ids.SUPPORTED.get(gpu.device_id)
    if name is None and not gpu.device_id:
        try:
            name = product_name(node, gpu)
        except EvidenceMissing as error:
            return GpuSupport(
                "unknown", "gpu-unsupported", "the product is not known", lacking=(error.missing,)
            )
        name = name if gpu_ids.supported_name(name) else None
    name = name or _data_centre_name(node, gpu)
    if name is None:
        why = f"10de:{gpu.device_id or '????'} is not in the list of supported products"
        return GpuSupport("unknown", "gpu-unsupported", why, lacking=missing_attributes(path))
    _cite_line(node, gpu, name)
    why = f"{name} is in a product line that supports it"
    return GpuSupport("yes", "gpu-unsupported", why, lacking=missing_attributes(path))


def _data_centre_name(node: Node, gpu: PciGpu) -> str | None:
    """The driver's name of the GPU, if it is that of a board for the data centre."""
    name = if_missing("", driver_name, node, gpu)
    return name if gpu_ids.is_data_centre_name(name) else None


def _cite_line(node: Node, gpu: PciGpu, name: str) -> None:
    """Record that an answer is based only on the product line."""
    node.cite(f"product line of {gpu.address}", _id(gpu), name, Confidence.LIKELY)


def _cite_id(node: Node, gpu: PciGpu) -> None:
    """Record that an answer is based on the PCI id, which is certain."""
    node.cite(f"PCI id of {gpu.address}", _id(gpu))


def _id(gpu: PciGpu) -> str:
    return f"10de:{gpu.device_id}" if gpu.device_id else ""
