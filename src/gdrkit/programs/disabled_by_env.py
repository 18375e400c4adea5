"""Settings that turn RDMA or a direct path off: rules that are made of the switches of every program."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator

from gdrkit.node import Node
from gdrkit.programs.consumer import Consumer, Switch
from gdrkit.programs.environment import UCX_CONF, Environment, ProgramSetting, sources
from gdrkit.programs.job_settings import settings_of, taken_by
from gdrkit.programs.nccl.setting_rules import GUIDE, READ
from gdrkit.rules.capabilities import INITIATED, WITHOUT_NIC, Need
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import Failed, Layer, NotApplicable, Outcome, Passed, Rule, rule


def switches(programs: Iterable[Consumer], network: bool) -> Iterator[tuple[Consumer, Switch]]:
    """The switches that turn RDMA off altogether (`network`), or the direct paths alone."""
    for consumer in programs:
        for switch in consumer.switches:
            direct = switch.direction == "both" and not {*switch.closes} & {*WITHOUT_NIC, *INITIATED}
            if direct and switch.network == network:
                yield consumer, switch


def turned_off_by(programs: tuple[Consumer, ...], name: str, value: str) -> str:
    """The code for what a setting turns off; "" if it turns nothing off."""
    for code, network in (("ib-disabled-by-env", True), ("dmabuf-disabled-by-env", False)):
        if any(switch.name == name and switch.off(value) for _, switch in switches(programs, network)):
            return code
    return "gdr-read-off" if name == READ.name and READ.off(value) else ""


def _closes(programs: Iterable[Consumer], network: bool) -> Callable[[str], tuple[Need, ...]]:
    """The paths that a source may take away while it is unread. UCX's own file is rarely present."""
    found = switches(programs, network)
    takes = tuple(use for consumer, switch in found for use in consumer.own(*switch.closes))
    return lambda source: () if source == UCX_CONF else tuple(dict.fromkeys(takes))


def _judged(
    node: Node, found: Environment, switches: Iterable[tuple[Consumer, Switch]], passed: str
) -> Outcome:
    """Failed if a source turns one of these switches off; names the first one of each program."""
    wrong: dict[str, ProgramSetting] = {}
    takes: list[Need] = []
    for consumer, switch in switches:
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


def dmabuf_disabled_by_env(programs: tuple[Consumer, ...], node: Node, source: str) -> Outcome:
    """A setting such as NCCL_DMABUF_ENABLE=0 turns dma-buf off; UCX_IB_GPU_DIRECT_RDMA=n, both direct paths.

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
    found = switches(programs, network=False)
    return _judged(node, settings_of(node, source), found, "dma-buf is not turned off")


def ib_disabled_by_env(programs: tuple[Consumer, ...], node: Node, source: str) -> Outcome:
    """A setting such as NCCL_IB_DISABLE=1 keeps NCCL or UCX from using RDMA devices at all.

    Cost: The job gets a tenth of the bandwidth, or less. UCX's settings are also those of NIXL, and without
    RDMA devices NCCL's GIN is not offered.

    How to tell: `env | grep -E 'NCCL|UCX'` in the job shows NCCL_IB_DISABLE=1, NCCL_NET=Socket, or a
    UCX_TLS without an InfiniBand transport. The log says `Using network Socket`, and
    `NET/Socket : GPU Direct RDMA Disabled`, which is normal for a socket.

    What to do: Remove the setting from the file, or unset the variable in the job.

    Why: It is left over from a first test, or comes from an image for machines without RDMA.

    Source: NCCL src/transport/net_ib/init.cc, NCCL_PARAM(IbDisable), and src/plugin/net.cc, NCCL_NET; UCX
    src/ucp/core/ucp_context.c, the aliases of transports.
    """
    found = switches(programs, network=True)
    return _judged(node, settings_of(node, source), found, "RDMA is not turned off")


_Check = Callable[[tuple[Consumer, ...], Node, str], Outcome]


def _of(programs: tuple[Consumer, ...], check: _Check) -> Callable[[Node, str], Outcome]:
    """A check of these programs; its name and its page are those of the check."""

    @functools.wraps(check)
    def of_these(node: Node, source: str) -> Outcome:
        return check(programs, node, source)

    return of_these


@functools.cache
def rules_about_switches(programs: tuple[Consumer, ...]) -> tuple[Rule, ...]:
    """The rules about settings that turn off paths of these programs."""
    dmabuf = rule(
        "dmabuf-disabled-by-env",
        Layer.APPLICATION,
        per=sources,
        takes=_closes(programs, network=False),
        reported_by=(
            DecidingCommand(
                "env | grep -E 'NCCL|UCX|NVSHMEM', in the job",
                "NCCL_DMABUF_ENABLE=0, UCX_IB_GPU_DIRECT_RDMA=n, or another of these settings",
            ),
        ),
        remedies=(RemedyName.CLEAN_NCCL_SETTINGS,),
        cost="The direct path that NCCL or UCX would prefer is turned off.",
        references=(f"{GUIDE}#nccl-dmabuf-enable",),
    )
    rdma = rule(
        "ib-disabled-by-env",
        Layer.APPLICATION,
        per=sources,
        takes=_closes(programs, network=True),
        remedies=(RemedyName.CLEAN_NCCL_SETTINGS,),
        cost="NCCL or UCX uses TCP: no RDMA, and no direct path.",
        references=(f"{GUIDE}#nccl-ib-disable",),
    )
    return dmabuf(_of(programs, dmabuf_disabled_by_env)), rdma(_of(programs, ib_disabled_by_env))
