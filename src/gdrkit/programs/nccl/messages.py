"""Messages of NCCL and its plugins, from 2.4.2 to 2.32: their causes, and the records that they make.

Those on the choice of a network and on NVLink between hosts are in network_messages.py. Other lines are
ignored. programs/nccl/log_lines.py matches those that make a record, against lines without their
frame; explain matches all. Sources: NCCL at the tags from v2.4.2-1 to v2.30.7-1, whose files
log_records.py names; Mellanox/nccl-rdma-sharp-plugins src/p2p_plugin.c; aws/aws-ofi-nccl
src/nccl_ofi_net.cpp.
"""

from __future__ import annotations

import errno
import functools
import re

from gdrkit.messages import errors
from gdrkit.messages.message import Match, MessageTemplate
from gdrkit.messages.verbs_failures import NO_DMABUF, OPEN_DEVICE, causes_of
from gdrkit.programs.nccl import log_records as records
from gdrkit.programs.nccl.log_records import CHANNEL, Hca, Variable, leg

_line = functools.partial(
    MessageTemplate, "nccl", open_end=True, source="NCCL src/{graph,misc,plugin,transport}"
)

_NET_IB = "NCCL src/transport/net_ib.cc, and net_ib/ since 2.29"
MODULE_UNSEEN = ("peermem-not-loaded", "nccl-misses-peermem")
"""Why NCCL finds no file of nvidia-peermem."""
NO_NET_GDR = (
    *MODULE_UNSEEN, "nccl-lacks-dmabuf", "dmabuf-disabled-by-env", "driver-proprietary", "gpu-integrated",
    "gpu-consumer", "gpu-unsupported", *NO_DMABUF,
)  # fmt: skip
"""Why NCCL's network reports no GPUDirect RDMA: neither a file of nvidia-peermem nor dma-buf, for which the
GPU's side (CUDA attribute 124) counts too. Source: NCCL src/graph/topo.cc and transport/net_ib."""
DUMPED_NIC = "dumped-nic"
NO_IB_DEVICE = (
    "no-rdma-device", "rdma-device-not-in-container", "port-down", "verbs-provider-mismatch",
    "hca-not-selected",
)  # fmt: skip
OF_ONE_NIC = ("dmabuf-mr-refused", "kernel-lacks-dmabuf", "kernel-lacks-odp")
"""Those of them that one NIC has while another of the same process has none: the module, the GPU, libibverbs
and the settings are the same for all; only the test of ncclIbDmaBufSupport() asks the NIC's driver."""


def _hcas(found: Match) -> records.Hcas:
    text = found.values["devices"]
    fused = re.findall(r"\[(\d+)\] ?= ?\{([^{}]*)\}", text)  # 2.20 to 2.23
    # Since 2.30.7 rail and plane follow the port, and the rail is empty before a plane alone: mlx5_0:1::2.
    one = re.compile(r"\[(\d+)\] ?([\w.-]+):\d+(?::\d*){0,2}/(\w+)")
    if fused:
        parts = [(int(index), one.findall(inner)) for index, inner in fused]
        return records.Hcas(
            tuple(Hca(i, "+".join(p[1] for p in inner), inner[0][2]) for i, inner in parts if inner)
        )
    return records.Hcas(tuple(Hca(int(i), name, link) for i, name, link in one.findall(text)))


def _failure(found: Match) -> records.Failure:
    values = found.values
    text = values.get("text", found.words).strip()
    number = int(values["number"]) if "number" in values else errors.number_in(text)
    vendor = values.get("vendor")
    return records.Failure(
        values.get("call", "completion"), number, text, int(vendor) if vendor else None,
        values.get("device", ""), f"{values['now']} to {values['next']}" if "now" in values else "",
        "local" in values and all(_is_routable(values[end]) for end in ("local", "remote")),
    )  # fmt: skip


def _is_routable(gid: str) -> bool:
    """Whether a GID is an address that a router can forward, which the default GID of a port is not."""
    return not gid.startswith(("fe80", "::ffff:169.254.")) and gid.strip(":0.") != ""


