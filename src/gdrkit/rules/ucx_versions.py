"""What the UCX on a node is too old for. PURE."""

from __future__ import annotations

from gdrkit.evidence import Absent, Lacks
from gdrkit.facts.libraries import ucx_version
from gdrkit.facts.modules import PEERMEM, is_loaded
from gdrkit.facts.versions import numbers
from gdrkit.node import Node
from gdrkit.rules.rule import Failed, Layer, NotApplicable, Outcome, Passed, rule, the_node

MEMORY_PEERS = "sys/kernel/mm/memory_peers/nv_mem/version"
FIRST_WITH_MODULE = (1, 18)
"""First release that also accepts /sys/module/nvidia_peermem/version: src/uct/ib/base/ib_md.c at v1.18.0; at
v1.17.0 only the file below memory_peers."""

FIRST_WITH_DMABUF = (1, 14)
"""First release that registers dma-bufs with ibv_reg_dmabuf_mr: the same file at v1.14.0; none at v1.13.0.
"""


@rule(
    "ucx-misses-peermem",
    Layer.LIBRARY,
    per=the_node,
    blocks=("peermem",),
    consumers=("ucx",),
    cost="UCX stages GPU memory through host memory although nvidia-peermem works.",
    references=("https://github.com/openucx/ucx/blob/master/src/uct/ib/base/ib_md.c",),
)
def ucx_misses_peermem(node: Node, _: str) -> Outcome:
    """nvidia-peermem is loaded and works, and this UCX does not notice it.

    Seen: UCX older than 1.18, nvidia_peermem loaded, and no file
    /sys/kernel/mm/memory_peers/nv_mem/version.

    Why: until 1.17 that file is the only sign that UCX accepts, and not every kernel with the API has it.
    From 1.18 on /sys/module/nvidia_peermem/version counts as well.

    Cost: the peermem path is closed for UCX alone.

    Fix: UCX 1.18 or newer (also in HPC-X and in images), or dma-buf, which UCX does from 1.14 on.

    Source: openucx/ucx src/uct/ib/base/ib_md.c, uct_ib_check_gpudirect_driver() and its callers, at the
    tags from 1.5 to 1.20.
    """
    if not is_loaded(node, PEERMEM):
        return NotApplicable("nvidia_peermem is not loaded")
    if node.exists(MEMORY_PEERS):
        return Passed("every UCX finds it below memory_peers")
    try:
        version = ucx_version(node)
    except Absent:
        return NotApplicable("no UCX is installed")
    if numbers(version) >= FIRST_WITH_MODULE:
        return Passed(f"UCX {version} finds it")
    return Failed(
        seen=f"UCX {version}, no /{MEMORY_PEERS}", expected="UCX 1.18 or newer", subject=f"UCX {version}"
    )


@rule(
    "ucx-lacks-dmabuf",
    Layer.LIBRARY,
    per=the_node,
    blocks=("dmabuf",),
    consumers=("ucx",),
    cost="UCX needs nvidia-peermem, or stages GPU memory through host memory.",
    references=("https://github.com/openucx/ucx/releases/tag/v1.14.0",),
)
def ucx_lacks_dmabuf(node: Node, _: str) -> Outcome:
    """This UCX is from before dma-buf.

    Seen: a version below 1.14.

    Why: UCX registers dma-bufs from 1.14 on, if it was built with a verbs library that has the call.

    Cost: the dma-buf path is closed for UCX.

    Fix: UCX 1.14 or newer, in the image or environment that the job loads.

    Source: openucx/ucx src/uct/ib/base/ib_md.c, uct_ib_md_check_dmabuf(), first at v1.14.0.
    """
    try:
        version = ucx_version(node)
    except Lacks:
        return NotApplicable("no UCX is seen; one of 1.14 or newer is assumed")
    if numbers(version) >= FIRST_WITH_DMABUF:
        return Passed(f"UCX {version} does dma-buf")
    return Failed(seen=f"UCX {version}", expected="UCX 1.14 or newer", subject=f"UCX {version}")
