"""Settings that turn the direct path off. PURE."""

from __future__ import annotations

from gdrkit.consumers.nccl import NCCL
from gdrkit.consumers.ucx import UCX
from gdrkit.facts.environment import UCX_CONF, integer, nccl_sources, sources
from gdrkit.node import Node
from gdrkit.rules.job_settings import place, reach, settings_of
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import Failed, Layer, NotApplicable, Outcome, Passed, rule
from gdrkit.rules.tell import Tell

GUIDE = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"


@rule(
    "gdr-read-off",
    Layer.APPLICATION,
    per=nccl_sources,
    takes=NCCL.own("dmabuf", "peermem"),
    direction="send",
    remedies=(RemedyName.CLEAN_NCCL_SETTINGS,),
    cost="What this node sends passes through host memory; what it receives does not.",
    references=(f"{GUIDE}#nccl-net-gdr-read",),
)
def gdr_read_off(node: Node, source: str) -> Outcome:
    """NCCL_NET_GDR_READ=0 keeps NICs from reading GPU memory, so that sending takes the detour.

    Seen: the variable in /etc/nccl.conf or in a job's log; channel lines `[receive] via NET/IB/0/GDRDMA` and
    `[send] via NET/IB/0` without it.

    Why: on PCIe machines of the years before Ampere reading through the CPU was slow. NCCL up to 2.18 leaves
    it off by itself on GPUs without NVLink, later versions only before Ampere.

    Cost: half of the traffic is copied.

    Fix: unset it; 1 forces it on, where a measurement says so.

    Source: NCCL src/graph/paths.cc, ncclTopoCheckGdr(), NCCL_PARAM(NetGdrRead).
    """
    found = settings_of(node, source)
    setting = found.get("NCCL_NET_GDR_READ")
    if setting is None:
        return NotApplicable(f"{source} does not set it")
    if integer(setting.value) != 0:
        return Passed(f"NCCL_NET_GDR_READ={setting.value}")
    return Failed(
        seen="NCCL_NET_GDR_READ=0", expected="unset, or 1", subject=place(setting), takes=reach(found)
    )


OFF_FOR_UCX = ("n", "no", "off", "0", "false")
"""Values of a boolean that are no: UCX src/ucs/config/parser.c, ucs_config_sscanf_bool()."""


@rule(
    "dmabuf-disabled-by-env",
    Layer.APPLICATION,
    per=sources,
    takes=lambda source: () if source == UCX_CONF else (*NCCL.own("dmabuf"), *UCX.own("dmabuf")),
    told_by=(Tell("env | grep NCCL, in the job", "NCCL_DMABUF_ENABLE=0"),),
    remedies=(RemedyName.CLEAN_NCCL_SETTINGS,),
    cost="The direct path that NCCL or UCX would prefer is turned off.",
    references=(f"{GUIDE}#nccl-dmabuf-enable",),
)
def dmabuf_disabled_by_env(node: Node, source: str) -> Outcome:
    """A variable turns dma-buf off: NCCL_DMABUF_ENABLE=0, OFI_NCCL_DISABLE_DMABUF=1,
    UCX_IB_GPU_DIRECT_RDMA=n.

    Seen: the variable in /etc/nccl.conf, /etc/ucx/ucx.conf, /etc/environment or a job's log.

    Why: it was the way around a bug of 2.13, or a test of nvidia-peermem that stayed.

    Cost: without dma-buf NCCL needs nvidia-peermem. UCX's variable turns both direct paths off.

    Fix: unset it.

    Source: NCCL src/init.cc, NCCL_PARAM(DmaBufEnable); aws-ofi-nccl src/nccl_ofi_dmabuf.cpp; UCX
    src/uct/ib/base/ib_md.c, GPU_DIRECT_RDMA.
    """
    found = settings_of(node, source)
    enable, ofi = found.get("NCCL_DMABUF_ENABLE"), found.get("OFI_NCCL_DISABLE_DMABUF")
    ucx = found.get("UCX_IB_GPU_DIRECT_RDMA")
    if ucx and ucx.value.lower() in OFF_FOR_UCX:
        return Failed(
            seen=f"UCX_IB_GPU_DIRECT_RDMA={ucx.value}",
            expected="unset",
            subject=place(ucx),
            takes=reach(found, UCX.own("dmabuf", "peermem")),
        )
    for setting, off in ((enable, 0), (ofi, 1)):
        if setting and integer(setting.value) == off:
            return Failed(
                seen=f"{setting.name}={setting.value}",
                expected="unset",
                subject=place(setting),
                takes=reach(found, NCCL.own("dmabuf")),
            )
    return Passed("dma-buf is not turned off") if found.settings else NotApplicable(f"{source} sets nothing")


@rule(
    "ib-disabled-by-env",
    Layer.APPLICATION,
    per=sources,
    takes=lambda source: (
        () if source == UCX_CONF else (*NCCL.own("dmabuf", "peermem"), *UCX.own("dmabuf", "peermem"))
    ),
    remedies=(RemedyName.CLEAN_NCCL_SETTINGS,),
    cost="NCCL or UCX talks TCP: no RDMA, and no direct path.",
    references=(f"{GUIDE}#nccl-ib-disable",),
)
def ib_disabled_by_env(node: Node, source: str) -> Outcome:
    """A variable keeps NCCL or UCX from using RDMA devices at all.

    Seen: NCCL_IB_DISABLE=1, NCCL_NET=Socket, or a UCX_TLS without an InfiniBand transport. The log says
    `Using network Socket`, and `NET/Socket : GPU Direct RDMA Disabled`, which is normal for a socket.

    Why: a leftover of a first test, or of an image for machines without RDMA.

    Cost: a tenth of the bandwidth and less.

    Fix: unset it.

    Source: NCCL src/transport/net_ib/init.cc, NCCL_PARAM(IbDisable), and src/plugin/net.cc, NCCL_NET; UCX
    src/ucp/core/ucp_context.c, the aliases of transports.
    """
    found = settings_of(node, source)
    disable, net, tls = (found.get(name) for name in ("NCCL_IB_DISABLE", "NCCL_NET", "UCX_TLS"))
    if disable and integer(disable.value) not in (None, 0):
        wrong, who = disable, NCCL
    elif net and net.value.lower() == "socket":
        wrong, who = net, NCCL
    elif tls and not _has_infiniband(tls.value):
        wrong, who = tls, UCX
    else:
        return (
            Passed("RDMA is not turned off") if found.settings else NotApplicable(f"{source} sets nothing")
        )
    return Failed(
        seen=f"{wrong.name}={wrong.value}",
        expected="unset",
        subject=place(wrong),
        takes=reach(found, who.own("dmabuf", "peermem")),
    )


def _has_infiniband(transports: str) -> bool:
    """Whether a list of transports leaves one for InfiniBand. `^` turns the list round."""
    words = transports.strip().lstrip("^").lower().split(",")
    named = any(word in ("all", "ib") or word.startswith(("rc", "dc", "ud")) for word in words)
    if transports.strip().startswith("^"):
        return not ("ib" in words or "all" in words)
    return named or not transports.strip()
