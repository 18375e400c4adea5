"""How people say that the network, the path to it, or the mode of a GPU is the cause."""

from __future__ import annotations

from gdrkit.explain.statement_rows import BLOCKS, DMABUF, LACKS, OFF, OLD, ON, PEERMEM, Statement

RDMA = (
    Statement(
        "rail-unreachable",
        r"\b(?:NICs?|HCAs?|rails?|RoCE|mlx\w+|subnets?)\b",
        r"(?:can(?:not|'t| not)|could(?: not|n't)) (?:talk|reach|ping|communicate|connect)|\bno route\b"
        r"|\bunreachable\b"
        r"|not reachable|(?:different|separate|wrong) (?:subnets?|VLANs?)",
    ),
    Statement(
        "shared-nic",
        r"\bNICs?\b|\bmlx\w+|\bPFs?\b",
        r"(?:two|four|several|multiple) (?:PFs|RDMA devices|PCIe links) (?:of|from|for) (?:one"
        r"|a single|the same)",
    ),
    Statement(
        "no-rdma-device",
        r"\bno (?:IB|InfiniBand|RDMA|HCA|RoCE|Mellanox|ConnectX\S*)s? (?:devices?|cards?|NICs?|adapters?"
        r"|HCAs?)\b"
        r"|\bibv_dev(?:ices|info)\b.{0,16}\b(?:is|was|are|lists?|shows?|prints?|returns?|finds?) (?:an"
        r" )?(?:empty|nothing"
        r"|none)\b",
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
    Statement("port-down", r"\b(?:Physical )?State:\s", r"State: (?:Down|Disabled|Polling)\b"),
    Statement("port-down", r"\b(?:ports?|links?)\b", r"not (?:up|active)\b|went down|go(?:es)? down|flapp"),
    Statement("rdma-device-software", r"\b(?:soft-?roce|rdma_rxe|rxe\d|siw|soft-?iwarp)\b"),
    Statement("bar1-small", r"\bBAR[ -]?1?\b", r"\b(?:16|32|64|128|256) ?Mi?B?\b|too small|small|limit"),
    Statement(
        "bar1-small",
        r"\b(?:resizable|large|re-?size) BAR\b|\bReBAR\b|\babove 4G decoding\b",
        r"\bnot\b|n't|off|disabled",
        ON,
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
        r"exhaust|\bfull\b(?! ?BAR)(?![- ](?:\w+[- ]){0,2}(?:rate|speed|bandwidth|duplex|size|BAR)\b)"
        r"|\b(?:100|9\d) ?%|used up|run(?:s|ning)? out|no (?:more )?space|insufficient"
        r"|\bfree\W{0,16}\d{1,2} ?MiB",
    ),
    Statement(
        "memlock-limit",
        r"\b(?:lock\w*|pin\w*|regist\w+)\b.{0,40}\b(?:memory|pages|kB|KiB|MB|bytes)\b",
        r"\b(?:non-?root|normal|unprivileged|ordinary) users?\b|\b(?:can|may) (?:only )?lock",
        unless=r"BAR ?1|GPU memory",
    ),
    Statement(
        "memlock-limit",
        r"\b(?:RLIMIT_|Limit)?memlock\b|\bulimit\b|locked[- ]memory|\bmlock\b|\b(?:CAP_)?IPC_LOCK\b",
        r"too (?:low|small)|limit(?:ed)? (?:is|was|to) (?!unlimited|not\b|no\b)|not enough|low\b"
        r"|insufficient"
        r"|\d+ ?[KM](?:i?B|(?: ?bytes))?\b|\b(?:is|was|are|shows?|prints?|returns?|gives?|only|default\w*)\b"
        r"\D{0,16}\b\d{2,8}\b(?! ?(?:G|T|[\"'`]? to ))",
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
    Statement(  # memory of graphics APIs
        "memory-not-registrable",
        r"\bVulkan\b|\bOpenGL\b|\bVK_\w+|\bnvidia[-_]drm\b|\bD3D1[12]\b|\bcuArray|\bCUDA arrays?\b",
        DMABUF + r"|regist|ibv_reg|\bimport",
        unless=r"modeset|fbdev|Wayland|display",
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
        r"|ibv_open_device|\bHCAs?\b|(?:RDMA|IB|HCA) devices?|rdma/\w)"
        r"|(?:/dev/infiniband|\buverbs\w*|ibv_open_device\S*|(?:RDMA|IB|HCA) devices?)\b.{0,40}"
        r"(?:not|n't|missing|fail)",
        r"/dev/infiniband|--device|\bprivileged\b|device plugin|rdma/",
    ),
    Statement(
        "rdma-device-not-in-container",
        r"\u5bb9\u5668|\u955c\u50cf",
        r"(?:\u770b\u4e0d\u5230|\u627e\u4e0d\u5230|\u6ca1\u6709|\u65e0\u6cd5).{0,20}(?:/dev/infiniband"
        r"|uverbs|RDMA|\bIB)",
        r"--device|/dev/infiniband|--privileged|\u7279\u6743",
        unless=r"libibverbs|nvidia[-_]peermem",
    ),
    Statement(
        "rdma-device-not-in-container",
        r"\b(?:docker|containers?|podman|kubernetes|k8s|pods?|singularity|enroot)\b",
        context=True,
    ),
    Statement("rdma-device-not-in-container", r"\bibv_open_device\b", "fail|cannot|unable"),
    Statement(  # there on the host, and not inside
        "rdma-device-not-in-container",
        r"\bEFA\b|\bRDMA\b|\bHCAs?\b|\bmlx\d|\bInfiniBand\b|\bibv_\w+|\bIB devices?\b",
        r"\b(?:in|on) (?:the |my |our )?(?:VM|host|node|machine|bare[- ]?metal)\b.{0,60}"
        r"\b(?:not|n't|nothing|none)\b.{0,24}\b(?:in|inside|within) (?:the |a )?(?:docker|container|pod)",
    ),
    Statement(
        "rdma-device-not-in-container",
        r"/dev/infiniband\b",
        cure=r"--device|--privileged|\bprivileged\b|mount",
        state=r"(?:not|n't|missing|no) .{0,24}(?:inside|in) (?:the |my |our )?(?:container|pod)",
    ),
    Statement(
        "rdma-device-not-in-container",
        r"\b(?:pod|deployment|manifest|yaml|container|job) ?(?:spec|template|definition)?\b",
        r"(?:not|n't|never|forgot to|without|lack\w*|missing|no)\b.{0,40}(?:request\w*|resource\w*"
        r"|limits?)?.{0,40}"
        r"\b(?:rdma/\w+|vpc\.amazonaws\.com/efa|nvidia\.com/\w*(?:rdma|hca|mlx|sriov)\w*)",
        r"rdma/\w+|vpc\.amazonaws\.com/efa",
    ),
    Statement(
        "rdma-device-not-in-container",
        r"\bpods?\b|\bcontainers?\b",
        r"(?:not|n't|never) request(?:ed)? (?:the|any|an?) (?:RDMA |HCA |EFA )?(?:resource|device)",
    ),
    Statement(
        "umad-device-missing",
        r"\b(?:ib_)?umad\d*\b|\bissm\d*\b",
        LACKS + r"|only uverbs|cannot|can't",
        r"modprobe|ib_umad|load",
    ),
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
        unless=r"registered with ibv_reg_dmabuf_mr|\bproviders?\b",
    ),
    Statement(  # registration of a dma-buf came with 5.12
        "kernel-lacks-dmabuf",
        r"\bkernels? (?:version )?(?:is )?v?(?:[23]\.\d+|4\.\d+|5\.(?:\d|1[01]))\b(?! ?(?:\+|or|and) )",
        DMABUF,
        unless=r"backport|el[789]|\bRHEL|\bRocky|\bAlma",
    ),
    Statement(
        "kernel-lacks-dmabuf",
        r"\bkernel\b(?! (?:driver|module)).{0,60}(?:" + OLD + "|lacks|does not|doesn't)",
        DMABUF,
        r"(?:newer|upgrad\w+|updat\w+)(?: \S+){0,3} kernel|kernel \d",
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
        r"(?:after|before) (?:the )?(?:nvidia |GPU |cuda )?driver|reinstalled"
        r"|(?:upgrad|updat|install|replac)\w*\b.{0,40}(?:OFED|DOCA)\b.{0,80}(?:not|n't|without)"
        r" (?:re)?(?:build|built"
        r"|install|compil)"
        r"|\u5148\u88c5.{0,12}\u9a71\u52a8.{0,8}\u518d\u88c5|\u91cd\u88c5.{0,6}\u9a71\u52a8",
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
    Statement(
        "gpu-unsupported",
        r"\bGPUs?\b|GPU_?DIRECT_?RDMA_?SUPPORTED",
        r"(?:does not|doesn't|do not|don't) support (?:GPU ?Direct[- ]?RDMA|GDR)\b"
        r"|GPU_?DIRECT_?RDMA_?SUPPORTED\b.{0,20}(?:\b0\b|false|\bno\b)",
        unless=r"\bNIC|instance|driver",
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
        "pair-cross-socket", r"\btopo\b|\bGPUs?\b", r"\b(?:shows?|is|are|says?|as|at)\b.{0,16}\bSYS\b"
    ),
    Statement(
        "acs-redirect",
        r"\bACS\b|\bACSCtl\b|Access Control Services",
        BLOCKS + "|" + ON + r"|\b(?:settings?|options?)\b.{0,40}\bmissing\b",
        OFF + r"|ACSCtl|ReqRedir",
    ),
    Statement(
        "iommu-translating",
        r"\b(?:amd_|intel_)?iommu\b|\bVT-d\b|\bAMD-Vi\b|\bSMMU\b",
        r"translat|_iommu=on\b.{0,40}(?:corrupt|slow|fail|saw|hang|error)|" + BLOCKS + r"|(?:is|was|are"
        r"|IOMMU) (?:en|turned on|on\b)",
        OFF + r"|iommu=pt|(?:remov|dropp?|delet|without).{0,24}_iommu=on",
    ),
    Statement(
        "pair-distant",
        r"\b(?:NICs?|HCAs?|mlx\w*)\b",
        r"\b(?:sees?|shows?|reports?|is|are|as|at|of|distance)\b.{0,16}\b(?-i:PHB|NODE)\b",
        unless=r"GDR_LEVEL|PIX\b.{0,40}(?:and|,)",
        context=True,
    ),
    Statement(
        "dmabuf-no-p2p-importer",
        DMABUF + r"|\bimporter\b",
        r"\bimporter\b.{0,60}(?:not|n't|without|no)\b.{0,24}(?:peer|p2p)|allow_peer2peer"
        r"|(?:peer2peer|p2p)\b.{0,40}(?:not|un)\w*.{0,20}\bimporter",
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
        r"\b(?:different|other|across|cross\w*|between)\b.{0,40}\b(?:sockets?|NUMA|QPI|UPI|CPUs?)\b"
        r"(?! (?:PCIe |root )*(?:ports?|lanes?|complex))"
        r"|\u8de8 ?(?:NUMA|CPU|socket)|\bcross(?:es|ing)? (?:the )?(?:UPI|QPI|NUMA|xGMI|Infinity Fabric)"
        r"|\b(?:socket|node) (\d)\b.{0,80}\b(?:socket|node) (?!\1)\d",
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

FABRIC_STATEMENTS = (*RDMA, *OTHER_STATES, *PATH)