def _pair(found: Match) -> records.PairLine:
    values = found.values
    distance, level, read = (values.get(name) for name in ("distance", "limit", "read"))
    return records.PairLine(
        values["gpu"], values["hca"], values["state"] == "Enabled", int(distance) if distance else None,
        int(level) if level else None, None if read is None else read == "1", values.get("mode", ""),
        values.get("compared") == ">=",
    )  # fmt: skip


def _communicator(found: Match) -> records.Communicator:
    values = found.values
    return records.Communicator(
        int(values["rank"]), int(values["ranks"]), int(values["cuda"]), values.get("bus", ""),
        values.get("identifier", ""),
    )  # fmt: skip


def _device(found: Match) -> records.NetDevice:
    values = found.values
    network, enabled = values.get("network", "IB"), values.get("state") == "Enabled"
    without, index = "no_module" in values, int(values.get("index", records.NO_INDEX))
    how = values.get("how", "")
    return records.NetDevice(network, index, values["device"], enabled, how, no_module=without)


def _device_of_hpcx(found: Match) -> records.NetDevice:
    values = found.values
    return records.NetDevice("IBext", int(values["index"]), values["device"].strip(), True, values["how"])


def _remark(form: str) -> functools.partial[records.Remark]:
    return functools.partial(_as_remark, form)


def _as_remark(form: str, found: Match) -> records.Remark:
    return records.Remark(form, found.words)


_HCA = r"HCA {index:\d{1,4}} '{device:[^']+}"
_PAIR = (
    r" for GPU {gpu:[0-9a-f]+}{:(?:\[\d+\])?} / HCA {hca:[0-9a-f]+} "
    r"(distance {distance:\d{1,4}} {compared:%s} {limit:\d{1,4}})"
    r"{:(?:, read (?P<read>[01]))?(?: mode (?P<mode>\w+))?}"
)
_STATE = "{state:Enabled|Disabled}"
_ERRNO = r"{text:.+?}{:(?: errno (?P<number>\d{1,4}))?$}"


def _completion(status: int, name: str) -> str:
    return (
        rf"Got completion {{peer:.*}}"
        rf"{{status:(?:status=(?:{name}\()?{status}\b|with error {status}\b|{name})}}"
    )


