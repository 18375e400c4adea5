"""What keeps UCX, and NIXL with it, from a path: an old copy, a build without CUDA, a setting."""

from __future__ import annotations

from gdrkit.facts.commands import UCX_INFO
from gdrkit.facts.rdma import ports, rdma_devices
from gdrkit.node import Node, if_missing
from gdrkit.programs.environment import UCX_CONF, Environment, ProgramSetting, process_sources
from gdrkit.programs.job_settings import settings_of, taken_by
from gdrkit.programs.nixl.consumer import NIXL
from gdrkit.programs.old_copies import does_not_detect, version_too_old
from gdrkit.programs.ucx.consumer import UCX, allows, leaves_out_cuda
from gdrkit.programs.ucx.facts import is_absent, ucx_wheels
from gdrkit.rules.capabilities import DIRECT, Path
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import (
    SHOWN_BY_MESSAGES,
    Failed,
    Layer,
    NotApplicable,
    Outcome,
    Passed,
    Status,
    rule,
    the_node,
)


@rule(
    "ucx-misses-peermem",
    Layer.LIBRARY,
    per=the_node,
    takes=UCX.own("peermem"),
    reported_by=(DecidingCommand("ucx_info -v", "a version before 1.18, on a kernel without memory_peers"),),
    remedies=(RemedyName.UPGRADE_UCX,),
    cost="UCX stages GPU memory through host memory although nvidia-peermem works.",
    references=("https://github.com/openucx/ucx/blob/master/src/uct/ib/base/ib_md.c",),
)
def ucx_misses_peermem(node: Node, _: str) -> Outcome:
    """nvidia-peermem or nv_peer_mem is loaded and works, but this UCX does not detect it.

    Cost: The peermem path is closed for UCX alone.

    How to tell: `ucx_info -v` prints a version below 1.18, nvidia_peermem is loaded, and the file
    /sys/kernel/mm/memory_peers/nv_mem/version does not exist.

    What to do: Use UCX 1.18 or newer (also in HPC-X and in images), or dma-buf, which UCX supports from
    1.14 on.

    Why: Up to 1.17, UCX accepts only that file, and not every kernel with the peer-memory API has it. From
    1.18 on, /sys/module/nvidia_peermem/version counts as well.

    Source: openucx/ucx src/uct/ib/base/ib_md.c, uct_ib_check_gpudirect_driver() and its callers, at the
    tags from 1.5 to 1.20.
    """
    return does_not_detect(node, UCX)


@rule(
    "ucx-lacks-dmabuf",
    Layer.LIBRARY,
    per=the_node,
    takes=UCX.own("dmabuf"),
    reported_by=(DecidingCommand("ucx_info -v", "a version before 1.14"),),
    remedies=(RemedyName.UPGRADE_UCX,),
    cost="UCX needs nvidia-peermem, or stages GPU memory through host memory.",
    references=("https://github.com/openucx/ucx/releases/tag/v1.14.0",),
)
def ucx_lacks_dmabuf(node: Node, _: str) -> Outcome:
    """This UCX is older than UCX's dma-buf support.

    Cost: The dma-buf path is closed for UCX.

    How to tell: `ucx_info -v` prints a version below 1.14.

    What to do: Install UCX 1.14 or newer in the image or environment that the job loads.

    Why: UCX can register dma-bufs since 1.14, if it was built with a verbs library that has the call.

    Source: openucx/ucx src/uct/ib/base/ib_md.c, uct_ib_md_check_dmabuf(), first at v1.14.0.
    """
    return version_too_old(node, UCX, "dmabuf")


_UCX = "https://github.com/openucx/ucx"


_OF_UCX = (*UCX.own(*DIRECT), *NIXL.own(*DIRECT))


@rule(
    "ucx-lacks-cuda",
    Layer.LIBRARY,
    per=the_node,
    reported_by=(DecidingCommand("ucx_info -d | grep -i cuda", "nothing"),),
    cost="GPU memory is taken for host memory: registration fails, or the program crashes.",
    references=(_UCX,),
)
def ucx_lacks_cuda(node: Node, _: str) -> Outcome:
    """This UCX was built without CUDA, or does not find its CUDA module.

    Cost: UCX takes a GPU's address for host memory.

    How to tell: `ucx_info -d | grep cuda` prints nothing in the job's environment, or `ldd` of
    libuct_cuda.so shows a missing library.

    What to do: Use a UCX with CUDA, such as that of HPC-X or of NIXL's own package, and make libcuda.so.1
    visible. UCX_MODULE_DIR must point to the modules of the same UCX.

    Why: UCX loads its CUDA support as a module, and goes on without it.

    Source: openucx/ucx src/ucm/cuda, src/uct/cuda; ai-dynamo/nixl src/plugins/ucx/ucx_utils.cpp.
    """
    return SHOWN_BY_MESSAGES


def _ucx_info(node: Node) -> tuple[str, ...]:
    """ucx_info, where it was run. A job can load another UCX, so it closes no path of the node."""
    printed = None if is_absent(node) else if_missing(None, node.run, UCX_INFO)
    return () if printed is None else (UCX_INFO.line,)


