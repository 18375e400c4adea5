"""nvidia-peermem is loaded or configured where it is not needed."""

from __future__ import annotations

from gdrkit.facts.driver import driver_flavour, peermem_linkage
from gdrkit.facts.libraries import verbs_has_dmabuf
from gdrkit.facts.modules import is_loaded
from gdrkit.facts.modules_load import autoload
from gdrkit.facts.verbs_kernel import dmabuf_exporter
from gdrkit.node import Node, if_absent
from gdrkit.rules.module_subjects import peermem
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import Failed, Layer, NotApplicable, Outcome, Passed, rule


@rule(
    "peermem-redundant",
    Layer.DRIVER,
    per=peermem,
    remedies=(RemedyName.USE_DMABUF,),
    cost="A unit that fails at each boot, or a module that nothing uses.",
    references=(
        "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-operator-rdma.html",
    ),
)
def peermem_redundant(node: Node, module: str) -> Outcome:
    """nvidia-peermem is not needed: it is a stub that fails to load at each boot, or dma-buf works and is
    preferred.

    Cost: Little. If both are available, NCCL uses dma-buf, and perftest without --use_cuda_dmabuf uses
    peermem. While nvidia-peermem is loaded, the RDMA stack cannot be restarted.

    How to tell: modules-load.d names nvidia-peermem although its file is a stub, so systemd-modules-load
    fails at each boot. Or nvidia-peermem is loaded, and the open kernel modules, the RDMA core and
    libibverbs all support dma-buf.

    What to do: Remove the line from modules-load.d. Unload the module with `sudo modprobe -r nvidia_peermem`
    if none of your programs depends on it: DPDK's mlx5 driver registers memory by address only, Mooncake
    does by default, and GDAKI and IBGDA need it for the NIC's queues before Linux 6.1.

    Why: Guides from the years before dma-buf recommend it.

    Source: NCCL src/transport/net.cc, which registers by dma-buf if it can; NVIDIA GPU Operator
    documentation, GPUDirect RDMA, which calls the module legacy; DPDK drivers/common/mlx5,
    mlx5_common_verbs_reg_mr().
    """
    entry = next((entry for entry in autoload(node) if entry.name == module), None)
    loaded = is_loaded(node, module)
    if entry and not loaded and _is_stub(node):
        return Failed(
            seen=f"{entry.file}:{entry.line} names a module that is a stub",
            expected="no such line",
            subject=module,
        )
    if not loaded:
        return NotApplicable("it is not loaded, and no stub is configured to load")
    if not (driver_flavour(node) == "open" and verbs_has_dmabuf(node) and dmabuf_exporter(node)):
        return Passed("dma-buf is not available here")
    return Failed(
        seen="loaded, although the open modules and the RDMA stack support dma-buf",
        expected="dma-buf alone",
        subject=module,
    )


def _is_stub(node: Node) -> bool:
    return if_absent(False, lambda: not peermem_linkage(node).uses_peer_api)
