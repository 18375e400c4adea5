"""BAR1, the window through which NICs reach GPU memory."""

from __future__ import annotations

from gdrkit.evidence import Confidence, EvidenceMissing
from gdrkit.facts.commands import NVIDIA_SMI_MEMORY
from gdrkit.facts.driver import driver_version
from gdrkit.facts.driver_log import last_line_if_any
from gdrkit.facts.gpu import is_coherent, is_integrated
from gdrkit.facts.nvidia_smi import printed_field, smi_gpu_memory
from gdrkit.facts.pci import PciGpu, gpus
from gdrkit.facts.pci_registers import bar1_bytes
from gdrkit.messages import driver
from gdrkit.node import Node, if_absent, if_missing
from gdrkit.rules.capabilities import GPU_MEMORY
from gdrkit.rules.deciding_command import DMESG, NVIDIA_SMI, DecidingCommand
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import Failed, Layer, NotApplicable, Outcome, Passed, Status, rule

MIB = 1 << 20

SMALL_BYTES = 256 * MIB
"""The size on boards without a large BAR, and on every board while firmware cannot place a larger one:
NVIDIA GPUDirect RDMA guide, "BAR1"; public lspci listings."""

RESERVED_BYTES = 36 * MIB
"""What the resource manager keeps free: open-gpu-kernel-modules src/nvidia/src/kernel/rmapi/p2p.c."""

NO_SPACE = driver.NO_SPACE.template  # printed at error level


@rule(
    "bar1-small",
    Layer.FIRMWARE,
    per=gpus,
    default_status=Status.WARNING,
    reported_by=(DecidingCommand("nvidia-smi -q -d MEMORY", "BAR1 Memory Usage, Total: 256 MiB"),),
    remedies=(RemedyName.ENLARGE_BAR1,),
    cost="No more than about 220 MiB of GPU memory can be registered at a time.",
    references=("https://docs.nvidia.com/cuda/gpudirect-rdma/",),
)
def bar1_small(node: Node, gpu: PciGpu) -> Outcome:
    """BAR1, the window through which a NIC reaches GPU memory, is only 256 MiB or less.

    Cost: The driver reserves 36 MiB of it; all registered memory has to fit into the rest. Larger
    registrations fail with EFAULT or ENOMEM. NCCL's own buffers fit; the tensors of a program that
    registers them do not.

    How to tell: `nvidia-smi -q -d MEMORY` prints the size under BAR1 Memory Usage, Total.
    `lspci -v -s <GPU>` prints it with the second memory region: `[size=256M]`.

    What to do: First turn on Above 4G Decoding and Resizable BAR in the firmware setup. Then add
    `options nvidia NVreg_EnableResizableBar=1` to a file in /etc/modprobe.d (driver 530.30.02 and newer).

    Why: Firmware keeps device memory below 4 GiB ("Above 4G Decoding" is off), or the board starts with a
    small BAR that was never resized.

    Source: open-gpu-kernel-modules src/nvidia/src/kernel/rmapi/p2p.c (reserve), kernel-open/nvidia/nv-pci.c
    (resizing).
    """
    no_window = if_missing(None, _no_window, node, gpu)
    if no_window is not None:
        return no_window
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
    takes=GPU_MEMORY,
    reported_by=(
        DecidingCommand(
            NVIDIA_SMI, "`BAR1 Memory Usage: Free` of 36 MiB or less, or less than the program registers"
        ),
        DecidingCommand(DMESG, "`no space for BAR1 mappings`"),
    ),
    remedies=(RemedyName.ENLARGE_BAR1,),
    cost="Registering GPU memory fails until space in the window is freed.",
)
def bar1_exhausted(node: Node, gpu: PciGpu) -> Outcome:
    """BAR1, the window through which a NIC reaches GPU memory, is full.

    Cost: Registrations fail with EFAULT (through nvidia-peermem) or ENOMEM; small ones may still succeed.

    How to tell: `nvidia-smi -q -d MEMORY` prints 36 MiB or less under BAR1 Memory Usage, Free: that much
    stays reserved for the driver. Or `sudo dmesg | grep BAR1` prints `no space for BAR1 mappings`.

    What to do: Stop the program that holds the memory, or register less memory, or make the window larger:
    Above 4G Decoding and Resizable BAR in the firmware setup (see bar1-small).

    Why: Every registered byte is mapped into the window, and so are other things. A new mapping succeeds
    only while the free part is at least its length plus 36 MiB.

    Source: open-gpu-kernel-modules src/nvidia/src/kernel/rmapi/p2p.c.
    """
    no_window = if_missing(None, _no_window, node, gpu)
    if no_window is not None:
        return no_window
    if _no_driver(node):
        return Passed("no driver is loaded, so BAR1 is unused")
    try:
        shown = smi_gpu_memory(node, gpu.address)
        free = int(str(printed_field(node, shown, "bar1_free_mib", NVIDIA_SMI_MEMORY))) * MIB
    except EvidenceMissing as error:
        line = last_line_if_any(node, NO_SPACE)
        if line is not None:
            if len(gpus(node)) > 1:  # it names no GPU
                raise
            return Failed(seen=line.text, expected="no such line", subject=gpu.address)
        return _by_size(node, gpu, error)
    if free <= RESERVED_BYTES:
        return Failed(
            seen=f"{free // MIB} MiB of BAR1 free",
            expected=f"more than the {RESERVED_BYTES // MIB} MiB that the driver reserves",
            subject=gpu.address,
        )
    return Passed(f"{free // MIB} MiB free")


def _by_size(node: Node, gpu: PciGpu, unknown_use: EvidenceMissing) -> Outcome:
    """The outcome if it is not known how much of BAR1 is used: a large one is rarely full. Raises
    EvidenceMissing for a small one."""
    size = bar1_bytes(node, gpu.address)
    if size <= SMALL_BYTES:
        raise unknown_use
    node.cite("use of BAR1", text="not known", confidence=Confidence.LIKELY)
    return Passed(f"a BAR1 of {size // MIB} MiB is rarely full", lacking=(unknown_use.missing,))


def _no_driver(node: Node) -> bool:
    return if_missing(False, lambda: if_absent(None, driver_version, node) is None)


def _no_window(node: Node, gpu: PciGpu) -> Outcome | None:
    """NotApplicable for a GPU that NICs do not reach through BAR1: coherent with the CPU, or without memory
    of its own."""
    if is_integrated(node, gpu):
        return NotApplicable("an integrated GPU, without memory of its own")
    if is_coherent(node, gpu):
        return NotApplicable("NICs reach its memory through the CPU's fabric")
    return None
