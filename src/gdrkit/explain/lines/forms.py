"""Outputs of programs by their form, for texts that show them without the command.

Each row is one output: a line that no other text has, and the lines that belong to it up to the first other
one. What is indented below `nvidia-smi -q`, ibstat, ibv_devinfo or lspci, lines.py recognises.

Sources: nccl-tests src/common.cu; perftest src/perftest_parameters.h; NVIDIA/nvbandwidth output.cpp;
rdma-core libibverbs/examples/device_list.c; MLNX_OFED's show_gids, ibdev2netdev and mlnx_qos; ethtool.c;
iproute2 ip/ipaddress.c, rdma/link.c; DCGM dcgmi/Diag.cpp; UCX src/tools/perf; libfabric util/info.c; dkms;
dpkg-query; rpm(8); binutils nm.c; Linux scripts/mod/modpost.c; bash builtins/ulimit.def; procps sysctl.c;
pciutils ls-tree.c; dkms.in;
GDS guide, gdscheck; google/glog; strace(1); ai-dynamo/nixl benchmark/nixlbench; nvidia-smi itself;
NVIDIA/gdrcopy tests/gdrcopy_copybw.cpp; NVIDIA/cuda-samples p2pBandwidthLatencyTest, simpleP2P,
Common/helper_cuda.h; kubernetes kubectl/pkg/describe and printers; PyTorch c10/util/Logging.cpp;
Mellanox/doca-driver-build entrypoint; NVIDIA/gpu-driver-container nvidia-driver; apt; dnf;
iputils ping/ping_common.c.
"""

from __future__ import annotations

import functools
import re

from gdrkit.formats import iperf, perftest, slurm_tables
from gdrkit.formats.nccl_tests import BARE_ROW
from gdrkit.formats.regex import regex

