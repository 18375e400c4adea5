"""How people say that a component beside NCCL and the NIC is the cause: NVLink between hosts, GDRCopy,"
" GDS, EFA."""

from __future__ import annotations

from gdrkit.explain.statement_rows import LACKS, OLD, Statement

_OFF = r"=\s*[\"']?(?:0|n\b|no\b|false|off)|\bdisabled\b|turned off"

COMPONENT_STATEMENTS = (
    # -- NVLink between hosts
    Statement(
        "mnnvl-imex-channel-missing",
        r"imex[- _]?channels?|\bimex\b.{0,30}\b(?:channels?|devices?|nodes?)\b|caps-imex",
        LACKS + r"|forgot|(?:not|n't) (?:mount|creat|visible|expos)",
        r"imex",
        unless=r"domain|daemon|READY|service",
    ),
    Statement(
        "mnnvl-imex-not-ready",
        r"\bIMEX\b|nodes_config|ComputeDomain",
        r"\b(?:different|not .{0,16}same|separate|another|two|several)\b.{0,24}\bdomains?\b"
        r"|domains? .{0,16}\b(?:differ|not (?:UP|ready)|mismatch)|nodes_config\S*.{0,60}(?:differ|not the"
        r" same|only"
        r"|lack|missing|without|wrong|incomplete)|\bnot READY\b|\b(?:UNAVAILABLE|DEGRADED)\b|INVALID state",
        r"nodes_config|same (?:IMEX )?domain",
    ),
    Statement(
        "mnnvl-imex-not-ready",
        r"\bnvidia[-]imex\b|\bIMEX (?:daemon|service|domain)s?\b",
        r"(?:not|n't|never) (?:been )?(?:run|start|ready|up|enabled|active|install)|down|fail|inactive"
        r"|stopped|crash"
        r"|version mismatch|different versions?",
        r"nvidia[-]imex",
    ),
    Statement("mnnvl-cumem-off", r"\bNCCL_CUMEM_ENABLE\b", r"=\s*[\"']?0"),
    Statement(
        "mnnvl-clique-differs",
        r"\bcliques?\b",
        r"cliques? (?:ids? )?(?:differ|are not|mismatch)|(?:different|another|other"
        r"|not .{0,12}same) (?:NVLink )?clique",
    ),
    Statement(
        "mnnvl-fabric-incomplete",
        r"\bfabric\b.{0,30}\b(?:state|manager|status|registration|probe)\b",
        r"not|in progress|incomplete|fail|stuck|N/A",
        unless=r"fabric ?manager\b.{0,40}\b(?:version|not (?:running|installed)|mismatch)",
    ),
    # -- GDRCopy, GPUDirect Storage
    Statement(
        "gdrcopy-not-loaded",
        r"\bgdrdrv\b|\bgdrcopy\b|\bgdr_open\b",
        r"(?:not|n't|never) (?:been |be )?(?:loaded|installed|found|exist|mounted|there|present|available)"
        r"|missing|\bno(?:t)? such (?:a )?file\b|\bmknod\b.{0,40}not permitted"
        r"|Is gdrdrv driver installed|no /dev/gdrdrv|unable to open GDR",
        r"modprobe|insmod|load|mount",
    ),
    Statement(
        "gdrcopy-version-mismatch",
        r"\bgdrdrv\b|\bgdrcopy\b|libgdrapi",
        r"mismatch|too old|incompatible|different versions?|\d\.\d.{0,60}\bhost\b.{0,40}\d\.\d",
        r"same version",
    ),
    Statement(
        "gdrcopy-built-for-proprietary",
        r"\bgdrdrv\b|\bgdrcopy\b",
        r"built for (?:the )?(?:proprietary|open)|(?:proprietary|open).{0,30}flavou?r",
    ),
    Statement(
        "nvidia-fs-not-loaded",
        r"\bnvidia[-_]fs\b",
        r"not (?:been )?loaded|isn't loaded|missing|not installed",
        r"modprobe|load",
    ),
    Statement("nvidia-fs-symbols-missing", r"\bnvidia[-_]fs\b", r"unknown symbol|missing symbol|undefined"),
    Statement("gds-compat-mode", r"compat(?:ible|ibility)?[ _]mode", r"cufile|GDS|gds", unless="not loaded"),
    # -- AWS, Google
    Statement(
        "efa-gdr-unsupported-instance",
        r"\bEFA\b|\binstances?\b",
        r"(?:not|n't|without|no|lacks?) (?:support|have|offer)\w*.{0,24}\b(?:RDMA|GDR|GPUDirect)\b"
        r"|(?:without|no|lacks?) (?:EFA )?(?:RDMA|GDR|GPUDirect)(?: RDMA)? (?:support|capab|read)",
    ),
    Statement(
        "rdma-transport-not-chosen",
        r"\bEFA\b|libfabric|aws-ofi|\bFI_PROVIDER\b|libnccl-net|\bofi\b",
        r"\b(?:tcp|sockets?|ENA)\b.{0,24}\b(?:provider|is (?:selected|used|chosen)|instead)"
        r"|(?:provider|picks?|uses?|used|selects?|selected|chose|chosen|f[ae]ll(?:s|ing|en)?(?: |-)?back"
        r" (?:to|on)"
        r"|default(?:s|ed|ing)? to|(?:runs?|goes|went|going) (?:over|through|via))\b.{0,24}\b(?:tcp"
        r"|sockets?|ENA)\b"
        r"|\bEFA\b.{0,24}(?:not|n't|never|isn't) (?:being |be |get |getting )?(?:used|selected|chosen"
        r"|picked|detected"
        r"|found|recogni\w+)",
        r"aws-ofi-nccl|FI_PROVIDER=efa",
        unless=r"\bfi_mr_reg|FI_HMEM",
    ),
    Statement(
        "efa-driver-too-old", r"\bEFA (?:kernel )?(?:driver|module|installer)\b", OLD, r"upgrad|newer|update"
    ),
    Statement(
        "efa-p2p-unavailable",
        r"\bEFA\b|\blibfabric\b",
        r"(?:p2p|peer[- ]to[- ]peer).{0,40}(?:not|un)(?: |-)?(?:available|supported)",
    ),
    Statement(
        "libfabric-too-old", r"\blibfabric\b", OLD, r"upgrad|newer|update", r"EFA (?:driver|installer)"
    ),
    Statement(
        "ofi-lacks-hmem",
        r"\bFI_HMEM\b|\blibfabric\b",
        r"without [`\"']?(?:--with-)?(?:CUDA|HMEM)|no (?:CUDA|HMEM) support|lacks? (?:CUDA|HMEM)",
        r"--with-cuda",
    ),
    Statement(
        "ofi-dmabuf-off-by-default", r"OFI_NCCL_DISABLE_DMABUF|FI_\w*DMABUF", _OFF + r"|=\s*1|default"
    ),
    Statement("gdr-disabled-by-env", r"FI_HMEM_DISABLE_P2P|MC_\w*GDR\w*", r"=|set"),
    Statement("gdr-disabled-by-env", r"FI_EFA_USE_DEVICE_RDMA", r"=\s*[\"']?0", r"USE_DEVICE_RDMA"),
    Statement("nvidia-fs-symbols-missing", r"\bNVMe\b", r"NVMe\s*:\s*Unsupported|not registered"),
    Statement("tcpx-rxdm-missing", r"\brxdm\b|TCPX", r"not (?:run|start|reach)|missing|cannot connect"),
    Statement("gcp-devices-missing", r"\bdmabuf_import_helper\b|/dev/\w*tcp\w*", LACKS),
)
"""All rows of this module."""
