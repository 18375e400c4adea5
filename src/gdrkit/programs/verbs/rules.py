"""libibverbs, its providers, and runs of perftest that test another path than the one that programs use."""

from __future__ import annotations

from gdrkit.facts.libraries import (
    DMABUF_CALL,
    FIRST_WITH_DMABUF,
    SharedLibrary,
    has_dmabuf,
    libibverbs,
    other_libibverbs,
    verbs_has_dmabuf,
)
from gdrkit.facts.rdma import RdmaDevice, rdma_devices
from gdrkit.facts.verbs_kernel import verbs_module
from gdrkit.facts.verbs_provider import FIRST_RELEASES, provider_has_dmabuf
from gdrkit.messages.errors import EFAULT
from gdrkit.node import Node, if_missing
from gdrkit.programs.verbs.perftest_log import perftest_run, runs
from gdrkit.rules.deciding_command import VERBS_PROBE, DecidingCommand
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import (
    DMABUF,
    SHOWN_BY_MESSAGES,
    Failed,
    Layer,
    NotApplicable,
    Outcome,
    Passed,
    SettledBy,
    Status,
    rule,
    the_node,
)

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
    reported_by=(
        DecidingCommand(
            "sudo dmesg | grep CREATE_MKEY", "`status limits exceeded(0x8)` or `no resources(0xf)`"
        ),
    ),
    cost="No more memory can be registered with this NIC.",
    references=("https://docs.kernel.org/networking/device_drivers/ethernet/mellanox/mlx5/index.html",),
)
def mkeys_exhausted(node: Node, _: str) -> Outcome:
    """The NIC has no room for another memory key: its firmware reports a limit.

    Cost: Registration fails, usually with ENOMEM, although locked memory and BAR1 suffice.

    How to tell: The kernel log has `CREATE_MKEY(0x200) ... status limits exceeded(0x8)` or
    `status no resources(0xf)`.

    What to do: Register fewer and larger regions, close processes that leak registrations, and give a
    virtual function or a scalable function more keys. A large region of small pages needs many entries:
    use huge pages for host memory.

    Why: The table of keys and translations has a size that the firmware sets for each function.

    Source: Linux drivers/net/ethernet/mellanox/mlx5/core/cmd.c, cmd_status_str().
    """
    return SHOWN_BY_MESSAGES


@rule(
    "verbs-lacks-dmabuf",
    Layer.RDMA,
    per=the_node,
    takes=(DMABUF,),
    reported_by=(DecidingCommand(VERBS_PROBE, "no ibv_reg_dmabuf_mr in the libibverbs that is loaded"),),
    remedies=(RemedyName.UPGRADE_RDMA_CORE,),
    settled_by=SettledBy.IMAGE,
    cost="Programs on this node cannot register a dma-buf, even if the kernel can.",
    references=("https://man7.org/linux/man-pages/man3/ibv_reg_mr.3.html",),
)
def verbs_lacks_dmabuf(node: Node, _: str) -> Outcome:
    """The libibverbs that programs load here has no ibv_reg_dmabuf_mr.

    Cost: NCCL treats the missing symbol as a NIC without dma-buf, and does not report it.

    How to tell: `nm -D <libibverbs.so.1> | grep ibv_reg_dmabuf_mr` prints nothing. If the library itself was
    not collected: its version is older than rdma-core 34.

    What to do: Install a newer rdma-core or DOCA-OFED; in containers, use a newer base image.

    Why: The function was added in rdma-core 34. Old distributions and the user space of older OFED releases
    do not have it. Containers have their own libibverbs: what is true of the host is not true of an image.

    Source: rdma-core libibverbs/libibverbs.map.in, IBVERBS_1.12 at v34.0; NCCL src/transport/net_ib/gdr.cc.
    """
    if verbs_has_dmabuf(node):
        return Passed(f"it offers {DMABUF_CALL}")
    return Failed(seen=f"{_library(node)} has no {DMABUF_CALL}", expected=DMABUF_CALL, subject="libibverbs")


def _library(node: Node) -> str:
    """The library's path; its name if only its package is known."""
    return if_missing("libibverbs", lambda: libibverbs(node).path)


