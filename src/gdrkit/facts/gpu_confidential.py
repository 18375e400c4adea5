"""Whether confidential computing closes a GPU's memory to other devices."""

from __future__ import annotations

from gdrkit.evidence import Confidence
from gdrkit.facts import gpu_ids
from gdrkit.facts.commands import NVIDIA_SMI_CONFIDENTIAL
from gdrkit.facts.kernel import architecture
from gdrkit.facts.kernel_log import lines
from gdrkit.facts.nvidia_smi import printed_field, smi_gpu
from gdrkit.facts.pci import PciGpu
from gdrkit.facts.supplied import not_collected
from gdrkit.facts.virtual import virtual_machine
from gdrkit.formats.errors import FormatError
from gdrkit.formats.regex import regex
from gdrkit.node import Node, fact, first_collected, if_absent


@fact
def confidential_compute(node: Node, gpu: PciGpu) -> bool:
    """Whether confidential computing denies all other devices the GPU's memory. Only in virtual machines."""
    if gpu.device_id and not gpu.device_id.startswith(gpu_ids.MIG_CHIPS):
        return False

    def by_machine() -> bool:
        if virtual_machine(node) == "none":
            return False
        raise not_collected("confidential computing", "nvidia-smi conf-compute -f")

    def by_query() -> bool:
        answer = node.run(NVIDIA_SMI_CONFIDENTIAL)
        if "CC status:" not in answer:
            raise FormatError(f"no CC status: {answer[:60]!r}")
        return "ON" in answer.split("CC status:")[1].split()[:1]

    def by_memory() -> bool:
        return (
            if_absent("0", lambda: str(printed_field(node, smi_gpu(node, gpu.address), "protected_mib")))
            != "0"
        )

    return first_collected(by_machine, by_query, by_memory, lambda: _by_boot(node))


_ENCRYPTED = regex(r"Memory Encryption Features active|tdx: Guest detected|Hyper-V: Isolation Config")
"""Sources: Linux arch/x86/mm/mem_encrypt.c, print_mem_encrypt_feature_info(); arch/x86/coco/tdx/tdx.c;
arch/x86/kernel/cpu/mshyperv.c, ms_hyperv_init_platform()."""


def _by_boot(node: Node) -> bool:
    """By the kernel's log of a guest: where that does not encrypt its memory, the driver starts no GPU that
    protects its own. Source: open-gpu-kernel-modules src/nvidia/src/kernel/gpu/conf_compute,
    confComputeConstructEngine_IMPL(), and kernel-open/nvidia/nv.c, os_cc_enabled."""
    log = lines(node)
    encrypts = architecture(node) != "x86_64" or any(_ENCRYPTED.search(line.text) for line in log.lines)
    if encrypts or not log.complete:
        raise not_collected("confidential computing", "nvidia-smi conf-compute -f")
    node.cite(log.source, text="no encryption of the guest's memory", confidence=Confidence.LIKELY)
    return False
