"""libibverbs and its providers in a program's own environment."""

from __future__ import annotations

from gdrkit.node import Node
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.rule import Layer, Outcome, rule, the_node
from gdrkit.rules.shown_by_messages import SHOWN_BY_MESSAGES

_LOADER = "https://man7.org/linux/man-pages/man8/ld.so.8.html"
_PACKAGES = "https://github.com/linux-rdma/rdma-core"


@rule(
    "verbs-library-missing",
    Layer.LIBRARY,
    per=the_node,
    reported_by=(DecidingCommand("ldconfig -p | grep libibverbs", "nothing, in the container of the job"),),
    cost="The program cannot use RDMA at all; NCCL uses sockets.",
    references=(_PACKAGES,),
)
def verbs_library_missing(node: Node, _: str) -> Outcome:
    """The program finds no libibverbs, usually because the container image lacks it.

    Cost: No RDMA: NCCL goes on over sockets, other programs stop.

    How to tell: `ldconfig -p | grep libibverbs` prints nothing in the container.

    What to do: Install rdma-core in the image: on Debian and Ubuntu libibverbs1 and ibverbs-providers, on
    RHEL libibverbs. Check with `ibv_devices`.

    Why: Programs open libibverbs.so.1 when they start, so that they run without it too.

    Source: NVIDIA/nccl src/misc/ibvsymbols.cc; NVIDIA/nvshmem src/modules/transport.
    """
    return SHOWN_BY_MESSAGES


@rule(
    "verbs-provider-mismatch",
    Layer.LIBRARY,
    per=the_node,
    reported_by=(
        DecidingCommand("ldconfig -p | grep -E 'libibverbs|libmlx5'", "files of two different packages"),
    ),
    cost="libibverbs finds no device: no RDMA.",
    references=(_LOADER,),
)
def verbs_provider_mismatch(node: Node, _: str) -> Outcome:
    """libibverbs finds no library for the NIC (such as libmlx5), or one that is not from its own package.

    Cost: libibverbs shows no device; NCCL uses sockets.

    How to tell: A program prints `no userspace device-specific driver found`, `couldn't load driver
    'libmlx5-rdmav34.so'`, or that IBVERBS_PRIVATE_34 is not defined. `ldconfig -p` and LD_LIBRARY_PATH show
    no copy, or two.

    What to do: Install libibverbs1 and ibverbs-providers of one source in the image: the distribution's, or
    MLNX_OFED's or DOCA's. Do not mount the host's libraries over those of the image.

    Why: The private interface between the two has a version, which must be the same on both sides.

    Source: rdma-core libibverbs/dynamic_driver.c, libibverbs/libibverbs.map.in.
    """
    return SHOWN_BY_MESSAGES


@rule(
    "mkeys-exhausted",
    Layer.FIRMWARE,
    per=the_node,
    reported_by=(DecidingCommand("sudo dmesg | grep CREATE_MKEY", "status limits exceeded(0x8)"),),
    cost="No more memory can be registered with this NIC.",
    references=("https://docs.kernel.org/networking/device_drivers/ethernet/mellanox/mlx5/index.html",),
)
def mkeys_exhausted(node: Node, _: str) -> Outcome:
    """The NIC has no room for another memory key: its firmware reports a limit.

    Cost: Registration fails, usually with ENOMEM, although locked memory and BAR1 suffice.

    How to tell: The kernel log has `CREATE_MKEY(0x200) ... status limits exceeded(0x8)`.

    What to do: Register fewer and larger regions, close processes that leak registrations, and give a
    virtual function or a scalable function more keys. A large region of small pages needs many entries:
    use huge pages for host memory.

    Why: The table of keys and translations has a size that the firmware sets for each function.

    Source: Linux drivers/net/ethernet/mellanox/mlx5/core/cmd.c, cmd_status_str().
    """
    return SHOWN_BY_MESSAGES
