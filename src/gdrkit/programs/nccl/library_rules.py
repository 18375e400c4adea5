"""What a copy of NCCL lacks: a path, a file that it looks for, its plugin, reads of a GPU without NVLink."""

from __future__ import annotations

from gdrkit.evidence import EvidenceMissing
from gdrkit.facts.libraries import FOLDERS, MORE_FOLDERS, find
from gdrkit.facts.rdma import RdmaDevice, nics
from gdrkit.node import Node, if_absent
from gdrkit.programs.aws_ofi_nccl.facts import efa_devices
from gdrkit.programs.nccl.consumer import NCCL
from gdrkit.programs.nccl.facts import PLUGIN, net_plugins
from gdrkit.programs.nccl.log import nccl_logs
from gdrkit.programs.nccl.releases import first_release_with
from gdrkit.programs.old_copies import does_not_detect, version_too_old
from gdrkit.rules.capabilities import DIRECT, Path
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import (
    Failed,
    Layer,
    NotApplicable,
    Outcome,
    Passed,
    rule,
    the_node,
)

NCCL_VERSION = "NCCL_DEBUG=VERSION, set for the job"


@rule(
    "nccl-misses-peermem",
    Layer.LIBRARY,
    per=the_node,
    takes=NCCL.own("peermem"),
    reported_by=(
        DecidingCommand(
            NCCL_VERSION,
            f"a version before {first_release_with('sees_module')}, while nvidia_peermem is loaded",
        ),
    ),
    remedies=(RemedyName.UPGRADE_NCCL, RemedyName.REMOVE_NV_PEER_MEM),
    cost="NCCL copies through host memory, although nvidia-peermem works: 10, not 180 GB/s, in one report.",
    references=("https://github.com/NVIDIA/nccl/issues/1676",),
)
def nccl_misses_peermem(node: Node, _: str) -> Outcome:
    """nvidia-peermem or nv_peer_mem is loaded and works, but this NCCL does not detect it.

    Cost: The peermem path is closed for NCCL alone; verbs programs can use it.

    How to tell: NCCL logs `GPU Direct RDMA Disabled for HCA` although nvidia_peermem is in /proc/modules
    and `ib_write_bw --use_cuda` succeeds. None of the files that this NCCL version looks for exists.
    `NCCL_DEBUG=VERSION`, set for the job, prints the version.

    What to do: Use NCCL 2.23.4 or newer. Check the copy that the job loads: in containers and Python wheels
    it is not the system's. Or use dma-buf.

    Why: Before 2.23.4, NCCL looks only in /sys/kernel/mm/memory_peers. Whether the RDMA core creates that
    folder depends on the kernel and OFED: it needs the kernel symbol mm_kobj, which newer kernels do not
    export. From 2.23.4 on, NCCL also accepts /sys/module/nvidia_peermem, but not /sys/module/nv_peer_mem:
    replace nv_peer_mem there.

    Source: NCCL src/transport/net_ib.cc, ncclIbGdrSupport(), at the tags from 2.4 to 2.30.
    """
    return does_not_detect(node, NCCL)


@rule(
    "nccl-lacks-dmabuf",
    Layer.LIBRARY,
    per=the_node,
    takes=NCCL.own("dmabuf"),
    reported_by=(DecidingCommand(NCCL_VERSION, f"a version before {first_release_with('has_dmabuf')}"),),
    remedies=(RemedyName.UPGRADE_NCCL,),
    cost="NCCL needs nvidia-peermem, or copies through host memory.",
    references=("https://docs.nvidia.com/deeplearning/nccl/release-notes/",),
)
def nccl_lacks_dmabuf(node: Node, _: str) -> Outcome:
    """This NCCL is older than NCCL's dma-buf support.

    Cost: The dma-buf path is closed for NCCL.

    How to tell: The version, which `NCCL_DEBUG=VERSION` prints if set for the job, is below 2.13.4. The log
    never says `DMA-BUF is available on GPU device`.

    What to do: Install NCCL 2.13.4 or newer in the image or environment that the job loads.

    Why: NCCL can register dma-bufs since 2.13.4. It must also be built with CUDA 11.7 or newer, which
    cannot be seen from outside.

    Source: NCCL src/init.cc, dmaBufSupported(), first in v2.13.4-1.
    """
    return version_too_old(node, NCCL, "dmabuf")


OWN_OR_NEEDED = "IB, or the plugin that these NICs need, as EFA and Slingshot do"
"""Networks of which nothing is wrong: NCCL's own code drives devices of libibverbs alone."""


