"""The words by which each cause is recognised in a sentence: one row for each way to say it.

Sources: posts in the trackers of NCCL, UCX, perftest, nv_peer_memory, GDRCopy, GPU Operator and others. The
words are the usual ones of the field; no row is for a single post.
"""

from __future__ import annotations

from msgspec import Struct

PEERMEM = (
    r"(?:\b(?:nvidia|nv)[-_ ]?peer[-_ ]?mem(?:ory)?\w*|\bpeer[-_]?mem(?:ory)?\b"
    r"|\bpeer memory (?:kernel )?(?:module|client|driver|service)\b)"
)
DMABUF = r"(?:(?<![a-z])dma[-_ ]?buf(?![a-z])|dmabuf)"
LACKS = (
    r"\bnot\b|n't\b|\bno\b|missing|lacks?\b|without|absent|unavailable|undefined|unresolved"
    r"|\u6ca1\u6709|\u672a(?!\u6765)|\u7f3a\u5c11|\u770b\u4e0d\u5230|\u627e\u4e0d\u5230|\u4e0d\u652f\u6301"
)
OLD = r"too old|older|old version|outdated|not new enough|before \d|upgrade|update|newer"
OFF = (
    r"disabl|turn(?:ed|ing)? off|switch(?:ed|ing)? off|\boff\b|\bpt\b|passthrough|\u5173\u95ed"
    r"|\u7981\u7528"
)
ON = (
    r"enabl|turned on|switched on|(?:\b(?:is|was|are|were|be|still|left|kept)|[=:]) ?on\b"
    r"|\bon\b(?=\W*$|[,.;:?!)]| (?:and|or|but|in|again)\b)"
    r"|active|\bset\b|\u542f\u7528|\u6253\u5f00|\u5f00\u542f"
    r"|\u6ca1\u6709?\u5173"
)
BLOCKS = r"block|prevent|redirect|interfer|break|forbid|\u963b\u6b62|\u5bfc\u81f4"
_LOAD = r"modprobe|insmod|load|lsmod (?:shows|lists)|\u52a0\u8f7d"
_NOT_LOADED = (
    r"(?:not|n't|never|forgot to|without) (?:been |be |being |yet )?(?:loaded|there\b|present|exist"
    r"|installed|set ?up\b"
    r"|running)|\bmissing\b|\babsent\b|do(?:es)?(?: not|n't) exist|no module|(?:show|print|return"
    r"|give|list)s? nothing"
    r"|\bno output\b"
    r"|\b(?:is|was) (?:disabled|stopped|inactive|not active)\b"
    r"|\u6ca1\u6709\u8f93\u51fa|\u65e0\u8f93\u51fa|\u6ca1\u6709?\u52a0\u8f7d|\u672a\u52a0\u8f7d"
    r"|\bservice (?:was|is) (?:disabled|stopped|inactive|not (?:running|active|started|enabled))"
    r"|nicht geladen|pas charg\u00e9|no (?:est[\u00e1a]"
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
    Statement(
        "gpu-integrated", r"\bGB10\b|\bDGX[- ]Sparks?\b|\bZGX Nano\b|\bAscent GX10\b|\bJetson\b|\(nvgpu\)"
    ),
    Statement(
        "gpu-consumer",
        r"\bGeForce\b|\bTITAN (?:X|V|RTX|Xp)\b|\bRTX[- ]?(?:20[678]0|30[5-9]0|40[5-9]0|50[5-9]0)\b"
        r"|\bGTX ?(?:Titan|[4-9]\d0|1[06]\d0)\b"
        r"|\b(?:20[678]0|30[5-9]0|40[5-9]0|50[5-9]0)(?: ?Ti| super)?s? (?:GPUs?|cards?)\b"
        r"|\bconsumer (?:GPUs?|cards?)\b"
        r"|\b(?:30[5-9]0|40[5-9]0|50[5-9]0)(?: ?Ti)?(?= ?(?:\u4e0d\u652f\u6301|\u663e\u5361|\u5361))",
    ),
    Statement("wsl", r"\bWSL ?2?\b|microsoft-standard-WSL"),
    Statement("gpu-vgpu", r"\bv[Gg]PU\b|\bGRID [A-Z]\d+|\b[AL]\d{1,3}S?-\d{1,2}[CQ]\b"),
)
"""Hardware and environments in which GPUDirect RDMA cannot work, or works differently."""

