"""UCX."""

from __future__ import annotations

from gdrkit.facts.peer_memory import MODULE, NV_MEM
from gdrkit.facts.wheels import LibraryCopy
from gdrkit.formats.regex import regex
from gdrkit.node import Node
from gdrkit.programs.consumer import Consumer, PathSupport, RequiredFiles, Switch
from gdrkit.programs.ucx.facts import ucx_version
from gdrkit.rules.capabilities import DIRECT, Path

_MD = "openucx/ucx src/uct/ib/base/ib_md.c, uct_ib_md_open_common()"
_MODULES = (MODULE, "sys/module/nv_peer_mem/version")
_OFF = ("n", "no", "off", "0", "false")  # src/ucs/config/parser.c, ucs_config_sscanf_bool()


def copies(node: Node) -> tuple[LibraryCopy, ...]:
    return (LibraryCopy(ucx_version(node), ""),)


def _without_infiniband(transports: str) -> bool:
    """Whether a list of transports excludes InfiniBand. `^` negates the list."""
    words = transports.strip().lstrip("^").lower().split(",")
    if transports.strip().startswith("^"):
        return "ib" in words or "all" in words
    named = any(word in ("all", "ib") or word.startswith(("rc", "dc", "ud")) for word in words)
    return not (named or not transports.strip())


def leaves_out_cuda(transports: str) -> bool:
    """Whether a list of transports excludes cuda_copy, without which UCX takes a GPU's address for host
    memory: openucx/ucx src/uct/cuda/cuda_copy, src/ucp/core/ucp_context.c, the alias cuda."""
    words = transports.strip().lstrip("^").lower().split(",")
    named = any(word in ("all", "cuda", "cuda_copy") for word in words)
    if transports.strip().startswith("^"):
        return named
    return bool(transports.strip()) and not named


_OF_RDMA = regex(r"(?:rc|dc|ud|ib|srd|gga|all)(?![a-z])")


def leaves_out_rdma(transports: str) -> bool:
    """Whether a list of transports has none over RDMA; not of a list of exclusions. Source: openucx/ucx
    src/ucp/core/ucp_context.c, the names and aliases of UCX_TLS."""
    words = transports.strip().lower().split(",")
    return words != [""] and not words[0].startswith("^") and not any(map(_OF_RDMA.match, words))


def allows(devices: str, name: str, port: int) -> bool:
    """Whether UCX_NET_DEVICES allows a port of an RDMA device, by its whole name with or without the port.
    `^` negates the list. An entry with a range, as mlx5_[0-3]:1, may name any device. Source: openucx/ucx
    src/ucp/core/ucp_context.c, ucp_is_resource_in_device_list()."""
    spec = devices.strip()
    entries = spec.lstrip("^").split(",")
    if "[" in spec or entries[0] == "all":
        return True
    return (name in entries or f"{name}:{port}" in entries) is not spec.startswith("^")


ANOTHER_NIC = "uses another NIC that is up, if UCX_NET_DEVICES allows one; several GPUs then share it"
"""A port that is not ACTIVE is none of UCX's resources, and no distance closes a path: openucx/ucx
src/uct/ib/base/ib_device.c, uct_ib_device_port_check()."""

UCX = Consumer(
    name="ucx",
    title="UCX",
    copies=copies,
    assumed="1.14 or newer",
    common=True,
    without="copies through host memory without a message",
    elsewhere=ANOTHER_NIC,
    mapped=r"/libucp[-.]",
    uses=(
        PathSupport(path=Path.DMABUF, since=(1, 14)),  # uct_ib_md_check_dmabuf(), first at v1.14.0
        PathSupport(
            path=Path.PEERMEM,
            required_files=(
                RequiredFiles((1, 18), (NV_MEM, *_MODULES), _MD),  # uct_ib_check_gpudirect_driver() for each
                RequiredFiles((0,), (NV_MEM,), _MD),
            ),
        ),
        PathSupport(path=Path.STAGED),
        PathSupport(path=Path.SOCKET),
    ),
    switches=(
        Switch(
            name="UCX_IB_GPU_DIRECT_RDMA",
            closes=DIRECT,
            off=lambda value: value.lower() in _OFF,
            source="src/uct/ib/base/ib_md.c, GPU_DIRECT_RDMA",
        ),
        Switch(
            name="UCX_CUDA_COPY_DMABUF",
            closes=(Path.DMABUF,),
            off=lambda value: value.lower() in _OFF,
            source="src/uct/cuda/cuda_copy/cuda_copy_md.c, DMABUF, from 1.15 on",
        ),
        Switch(
            name="UCX_TLS",
            closes=(*DIRECT, Path.STAGED),
            off=_without_infiniband,
            network=True,
            source="src/ucp/core/ucp_context.c, the aliases of transports",
        ),
    ),
)
