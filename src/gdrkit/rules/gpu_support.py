"""What the rules about kinds and states of GPUs share: how they judge the fact `capability`."""

from __future__ import annotations

from gdrkit.evidence import EvidenceMissing, Missing
from gdrkit.facts.gpu import GpuSupport, gpu_support
from gdrkit.facts.pci import PciGpu
from gdrkit.node import Node
from gdrkit.rules.capabilities import DIRECT
from gdrkit.rules.rule import ADDRESS, DMABUF, P2PDMA, PINNING, Failed, Passed

_NEEDED = {"dmabuf": (DMABUF,), "peermem": (ADDRESS, PINNING, P2PDMA)}
"""What CUDA's answers are about: attribute 116 is that of nvidia_p2p_get_pages(), says cuda.h, and so of
products for GPUDirect."""


def refused(node: Node, gpu: PciGpu, code: str, expected: str) -> Failed | None:
    """The failure of the rule with this code, if a path is refused for its reason; else None."""
    supports = _supports(node, gpu, code)
    refusals = {
        need: support for path, support in supports if support.state == "no" for need in _NEEDED[path]
    }
    if not refusals:
        return None
    return Failed(
        seen=next(iter(refusals.values())).why,
        expected=expected,
        subject=gpu.address,
        takes=tuple(refusals),
        permanent=None
        if code != "gpu-unsupported"
        else frozenset(need for need, support in refusals.items() if support.permanent),
    )


def only_cuda_knows(node: Node, gpu: PciGpu, code: str) -> Passed:
    """Passed: CUDA reports support despite the GPU's state, or refuses it for a reason of another code.

    Raises EvidenceMissing if CUDA was not asked."""
    supports = [gpu_support(node, gpu, path) for path in DIRECT]
    for support in supports:
        if support.state == "unknown":
            raise EvidenceMissing(support.lacking[0])
    others = [support.why for support in supports if support.state == "no" and support.code != code]
    return Passed(f"refused for another reason: {others[0]}" if others else "CUDA reports support")


def missing_for_certainty(node: Node, gpu: PciGpu) -> tuple[Missing, ...]:
    """The evidence that would make a likely answer about this GPU certain."""
    supports = (gpu_support(node, gpu, path) for path in DIRECT)
    return tuple(dict.fromkeys(missing for support in supports for missing in support.lacking))


def _supports(node: Node, gpu: PciGpu, code: str) -> list[tuple[str, GpuSupport]]:
    """What is known about each direct path, where the answer belongs to this code."""
    found = [(path, gpu_support(node, gpu, path)) for path in DIRECT]
    return [(path, support) for path, support in found if support.code == code]
