"""Settings that turn RDMA or a direct path off."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gdrkit.consumers.consumer import INITIATED, WITHOUT_NIC, Consumer, Need, Switch
from gdrkit.consumers.nccl import NCCL
from gdrkit.consumers.table import CONSUMERS
from gdrkit.facts.environment import UCX_CONF, Environment, Setting, nccl_sources, sources
from gdrkit.node import Node
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.job_settings import settings_of, taken_by, turned_off
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import Failed, Layer, NotApplicable, Outcome, Passed, Trait, rule

GUIDE = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"
READ = next(switch for switch in NCCL.switches if switch.direction == "send")


def switches(network: bool) -> Iterator[tuple[Consumer, Switch]]:
    """The switches that turn RDMA off altogether (`network`), or the direct paths alone."""
    for consumer in CONSUMERS:
        for switch in consumer.switches:
            direct = switch.direction == "both" and not {*switch.closes} & {*WITHOUT_NIC, *INITIATED}
            if direct and switch.network == network:
                yield consumer, switch


def turned_off_by(name: str, value: str) -> str:
    """The code for what a setting turns off; "" if it turns nothing off."""
    for code, network in (("ib-disabled-by-env", True), ("dmabuf-disabled-by-env", False)):
        if any(switch.name == name and switch.off(value) for _, switch in switches(network)):
            return code
    return "gdr-read-off" if name == READ.name and READ.off(value) else ""


def _closes(network: bool) -> Callable[[str], tuple[Need, ...]]:
    """The paths that a source may take away while it is unread. UCX's own file is rarely present."""
    takes = tuple(use for consumer, switch in switches(network) for use in consumer.own(*switch.closes))
    return lambda source: () if source == UCX_CONF else tuple(dict.fromkeys(takes))


def _judged(node: Node, found: Environment, network: bool, passed: str) -> Outcome:
    """Failed if a source turns one of these switches off; names the first one of each program."""
    wrong: dict[str, Setting] = {}
    takes: list[Need] = []
    for consumer, switch in switches(network):
        setting = found.get(switch.name)
        if setting and switch.off(setting.value):
            wrong.setdefault(consumer.name, setting)
            takes.extend(consumer.own(*switch.closes))
    if not wrong:
        return Passed(passed) if found.settings else NotApplicable(f"{found.source} has no settings")
    first = next(iter(wrong.values()))
    return Failed(
        seen=", ".join(dict.fromkeys(f"{setting.name}={setting.value}" for setting in wrong.values())),
        expected="unset",
        subject=node.describe_line(first.source, first.line),
        takes=taken_by(found, tuple(dict.fromkeys(takes))),
    )


@rule(
    "gdr-read-off",
    Layer.APPLICATION,
    per=nccl_sources,
    traits=(Trait.NVIDIA_ONLY,),
    takes=NCCL.own(*READ.closes),
    direction=READ.direction,
    remedies=(RemedyName.CLEAN_NCCL_SETTINGS,),
    cost="Data that this node sends goes through host memory; data that it receives does not.",
    references=(f"{GUIDE}#nccl-net-gdr-read",),
)
def gdr_read_off(node: Node, source: str) -> Outcome:
    """NCCL_NET_GDR_READ=0 keeps NICs from reading GPU memory, so that sent data is copied through host
    memory.

    Cost: Half of the traffic is copied.

    How to tell: The variable is set in /etc/nccl.conf or in the job (`env | grep NCCL`). In the job's log,
    channel lines say `[receive] via NET/IB/0/GDRDMA`, but `[send] via NET/IB/0` without GDRDMA.

    What to do: Remove the setting from the file, or unset the variable in the job. Set it to 1, which
    forces it on, only if a measurement shows that it helps.

    Why: On PCIe machines from before Ampere, reading through the CPU was slow. By default, NCCL up to 2.18
    leaves it off on GPUs without NVLink, and later versions only on GPUs before Ampere.

    Source: NCCL src/graph/paths.cc, ncclTopoCheckGdr(), NCCL_PARAM(NetGdrRead).
    """
    return turned_off(node, source, READ)


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
    """A setting such as NCCL_DMABUF_ENABLE=0 turns dma-buf off.

    Cost: Without dma-buf, NCCL and NVSHMEM need nvidia-peermem. UCX's variable turns both direct paths off,
    for NIXL as well.

    How to tell: One of `NCCL_DMABUF_ENABLE=0`, `OFI_NCCL_DISABLE_DMABUF=1`, `UCX_IB_GPU_DIRECT_RDMA=n` or
    `NVSHMEM_IB_DISABLE_DMABUF=1` is in /etc/nccl.conf, /etc/ucx/ucx.conf, /etc/environment or a job's log.
    In the job, `env | grep -E 'NCCL|UCX|NVSHMEM'` shows it.

    What to do: Remove the setting from the file, or unset the variable in the job.

    Why: It was set to work around a bug of NCCL 2.13, or for a test of nvidia-peermem, and was never
    removed.

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
    cost="NCCL or UCX uses TCP: no RDMA, and no direct path.",
    references=(f"{GUIDE}#nccl-ib-disable",),
)
def ib_disabled_by_env(node: Node, source: str) -> Outcome:
    """A setting such as NCCL_IB_DISABLE=1 keeps NCCL or UCX from using RDMA devices at all.

    Cost: The job gets a tenth of the bandwidth, or less. UCX's settings are also those of NIXL.

    How to tell: `env | grep -E 'NCCL|UCX'` in the job shows NCCL_IB_DISABLE=1, NCCL_NET=Socket, or a
    UCX_TLS without an InfiniBand transport. The log says `Using network Socket`, and
    `NET/Socket : GPU Direct RDMA Disabled`, which is normal for a socket.

    What to do: Remove the setting from the file, or unset the variable in the job.

    Why: It is left over from a first test, or comes from an image for machines without RDMA.

    Source: NCCL src/transport/net_ib/init.cc, NCCL_PARAM(IbDisable), and src/plugin/net.cc, NCCL_NET; UCX
    src/ucp/core/ucp_context.c, the aliases of transports.
    """
    return _judged(node, settings_of(node, source), True, "RDMA is not turned off")
