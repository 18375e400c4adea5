"""Settings of NCCL that leave out a NIC, a GID or a direction of the direct path."""

from __future__ import annotations

from errno import EINVAL

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.facts.rdma import DISTANCES, RdmaDevice, distance, gids, pairs, ports, rdma_devices
from gdrkit.formats.whole_number import integer
from gdrkit.node import Node, fact, if_missing
from gdrkit.programs.environment import Environment, ProgramSetting, nccl_sources
from gdrkit.programs.job_settings import first_wrong, settings_of, taken_by, turned_off
from gdrkit.programs.nccl.consumer import NCCL
from gdrkit.programs.nccl.log import FOLDER, nccl_log
from gdrkit.programs.nccl.settings import selects
from gdrkit.programs.nccl_gin.consumer import NCCL_GIN
from gdrkit.rules.capabilities import DIRECT, Path
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import CauseTrait, Failed, Layer, NotApplicable, Outcome, Passed, rule


@rule(
    "hca-not-selected",
    Layer.APPLICATION,
    per=rdma_devices,
    takes=(*NCCL.own(*DIRECT, Path.STAGED), *NCCL_GIN.own(*DIRECT)),
    reported_by=(DecidingCommand("env | grep NCCL, in the job", "NCCL_IB_HCA without the device"),),
    cost="GPUs near this NIC use one that is farther away, or the traffic shares fewer NICs.",
    references=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-ib-hca",),
)
def hca_not_selected(node: Node, device: RdmaDevice) -> Outcome:
    """A setting such as NCCL_IB_HCA leaves out an RDMA device that is the nearest one to a GPU.

    Cost: The GPU's nearest NIC is idle. A list that names no device of the machine leaves NCCL without any:
    it uses TCP, and NCCL's GIN is not offered.

    How to tell: The variable is set in /etc/nccl.conf or in the job (`env | grep NCCL_IB_HCA`), and does
    not name a device that `ibv_devinfo` lists and that `nvidia-smi topo -m` shows nearest to a GPU.

    What to do: Name every NIC that carries data, `NCCL_IB_HCA==mlx5_0,mlx5_1,...`, or unset it and let NCCL
    choose by distance. It is right to leave out NICs for storage or management: this page is only about
    those nearest to a GPU.

    Why: The list was written for another machine, or for fewer NICs. Names are prefixes unless the list
    starts with `=`: mlx5_1 also selects mlx5_10. On a DGX Spark one cable appears as two devices, and both
    must be named for the full rate.

    Source: NCCL src/transport/net_ib/init.cc, NCCL_IB_HCA, and src/misc/utils.cc, parseStringList().
    """

    def wrong(found: Environment, setting: ProgramSetting) -> Failed | None:
        selected = [one.name for one in rdma_devices(node) if selects(setting.value, one.name)]
        if device.name in selected or (selected and not _is_nearest(node, device)):
            return None
        where = node.describe_line(setting.source, setting.line)
        return Failed(
            seen=f"NCCL_IB_HCA={setting.value} in {where}" + ", which selects no device" * (not selected),
            expected=f"a list with {device.name}",
            subject=device.name,
            cost="" if selected else "NCCL finds no RDMA device, and uses TCP.",
            takes=taken_by(found),
        )

    return first_wrong(node, "NCCL_IB_HCA", wrong) or Passed("selected, or nearest to no GPU")


def _is_nearest(node: Node, device: RdmaDevice) -> bool:
    """Whether some GPU has no NIC nearer than this one. True also if distances are not known."""
    found = if_missing(frozenset(), nearest_devices, node)
    return not found or device.name in found


@fact
def nearest_devices(node: Node) -> frozenset[str]:
    """The devices than which some GPU has none nearer. Raises EvidenceMissing if a distance is not known."""
    far = {pair: DISTANCES.index(distance(node, pair)) for pair in pairs(node)}
    nearest: dict[str, int] = {}
    for pair, steps in far.items():
        nearest[pair.gpu] = min(steps, nearest.get(pair.gpu, steps))
    return frozenset(pair.device for pair, steps in far.items() if steps == nearest[pair.gpu])