@rule(
    "ucx-lacks-verbs",
    Layer.LIBRARY,
    per=lambda node: (*_ucx_info(node), *(copy.source for copy in ucx_wheels(node))),
    default_status=Status.WARNING,
    reported_by=(
        DecidingCommand("ucx_info -v, in the job's environment", "--without-verbs"),
        DecidingCommand("ucx_info -d | grep 'Component: ib'", "nothing"),
    ),
    cost="Between nodes this UCX has TCP alone, whatever the node can.",
    references=(_UCX,),
)
def ucx_lacks_verbs(node: Node, source: str) -> Outcome:
    """This UCX was built without verbs, so it knows no InfiniBand, RoCE or EFA.

    Cost: UCX, and NIXL with it, sends between nodes over TCP, without a warning.

    How to tell: In the job's environment `ucx_info -v` prints `--without-verbs`, or `ucx_info -d` has no
    `Component: ib`. A table of UCX_PROTO_INFO names tcp alone.

    What to do: Load a UCX that was built with verbs: that of the image or of HPC-X, or NIXL's own package.
    Remove the wheel libucx-cu11, -cu12 or -cu13 from the environment, or set LD_LIBRARY_PATH so that the
    other one is found first.

    Why: The wheels of libucx on PyPI are configured `--without-verbs --without-rdmacm --with-cuda`.

    Source: `ucx_info -v` of the wheels 1.15.0, 1.18.1, 1.20.0, 1.21.0 and 1.22.0.
    """
    if source != UCX_INFO.line:
        return Failed(
            seen=f"{source}: a wheel of UCX, which has no verbs",
            expected="a UCX with verbs",
            subject=source,
        )
    lines = node.run(UCX_INFO).splitlines()
    configured = next((number for number, line in enumerate(lines, 1) if "--without-verbs" in line), None)
    if configured is not None:
        node.mark(UCX_INFO.line, configured)
        return Failed(seen="UCX was configured --without-verbs", expected="a UCX with verbs", subject="UCX")
    return Passed("UCX was not configured without verbs")


@rule(
    "ucx-transport-excluded",
    Layer.APPLICATION,
    per=lambda node: (UCX_CONF, *process_sources(node)),
    takes=lambda source: () if source == UCX_CONF else _OF_UCX,  # a file that is rarely present
    reported_by=(DecidingCommand("env | grep UCX_, in the job", "UCX_TLS or UCX_NET_DEVICES"),),
    cost="Data goes over TCP or through host memory.",
    references=(_UCX,),
)
def ucx_transport_excluded(node: Node, source: str) -> Outcome:
    """UCX_TLS or UCX_NET_DEVICES leaves out a transport that GPU memory needs.

    Cost: UCX finds no usable transport, uses TCP, or takes a GPU's address for host memory and fails. This
    holds for NIXL, too.

    How to tell: The job's environment has UCX_TLS without `cuda` or without `rc`, or UCX_NET_DEVICES with a
    device that does not exist there.

    What to do: Remove the variables, or name them completely, as in `UCX_TLS=rc,cuda` with `cuda_ipc` and
    `cuda_copy` included by `cuda`, and in `UCX_NET_DEVICES=mlx5_0:1,mlx5_1:1`.

    Why: Both are lists of what is allowed; what they do not name is off. UCX takes no other device in place
    of one that does not exist, or whose port is down: without a list it uses those that are up.

    Source: openucx/ucx src/ucp/core/ucp_context.c, at the tags from 1.12 to 1.22.
    """
    found = settings_of(node, source)
    setting, devices = found.get("UCX_TLS"), found.get("UCX_NET_DEVICES")
    if setting is not None and leaves_out_cuda(setting.value):
        return Failed(
            seen=f"UCX_TLS={setting.value}, without cuda_copy",
            expected="unset, or a list with cuda",
            subject=node.describe_line(setting.source, setting.line),
            takes=taken_by(found, _OF_UCX),
        )
    if devices is not None:
        return _devices(node, found, devices)
    if setting is None:
        return NotApplicable(f"{source} sets neither UCX_TLS nor UCX_NET_DEVICES")
    return Passed(f"UCX_TLS={setting.value} has cuda_copy")


NO_DEVICE = "allows no RDMA device of the node"


def _devices(node: Node, found: Environment, setting: ProgramSetting) -> Outcome:
    """Whether UCX_NET_DEVICES leaves a port that works: UCX prints a warning about a name that is none, and
    takes no other device in its place."""
    every = [port for device in rdma_devices(node) for port in ports(node, device.name)]
    named = [port for port in every if allows(setting.value, port.device, port.number)]
    seen = f"UCX_NET_DEVICES={setting.value}"
    if not every:
        return NotApplicable("the node has no RDMA device")
    active = [port for port in every if port.state == "ACTIVE"]
    if any(port in active for port in named) or not active:
        return Passed(seen)
    only = ", ".join(dict.fromkeys(port.device for port in named))
    which = (
        f"allows only {only}, whose ports are not active" if named else "allows no RDMA device of the node"
    )
    return Failed(
        seen=f"{seen}, which {which}",
        expected=f"unset, or a list with {active[0].device}:{active[0].number}",
        subject=node.describe_line(setting.source, setting.line),
        takes=taken_by(found, (*_OF_UCX, *UCX.own(Path.STAGED), *NIXL.own(Path.STAGED))),
    )