_TABLE = r"\s*[|+]"
_INDENTED = r"\s+\S"
_NAME = r"[A-Za-z][\w.-]{0,40}"
LISTED_FOLDER = regex(r"(?P<folder>/(?:dev|sys)/[\w./-]{1,60}?)/?:$")
"""The heading of a folder, of several that ls lists."""
_FORMS: tuple[tuple[str, str], ...] = (
    (
        r"# nThread \d|# nccl-tests version|# Collective test starting|#\s+Using devices"
        r"|#\s+Rank\s+\d+ .*\bdevice +\d|# {2,40}(?:size|bytes) +count +type|# Out of bounds values"
        rf"|# Avg bus bandwidth|{BARE_ROW.pattern}",
        r"#|\s+\d+\s+\d+\s",
    ),
    (
        r"(?:NIC )?Legend:$|\s++(?:X|SYS|NODE|PHB|PXB|PIX|NV#|OK|[CGT]?NS|DR) +="
        r"|\s++GPU0(?:\s+(?:GPU|NIC|mlx|ib|roce)\w*)*\s+CPU Affinity"
        r"|\s{0,4}GPU\d+\s+(?:X|NV\d+|PIX|PXB|PHB|NODE|SYS|OK|[CGT]?NS|DR)\s",
        r"\s{0,4}(?:GPU|NIC|mlx|ib|roce)\w*\s|(?:NIC )?Legend:|\s+NIC\d+: "
        r"|\s+(?:X|SYS|NODE|PHB|PXB|PIX|NV#|OK|[CGT]?NS|DR|U) +=",
    ),
    (
        rf"{iperf.BEGIN.pattern}|{iperf.ROW.pattern}",
        rf"{iperf.ROW.pattern}|\[ *(?:\d+|SUM|ID)\] |- - - |-{{20}}|Accepted connection from ",
    ),
    (LISTED_FOLDER.pattern, r"(?:[\w.@-]{1,40} +)*[\w.@-]{1,40} *$|total \d|[bcdl-][rwx-]{9}"),
    (perftest.BARE_ROW.pattern, perftest.BARE_ROW.pattern),
    (r"# gpu\s+\w+", r"#|\s+\d+\s+[\d-]"),
    (r"GPU id:\d+; name: .{1,80}; Bus id: [0-9a-f]{4}:", r"selecting device \d|testing size: "),
    (
        r"\s*#bytes +#iterations|\s++(?:RDMA_|Send|Atomic_|WriteImm|Raw)\S*(?: \S+)* Test$|Picking device No"
        r"|initializing CUDA$|\* Waiting for client to connect|Listing all CUDA devices|creating CUDA Ctx"
        r"| ?Completion with error at (?:client|server)$",
        r"-{20}|\*{20}| [A-Za-z][\w.*\t -]{2,20}: | (?:local|remote) address:|\s*#bytes| ?\d+ +\d+ +[\d.]+"
        r"| GID: |[Pp]icking|\[pid|CUDA|creating|making|cuMem|allocated|destroying|deallocating"
        r"| ?Completion with| Failed |[sr]cnt=\d",
    ),
    (
        r"nvbandwidth Version: |Running \w{6,60}\.$|memcpy (?:CE|SM) |SUM \w{6,60} [\d.]+$",
        r"\s*\d+\s+[\d.N/A]+|\s+\d+|SUM |Built from|CUDA \w+ Version|Driver Version|Device \d|NOTE:|memcpy ",
    ),
    (
        r"\[P2P \(Peer-to-Peer\) GPU Bandwidth Latency Test\]|Device: \d+, .{1,60}, pciBusID: "
        r"|Device=\d+ CAN(?:NOT)? Access Peer Device=\d|P2P Connectivity Matrix$|(?:Uni|Bi)directional P2P="
        r"|P2P=(?:En|Dis)abled Latency|> Peer access from .{1,80} -> |CUDA error at \S{1,200}:\d+ code=\d+\("
        r"|cudaMemcpyPeer / cudaMemcpy between GPU",
        r"\s+(?:D\\D|GPU|CPU)\s|\s+\d+\s+[\d.]+|\*\*\*NOTE",
    ),
    (r"\s++device\s+node GUID$", rf"\s+-+\s+-+$|\s+{_NAME}\s+[0-9a-f]{{16}}$"),
    (r"DEV\s+PORT\s+INDEX\s+GID\b", rf"---|{_NAME}\s+\d+\s+\d+\s|n_gids_found="),
    (rf"{_NAME}\t\d{{1,3}}\t\d{{1,4}}\t[0-9a-f:]{{39}}\s", rf"{_NAME}\s+\d+\s+\d+\s|n_gids_found="),
    (r"Settings for \S+:$", _INDENTED),
    (r"Ring parameters for \S+:$", r"[A-Z][\w -]+:"),
    (r"\d{1,4}: [\w@.-]+: <[A-Z_,-]+> mtu \d", _INDENTED),
    (
        r"DCBX mode: |Priority trust state: |PFC configuration:$",
        r"\s+\S|[A-Z]\w+ \w+.*:|default priority:|dscp2prio mapping:|tc: ",
    ),
    (r"\s++(?:[rt]x_prio\d_\w+|rx_discards_phy|rx_out_of_buffer): \d+$", r"\s+\w+: \d+$"),
    (r"\| NVIDIA-SMI \d|\| +\d+ +(?:NVIDIA|Tesla|Quadro|GRID) ", _TABLE),
    (r"\+-{20,}\+?-*\+?", _TABLE),
    (
        r"No devices were found$|Unable to determine the device handle for|NVIDIA-SMI has failed because",
        r"(?!)",
    ),
    (r"[\w.-]+/[\w.+~-]+, \d+\.\d+\.\d\S*, \w+: (?:installed|built|added)", r"(?!)"),
    (r"(?:ii|rc|hi|iU|iF)  \S+ +\S+ +(?:amd64|arm64|all)\b", r"(?!)"),
    (r"[A-Za-z][\w.+]*(?:-[\w.+]+)*-\d[\w.~+^]*-[\w.~+^]+\.(?:x86_64|aarch64|noarch)$", r"(?!)"),
    (r"(?:[0-9a-f]{16}| {16}) [A-Za-z] \w+$", r"(?!)"),
    (r"0x[0-9a-f]{8}\t\w+\t\S+\tEXPORT_SYMBOL", r"(?!)"),
    (r"[a-z][a-z -]{3,40}(?:\([a-z -]+\))? +\((?:[a-z0-9 -]+, )?-[a-zA-Z]\) (?:unlimited|\d+)$", r"(?!)"),
    (r"(?:vm|kernel|net|fs|user|dev)\.[\w./-]+ = \S", r"(?!)"),
    (r"BOOT_IMAGE=\S+ ", r"(?!)"),
    (r"/(?:sys|proc)/[\w./:-]+:\S", r"(?!)"),
    (rf"link {_NAME}/\d+ (?:subnet_prefix \S+ .*)?state [A-Z]|{_NAME} port \d+ ==> \S+ \(", r"(?!)"),
    (r"[ |\\+-]*\[[0-9a-f]{4}:[0-9a-f]{2}\]-", r"[ |\\+-]*[|\\+]-"),
    (
        r"Successfully ran diagnostic for group|\| Diagnostic +\| Result"
        r"|\| (?:PCIe|GPU Memory|Fabric Manager|Denylist|NVML Library|Warning|Error) +\| [A-Z]",
        _TABLE,
    ),
    (r"\|\s+Stage\s+\|\s+# iterations|\[thread \d+\]\s+\d+ |Final:\s+\d+ ", r"\s*[|+]|\[thread|Final:"),
    (r"# Library version: \d|# API headers version: ", r"# \w"),
    (r"(?:srun|sbatch|salloc|slurmstepd|slurmd)[\w.-]{0,64}: \S|TERM_[A-Z_]{3,20}: \S|=>> PBS: \S", r"(?!)"),
    (slurm_tables.HEAD, rf"\s{{0,20}}(?:{slurm_tables.HEAD}|{slurm_tables.ROW})|[-| ]{{20}}"),
    (slurm_tables.RECORD, r"\s+[\w/]+=|[A-Z]\w{2,20}(?:=| +\d)"),
    (r"provider: [\w;]+$", r"\s+\w+: \S"),
    (r"Block Size \(B\)\s+Batch Size", r"-{20}|\d+\s+\d+\s+[\d.]"),
    (
        r"Connectivity Table Legend:|Node #\d+ +[*-] \S+ +[*-] |Domain State: [A-Z]",
        r"[A-Z] - |![A-Z]! - |Nodes:$|Node #\d|\s+(?:Nodes From|\d+ )|Domain State: |\d\d?/\d\d/\d{4} ",
    ),
    (r"Group +Comms +Nodes +Ranks\b| +\d+(?: +\d+(?:-\d+)?){5} +[A-Z_]+ +[A-Z_]+$", r" +[#\d]"),
    (r"\[key \d+\]$|SHA1 Fingerprint: ", r"\s+\S|Certificate:|SHA1 Fingerprint"),
    (r"(?:OK|FAIL|WARN|WARNING)\t\S", r"\s+\S"),
    (r"(?:iommu|DMAR|AMD-Vi): [A-Z]", r"(?!)"),
    (r"\w{3,30}\(.{0,300}\)\s+= (?:-1 E[A-Z]+|-?\d+|0x)", r"\+\+\+ "),
    (r"(?:PRETTY_NAME|NAME|VERSION_ID)=\"", r"[A-Z_]+="),
    (
        r"\s++(?:state|phys_state|active_mtu|max_mtu|link_layer|sm_lid|port_lid|port_lmc|base lid|phys state"
        r"|Link layer|Link detected|Speed|Duplex|Port GUID):\s",
        r"\s+[\w -]+:\s",
    ),
    (r"GRUB_[A-Z_]+=", r"GRUB_[A-Z_]+="),
    (
        r"DKMS make\.log for \S+ for kernel ",
        r"make|cp:? |gcc|ld:? |\s+\S|/\S+:\d+:|[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d [\d:]{8} |Building ",
    ),
    (r"\s*GDS release version: \d|\s*(?:DRIVER|CUFILE) CONFIGURATION:$", r"\s*=+$|\s*[\w. -]+:|\s+\S"),
    (r"\s{4,8}Fabric$", r"\s{5,}[A-Z]"),
    # glog: the logs of Mooncake, torchcomms and others name the line of their source
    (
        r"[IWEF](?:\d{4}){1,2} [\d:]{8}\.\d{3,6} +\d+ [\w./-]{1,80}"
        r"\.(?:cc|cpp|cu|cuh|c|h|hpp|py|go|rs):\d{1,5}\] ",
        r"(?!)",
    ),
    (
        r"PING \S{1,80} \([0-9a-f.:]{2,50}\)[\w .:%]{0,60} \d{1,5}(?:\(\d{1,5}\))? (?:data )?bytes"
        r"|--- \S+ ping statistics ---$|\d{1,6} packets transmitted, \d{1,6} received,",
        r"\d+ bytes from |From \S+.{0,60} icmp_seq=|--- \S+ ping statistics|\d+ packets trans|rtt min/",
    ),
    (r"(?:Cma(?:Total|Free)|Mem(?:Total|Free|Available)):\s+\d+ kB$", r"[A-Z]\w+(?:\(\w+\))?:\s+\d"),
    (r"(?:RegistryDwords(?:PerDevice)?|CoherentGPUMemoryMode|GpuBlacklist|ExcludedGpus): \"", r"[A-Z]\w+: "),
    (r"options (?:nvidia|nvidia[-_]\w+|mlx\w+|ib_\w+|gdrdrv) \w+=", r"(?!)"),
    (
        r"\s*(?:Type|LAST SEEN) {2,}(?:Reason|TYPE) {2,}|\s{0,4}(?:Normal|Warning) {2,}[A-Z]\w+ {2,}\S"
        r"|\d+[dhms]\S* {2,}(?:Normal|Warning) {2,}[A-Z]\w+ {2,}\S",
        r"\s{0,4}(?:-{4}|Normal|Warning) {2,}\S|\d+[dhms]\S* {2,}(?:Normal|Warning) ",
    ),
    (
        r"(?:NAMESPACE {2,})?NAME {2,}(?:[A-Z][A-Z-]*(?: [A-Z-]+)* {2,}){0,12}AGE\b",
        r"[a-z0-9][\w.-]* {2,}\S",
    ),
    (
        r"API Version: +[\w.]{1,80}/v\d\w{0,10}$|Node: +[\w.-]{1,80}/[\d.:a-f]{3,40}$",
        r"\s+\S|[A-Z][\w ]{1,30}:(?:$| )",
    ),
    (r"(?:Capacity|Allocatable):$", r" {2}[\w./-]+: +[\w.-]+$|Allocatable:$"),
    (
        r"(?:\[[\w.]{1,20}\]:)?\[[WEIF](?:\d{3,4} [\d:.]{8,20})? ?\w{1,60}\.(?:cpp|h):\d{1,5}\] ",
        r"(?!)",
    ),
    (r"\[\d\d-[A-Z][a-z]{2}-\d\d_[\d:]{8}\] ", r"(?!)"),
    (
        r"=+ NVIDIA Software Installer =+$|Starting installation of NVIDIA driver (?:version|branch) \S",
        r"[A-Z][a-z]+ing [\w ]{1,60}(?:\.\.\.$|version \d)|.{0,200}Could not resolve Linux kernel version$",
    ),
    (
        r"[EW]: (?:Unable to|Couldn't|Failed to|Some index) |The following packages have unmet dependencies:"
        r"|  - Curl error \(\d+\): ",
        r" [\w.+-]+ : (?:Pre)?Depends: ",
    ),
    (r"\[?none\]? \[?integrity\]? \[?confidentiality\]?$", r"(?!)"),
)


@functools.cache
def _starts() -> re.Pattern[str]:
    return re.compile("|".join(f"(?P<f{index}>{start})" for index, (start, _) in enumerate(_unnamed())))


def _unnamed() -> tuple[tuple[str, str], ...]:
    """The rows without names of groups, which one pattern of all rows cannot have twice."""
    return tuple((re.sub(r"\(\?P<\w+>", "(?:", start), rest) for start, rest in _FORMS)


@functools.cache
def _rest(form: int) -> re.Pattern[str]:
    return re.compile(_FORMS[form][1])


CODE = "    "
"""The indentation by which Markdown marks code, and mails a quotation."""


def form_of(text: str, before: int | None) -> int | None:
    """The output that a line starts or, after a line of the output `before`, continues; None for neither."""
    starts = (0, len(CODE)) if text.startswith(CODE) else (0,)
    if before is not None and any(_rest(before).match(text, at) for at in starts):
        return before
    found = next((match for at in starts if (match := _starts().match(text, at))), None)
    return int(found.lastgroup[1:]) if found is not None and found.lastgroup else None
