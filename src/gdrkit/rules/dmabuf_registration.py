"""Registering a dma-buf with a NIC: refused by the NIC's driver, or by the GPU's driver because of the
NIC's."""

from __future__ import annotations

from gdrkit.evidence import Confidence, EvidenceMissing, Missing, MissingReason
from gdrkit.facts.driver_log import last_line
from gdrkit.facts.probe import memory_calls, verbs_calls
from gdrkit.facts.rdma import RdmaDevice, hardware_pairs, nics
from gdrkit.messages import driver
from gdrkit.messages.errors import EBADF, EINVAL, UNSUPPORTED, name_of
from gdrkit.node import Node, each_known, if_missing
from gdrkit.rules.deciding_command import VERBS_PROBE, DecidingCommand
from gdrkit.rules.rule import DMABUF, Failed, Layer, NotApplicable, Outcome, Passed, rule, the_node

ASK = "gdr probe verbs --json"
REFUSALS = {number: name_of(number) for number in (*UNSUPPORTED, EINVAL)}


@rule(
    "dmabuf-mr-refused",
    Layer.RDMA,
    per=nics,
    takes=(DMABUF,),
    at_registration=True,
    reported_by=(
        DecidingCommand(VERBS_PROBE, "EINVAL, EOPNOTSUPP or EPROTONOSUPPORT for one device, not for others"),
    ),
    cost="The NIC cannot use dma-buf; nvidia-peermem may still work.",
    references=("https://man7.org/linux/man-pages/man3/ibv_reg_mr.3.html",),
)
def dmabuf_mr_refused(node: Node, device: RdmaDevice) -> Outcome:
    """The NIC's driver refuses to register a dma-buf.

    Cost: This NIC cannot use dma-buf.

    How to tell: In `gdr probe verbs`, `ibv_reg_dmabuf_mr` with an invalid file descriptor fails with
    EOPNOTSUPP (95) or EPROTONOSUPPORT (93) instead of EBADF (9). Or, in `gdr probe memory`, a real
    registration fails with EINVAL (22).

    What to do: Install a newer rdma-core in the container that runs the job, or a kernel whose NIC driver
    imports ib_umem_dmabuf_get*. For EINVAL, check the firmware capabilities of the virtual function.

    Why: The kernel's driver for this NIC has no such call; or the provider of libibverbs is older than the
    call; or, for mlx5, the kernel was built without CONFIG_INFINIBAND_ON_DEMAND_PAGING. EINVAL comes from
    an mlx5 device (often a virtual function) that may not change translations through UMR: NCCL takes that
    for "supported", and fails later.

    Source: NCCL src/transport/net_ib (the same probe); Linux drivers/infiniband/hw/mlx5/mr.c,
    mlx5_ib_reg_user_mr_dmabuf().
    """
    offered = each_known(lambda ask: ask(node), (verbs_calls, memory_calls))
    results = [
        c.result
        for record in offered
        for c in record
        if c.call == "ibv_reg_dmabuf_mr" and device.name in (c.subject, c.argument)
    ]
    if not results:
        return NotApplicable("no probe tried it")
    refused = next((result for result in results if result in REFUSALS), None)
    if refused is not None:
        return Failed(
            seen=f"ibv_reg_dmabuf_mr: {REFUSALS[refused]} ({refused})",
            expected=f"EBADF ({EBADF}) for an invalid file descriptor",
            subject=device.name,
        )
    if EBADF in results or 0 in results:
        return Passed("the driver accepts dma-bufs")
    raise EvidenceMissing(
        Missing(f"ibv_reg_dmabuf_mr on {device.name}: errno {results[0]}", MissingReason.UNDECIDED, ASK)
    )


@rule(
    "dmabuf-no-p2p-importer",
    Layer.RDMA,
    per=the_node,
    reported_by=(
        DecidingCommand("sudo dmesg | grep 'dma-buf attach failed'", "importer unable to handle MMIO"),
    ),
    cost="The device of that driver cannot access GPU memory through a dma-buf.",
)
def dmabuf_no_p2p_importer(node: Node, subject: str) -> Outcome:
    """Some driver tried to import GPU memory as a dma-buf, and cannot handle device memory.

    Cost: The device of that driver does not reach GPU memory. It is hardly the NIC: Linux's RDMA drivers
    can handle device memory.

    How to tell: `sudo dmesg | grep 'dma-buf attach failed'` prints
    `importer unable to handle MMIO without struct page`. The line does not name the importer. Drivers before
    580.65.06 do not print it.

    What to do: Run `gdr probe memory`, which registers GPU memory with each NIC. If a NIC refuses it, and
    its driver is not part of Linux or OFED, install a newer one. Do not load nvidia-peermem for it: NCCL and
    UCX do not try peermem after a dma-buf was refused. Only NCCL_DMABUF_ENABLE=0 turns NCCL to it.

    Why: A driver that attaches to a dma-buf declares whether it supports peer-to-peer memory
    (allow_peer2peer). mlx5_ib does, and so do the drivers that pin through ib_umem_dmabuf_get_pinned, such
    as efa, irdma and bnxt_re; the driver that attached here does not.

    Source: open-gpu-kernel-modules kernel-open/nvidia/nv-dmabuf.c; Linux
    drivers/infiniband/core/umem_dmabuf.c, ib_umem_dmabuf_attach_pinned_ops, and hw/mlx5/mr.c,
    mlx5_ib_dmabuf_attach_ops; NCCL src/transport/net.cc, sendProxyConnect(); UCX src/ucp/core/ucp_mm.c,
    ucp_memh_register_internal().
    """
    if if_missing(False, lambda: not hardware_pairs(node)):
        return NotApplicable("no GPU, or no NIC")
    try:
        line = last_line(node, driver.NO_IMPORTER.template)
    except EvidenceMissing as error:
        node.cite("importers of dma-bufs", text="no kernel log to check", confidence=Confidence.LIKELY)
        return Passed("Linux's RDMA drivers can import device memory", lacking=(error.missing,))
    if line is not None:
        return Failed(
            seen=line.text, expected="an importer that supports peer-to-peer memory", subject="node"
        )
    return Passed("the kernel log has no such refusal")
