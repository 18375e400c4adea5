"""Settings that turn the direct path off."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gdrkit.consumers.consumer import Consumer, Need, Switch
from gdrkit.consumers.nccl import NCCL
from gdrkit.consumers.table import CONSUMERS
from gdrkit.facts.environment import UCX_CONF, Environment, Setting, nccl_sources, sources
from gdrkit.node import Node
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.job_settings import reach, settings_of
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import Failed, Layer, NotApplicable, Outcome, Passed, rule

GUIDE = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"
READ = next(switch for switch in NCCL.switches if switch.direction == "send")


def switches(network: bool) -> Iterator[tuple[Consumer, Switch]]:
    """Those that keep programs from RDMA devices altogether, or those that close direct paths alone."""
    for consumer in CONSUMERS:
        for switch in consumer.switches:
            if switch.direction == "both" and switch.network == network:
                yield consumer, switch


def _closes(network: bool) -> Callable[[str], tuple[Need, ...]]:
    """What a source may take away that nobody could read. UCX's own file is rarely there."""
    takes = tuple(use for consumer, switch in switches(network) for use in consumer.own(*switch.closes))
    return lambda source: () if source == UCX_CONF else tuple(dict.fromkeys(takes))


def _judged(node: Node, found: Environment, network: bool, well: str) -> Outcome:
    """Whether a source turns one of these switches off; of each program the first is told."""
    wrong: dict[str, Setting] = {}
    takes: list[Need] = []
    for consumer, switch in switches(network):
        setting = found.get(switch.name)
        if setting and switch.off(setting.value):
            wrong.setdefault(consumer.name, setting)
            takes.extend(consumer.own(*switch.closes))
    if not wrong:
        return Passed(well) if found.settings else NotApplicable(f"{found.source} sets nothing")
    first = next(iter(wrong.values()))
    return Failed(
        seen=", ".join(f"{setting.name}={setting.value}" for setting in wrong.values()),
        expected="unset",
        subject=node.describe_line(first.source, first.line),
        takes=reach(found, tuple(dict.fromkeys(takes))),
    )


@rule(
    "gdr-read-off",
    Layer.APPLICATION,
    per=nccl_sources,
    takes=NCCL.own(*READ.closes),
    direction=READ.direction,
    remedies=(RemedyName.CLEAN_NCCL_SETTINGS,),
    cost="What this node sends passes through host memory; what it receives does not.",
    references=(f"{GUIDE}#nccl-net-gdr-read",),
)
def gdr_read_off(node: Node, source: str) -> Outcome:
    """NCCL_NET_GDR_READ=0 keeps NICs from reading GPU memory, so that sending takes the detour.

    Cost: Half of the traffic is copied.

    How to tell: The variable in /etc/nccl.conf or in a job's log; channel lines `[receive] via
    NET/IB/0/GDRDMA` and `[send] via NET/IB/0` without it.

    What to do: Unset it; 1 forces it on, where a measurement says so.

    Why: On PCIe machines of the years before Ampere reading through the CPU was slow. NCCL up to 2.18 leaves
    it off by itself on GPUs without NVLink, later versions only before Ampere.

    Source: NCCL src/graph/paths.cc, ncclTopoCheckGdr(), NCCL_PARAM(NetGdrRead).
    """
    found = settings_of(node, source)
    setting = found.get(READ.name)
    if setting is None:
        return NotApplicable(f"{source} does not set it")
    if not READ.off(setting.value):
        return Passed(f"{READ.name}={setting.value}")
    where = node.describe_line(setting.source, setting.line)
    return Failed(seen=f"{READ.name}=0", expected="unset, or 1", subject=where, takes=reach(found))


@rule(
    "dmabuf-disabled-by-env",
    Layer.APPLICATION,
    per=sources,
    takes=_closes(network=False),
    reported_by=(DecidingCommand("env | grep NCCL, in the job", "NCCL_DMABUF_ENABLE=0"),),
    remedies=(RemedyName.CLEAN_NCCL_SETTINGS,),
    cost="The direct path that NCCL or UCX would prefer is turned off.",
    references=(f"{GUIDE}#nccl-dmabuf-enable",),
)
def dmabuf_disabled_by_env(node: Node, source: str) -> Outcome:
    """A variable turns dma-buf off: NCCL_DMABUF_ENABLE=0, OFI_NCCL_DISABLE_DMABUF=1,
    UCX_IB_GPU_DIRECT_RDMA=n, NVSHMEM_IB_DISABLE_DMABUF=1.

    Cost: Without dma-buf NCCL and NVSHMEM need nvidia-peermem. UCX's variable turns both direct paths off.

    How to tell: The variable in /etc/nccl.conf, /etc/ucx/ucx.conf, /etc/environment or a job's log.

    What to do: Unset it.

    Why: It was the way around a bug of 2.13, or a test of nvidia-peermem that stayed.

    Source: NCCL src/init.cc, NCCL_PARAM(DmaBufEnable); aws-ofi-nccl src/nccl_ofi_dmabuf.cpp; UCX
    src/uct/ib/base/ib_md.c, GPU_DIRECT_RDMA; NVSHMEM src/modules/transport/common/env_defs.h.
    """
    return _judged(node, settings_of(node, source), False, "dma-buf is not turned off")


@rule(
    "ib-disabled-by-env",
    Layer.APPLICATION,
    per=sources,
    takes=_closes(network=True),
    remedies=(RemedyName.CLEAN_NCCL_SETTINGS,),
    cost="NCCL or UCX talks TCP: no RDMA, and no direct path.",
    references=(f"{GUIDE}#nccl-ib-disable",),
)
def ib_disabled_by_env(node: Node, source: str) -> Outcome:
    """A variable keeps NCCL or UCX from using RDMA devices at all.

    Cost: A tenth of the bandwidth and less.

    How to tell: NCCL_IB_DISABLE=1, NCCL_NET=Socket, or a UCX_TLS without an InfiniBand transport. The log
    says `Using network Socket`, and `NET/Socket : GPU Direct RDMA Disabled`, which is normal for a socket.

    What to do: Unset it.

    Why: A leftover of a first test, or of an image for machines without RDMA.

    Source: NCCL src/transport/net_ib/init.cc, NCCL_PARAM(IbDisable), and src/plugin/net.cc, NCCL_NET; UCX
    src/ucp/core/ucp_context.c, the aliases of transports.
    """
    return _judged(node, settings_of(node, source), True, "RDMA is not turned off")