ROWS = (
    _line(CHANNEL, make=leg, sample="h1:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0"),
    _line(
        r"{name:NCCL_\w{1,60}+} set {:(?:(?:by|from) environment )?}to {value:\S+}",
        make=lambda m: Variable(m.values["name"], m.values["value"].removesuffix(".").strip("\"'")),
        sample="h1:1:2 [0] NCCL INFO NCCL_IB_HCA set by environment to mlx5_0",
    ),
    _line(
        f"NET/IB : GPU Direct RDMA Disabled for {_HCA}{{:(?:'(?P<no_module> .no module.))?}}",
        NO_NET_GDR,
        source=f"{_NET_IB}; src/graph/topo.cc since 2.13.4",
        name="hca-disabled",
        sample="NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'",
        make=_device,
    ),
    _line(
        '<net {:[^<>]{1,400}} gdr="0"',
        NO_NET_GDR,
        source="src/graph/topo.cc, ncclTopoFillNet(): a dump of NCCL_TOPO_DUMP_FILE",
        decides=False,
        name=DUMPED_NIC,
        sample='<net name="mlx5_0" dev="0" speed="200000" port="1" guid="0x1" gdr="0"/>',
    ),
    _line(
        f"NET/{{network:[^:]{{1,40}}?}} : GPU Direct RDMA {_STATE} for {_HCA}",
        make=_device,
        sample="NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'",
    ),
    _line(  # as people quote it, in a title or a sentence
        "{:(?<! : )}GPU Direct RDMA Disabled for HCA",
        NO_NET_GDR,
        source=f"{_NET_IB}; src/graph/topo.cc since 2.13.4",
        decides=False,
    ),
    _line(
        f"NET/IB : GPU Direct RDMA ({{how:nvidia-peermem|DMABUF}}) enabled for {_HCA}",
        make=_device_of_hpcx,
        sample="NET/IB : GPU Direct RDMA (DMABUF) enabled for HCA 0 'mlx5_0",
    ),
    _line(
        rf"GPU Direct RDMA Disabled for GPU {{gpu:\d+}}[{{number:\d+}}] / {_HCA}' {{no_module:.no module}}",
        make=_device,
        sample="NET/IB : GPU Direct RDMA Disabled for GPU 2[2] / HCA 0 'mlx5_0' "
        "(no module or not supported by GPU)",
    ),
    _line(  # up to 2.3: src/transport/net_ib.cu, ncclIbPtrSupport(), which tries to register GPU memory
        r"GPU Direct RDMA Disabled for GPU {gpu:\d+} / HCA {device:[^\s()]+} "
        "({how:(?:no module or )?not supported by GPU})",
        make=_device,
        sample="NET/IB : GPU Direct RDMA Disabled for GPU 0 / HCA mlx4_0 (not supported by GPU)",
    ),
    _line(
        "GPU Direct RDMA {state:Disabled}" + _PAIR % ">=?",
        ("pair-distant", "pair-cross-socket", "gdr-level-too-low"),
        source="NCCL src/graph/paths.cc, ncclTopoCheckGdr()",
        leads=True,
        sample="GPU Direct RDMA Disabled for GPU 1b000 / HCA 0 (distance 7 > 4)",
        make=_pair,
    ),
    _line(
        f"GPU Direct RDMA {_STATE}" + _PAIR % "[<>]=?",
        make=_pair,
        sample="GPU Direct RDMA Enabled for GPU 3 / HCA 1 (distance 4 <= 5), read 1 mode Default",
    ),
    _line(
        rf"GPU Direct RDMA {_STATE} for GPU/{{host:\d+}}-{{local:\d+}} (rank {{gpu:\d+}})"
        r" - NET/{hca:\d+-\d+}",
        make=_pair,
        versions="2.29 and later",
        sample="GPU Direct RDMA Disabled for GPU/0-1 (rank 0) - NET/0-3",
    ),
    _line(
        "Mismatched NCCL version detected{:.*}",
        ("versions-differ-between-ranks",),
        source="NCCL src/init.cc, initTransportsRank()",
        versions="2.23.4 and later",
        sample="Mismatched NCCL version detected : rank 0 version 22304 rank 3 version 22005",
        make=lambda m: records.MixedVersions(m.words),
    ),
    _line(
        r"{library:R?N?CCL} version {:(?:: )?}{text:\d+\.\d+\.\d+}",
        make=lambda m: records.Version(m.values["text"], m.values["library"]),
        sample="NCCL version 2.21.5+cuda12.4",
    ),
    _line(r"Using network {text:.+}", make=lambda m: records.Network(m.values["text"])),
    _line(
        r"NET/OFI NIC group {group:\d{1,4}} device #{number:\d+} {address:[0-9a-f:.]+}",
        make=lambda m: records.OfiNic(int(m.values["group"]), m.values["address"]),
    ),
    _line(
        "NET/OFI {what:.*}disabling GDR{:.*}",
        ("efa-p2p-unavailable", "libfabric-too-old", "efa-driver-too-old", "efa-mapping-refused"),
        source="aws/aws-ofi-nccl src/nccl_ofi_ofiutils.cpp, and src/nccl_ofi_net.c in 1.7",
        make=_remark("ofi-without-gdr"),
    ),
    _line("NET/OFI {what:.*}", make=lambda m: records.Plugin(m.words)),
    _line(
        r"P2P plugin {:(?:v\d+ )?(?:IBext|UCX)\S*}",
        make=lambda m: records.Plugin(m.words),
        sample="P2P plugin v8 IBext_v8",
    ),
    _line(
        r"NET/Plugin: Loaded net plugin {text:.+?} (v{number:\d+})",
        make=lambda m: records.Plugin(m.values["text"]),
    ),
    _line(
        r"Successfully loaded external {:(?:network )?}plugin {text:\S+}",
        make=lambda m: records.Plugin(m.values["text"]),
    ),
    _line(
        r"NET/IB : Using{: ?}{devices:.*?}{:(?:; OOB|$)}",
        make=_hcas,
        sample="NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>",
    ),
    _line(
        "NET/IB : No device found",
        NO_IB_DEVICE,
        source=f"{_NET_IB}, ncclIbInitDevices(), ncclIbInit() in 2.21",
        follows=OPEN_DEVICE,
        sample="h1:1:1 [0] NCCL INFO NET/IB : No device found.",
        make=lambda m: records.NoIbDevice(),
    ),
    _line(
        "NET/Socket : Using{: ?}[{what:.*}",
        make=lambda m: records.SocketsUp(set(re.findall(r"\d\]([^:<]{1,40}):", m.values["what"])) == {"lo"}),
        sample="NET/Socket : Using [0]eth0:10.0.0.1<0>",
    ),
    _line(
        "Failed to open libibverbs.so{what:.*}",
        ("verbs-library-missing",),
        decides=False,  # on a machine without RDMA it is normal
        goes_on=True,
        make=lambda m: records.VerbsUnavailable(m.words),
        source="NCCL src/misc/ibvsymbols.cc, buildIbvSymbols()",
        versions="2.29.7 and before",
    ),
    _line(
        "{what:Duplicate GPU detected|Multiple Ranks are using the same GPU}",
        ("gpu-shared-by-ranks",),
        source="NCCL src/init.cc, initTransportsRank()",
        sample="NCCL WARN Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1a000",
    ),
    _line(  # the last name that NCCL tries
        "Count not open libibverbs.so.1",
        ("verbs-library-missing",),
        decides=False,  # on a machine without RDMA it is normal
        goes_on=True,
        make=lambda m: records.VerbsUnavailable(m.words),
        source="NCCL src/misc/ibvsymbols.cc, buildIbvSymbols(), as it is spelled there",
        versions="2.30.3 and later",
    ),
    _line(
        r"Made virtual device [{index:\d{1,4}}] name={name:\S+} speed={speed:\d{1,9}} ndevs={parts:\d{1,3}}",
        make=lambda m: records.FusedDevice(
            int(m.values["index"]), m.values["name"], int(m.values["speed"]), int(m.values["parts"])
        ),
    ),
    _line(r"DMA-BUF is available on GPU device {number:\d+}", make=lambda m: records.DmabufGpu(m.words)),
    _line(
        r"Connected all rings, use ring PXN {pxn:\d} GDR {gdr:\d}",
        make=lambda m: records.Rings(m.values["pxn"] != "0", m.values["gdr"] != "0"),
    ),
    _line(
        r"comm {:(?:0x)?[0-9a-fx]+} rank {rank:\d{1,7}} nranks {ranks:\d{1,7}} cudaDev {cuda:-?\d{1,4}}"
        r"{:(?: nvmlDev -?\d{1,4})?(?: busId (?P<bus>[0-9a-f]{1,12}))?"
        r"(?:.* commId (?P<identifier>0x[0-9a-f]+))?}",
        make=_communicator,
        sample="comm 0x55aa rank 3 nranks 8 cudaDev 3 busId 5d000 - Init COMPLETE",
    ),
    _line(  # up to 34 times, for a minute: misc/ibvwrap.cc, wrap_ibv_modify_qp()
        r"Call to ibv_modify_qp failed with {number:\d{1,4}} {text:[^,]*},{:.*} "
        r"retrying {count:\d+/\d+} after",
        make=_remark("qp-retry"),
        versions="2.24.3 and later",
        sample="Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_1:1, "
        "curr state INIT, next state RTR, local GID index 3, retrying 3/35 after 300 msec of sleep",
    ),
    _line(
        "Call to ibv_modify_qp failed with {answer:error Invalid argument|22 }",
        causes_of("ibv_modify_qp", errors.EINVAL),
        source="NCCL src/misc/ibvwrap.cc; Linux drivers/infiniband/core/verbs.c",
        leads=True,
        sample="NCCL WARN Call to ibv_modify_qp failed with error Invalid argument errno 22",
    ),
    _line(
        "Call to ibv_modify_qp failed with "
        "{answer:error (?:Connection timed out|Network is unreachable|No route to host)|(?:110|101|113) }",
        causes_of("ibv_modify_qp", errno.ETIMEDOUT),
        source="NCCL src/misc/ibvwrap.cc; Linux drivers/infiniband/core/addr.c",
        leads=True,
        sample="NCCL WARN Call to ibv_modify_qp failed with error Network is unreachable",
    ),
    _line(
        "Call to ibv_modify_qp failed with {answer:error No data available|61 }",
        causes_of("ibv_modify_qp", errno.ENODATA),
        source="NCCL src/misc/ibvwrap.cc; Linux drivers/infiniband/core/cache.c, rdma_get_gid_attr()",
        leads=True,
        sample="Call to ibv_modify_qp failed with 61 No data available, on dev mlx5_1:1, curr state INIT",
    ),
    _line(
        "Call to {call:ibv_reg_mr|ibv_reg_dmabuf_mr}{:(?:_iova2)?} failed with error " + _ERRNO,
        make=_failure,
        sample="Call to ibv_reg_mr failed with error Operation not permitted",
    ),
    _line(
        r"Call to {call:ibv_modify_qp} failed with {number:\d{1,4}} {text:[^,]*}"
        r"{:(?:, on dev (?P<device>[^\s:,]+))?(?:.*curr state (?P<now>\w+), next state (?P<next>\w+))?"
        r"(?:.*, local GID (?P<local>[0-9a-fA-FxX:.]+), remote GID (?P<remote>[0-9a-fA-FxX:.]+))?}",
        make=_failure,
        sample="Call to ibv_modify_qp failed with 12 Cannot allocate memory, on dev mlx5_1:1, "
        "curr state INIT, next state RTR, local GID index 3",
    ),
    _line(
        "Call to {call:ibv_modify_qp} failed with error " + _ERRNO,
        make=_failure,
        sample="Call to ibv_modify_qp failed with error Cannot allocate memory errno 12",
    ),
    _line(
        _completion(4, "IBV_WC_LOC_PROT_ERR"),
        causes_of("completion", 4),
        source=f"{_NET_IB}; ibv_poll_cq(3)",
        sample="NET/IB : Got completion from peer 10.0.0.2<1> with status=4 opcode=0 len=0 vendor err 81",
    ),
    _line(
        _completion(12, "IBV_WC_RETRY_EXC_ERR"),
        causes_of("completion", 12),
        source=f"{_NET_IB}; ibv_poll_cq(3)",
        sample="NET/IB : Got completion from peer 10.0.0.2<1> with status=12 opcode=0 len=0 vendor err 129",
    ),
    _line(
        r"Got completion {:.{0,400}?(?:with error |status=(?:\w+\()?)}{number:\d{1,4}}"
        r"{:(?=[\s,)])(?:\)?.{0,200}?vendor[ _]err[ =](?P<vendor>\d{1,6})(?:.* hca (?P<device>[\w.-]+))?)?}",
        make=_failure,
        sample="NET/IB : Got completion from peer 10.0.0.2<1> with status=10 opcode=0 len=0 vendor err 136",
    ),
    _line(
        r"NET/IB : {:(?:\S+:\d+ )?Got (?:non-fatal )?async(?: error)? event ?:} port error",
        ("port-down",),
        decides=False,
        make=lambda m: records.AsyncEvent(m.words.strip()),
        sample="NET/IB : mlx5_0:1 Got async error event: port error",
    ),
    _line(
        r"NET/IB : {:[^(]{0,80}event ?:} local catastrophic error",  # IBV_EVENT_DEVICE_FATAL
        ("nic-failed",),
        decides=False,  # the driver tries to recover it by itself
        make=lambda m: records.AsyncEvent(m.words),
        sample="NET/IB : mlx5_0:1 async fatal event: local catastrophic error",
    ),
    _line(
        r"NET/IB : {:(?:\S+:\d+ )?(?:Got async(?: error)? event|Got non-fatal async event)[^(]*}",
        make=lambda m: records.AsyncEvent(m.words.strip()),
        sample="NET/IB : mlx5_0:1 Got async event : client reregistration",
    ),
    _line(
        r"NET/IB : {device:\S+} GID table changed",
        make=lambda m: records.AsyncEvent(m.words),
        sample="NET/IB : mlx5_0:1 GID table changed",
    ),
    _line("HINT: {what:.*}", make=_remark("hint")),
    _line(
        r"message truncated : receiving {number:\d+} bytes instead of {size:\d+}", make=_remark("truncated")
    ),
    _line(
        "Local mergedDev{what:.*}has a different number of devices{:.*}", make=_remark("merged-differently")
    ),
    _line(r"GPU {gpu:\d+} / HCA {hca:[0-9a-f]+} connected {what:.*}via C2C link", make=_remark("c2c")),
)
"""All rows. The first one that a line contains is its match."""
