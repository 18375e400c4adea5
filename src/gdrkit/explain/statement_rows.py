"""The words by which each cause is recognised in a sentence: one row for each way to say it.

Sources: posts in the trackers of NCCL, UCX, perftest, nv_peer_memory, GDRCopy, GPU Operator and others. The
words are the usual ones of the field; no row is for a single post.
"""

from __future__ import annotations

from msgspec import Struct

PEERMEM = r"(?:\b(?:nvidia|nv)[-_ ]?peer[-_ ]?mem(?:ory)?\w*|\bpeer[-_]?mem(?:ory)?\b)"
DMABUF = r"(?:\bdma[-_ ]?buf\b|dmabuf)"
LACKS = r"\bnot\b|n't\b|\bno\b|missing|lacks?\b|without|absent|unavailable|undefined|unresolved"
OLD = r"too old|older|old version|outdated|not new enough|before \d|upgrade|update|newer"
_OFF = (
    r"disabl|turn(?:ed|ing)? off|switch(?:ed|ing)? off|\boff\b|\bpt\b|passthrough|\u5173\u95ed"
    r"|\u7981\u7528"
)
_ON = (
    r"enabl|turned on|switched on|\bon\b|active|\bset\b|\u542f\u7528|\u6253\u5f00|\u5f00\u542f"
    r"|\u6ca1\u6709?\u5173"
)
_BLOCKS = r"block|prevent|redirect|interfer|break|forbid|\u963b\u6b62|\u5bfc\u81f4"
_LOAD = r"modprobe|insmod|load|\u52a0\u8f7d"
_NOT_LOADED = (
    r"(?:not|n't|never|forgot to|without) (?:been |be |being |yet )?(?:loaded|there\b|present|exist"
    r"|installed"
    r"|running)|\bmissing\b|\babsent\b|do(?:es)?(?: not|n't) exist|no module|shows? nothing"
    r"|prints? nothing"
    r"|\b(?:is|was) (?:disabled|stopped|inactive|not active)\b"
    r"|\u6ca1\u6709?\u52a0\u8f7d|\u672a\u52a0\u8f7d|nicht geladen|pas charg\u00e9|no (?:est[\u00e1a]"
    r" )?cargad"
    r"|\u30ed\u30fc\u30c9\u3055\u308c\u3066\u3044|\ub85c\ub4dc\ub418\uc9c0|\u043d\u0435"
    r" \u0437\u0430\u0433\u0440\u0443\u0436"
)


class Statement(Struct, frozen=True):
    """One way to say that a cause is there."""

    code: str
    topic: str
    state: str = ""  # "": to mention the topic is enough
    cure: str = ""  # counts only where the sentence says what cured the problem
    unless: str = ""  # words that make it another statement
    context: bool = False  # only makes a cause likelier that something else points to


HARDWARE = (
    Statement("gpu-integrated", r"\bGB10\b|\bDGX[- ]Sparks?\b|\bZGX Nano\b|\bAscent GX10\b"),
    Statement(
        "gpu-consumer",
        r"\bGeForce\b|\bTITAN (?:X|V|RTX|Xp)\b|\bRTX[- ]?(?:20[678]0|30[5-9]0|40[5-9]0|50[5-9]0)\b"
        r"|\bGTX ?(?:Titan|[4-9]\d0|1[06]\d0)\b"
        r"|\b(?:20[678]0|30[5-9]0|40[5-9]0|50[5-9]0)(?: ?Ti| super)?s? (?:GPUs?|cards?)\b"
        r"|\bconsumer (?:GPUs?|cards?)\b",
    ),
    Statement("wsl", r"\bWSL ?2?\b|microsoft-standard-WSL"),
    Statement("gpu-vgpu", r"\bv[Gg]PU\b|\bGRID [A-Z]\d+|\b[AL]\d{1,3}S?-\d{1,2}[CQ]\b"),
)
"""Hardware and environments in which GPUDirect RDMA cannot work, or works differently."""

