"""nvidia-peermem where nobody needs it."""

from __future__ import annotations

from gdrkit.facts.driver import driver_flavour, peermem_linkage
from gdrkit.facts.libraries import verbs_has_dmabuf
from gdrkit.facts.modprobe_config import autoload
from gdrkit.facts.modules import is_loaded
from gdrkit.facts.verbs_kernel import dmabuf_exporter
from gdrkit.node import Node, if_missing
from gdrkit.rules.module_subjects import peermem
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import Failed, Layer, NotApplicable, Outcome, Passed, rule


@rule(
    "peermem-redundant",
    Layer.DRIVER,
    per=peermem,
    remedies=(RemedyName.USE_DMABUF,),
    cost="A failed unit at each boot, or a module that nothing uses.",
    references=(
        "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-operator-rdma.html",
    ),
)
def peermem_redundant(node: Node, module: str) -> Outcome:
    """nvidia-peermem is asked for, and is either a stub or stands beside a dma-buf path that is preferred.

    Cost: little. NCCL takes dma-buf where both are there; perftest without --use_cuda_dmabuf takes peermem.
    While it is loaded it keeps the RDMA stack from being restarted.

    How to tell: A line of it in modules-load.d although its file is a stub, so that systemd-modules-load
    fails at each boot; or it is loaded beside open kernel modules, an RDMA core and a libibverbs that do
    dma-buf.

    What to do: Take the line out of modules-load.d; unload it where no program of yours depends on it.

    Why: Guides of the years before dma-buf ask for it.

    Source: NCCL src/transport/net.cc, which registers by dma-buf if it can; NVIDIA GPU Operator
    documentation, GPUDirect RDMA, which calls the module legacy.
    """
    entry = next((entry for entry in autoload(node) if entry.name == module), None)
    loaded = is_loaded(node, module)
    if entry and not loaded and _is_stub(node):
        return Failed(
            seen=f"{entry.file}:{entry.line} asks for a module that is a stub",
            expected="no such line",
            subject=module,
        )
    if not loaded:
        return NotApplicable("it is not loaded, and no stub is asked for")
    if not (driver_flavour(node) == "open" and verbs_has_dmabuf(node) and dmabuf_exporter(node)):
        return Passed("dma-buf is not to be had here")
    return Failed(
        seen="loaded beside open modules and a stack that does dma-buf",
        expected="dma-buf alone",
        subject=module,
    )


def _is_stub(node: Node) -> bool:
    """Whether it is known to be one; where that is unknown, another rule says so."""
    return if_missing(False, lambda: not peermem_linkage(node).uses_peer_api)
