"""Runs of perftest that test another path than the one that programs use."""

from __future__ import annotations

from gdrkit.facts.perftest_log import perftest_run, runs
from gdrkit.messages.errors import EFAULT
from gdrkit.node import Node
from gdrkit.rules.rule import Failed, Layer, NotApplicable, Outcome, Passed, rule


@rule(
    "perftest-tests-other-path",
    Layer.LIBRARY,
    per=runs,
    cost="Neither a failure nor a success of this run is evidence about dma-buf.",
    references=("https://github.com/linux-rdma/perftest#gpudirect-usage",),
)
def perftest_tests_other_path(node: Node, path: str) -> Outcome:
    """This perftest run tested nvidia-peermem, not dma-buf, or no GPU memory at all.

    Cost: A node on which NCCL works well looks broken, or a node that works only through peermem looks
    healthy.

    How to tell: The command line has `--use_cuda` without `--use_cuda_dmabuf`; a failed run ends in
    `Couldn't allocate MR with error=14`. Or it has `--cuda_mem_type=1` (managed memory) or `=4` (host
    memory), with which neither path is tested.

    What to do: Add `--use_cuda_dmabuf`, and leave out `--cuda_mem_type`. `--use_cuda_bus_id` chooses the GPU
    by address; `--use_data_direct` and `--use_cuda_pcie_mapping` need `--use_cuda_dmabuf` as well. If
    perftest does not know this option, it was built without it: build it against CUDA 11.7 or newer.

    Why: Without that option, perftest registers GPU memory with plain ibv_reg_mr, which works only through
    nvidia-peermem. NCCL prefers dma-buf if both are available. Managed memory moves between GPU and host, so
    the driver pins it for no NIC.

    Source: linux-rdma/perftest src/perftest_resources.c, register_mr(), perftest_parameters.c and
    cuda_memory.c, at the tags up to 26.04.17.
    """
    run = perftest_run(node, path)
    if not run.uses_gpu:
        return NotApplicable("a run with host memory")
    if run.memory:
        return Failed(
            seen=f"a run with {run.memory} memory",
            expected="the GPU's own memory, without --cuda_mem_type",
            subject=node.describe_line(path),
        )
    if run.uses_dmabuf:
        return Passed("it used dma-buf")
    if run.uses_dmabuf is None and run.registration_errno != EFAULT:
        return NotApplicable("the text does not show how GPU memory was registered")
    if run.registration_errno == EFAULT:
        node.mark(path, run.refused_line)
        seen = "error=14 from plain ibv_reg_mr"
    else:
        seen = "a run that worked through plain ibv_reg_mr" if run.bandwidth_shown else "--use_cuda alone"
    return Failed(seen=seen, expected="--use_cuda_dmabuf", subject=node.describe_line(path))