LOADING = (
    Statement(
        "module-not-found",
        r"\bmodules?\b|\.ko\b|\bmodprobe\b",
        r"(?:\bmodules?\b|\.ko\b|modprobe)[^.,;/]{0,60}(?:not found|does not exist|no such)"
        r"|\bno such module",
    ),
    Statement(
        "module-not-found",
        r"linux-headers|kernel[- ]headers|kernel-devel",
        r"missing|not installed",
        "install",
    ),
    Statement("install-override", r"\balias \S+ off\b|\binstall \S+ /(?:usr/)?bin/(?:true|false)"),
    Statement("modules-disabled", r"\bmodules_disabled\b", r"=\s*1|is 1|set"),
    Statement(
        "module-unsigned",
        r"\bunsigned\b.{0,40}\bmodules?\b|\bmodules? (?:is|are|was) (?:not signed|unsigned)"
        r"|\u4e0d\u7b7e[\u7f72\u540d]|\u6ca1\u6709?\u7b7e\u540d|\u672a\u7b7e\u540d",
    ),
    Statement(
        "module-unknown-key",
        r"\bkeys?\b.{0,40}\b(?:rejected|unavailable|not (?:been )?(?:enrolled|trusted))\b",
    ),
    Statement(
        "module-unknown-key",
        r"\bMOK\b|\bkeys?\b",
        r"(?:not|never) (?:been )?(?:enrolled|imported|trusted)",
        "enrol|import",
    ),
    Statement(
        "lockdown-blocks-module",
        r"\b(?:kernel )?lockdown\b|secure ?boot",
        _BLOCKS + r"|restrict|not permitted",
        _OFF,
    ),
    Statement("lockdown-blocks-module", r"\bsecure ?boot\b", _ON, context=True),
    Statement("module-blacklisted", r"\b(?:black|deny)-?list(?:ed|s|ing)?\b", "", unless="nouveau$"),
    Statement(
        "module-wrong-kernel",
        r"(?:built|compiled|build) (?:only )?(?:for|against) (?:another|a different|the (?:old|wrong"
        r"|previous)) kernel"
        r"|\bvermagic\b.{0,60}(?:differ|mismatch|not match)",
    ),
    Statement(
        "module-symbol-missing",
        r"\bunknown symbols?\b|\bmissing symbols?\b|\bunresolved symbols?\b",
        unless="ib_register_peer_memory_client",
    ),
    Statement(
        "module-crc-mismatch",
        r"disagrees about version of symbol|\bsymbol versions?\b",
        r"differ|mismatch|disagree",
        unless=r"still loads|\bwarning\b|no symbol version",
    ),
    Statement("module-signature-broken", r"\b(?:stripped|strip)\b", "signature|signed"),
)

DRIVER = (
    Statement(
        "driver-mismatch",
        r"driver/library version mismatch|\bversion mismatch\b.{0,60}\b(?:nvidia|driver|NVML)",
    ),
    Statement(
        "driver-not-loaded",
        r"couldn't communicate with the NVIDIA driver"
        r"|NVML: Driver Not Loaded",
    ),
    Statement(
        "driver-not-loaded",
        r"\bnvidia(?:\.ko| kernel module| driver| module)\b",
        r"not (?:been )?loaded|isn't loaded",
    ),
    Statement(
        "driver-proprietary",
        r"\b(?:proprietary|closed)\b.{0,40}\b(?:driver|modules?|flavou?r)\b",
        DMABUF,
        r"open(?: kernel)? (?:driver|modules?)|-open\b",
    ),
    Statement("legacy-nv-peer-mem", r"\bnv_peer_mem\b", r"conflict|old module|legacy|archived|deprecated"),
    Statement("lock-inversion", PEERMEM, r"dead-?lock|lock inversion|hangs? in"),
    Statement("p2p-page-table-version", r"page[- _]table", r"version|580|incompatible"),
    Statement(
        "peermem-blocks-ofed",
        r"\bopenibd\b|\bOFED\b|\bib_(?:uverbs|core)\b",
        PEERMEM
        + r".{0,40}(?:\bin use|depend|\bholds?\b|keeps? )|(?:unload|restart|stop)\w*.{0,60}"
        + PEERMEM,
        unless=r"\bstub\b|requires",
    ),
    Statement("peermem-blocks-ofed", r"\bopenibd\b", PEERMEM),
    Statement(
        "peermem-not-loaded",
        PEERMEM,
        _NOT_LOADED,
        _LOAD,
        unless=r"stub|persist|reboot|invalid argument|not found in directory",
    ),
    Statement(
        "peermem-not-persistent",
        PEERMEM + r"|\bmodules?\b",
        r"(?:after|every|each|on|at) (?:a |the |my |our |every )?(?:re)?(?:boot|start)\b.{0,160}"
        r"(?:not|n't|again|gone|disappear|lost|missing|every time)|(?:gone|disappear\w*|dissap\w+"
        r"|lost|unloaded|vanish\w*)"
        r".{0,40}(?:re)?(?:boot|start)|(?:not|n't) surviv\w* (?:a |the |any )?(?:re)?(?:boot|start)",
        r"modules-load\.d|/etc/modules",
    ),
    Statement("peermem-stub", PEERMEM, r"\bstub\b|(?:built|compiled) without|-EINVAL|empty `?depends"),
    Statement(
        "peermem-registration-refused",
        r"ib_register_peer_memory_client",
        r"fail|refus|returns? (?:NULL|an error)",
        unless=r"\bstub\b|export",
    ),
    Statement("topology-refused", DMABUF + r"|P2P|mapping", r"topology (?:is )?not supported"),
    Statement("driver-modified", r"\bpatched (?:driver|kernel module)|\bmodified driver"),
)