@rule(
    "net-plugin-replaced",
    Layer.LIBRARY,
    per=the_node,
    reported_by=(
        DecidingCommand(
            "NCCL_DEBUG=INFO, set for the job", "Using network, with a name other than IB or Socket"
        ),
    ),
    cost="Findings about NCCL apply to its own NET/IB; the plugin may behave differently.",
    references=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-net-plugin",),
)
def net_plugin_replaced(node: Node, _: str) -> Outcome:
    """NCCL uses a network plugin instead of its own InfiniBand code (NET/IB).

    Cost: The plugin has its own tests for nvidia-peermem and dma-buf, its own version requirements and its
    own log lines. HPC-X prints `GPU Direct RDMA (nvidia-peermem) enabled for HCA` after a test of the NIC
    alone, even if the GPU does not support it.

    How to tell: With NCCL_DEBUG=INFO the log shows `Using network` with a name other than IB or Socket, such
    as IBext, AWS Libfabric or FasTrak, or it reports that an external plugin was loaded. Or the dynamic
    linker finds a file libnccl-net.so.

    What to do: With FastSocket of Google, which sends over TCP: a machine type that has GPUDirect-TCPX,
    GPUDirect-TCPXO or RDMA needs the plugin for that, and another one has no direct path. With any other
    plugin nothing is wrong. To compare with NCCL's own code, run the job once with `NCCL_NET_PLUGIN=none`.

    Why: HPC-X, aws-ofi-nccl and Google's gIB install plugins. NCCL loads libnccl-net.so by itself, or the
    plugin that NCCL_NET_PLUGIN names.

    Source: NCCL src/plugin/net.cc; Mellanox/nccl-rdma-sharp-plugins src/p2p_plugin.c; aws/aws-ofi-nccl.
    """
    for log in nccl_logs(node):
        from gdrkit.programs.nccl.log_records import Network

        networks = log.all(Network)
        for found in networks:
            name = found.record.name
            if name not in ("IB", "Socket"):
                return Failed(
                    seen=f"Using network {name}",
                    expected=OWN_OR_NEEDED,
                    subject=node.describe_line(log.path, found.line),
                )
        if networks:
            return Passed(f"Using network {networks[0].record.name}")
    if files := net_plugins(node):
        return Failed(seen=f"{files[0]} is installed", expected="no plugin", subject=files[0])
    try:
        if_absent("", find, node, PLUGIN, (*FOLDERS, *MORE_FOLDERS))
    except EvidenceMissing:  # a plugin only adds a remark to the report
        return NotApplicable("no plugin is known of, and not every folder was looked into")
    return Passed("no plugin found")


@rule(
    "nccl-skips-efa",
    Layer.LIBRARY,
    per=nics,
    takes=NCCL.own(*DIRECT, Path.STAGED),
    reported_by=(DecidingCommand("cat /sys/class/infiniband/*/ports/1/link_layer", "Unspecified"),),
    cost="Without the plugin aws-ofi-nccl, NCCL sends over TCP here.",
    references=("https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start-nccl.html",),
)
def nccl_skips_efa(node: Node, device: RdmaDevice) -> Outcome:
    """NCCL's own network code does not use EFA.

    Cost: None with the plugin aws-ofi-nccl, which serves NCCL here. Without it, NCCL uses TCP.

    How to tell: The device's driver is efa: `readlink /sys/class/infiniband/<device>/device/driver`. With
    NCCL_DEBUG=INFO, a job with the plugin logs `Using network` with the name AWS Libfabric or Libfabric.

    What to do: Use an image that has aws-ofi-nccl and libfabric, or run Amazon's EFA installer in it; if it
    has them, put the folder of libnccl-net.so into LD_LIBRARY_PATH. The log then says `Selected provider is
    efa`. `gdr doctor` judges the plugin first where all NICs are EFAs.

    Why: NCCL takes ports whose link layer is InfiniBand or Ethernet; that of EFA is unspecified. EFA has no
    reliable connected queue pairs, which NCCL's code needs.

    Source: NCCL src/transport/net_ib/init.cc; amzn/amzn-drivers kernel/linux/efa/src/efa_verbs.c,
    efa_port_link_layer().
    """
    if device not in efa_devices(node):
        return NotApplicable("the NIC is not an EFA")
    return Failed(
        seen="an EFA, which NCCL reaches through aws-ofi-nccl alone",
        expected="InfiniBand or Ethernet",
        subject=device.name,
    )
