"""The window through which NICs reach GPU memory: BAR1."""

from __future__ import annotations

from gdrkit.evidence import Confidence, EvidenceMissing
from gdrkit.facts.commands import NVIDIA_SMI_MEMORY
from gdrkit.facts.driver import driver_version
from gdrkit.facts.driver_log import last_line_if_any
from gdrkit.facts.gpu import is_coherent, is_integrated
from gdrkit.facts.nvidia_smi import printed_field, smi_gpu_memory
from gdrkit.facts.pci import PciGpu, gpus
from gdrkit.facts.pci_registers import bar1_bytes
from gdrkit.node import Node, if_absent, if_missing
from gdrkit.rules.deciding_command import DMESG, NVIDIA_SMI, DecidingCommand
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import REGISTRATION, Failed, Layer, NotApplicable, Outcome, Passed, Status, rule

MIB = 1 << 20

SMALL_BYTES = 256 * MIB
"""What boards without a large BAR show, and all boards while firmware cannot place more: NVIDIA GPUDirect
RDMA guide, "BAR1"; public lspci listings."""

RESERVED_BYTES = 36 * MIB
"""What the resource manager keeps free: open-gpu-kernel-modules src/nvidia/src/kernel/rmapi/p2p.c."""

NO_SPACE = "no space for BAR1 mappings"  # the same file; printed at error level


@rule(
    "bar1-small",
    Layer.FIRMWARE,
    per=gpus,
    default_status=Status.WARNING,
    remedies=(RemedyName.ENLARGE_BAR1,),
    cost="No more than about 220 MiB of GPU memory can be registered at a time.",
    references=("https://docs.nvidia.com/cuda/gpudirect-rdma/",),
)
def bar1_small(node: Node, gpu: PciGpu) -> Outcome:
    """BAR1, the window through which a NIC reaches GPU memory, is as small as it can be.

    Cost: 36 MiB of it stay reserved, what is left must hold every registered byte. Larger registrations fail
    with EFAULT or ENOMEM. NCCL's own buffers fit; a program that registers its tensors does not.

    How to tell: A second memory region of 256 MiB or less (`lspci -v`: `[size=256M]`; `nvidia-smi -q`: BAR1
    Memory Usage, Total).

    What to do: In firmware setup, turn on Above 4G Decoding and Resizable BAR; then `options nvidia
    NVreg_EnableResizableBar=1` (530.30.02 and newer).

    Why: Firmware keeps device memory below 4 GiB ("Above 4G Decoding" is off), or the board starts with a
    small BAR and nobody resized it.

    Source: open-gpu-kernel-modules src/nvidia/src/kernel/rmapi/p2p.c (reserve), kernel-open/nvidia/nv-pci.c
    (resizing).
    """
    aside = if_missing(None, _no_window, node, gpu)
    if aside is not None:
        return aside
    size = bar1_bytes(node, gpu.address)
    if size > SMALL_BYTES:
        return Passed(f"{size // MIB} MiB")
    return Failed(
        seen=f"a BAR1 of {size // MIB} MiB",
        expected=f"more than {SMALL_BYTES // MIB} MiB",
        subject=gpu.address,
    )


@rule(
    "bar1-exhausted",
    Layer.FIRMWARE,
    per=gpus,
    takes=REGISTRATION,
    reported_by=(
        DecidingCommand(
            NVIDIA_SMI, "`BAR1 Memory Usage: Free` of 36 MiB or less, or little against what is registered"
        ),
        DecidingCommand(DMESG, "`no space for BAR1 mappings`"),
    ),
    remedies=(RemedyName.ENLARGE_BAR1,),
    cost="Registering GPU memory fails until something lets go of the window.",
)
def bar1_exhausted(node: Node, gpu: PciGpu) -> Outcome:
    """BAR1, the window through which a NIC reaches GPU memory, is full.

    Cost: Registrations fail with EFAULT (through nvidia-peermem) or ENOMEM; small ones may still work.

    How to tell: `nvidia-smi -q -d MEMORY` shows no more BAR1 memory free than the driver keeps in reserve,
    or the kernel log says `no space for BAR1 mappings`.

    What to do: End what holds the memory; register less; make the window larger (see bar1-small).

    Why: Every registered byte is mapped into the window, and other things are mapped there, too. A mapping
    is made only while what is left is at least its length and 36 MiB more.

    Source: open-gpu-kernel-modules src/nvidia/src/kernel/rmapi/p2p.c.
    """
    aside = if_missing(None, _no_window, node, gpu)
    if aside is not None:
        return aside
    if _no_driver(node):
        return Passed("no driver is loaded, so nothing is mapped")
    try:
        shown = smi_gpu_memory(node, gpu.address)
        free = int(str(printed_field(node, shown, "bar1_free_mib", NVIDIA_SMI_MEMORY))) * MIB
    except EvidenceMissing:
        line = last_line_if_any(node, NO_SPACE)
        if line is not None:
            return Failed(seen=line.text, expected="no such line", subject=gpu.address)
        return _by_size(node, gpu)
    if free <= RESERVED_BYTES:
        return Failed(
            seen=f"{free // MIB} MiB of BAR1 free",
            expected=f"more than the {RESERVED_BYTES // MIB} MiB that stay reserved",
            subject=gpu.address,
        )
    return Passed(f"{free // MIB} MiB free")


def _by_size(node: Node, gpu: PciGpu) -> Outcome:
    """Without sight of what is used: rarely all of a large window; of a small one nothing can be said."""
    size = bar1_bytes(node, gpu.address)
    if size <= SMALL_BYTES:
        smi_gpu_memory(node, gpu.address)
    node.cite("use of BAR1", text="not seen", confidence=Confidence.LIKELY)
    return Passed(f"a window of {size // MIB} MiB, rarely full")


def _no_driver(node: Node) -> bool:
    return if_missing(False, lambda: if_absent(None, driver_version, node) is None)


def _no_window(node: Node, gpu: PciGpu) -> Outcome | None:
    """GPUs that a NIC does not reach through a window: joined to the CPU, or without memory of their own."""
    if is_integrated(node, gpu):
        return NotApplicable("a GPU without memory of its own")
    if is_coherent(node, gpu):
        return NotApplicable("its memory is reached through the CPU's fabric")
    return None