RDMA = (
    Statement(
        "rail-unreachable",
        r"\b(?:NICs?|HCAs?|rails?|RoCE|mlx\w+|subnets?)\b",
        r"can(?:not|'t| not) (?:talk|reach|ping|communicate|connect)|\bno route\b|\bunreachable\b"
        r"|not reachable|(?:different|separate|wrong) (?:subnets?|VLANs?)",
        r"subnet|route|VLAN",
    ),
    Statement(
        "shared-nic",
        r"\bNICs?\b|\bmlx\w+|\bPFs?\b",
        r"(?:two|four|several|multiple) (?:PFs|RDMA devices|PCIe links) (?:of|from|for) (?:one"
        r"|a single|the same)",
    ),
    Statement(
        "no-rdma-device", r"\bno (?:IB|InfiniBand|RDMA|HCA|RoCE)s? (?:devices?|cards?|NICs?|adapters?)\b"
    ),
    Statement("no-rdma-device", r"RDMA|\bIB\b", r"\u6ca1\u5f00|\u627e\u4e0d\u5230|\u672a\u542f\u7528"),
    Statement(
        "port-down",
        r"\b(?:ports?|links?|interfaces?|(?:nics?|hcas?) (?:status|state)|mlx\w+|ib\d)\b",
        r"\b(?:is|was|are|were|state:?|stays?|in)\b.{0,24}[\"'\u201c`]?\b(?:down|polling"
        r"|initializ\w+|INIT|inactive|"
        r"disabled|not active)\b",
        unless=r"bandwidth|throughput",
    ),
    Statement("port-down", r"\b(?:port|link)\b", r"not (?:up|active)\b|went down|flapp"),
    Statement("rdma-device-software", r"\b(?:soft-?roce|rdma_rxe|rxe\d|siw|soft-?iwarp)\b"),
    Statement("bar1-small", r"\bBAR[ -]?1?\b", r"\b(?:16|32|64|128|256) ?Mi?B?\b|too small|small|limit"),
    Statement(
        "bar1-small", r"\bresizable BAR\b|\bReBAR\b|\babove 4G decoding\b", r"\bnot\b|n't|off|disabled", _ON
    ),
    Statement(  # what remains of a window of 256 MiB
        "bar1-small",
        r"\b2[0-5]\d(?:\.\d)? ?Mi?B\b",
        r"\b(?:more|larger|bigger|greater|above|over|exceed\w*|beyond|at most|maximum|max|up to"
        r"|below|under)\b",
        unless=r"/s\b|bandwidth|throughput",
    ),
    Statement(
        "bar1-exhausted",
        r"\bBAR ?1?\b",
        r"exhaust|\bfull\b|used up|run(?:s|ning)? out|no (?:more )?space|insufficient",
    ),
    Statement(
        "memlock-limit",
        r"\bmemlock\b|\bulimit\b|locked[- ]memory|\bmlock\b|\bLimitMEMLOCK\b|\bIPC_LOCK\b",
        r"too (?:low|small)|limit(?:ed)? (?:is|was|to) (?!unlimited)|not enough|insufficient|low\b"
        r"|\d+ ?(?:KB|kbytes)",
        r"unlimited|infinity|ulimit|memlock|-1|IPC_LOCK",
    ),
    Statement(
        "memory-not-registrable",
        r"\bcuMemCreate\b|\bVMM\b|expandable_segments|cudaMallocAsync|cudaMallocManaged|managed"
        r" memory|cuMemMap|stream-ordered|memory pool",
        r"register|ibv_reg|pin\b|RDMA|incompatible|cuIpc",
        r"cudaMalloc\b|expandable|disabl|cuMemCreate|gpuDirectRDMACapable",
        unless=r"expandable",
    ),
    Statement(  # the way that memory is allocated makes the difference
        "memory-not-registrable",
        r"\bcuda_?malloc\b|\ballocat(?:or|ion)s?\b|\btorch\.\w+|\btensors?\b",
        r"(?:error|failure|problem) (?:does|did)(?: not|n't) (?:occur|happen|appear)|can(?: ?not"
        r"|'t) be registered",
        unless=r"expandable",
    ),
    Statement(
        "rdma-device-not-in-container",
        r"\bcontainers?\b|\bpods?\b|\bdocker\b|\bkubernetes\b|\bk8s\b|device[- ]cgroup",
        r"(?:\bno|not|n't|missing|without|lacks?|fail\w*|cannot)\b.{0,60}(?:/dev/infiniband|\buverbs"
        r"|ibv_open_device|(?:RDMA|IB|HCA) devices?)"
        r"|(?:/dev/infiniband|\buverbs\w*|ibv_open_device\S*|(?:RDMA|IB|HCA) devices?)\b.{0,40}"
        r"(?:not|n't|missing|fail)",
        r"/dev/infiniband|--device|--privileged|device plugin|rdma/",
    ),
    Statement(
        "rdma-device-not-in-container",
        r"\b(?:docker|containers?|podman|kubernetes|k8s|pods?|singularity|enroot)\b",
        context=True,
    ),
    Statement("rdma-device-not-in-container", r"\bibv_open_device\b", "fail|cannot|unable"),
    Statement(
        "rdma-lacks-peer-api",
        r"ib_register_peer_memory_client|peer[- ]memory API",
        LACKS + "|unknown symbol",
        unless="stub",
    ),
    Statement(
        "verbs-lacks-dmabuf",
        r"ibv_reg_dmabuf_mr|\brdma-core\b|\blibibverbs\b",
        r"(?:not|n't|does not|lacks?|without|new enough|undefined|missing).{0,60}(?:ibv_reg_dmabuf_mr"
        r"|function|symbol|dma)"
        r"|too old|older than|ibv_reg_dmabuf_mr.{0,40}(?:undefined|not found|missing)",
        r"rdma-core|upgrad|newer",
    ),
    Statement(
        "kernel-lacks-dmabuf",
        r"\bkernel\b.{0,60}(?:" + OLD + "|lacks|does not|doesn't)",
        DMABUF,
        r"kernel",
    ),
    Statement(
        "dmabuf-mr-refused",
        r"ibv_reg_dmabuf_mr|reg_dmabuf",
        r"not supported|EOPNOTSUPP|refus|EINVAL",
        unless=r"-?\b524\b|ENOTSUPP\b|topology|IOMMU group",
    ),
    Statement(
        "dmabuf-mr-refused",
        r"\b(?:IB|OFED|mlx5|NIC) driver\b",
        r"(?:too old|not support|n't support).{0,60}dma",
    ),
    Statement(
        "data-direct-missing", r"\bdata[- ]direct\b", r"data[- ]direct\b.{0,40}(?:" + LACKS + "|fail)"
    ),
    Statement(
        "ofed-rebuilt-after-driver",
        r"\bOFED\b|\bDOCA\b",
        r"(?:after|before) (?:the )?(?:nvidia |GPU |cuda )?driver|reinstalled",
        r"reinstall|rebuil",
    ),
)

