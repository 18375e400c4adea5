"""Texts that are mistaken for proof of the direct path."""

from __future__ import annotations

from gdrkit.evidence import EvidenceMissing
from gdrkit.facts.nccl_log import JobLog, logs, nccl_log
from gdrkit.facts.perftest_log import FOLDER as PERFTEST
from gdrkit.facts.perftest_log import perftest_run, runs
from gdrkit.messages.nccl_records import Carrier, DmabufGpu, NetDevice, Rings
from gdrkit.node import Node
from gdrkit.rules.rule import Failed, Layer, NotApplicable, Outcome, Passed, rule


@rule(
    "proof-misread",
    Layer.APPLICATION,
    per=lambda node: (*logs(node), *runs(node)),
    cost="The direct path is believed to be in use, but this text does not show it.",
    references=("https://github.com/NVIDIA/nccl-tests/issues/245",),
)
def proof_misread(node: Node, path: str) -> Outcome:
    """This text looks like proof of GPUDirect RDMA, but is not.

    Cost: None by itself.

    How to tell: The log has `DMA-BUF is available on GPU device`, `GPU Direct RDMA Enabled for HCA` or
    `GDR 1`, but its channel lines over the network lack `/GDRDMA`, or it has no such lines. Or the text is
    from a perftest run with --use_cuda on an integrated GPU, where perftest allocates host memory.

    What to do: Run the job with `NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET` on two nodes and read the
    channel lines.

    Why: Each of these lines is about one side only: the first about the GPU, the second about the NIC.
    `GDR 1` is also printed by a job without any network. Only `via NET/IB/0/GDRDMA` on a channel line shows
    that GPU memory is registered, separately for each direction.

    Source: NCCL src/transport/net.cc and src/transport/generic.cc; perftest src/cuda_memory.c.
    """
    if path.startswith(PERFTEST):
        return _perftest(node, path)
    try:
        log = nccl_log(node, path)
    except EvidenceMissing:
        return NotApplicable("not an NCCL log")
    claimed = _claim(log)
    if claimed is None:
        return NotApplicable("the log has no line that is mistaken for proof")
    claim, line = claimed
    legs = log.legs
    if any(leg.record.via.carried is Carrier.DIRECT for leg in legs):
        return Passed("channel lines with /GDRDMA")
    how = "through TCP or host memory" if any(leg.record.via.gdr for leg in legs) else "without /GDRDMA"
    seen = f"and {len(legs)} channel lines {how}" if legs else "and no channel line over a network"
    node.mark(path, line)
    return Failed(seen=f"{claim}, {seen}", expected="via NET/.../GDRDMA", subject=node.describe_line(path))


def _claim(log: JobLog) -> tuple[str, int] | None:
    """The text that is mistaken for proof and the number of its line; None if there is none."""
    for gpu in log.all(DmabufGpu):
        return gpu.record.text, gpu.line
    for device in log.all(NetDevice):
        nic = device.record
        if nic.enabled:
            network = f"{nic.network} ({nic.how})" if nic.how else nic.network
            return f"NET/{network}: enabled for HCA {nic.device}", device.line
    for rings in log.all(Rings):
        if rings.record.gdr:
            return f"Connected all rings, use ring PXN {rings.record.pxn:d} GDR 1", rings.line
    return None


def _perftest(node: Node, path: str) -> Outcome:
    try:
        run = perftest_run(node, path)
    except EvidenceMissing:
        return NotApplicable("not a perftest output")
    if not (run.integrated_gpu and run.bandwidth_shown):
        return NotApplicable("no run on an integrated GPU")
    node.mark(path, run.integrated_line)
    return Failed(
        seen="CUDA device integrated: 1, and a result",
        expected="a run on a GPU with memory of its own",
        subject=node.describe_line(path),
    )