@rule(
    "provider-lacks-dmabuf",
    Layer.RDMA,
    per=rdma_devices,
    takes=(DMABUF,),
    reported_by=(
        DecidingCommand(
            VERBS_PROBE, "EOPNOTSUPP (95) for a device whose kernel driver imports ib_umem_dmabuf_get*"
        ),
    ),
    remedies=(RemedyName.UPGRADE_RDMA_CORE,),
    settled_by=SettledBy.IMAGE,
    cost="ibv_reg_dmabuf_mr fails with EOPNOTSUPP on this device, even if the kernel can do it.",
    references=(_PACKAGES,),
)
def provider_lacks_dmabuf(node: Node, device: RdmaDevice) -> Outcome:
    """The libibverbs here can register dma-bufs, its provider for this NIC cannot.

    Cost: The dma-buf path is closed for this device in programs that load this libibverbs.

    How to tell: `nm -D` of the provider, such as
    /usr/lib/x86_64-linux-gnu/libibverbs/libirdma-rdmav34.so, does not list ibv_cmd_reg_dmabuf_mr.
    `gdr probe verbs` shows that `ibv_reg_dmabuf_mr` fails with EOPNOTSUPP (95). Without the file: rdma-core
    is older than 38 (efa), 45 (irdma), 48 (bnxt_re), 57 (mana) or 61 (ionic).

    What to do: Install a newer rdma-core, also in the image that the job runs in.

    Why: libibverbs has the function since rdma-core 34, and mlx5 since the same release. Other providers
    followed years after, and each only after its kernel driver: Ubuntu 22.04, with rdma-core 39, has it for
    mlx5 and efa alone, whatever kernel it runs.

    Source: rdma-core libibverbs/dummy_ops.c, reg_dmabuf_mr(); providers/ at the tags v34.0 to v64.0.
    """
    module = verbs_module(device.driver)
    if module not in FIRST_RELEASES:
        return NotApplicable("no provider of its driver registers dma-bufs")
    if FIRST_RELEASES[module][1] <= FIRST_WITH_DMABUF:
        return NotApplicable("its provider is as old as the function")
    if provider_has_dmabuf(node, module):
        return Passed("its provider registers dma-bufs")
    provider, first = FIRST_RELEASES[module]
    return Failed(
        seen=f"the provider {provider} registers no dma-bufs",
        expected=f"rdma-core {first} or newer",
        subject=device.name,
    )


@rule(
    "verbs-library-old",
    Layer.LIBRARY,
    per=other_libibverbs,
    default_status=Status.WARNING,
    reported_by=(
        DecidingCommand(
            "nm -D libibverbs.so.1 | grep ibv_reg_dmabuf_mr", "nothing, for the copy that the program loads"
        ),
    ),
    remedies=(RemedyName.UPGRADE_RDMA_CORE,),
    settled_by=SettledBy.IMAGE,
    cost="A program that loads this copy cannot use dma-buf, even if the system's own libibverbs can.",
    references=("https://man7.org/linux/man-pages/man8/ld.so.8.html",),
)
def verbs_library_old(node: Node, library: SharedLibrary) -> Outcome:
    """A second libibverbs on this node is too old for dma-buf.

    Cost: A program that loads it treats the NIC as one without dma-buf, and does not report it.

    How to tell: A vendor's folder has a libibverbs.so.1 without the function:
    `nm -D <file> | grep ibv_reg_dmabuf_mr` prints nothing.

    What to do: Update or remove the copy, or remove its folder from LD_LIBRARY_PATH. `ldd <program>` shows
    which copy the program loads.

    Why: HPC-X, older OFED releases and Python or Conda environments include their own libraries, and
    LD_LIBRARY_PATH puts them first.

    Source: rdma-core libibverbs/libibverbs.map.in, IBVERBS_1.12; ld.so(8).
    """
    if has_dmabuf(node, library.path):
        return Passed(f"it offers {DMABUF_CALL}")
    return Failed(seen=f"no {DMABUF_CALL}", expected=DMABUF_CALL, subject=library.path)


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