OTHER_STATES = (
    Statement(
        "gpu-passed-through",
        r"\bvfio-pci\b",
        r"(?:bound|bind|attached|in use|holds?|owned)\b.{0,60}|driver in use",
    ),
    Statement(
        "gpu-mig",
        r"\bMIG\b",
        r"(?:is|was|with|mode) enabled|is on\b|MIG (?:instance|slice|device)",
        r"disabl",
        unless=r"disabled|off\b",
    ),
    Statement(
        "gpu-confidential",
        r"confidential comput|\bCC mode\b",
        r"(?:is|was|mode) (?:enabled|active|on)\b|blocks",
        r"off|disabl",
    ),
    Statement("gpu-cdmm", r"\bCDMM\b", r"(?:is|was|mode) (?:enabled|active|on)\b", r"NUMA mode|disabl"),
    Statement(
        "no-gpu",
        r"\bGPUs?\b",
        r"\bno NVIDIA GPUs?\b|\bno GPUs? (?:is|are|was|were) (?:in|installed|visible)",
    ),
    Statement("module-key-revoked", r"\bkeys?\b|certificate", r"revoked|\bdbx\b|\bSBAT\b"),
    Statement("module-corrupt", r"\bmodule\b|\.ko\b", r"\bcorrupt|truncated|not (?:an )?ELF|empty file"),
    Statement(
        "module-symbol-gpl-only",
        r"\bGPL[- ](?:only|incompatible)\b|EXPORT_SYMBOL_GPL",
        r"symbol|module|licen[cs]e",
    ),
    Statement(
        "module-symbol-namespace",
        r"\bnamespace\b",
        r"(?:import|symbol).{0,40}namespace|namespace.{0,40}(?:import|symbol)",
    ),
    Statement(
        "module-bad-parameter",
        r"\bmodule (?:parameter|option)s?\b|modprobe\.d",
        r"invalid|wrong|unknown|not accept|bad value",
    ),
    Statement("kernel-lacks-odp", r"\bon-demand paging\b|\bODP\b|INFINIBAND_ON_DEMAND_PAGING", LACKS),
    Statement("ofed-multiple-dkms", r"\bDKMS\b", r"two (?:versions? of )?(?:MLNX_)?OFED|several OFED"),
    Statement(
        "peermem-redundant",
        PEERMEM,
        r"(?:not|n't|no longer) (?:be )?(?:needed|required|necessary)",
        context=True,
    ),
    Statement("link-narrower-than-port", r"\bPCIe\b", r"(?:narrower|slower|less) than the (?:port|network)"),
    Statement("mixed-signers", r"\bsign(?:ed|ers?|atures?)\b", r"different keys?|two keys"),
    Statement(
        "verbs-library-old", r"\blibibverbs\b|\brdma-core\b", r"second|another|bundled|conda|old(?:er)? copy"
    ),
)