READ = next(switch for switch in NCCL.switches if switch.direction == "send")


GUIDE = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"


@rule(
    "gdr-read-off",
    Layer.APPLICATION,
    per=nccl_sources,
    traits=(CauseTrait.NVIDIA_ONLY,),
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
    "gid-index-wrong",
    Layer.APPLICATION,
    per=nccl_sources,
    takes=NCCL.own(*DIRECT),
    reported_by=(DecidingCommand("show_gids", "no RoCE v2 entry at the index in NCCL_IB_GID_INDEX"),),
    cost="Connections over this port fail, or use a GID that is not routed.",
    references=(f"{GUIDE}#nccl-ib-gid-index",),
)
def gid_index_wrong(node: Node, source: str) -> Outcome:
    """The GID index that is set does not fit the ports.

    Cost: The job fails at its first connection.

    How to tell: `show_gids` lists no GID at the index in NCCL_IB_GID_INDEX for an active RoCE port of this
    node, or one of type v1, which no router forwards and which all hosts of a job have to use.
    `Call to ibv_modify_qp failed with 22 Invalid argument` in a log points to it, without proof:
    an MTU, a VLAN or a link layer that differs from the peer's fails so, too. With `19 No such device`, the
    GID belongs to no network interface here, as in a container without that interface.

    What to do: Unset the variable or set it to -1: from 2.21 on, NCCL chooses the index itself. For older
    versions, find an index of type RoCE v2 with `show_gids`, or in
    `/sys/class/infiniband/*/ports/*/gid_attrs/types`. For `ib_write_bw`, `-x INDEX` sets it; for UCX,
    UCX_IB_GID_INDEX, which chooses by itself where it is not set.

    Why: The index was right on another machine. Indexes depend on the addresses of the network card, and
    change when one is added. 3 is common for RoCE v2 with IPv4, but not guaranteed.

    Source: NCCL src/transport/net_ib/connect.cc, ncclIbGetGidIndex(); Linux
    Documentation/ABI/stable/sysfs-class-infiniband, gid_attrs;
    UCX src/uct/ib/base/ib_iface.c, GID_INDEX.
    """
    found = settings_of(node, source)
    setting = found.get("NCCL_IB_GID_INDEX")
    index = integer(setting.value) if setting else None
    chosen = setting is not None and index is not None and index >= 0
    empty = _empty_on(node, index) if chosen and index is not None else ""
    if not empty and source.startswith(FOLDER) and _is_refused(node, source):
        raise EvidenceMissing(Missing("the GIDs of both ends", MissingReason.UNDECIDED, "show_gids"))
    if setting is None or index is None or not chosen:
        return NotApplicable(f"{source} sets no index")
    if not empty:
        return Passed(f"index {index} is in use on every active RoCE port")
    return Failed(
        seen=f"NCCL_IB_GID_INDEX={index}, empty on {empty}",
        expected="an index in use, or -1",
        subject=node.describe_line(setting.source, setting.line),
        takes=taken_by(found),
    )


def _is_refused(node: Node, source: str) -> bool:
    """Whether NCCL logged that a queue pair was refused, for which a wrong GID is one of the causes."""
    log = if_missing(None, nccl_log, node, source)
    return log is not None and log.failure("ibv_modify_qp", EINVAL) is not None


def _empty_on(node: Node, index: int) -> str:
    """The first active RoCE port without a GID at that index; "" if every one has a GID there."""
    for device in rdma_devices(node):
        for port in ports(node, device.name):
            if port.link_layer != "Ethernet" or port.state != "ACTIVE":
                continue
            if index not in {used for used, _, _ in gids(node, device.name, port.number)}:
                return f"{device.name} port {port.number}"
    return ""