LOADING = (
    Statement(
        "module-not-found",
        r"\bmodules?\b|\.ko\b|\bmodprobe\b",
        r"(?:\bmodules?\b|\.ko\b|modprobe)[^.,;/]{0,60}(?:not found|does not exist|no such(?! device))"
        r"|\bno such module",
    ),
    Statement(
        "module-not-found",
        r"linux-headers|kernel[- ]headers|kernel-devel|\bheaders (?:of|for)\b",
        r"missing|(?:not|n't) (?:been )?(?:installed|there|found|present|available)",
        "install",
    ),
    Statement(  # DKMS did not build it
        "module-not-found",
        r"\bdkms\b|\bmodules?\b|\.ko\b|" + PEERMEM,
        r"\b(?:never|not|n't) (?:been |be |get |got )?(?:re)?(?:built|compiled|rebuil\w*)"
        r"|\b(?:never|not|n't) (?:re)?build\b|\bdkms\b.{0,40}\b(?:fail\w*|skipp?ed|status\W.{0,24}\badded)\b"
        r"|\b(?:fail\w*|unable) to (?:re)?(?:build|compile)\b|(?:build|compil\w+) (?:\w+ ){0,3}fail",
        r"dkms (?:autoinstall|install|build)\b",
        unless=r"OFED|DOCA|\bstub\b|symbol|peer[- ]memory API|ib_register_peer"
        r"|for (?:another|a different|the wrong|the old)",
    ),
    Statement("install-override", r"\balias \S+ off\b|\binstall \S+ /(?:usr/)?bin/(?:true|false)"),
    Statement("modules-disabled", r"\bmodules_disabled\b", r"=\s*1|is 1|set"),
    Statement(
        "module-unsigned",
        r"\bunsigned\b.{0,40}\bmodules?\b|\bmodules? (?:is|are|was) (?:not signed|unsigned)"
        r"|\u4e0d\u7b7e[\u7f72\u540d]|\u6ca1\u6709?\u7b7e\u540d|\u672a\u7b7e\u540d",
    ),
    Statement(
        "module-unsigned",
        r"\bmodules?\b|\bmodinfo\b|\bdkms\b|\.ko\b",
        r"\bno sign(?:er|ature)\b|\b(?:not|n't|never) (?:been |be )?sign(?:ed)?\b"
        r"|(?:not|n't) (?:show|have|list|contain|print)\b.{0,12}\bsign(?:er|ature)\b"
        r"|(?:without|lacks?) (?:a |any )?(?:valid )?signature|fail\w* to sign",
        unless=r"trusted key|warning|taint",
    ),
    Statement(
        "module-unknown-key",
        r"\bkeys?\b.{0,40}\b(?:rejected|unavailable|not (?:been )?(?:enrolled|trusted))\b",
    ),
    Statement(
        "module-unknown-key",
        r"\bMOK\b",
        r"\bmodules?\b.{0,40}\breject|\breject\w*.{0,40}\bmodules?\b|(?:not|n't) (?:trusted|accepted"
        r"|honou?red)",
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
        BLOCKS + r"|restrict|not permitted",
        OFF,
    ),
    Statement("lockdown-blocks-module", r"\blockdown\b", r"refus|reject|denied"),
    Statement("lockdown-blocks-module", r"\bsecure ?boot\b", ON, context=True),
    Statement(
        "module-blacklisted",
        r"\b(?:black|deny)-?list(?:ed|s|ing)?\b",
        "",
        unless=r"nouveau$|\bpackages?\b|unattended|\bapt\b|\bIP\b|\bnodes?\b",
    ),
    Statement(
        "module-wrong-kernel",
        r"(?:built|compiled|build) (?:only )?(?:for|against) (?:kernel )?\d+\.\d+\.\d+\S*.{0,40}"
        r"(?:running|kernel is|uname)|(?:built|compiled|build) (?:only )?(?:for|against) (?:another|a"
        r" different|the (?:old|wrong"
        r"|previous)) kernel"
        r"|\bvermagic\b.{0,60}(?:differ|mismatch|not match)",
    ),
    Statement(
        "module-wrong-kernel",
        r"\bvermagic\b|\bKERNELRELEASE\b|\bKVER\b|\bkernelver\b",
        r"\bvermagic\b.{0,60}(?:old|wrong|another|other|stale)|(?:old|wrong|stale)\W{0,3}vermagic",
        r"(?:re)?compil\w*|(?:re)?buil[dt]\w*",
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
        "gpu-before-turing",
        r"\b(?:V100S?|P100|P40|P4|K[248]0m?|M[46]0|GV100)\b|\b(?:Volta|Pascal|Kepler|Maxwell)\b",
        DMABUF,
        unless=r"\b(?:A|H|B|L)\d{2,3}S?\b|\bT4\b|\b(?:Turing|Ampere|Hopper)\b|\bROCm\b|\bMI\d{2,3}",
    ),
    Statement(
        "driver-mismatch",
        r"driver[/ -]library[ -]version[ -]mismatch"
        r"|\b(?:user[- ]?space|librar\w+|libcuda\S*|NVML|client"
        r"|container)\b.{0,60}\b(\d{3}\.\d{2,3}(?:\.\d+)?)\b.{0,80}"
        r"\b(?:modules?|driver|host)\b.{0,40}\b(?!\1)\d{3}\.\d{2,3}\b"
        r"|\b(?:modules?|driver|host)\b.{0,40}\b(\d{3}\.\d{2,3}(?:\.\d+)?)\b.{0,80}"
        r"\b(?:user[- ]?space|librar\w+|libcuda\S*|NVML|client|container)\b.{0,40}\b(?!\2)\d{3}\.\d{2,3}\b"
        r"|\bversion mismatch\b.{0,60}\b(?:nvidia(?!-(?:nccl|nvshmem|cu))|driver|NVML)",
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
        r"\b(?:proprietary|closed)\b.{0,40}\b(?:driver|modules?|flavou?r)\b|\u95ed\u6e90",
        DMABUF + r"|cuMemGetHandleForAddressRange|GPU ?Direct",
        r"open(?: kernel)? (?:driver|modules?)|-open\b",
    ),
    Statement(
        "legacy-nv-peer-mem",
        r"\bnv_peer_mem(?:ory)?\b",
        r"conflict|\bold(?:er)? (?:module|package|nv_peer)|legacy|archived|deprecated"
        r"|\bboth\b.{0,40}(?:loaded|installed)"
        r"|(?:already|still) (?:loaded|installed|claims|registered)",
        r"(?:remov|uninstall|disabl|unload|blacklist|purg)\w*.{0,40}nv_peer_mem|rmmod nv_peer_mem",
        unless=r"modinfo|nv_peer_mem (?:service )?(?:is|was) (?:not|disabled)",
    ),
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
        PEERMEM + r"|\blsmod\b.{0,24}\bpeer\b",
        _NOT_LOADED,
        _LOAD,
        unless=r"stub|persist|reboot|invalid argument|not found in directory",
    ),
    Statement(
        "peermem-not-persistent",
        PEERMEM + r"|\bmodules?\b",
        r"\b(?:load|modprobe|insmod)\w*\b.{0,40}\b(?:after|every|each)\b.{0,12}\b(?:re)?(?:boot|start)"
        r"|(?:after|every|each|on|at) (?:a |the |my |our |every )?(?:re)?(?:boot|start)\w*\b.{0,160}"
        r"(?:not (?:loaded|there|present)|n't (?:loaded|there|present)|again|gone|disappear|lost|missing"
        r"|every time)|(?:gone|disappear\w*|dissap\w+"
        r"|lost|unloaded|vanish\w*)"
        r".{0,40}(?:re)?(?:boot|start)|(?:not|n't) surviv\w* (?:a |the |any )?(?:re)?(?:boot|start)",
        r"modules-load\.d|/etc/modules",
    ),
    Statement(
        "peermem-stub",
        PEERMEM,
        r"kernel\b.{0,40}(?:not|n't|no|lacks?|without)\b.{0,24}peer[- ]memory (?:API|patch|inter"
        r"face|support)|\bstub\b|(?:built|compiled) without|-EINVAL|empty `?depends",
    ),
    Statement(
        "peermem-registration-refused",
        r"ib_register_peer_memory_client",
        r"fail|refus|returns? (?:NULL|an error)",
        unless=r"\bstub\b|export",
    ),
    Statement("topology-refused", DMABUF + r"|P2P|mapping", r"topology (?:is )?not supported"),
    Statement("driver-modified", r"\bpatched (?:driver|kernel module)|\bmodified driver"),
)

STATEMENTS = (*HARDWARE, *LOADING, *DRIVER)
"""All rows of this module; fabric_rows.py has those of networks, program_rows.py those of programs."""