PATH = (
    Statement(
        "acs-redirect",
        r"\bACS\b|\bACSCtl\b|Access Control Services",
        _BLOCKS + "|" + _ON,
        _OFF + r"|ACSCtl|ReqRedir",
    ),
    Statement(
        "iommu-translating",
        r"\bIOMMU\b|\bVT-d\b|\bAMD-Vi\b|\bSMMU\b|iommu=pt",
        r"translat|" + _BLOCKS + r"|(?:is|was|are) (?:en|turned on|on\b)",
        _OFF,
    ),
    Statement("iommu-groups-differ", r"\bIOMMU groups?\b", r"differ|not the same|separate"),
    Statement(
        "link-degraded",
        r"\bLnkSta\b|\bPCIe (?:link|gen ?\d)|\bx(?:16|8|4)\b",
        r"downgrad|degrad|trained (?:at|to)|instead of",
    ),
    Statement(
        "pair-cross-socket",
        r"\b(?:sockets?|NUMA nodes?|QPI|UPI|CPUs?)\b",
        r"\b(?:different|other|across|cross\w*|between)\b.{0,40}\b(?:sockets?|NUMA|QPI|UPI|CPUs?)\b",
        unless=r"\bNVMe|\bSSDs?\b|storage",
    ),
    Statement(
        "pair-distant",
        r"\b(?:root complex(?:es)?|root ports?|host bridges?|PCIe switch(?:es)?)\b",
        r"\b(?:different|distinct|separate|other|not .{0,24}same|across)\b",
        unless=r"\bNVMe|\bSSDs?\b|storage",
    ),
    Statement(
        "read-request-small",
        r"\bMaxReadReq\b|max(?:imum)? read request",
        r"\b(?:128|256|512|1024)\b|small",
        "4096",
    ),
    Statement(
        "net-plugin-replaced",
        r"\blibnccl-net\b|net(?:work)? plugin\b",
        r"replac|instead of|overrid|conflict|old",
        r"remov|uninstall|NCCL_NET_PLUGIN",
    ),
)

STATEMENTS = (*HARDWARE, *LOADING, *DRIVER, *RDMA, *OTHER_STATES, *PATH)
"""All rows of this module; program_rows.py has those of programs and settings."""
