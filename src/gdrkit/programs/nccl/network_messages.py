"""Messages of NCCL about the choice of a network, NVLink between hosts, and steps that fail before a channel
exists.

Sources: NCCL src/init.cc, src/mnnvl.cc, src/plugin/net.cc and src/transport/net_ib/*.cc at
the tags from v2.20.3-1 to v2.30.7-1, of 2.31.2, and the strings of 2.32.3.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from gdrkit.messages.message import Effect, Match, Meaning, MessageTemplate
from gdrkit.messages.verbs_failures import OPEN_DEVICE, FailureMeaning
from gdrkit.programs.nccl import log_records as records

_line = functools.partial(MessageTemplate, "nccl", open_end=True, source="NCCL src/{init,mnnvl}.cc")
_NET_IB = "NCCL src/transport/net_ib/{connect,init,p2p_resiliency}.cc"
_net_ib = functools.partial(_line, source=_NET_IB)
_mlx5dv = functools.partial(_line, source="NCCL src/misc/mlx5dvsymbols.cc")

NO_PLUGIN = "network plugin"
NO_CHANNEL, NO_IMEX, NO_MNNVL, NO_FABRIC_MEMORY = "IMEX channel", "IMEX", "MNNVL", "fabric memory"
NIC_COUNTS, LINK_LAYERS = "number of NICs", "link layers"
FATAL_EVENT = "async fatal event"
MANY_RAILS, PARTITION = "rails and planes", "partition key"

FAILED_STEPS: dict[str, FailureMeaning] = {
    NO_PLUGIN: FailureMeaning(
        "NCCL_NET or NCCL_NET_PLUGIN names a network that does not start here: the job stops",
        follows=True,  # from what keeps the plugin from loading, if a line shows that
        todo="Install the plugin of that network in the image and put its folder into LD_LIBRARY_PATH, or "
        "unset NCCL_NET and NCCL_NET_PLUGIN; lines with NET/Plugin say why it does not load",
    ),
    NO_CHANNEL: FailureMeaning(
        "NVLink between hosts needs an IMEX channel (/dev/nvidia-caps-imex-channels), and the process has "
        "none: the job stops",
        ("mnnvl-imex-channel-missing",),
    ),
    NO_IMEX: FailureMeaning(
        "the IMEX service does not share memory between the hosts (nvidia-imex-ctl -N): the job stops",
        ("mnnvl-imex-not-ready", "mnnvl-imex-channel-missing", "mnnvl-clique-differs"),
    ),
    NO_MNNVL: FailureMeaning(
        "NCCL_MNNVL_ENABLE=1 asks for NVLink between hosts, which this system does not offer: the job stops",
        ("mnnvl-fabric-incomplete", "mnnvl-cumem-off", "mnnvl-clique-differs"),
    ),
    NO_FABRIC_MEMORY: FailureMeaning(
        "CUDA refuses memory that other hosts can open: IMEX channel not permitted, or IMEX not running",
        ("mnnvl-imex-channel-missing", "mnnvl-imex-not-ready"),
    ),
    NIC_COUNTS: FailureMeaning(
        "a NIC is missing on some rank: NCCL_IB_HCA, a container or a link differs",
        todo="Compare `ibv_devinfo` and NCCL_IB_HCA on all hosts, in the containers of the job",
    ),
    LINK_LAYERS: FailureMeaning(
        "InfiniBand and RoCE ports cannot be connected: NCCL_IB_HCA selects both",
        todo="Name the NICs of one link type in NCCL_IB_HCA; `ibv_devinfo` shows the link layer of each",
    ),
    OPEN_DEVICE: FailureMeaning(
        "the device exists, but the process may not open it",
        ("rdma-device-not-in-container", "verbs-provider-mismatch"),
    ),
    MANY_RAILS: FailureMeaning(
        "NCCL_IB_HCA or a topology file numbers more rails or planes than NCCL has room for",
        todo="Number the rails and planes in NCCL_IB_HCA or the topology file from 0, without gaps",
    ),
    PARTITION: FailureMeaning(
        "the port is not in the partition of NCCL_IB_PKEY_VALUE",
        todo="Set it to a key in /sys/class/infiniband/*/ports/*/pkeys, or ask for the partition at the "
        "subnet manager",
    ),
    FATAL_EVENT: FailureMeaning(
        "the NIC stopped a queue: different MTUs, ACS, or a NIC that is not for this traffic",
        todo="Compare `ibv_devinfo` (active_mtu) at both ends, and run gdr doctor there for ACS",
    ),
}
"""What it means that a step of the start fails, by its name in records.Failure. One without a cause has what
to do."""


def _failure(name: str) -> Callable[[Match], records.Failure]:
    """Makes the record of a failed step."""
    return lambda found: records.Failure(name, None, found.words, device=found.values.get("device", ""))


def _step(step: str, template: str, **row: Any) -> MessageTemplate:
    """A line that names a failed step, with its causes, or else what it means."""
    known = FAILED_STEPS[step]
    effect: Effect = "follows" if known.follows else "failure"
    words = known.meaning[0].upper() + known.meaning[1:]
    meaning = None if known.causes else Meaning(words, known.todo, effect)
    return _line(template, known.causes, make=_failure(step), meaning=meaning, **row)


_dlerror = functools.partial(_line, source="NCCL src/plugin/plugin_open.cc, src/net.cc before; dlopen(3)")


def _unloadable(template: str, words: str, todo: str, **row: Any) -> MessageTemplate:
    """A line with the error of the dynamic loader about a network plugin that is there."""
    meaning = Meaning(f"NCCL's network plugin cannot be loaded: {words}", todo)
    made = records.Warned(NO_PLUGIN, (), decides=False, meaning=meaning)
    return _dlerror(template, meaning=meaning, make=lambda _: made, **row)


def _remark(form: str) -> Callable[[Match], records.Remark]:
    return lambda found: records.Remark(form, found.words)


def _network(found: Match) -> records.Network:
    return records.Network(found.values["text"])


def _placement(found: Match) -> records.Placement:
    values = found.values
    return records.Placement(
        int(values["ranks"]), int(values["nodes"]), int(values["local"]), values.get("mnnvl") == "1"
    )


def _fabric(found: Match) -> records.Fabric:
    values = found.values
    cluster = values["cluster"]
    return records.Fabric(
        "" if set(cluster) <= {"0", "."} else cluster, values["clique"], int(values["state"])
    )


def _connection(found: Match) -> records.Connection:
    """`mtu` is a number of enum ibv_mtu; the bytes of the first half of a GID are in network order."""
    values = found.values
    return records.Connection(int(values["index"]), 128 << int(values["mtu"]), values["prefix"] == "80FE")


ROWS = (
    # a plugin, or none
    _line(
        r"Bootstrap{: ?}: Using {interface:[\w.-]{1,40}}:{address:[\d.]{7,15}}<",
        make=lambda m: records.Bootstrap(m.values["interface"], m.values["address"]),
        source="NCCL src/bootstrap.cc, bootstrapNetInit()",
        sample="Bootstrap : Using eth0:10.0.0.1<0>",
    ),
    _unloadable(
        r"NET/Plugin{: ?:.*version `GLIBC[\w.]*' not found} (required by {library:[^()]+})",
        "it needs a newer glibc or libstdc++ than the image has",
        "Use an image with a newer distribution, or a build of the plugin for this one; `ldd --version` in "
        "the container shows its glibc",
        sample="NET/Plugin: Plugin load returned 2 : /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.32' "
        "not found (required by /usr/local/nvidia/lib64/libnccl-net.so) : when loading libnccl-net.so",
    ),
    _unloadable(
        r"NET/Plugin{: ?:.*(?<![\w/.-])}{library:(?!lib\w*-net)lib[\w.+-]+}: cannot open shared object file",
        "a library that it needs is not found",
        "Install that library in the image, or put its folder into LD_LIBRARY_PATH; `ldd` of the plugin "
        "shows all that are missing",
        sample="NET/Plugin: libnccl-net.so: libfabric.so.1: cannot open shared object file: No such file or "
        "directory",
    ),
    _unloadable(
        r"NET/Plugin{: ?:.*(?:undefined symbol: |wrong ELF class|invalid ELF header|file too short"
        r"|static TLS block|failed to map segment)}",
        "the dynamic loader refuses it, or a library that it needs",
        "Use a build of the plugin for this image, and one version of each library; `ldd -r` of the plugin "
        "shows what does not fit",
        sample="NET/Plugin: libnccl-net.so: /opt/lib/libnccl-net.so: undefined symbol: ncclDebugLog",
    ),
    _line(  # a plugin without ncclNetPlugin_v9 may have another version of the symbol
        r"NET/Plugin{: ?:(?=.*plugin) ?.*"
        r"(?:No plugin found|Could not find|Using internal|Failed to find).*}",
        make=_remark("no-plugin"), source="NCCL src/plugin/plugin_open.cc",
        sample="NET/Plugin : Using internal network plugin.",
    ),
    # the network of a communicator, or none
    _line(r"Assigned NET plugin {text:\S.*?} to comm", make=_network, versions="2.27.3 and later"),
    _line(
        r"Failed to initialize NET plugin {text:\S+}", make=_remark("network-refused"),
        versions="2.28.3 and later",
    ),
    _step(
        NO_PLUGIN, "Failed to initialize any NET plugin", source="NCCL src/plugin/net.cc",
        versions="2.27.3 and later",
    ),
    _step(
        NO_PLUGIN, r"Error: network {text:\S.*?} not found.",
        source="NCCL src/init.cc, ncclNetInit()", versions="2.10.3 to 2.26.6",
    ),
    # NVLink between hosts
    _line(
        r"comm {:(?:0x)?[0-9a-f]+} rank {rank:\d{1,7}} nRanks {ranks:\d{1,7}} nNodes {nodes:\d{1,7}} "
        r"localRanks {local:\d{1,7}}{:(?: localRank \d{1,7})?(?: MNNVL (?P<mnnvl>\d))?}",
        make=_placement, sample="comm 0x9a39870 rank 0 nRanks 4 nNodes 1 localRanks 4 localRank 0 MNNVL 1",
    ),
    _line(
        r"MNNVL busId {bus:\S+} fabric UUID {cluster:\S{1,64}} cliqueId {:(?:0x)?}{clique:[0-9a-f]{1,8}} "
        r"state {state:\d{1,3}}",
        make=_fabric, versions="2.20.3 and later",
        sample="MNNVL busId 0x801000 fabric UUID a44167d15423d758.7d6b24c07d32e7b3 cliqueId 0x2786 state 3 "
        "healthMask 0xaa",
    ),
    _line(
        r"MNNVL {used:[1-9]\d{0,2}} cliqueId {:(?:0x)?}{clique:[0-9a-f]{1,8}} cliqueSize {size:\d{1,7}}",
        make=lambda m: records.Clique(m.values["clique"], int(m.values["size"])),
        versions="2.21.5 and later",
        sample="MNNVL 1 cliqueId 2786 cliqueSize 4 cliqueRank 0 nvlDomainSize 4",
    ),
    _step(
        NO_CHANNEL, "MNNVL (cliqueSize {size:.*}Check the IMEX channel configuration",
        versions="2.27.3 and later",
        sample="MNNVL (cliqueSize 8) is available but not working on this system. "
        "Check the IMEX channel configuration (/dev/nvidia-caps-imex-channels).",
    ),
    _step(
        NO_IMEX, "MNNVL (cliqueSize {size:.*}Check the IMEX configuration", versions="2.25.1 and later",
        sample="MNNVL (cliqueSize 8) is available but not supported on this system. "
        "Check the IMEX configuration.",
    ),
    _step(
        NO_MNNVL, "MNNVL is not supported on this system",
        source="NCCL src/init.cc: only with NCCL_MNNVL_ENABLE=1", versions="2.20.3 to 2.24.3",
    ),
    _line(  # no cause by itself: a failure only beside lines about MNNVL (jobs/errors.py)
        r"Cuda failure {number:80[01]} '", make=_failure(NO_FABRIC_MEMORY),
        source="NCCL src/transport/p2p.cc",
        sample="transport/p2p.cc:281 NCCL WARN Cuda failure 801 'operation not supported'",
    ),
    # NET/IB before a channel works
    _net_ib(
        r"Data Direct DMA Interface is detected for device{device::? ?\S+}",
        make=lambda m: records.DataDirect(True, m.words),
        sample="NET/IB : Data Direct DMA Interface is detected for device: mlx5_0",
    ),
    _net_ib(
        r"Dev {index:\d{1,4}} IbDev {:\d{1,4}} Port {:\d{1,3}} qpn {:\d{1,10}} mtu {mtu:[1-5]} "
        r"{:(?:query_ece=\S+ (?:\S+ ){3})?}GID {:-?\d{1,5}} ({prefix:[0-9A-F]{1,16}}/{:[0-9A-F]{1,16}})",
        make=_connection,
        sample="NET/IB: NCCL Dev 1 IbDev 1 Port 1 qpn 704 mtu 3 GID 0 (80FE/9DFB2FFEFF47BB4E) "
        "fifoRkey=0x1ddcd6 fifoLkey=0x1ddcd6",
    ),
    _mlx5dv(r"dlvsym failed on {function:mlx5dv_\w+}", make=lambda m: records.DataDirect(False, m.words)),
    _mlx5dv("Failed to open mlx5dv symbols", make=lambda m: records.DataDirect(False, m.words)),
    _mlx5dv("Failed to open libmlx5.so", make=lambda m: records.DataDirect(False, m.words)),
    _step(
        OPEN_DEVICE, r"Unable to open device {device:[\w.:-]+}", source=_NET_IB, decides=False,
        name=OPEN_DEVICE, sample="NET/IB : Unable to open device mlx5_bond_0",
    ),
    _net_ib(
        "Detected mixed local Net device counts across ranks{:.*Ignoring}", make=_remark("nic-counts"),
        sample="Detected mixed local Net device counts across ranks (min 1, max 2). Ignoring due to "
        "NCCL_IGNORE_NET_MISMATCH.",
    ),
    _step(NIC_COUNTS, "Detected mixed local Net device counts across ranks", source=_NET_IB),
    _step(
        LINK_LAYERS, "Attempted to connect incompatible devices", source=_NET_IB, versions="2.26.2 and later"
    ),
    _step(
        LINK_LAYERS, r"NET/IB : Remote {kind:\S+} device is incompatible with the local", source=_NET_IB,
        versions="2.26.2 and later", sample="NET/IB : Remote RoCE device is incompatible with the local [0]",
    ),
    _step(
        MANY_RAILS, r"NCCL cannot use more than {number:\d+} {kind:rails|user-defined plane IDs}",
        source="NCCL src/graph/topo.cc, src/transport/net_ib/init.cc", versions="2.31.2 and later",
        sample="NCCL cannot use more than 12 user-defined plane IDs.",
    ),
    _step(
        PARTITION, "NCCL_IB_PKEY_VALUE={key:0x[0-9a-f]+} not found in PKey table", source=_NET_IB,
        versions="2.31.2 and later",
        sample="NET/IB: NCCL_IB_PKEY_VALUE=0x8001 not found in PKey table (pkey_tbl_len=128, port=1)",
    ),
    _step(
        FATAL_EVENT, r"NET/IB : {device:\S+} async fatal event", source=_NET_IB,
        sample="NET/IB : mlx5_0:1 async fatal event on QP: local access violation work queue error",
    ),
    _net_ib(
        "There are mismatched physical devices between local ({local:[^()]{1,80}}) and remote "
        "({remote:[^()]{1,80}})", make=_remark("rails-crossed"),
        sample="There are mismatched physical devices between local (mlx5_0) and remote (mlx5_3)",
    ),
    _net_ib(
        r"Subnet-aware routing: overriding dev {number:\d{1,4}} with dev {other:\d{1,4}}",
        make=_remark("nic-replaced"), versions="2.30.7 and later",
        sample="NET/IB: Subnet-aware routing: overriding dev 1 with dev 3",
    ),
    _net_ib(
        r"Got completion with error (devIndex={number:\d+}", make=_remark("failover"),
        versions="2.29.7 and later",
    ),
)  # fmt: skip
"""All rows. The first one that a line contains is its match."""
