"""How people say that a program's own condition is not met, or that a setting is the cause."""

from __future__ import annotations

from gdrkit.explain.statement_rows import DMABUF, LACKS, OLD, PEERMEM, Statement

PROGRAMS = (
    Statement(
        "nccl-misses-peermem",
        r"\bNCCL\b",
        PEERMEM + r".{0,120}(?:not|n't|only|never|fail).{0,40}|(?:not|n't|only|never).{0,60}(?:check|detect"
        r"|see|find|look|recogni)"
        r".{0,60}(?:" + PEERMEM + r"|memory_peers)",
        r"memory_peers|nv_mem\b|nvidia_peermem/version",
        unless=r"NVSHMEM|\bUCX\b|not (?:been )?loaded",
    ),
    Statement(
        "nvshmem-misses-peermem",
        r"\bNVSHMEM\b",
        PEERMEM + r".{0,120}(?:not|n't|never|fail)|(?:not|n't|never).{0,60}(?:" + PEERMEM + ")",
    ),
    Statement(
        "ucx-misses-peermem",
        r"\bUCX\b|\bib_md\b",
        PEERMEM + r".{0,120}(?:not|n't|never|fail)|(?:not|n't|never).{0,60}(?:" + PEERMEM + ")",
    ),
    Statement(
        "ucx-lacks-dmabuf",
        r"\bUCX\b",
        DMABUF + r".{0,60}(?:" + LACKS + "|since|" + OLD + r")|(?:not|n't|without|lacks?)\b.{0,24}" + DMABUF,
    ),
    Statement(
        "nccl-lacks-dmabuf",
        r"\bNCCL\b",
        r"(?:" + OLD + r").{0,60}(?:" + DMABUF + ")",
        unless="kernel|driver",
    ),
    Statement(
        "versions-differ-between-ranks",
        r"\bNCCL\b|versions?\b",
        r"different (?:NCCL )?versions? (?:of NCCL|on|between)"
        r"|(?:nodes|hosts|ranks|machines|servers|containers|pods)\b.{0,24}\bdifferent\b.{0,24}\bversions?"
        r"|\bNCCL (\d+\.\d+)\S* .{0,40}\b(?:and|but|vs)\b.{0,24} (?!\1)2\.\d+|versions? (?:differ"
        r"|mismatch)\w*"
        r" (?:between|on|across)\b.{0,40}?\b(?:ranks?|nodes?|hosts?|machines?|servers?|workers?|pods?"
        r"|containers?|images?)\b",
        unless=r"regression|introduced|bisect",
    ),
    Statement(
        "perftest-tests-other-path",
        r"\buse_cuda",
        r"(?:not|n't|without|missing|forgot\w*|instead of)\b.{0,60}use_cuda_dmabuf"
        r"|use_cuda_dmabuf.{0,40}\b(?:needed|required|missing)",
        r"use_cuda_dmabuf",
    ),
)

SETTINGS = (
    Statement(
        "gdr-level-pxb-on-c2c",
        r"\bNCCL_NET_GDR_LEVEL\b",
        r"(?:PXB|PIX)\b.{0,60}(?:Grace|C2C|GB200|GH200)|P2C",
    ),
    Statement("gdr-level-ignored", r"\bNCCL_NET_GDR_LEVEL\b", r"ignored|invalid value|not understood"),
    Statement(
        "gin-nics-fused",
        r"\bGIN\b|NCCL_IB_MERGE_NICS",
        r"\bfused\b|\bmerged\b|joined",
        r"MERGE_NICS",
    ),
    Statement("gds-p2pdma-off", r"(?:\b|_)P2PDMA\b", LACKS + r"|disabled|\boff\b", r"use_pci_p2pdma"),
    Statement(
        "ib-disabled-by-env",
        r"\bNCCL_IB_DISABLE\b",
        r"NCCL_IB_DISABLE\W{0,3}(?:=|:)\s*[\"']?1|(?:set|is|was) (?:to )?[\"'`]?1\b|\bdisables\b",
    ),
    Statement(
        "ib-disabled-by-env",
        r"\bNCCL_NET\b",
        r"NCCL_NET[\"'\]]{0,3}\s*=\s*[\"']?Socket(?![\w,])",
    ),
    Statement(
        "dmabuf-disabled-by-env",
        r"\b(?:NCCL|NVSHMEM_IB|UCX_IB)_(?:DMABUF|DMA_BUF|GPU_DIRECT)\w*",
        r"=\s*[\"']?(?:0|n\b|no\b|false)",
    ),
    Statement(
        "gdr-level-too-low",
        r"\bNCCL_NET_GDR_LEVEL\b",
        r"=\s*[\"']?(?:0|LOC|PIX|PXB)\b|too (?:low|strict|small)",
        r"NCCL_NET_GDR_LEVEL\W{0,3}(?:=|to)\s*[\"']?(?:SYS|PHB|NODE|\d)",
        unless=r"disabl\w* (?:direct|GDR|GPU)|works|\bfine\b|\u7981\u7528|\u6b63\u5e38",
    ),
    Statement(
        "gdr-read-off",
        r"\bNCCL_NET_GDR_READ\b",
        r"=\s*[\"']?0|\boff\b|default",
        r"NCCL_NET_GDR_READ\W{0,3}(?:=|to)\s*[\"']?1",
    ),
    Statement(
        "gid-index-wrong",
        r"\bGIDs?(?:[ _]ind(?:ex|ices))?\b|\w*GID_IND\w+",
        r"wrong|incorrect|invalid|not (?:valid|exist|match|routable|reach)|mismatch"
        r"|\bv1\b(?!.{0,30}(?:works|fine))"
        r"|link[- ]local|can(?:not|'t) reach",
        r"GID_IND\w*|\bGID index\b",
        unless=r"\bGRH\b|\bsgid_index\b",
    ),
    Statement(
        "hca-not-selected",
        r"\bNCCL_IB_HCA\b|UCX_NET_DEVICES",
        r"wrong|not (?:include|list|select)|leaves? out|excludes?|incorrect|typo|\bonly\b.{0,24}\b(?:\d+"
        r"|one|two|half)\b"
        r"|(?:does|did|do)(?: not|n't) exist|missing|misses",
        r"NCCL_IB_HCA|UCX_NET_DEVICES",
    ),
    Statement(
        "gpu-shared-by-ranks",
        r"\b(?:ranks?|process(?:es)?|workers?|local_rank|set_device|CUDA_VISIBLE_DEVICES)\b",
        r"(?:\b(?:both|all|two|several|multiple)\b.{0,60}\b(?:same|one|single|cuda:0|GPU ?0|device ?0)\b"
        r"|\b(?:every|each)\b.{0,60}\b(?:same|cuda:0|GPU ?0|device ?0)\b)"
        r"(?=.{0,16}(?:GPU|device|card|$|[.;,]))|\b(?:on|share|using|use|used"
        r"|(?<!access )to) (?:the same|one|a"
        r" single)[- ]GPU\b"
        r"|forgot.{0,24}set_device|duplicate GPU",
        r"set_device|local_rank",
        unless=r"\bNICs?\b|\bHCA|MIG|\bMPS\b",
    ),
    Statement(
        "env-differs-between-ranks",
        r"\b(?:env\w*|variables?|settings?|NCCL_[A-Z_]+)\b",
        r"(?:differ\w*|not the same) (?:between|on|across) (?:the )?(?:ranks?|nodes?|hosts?|workers?)"
        r"|(?:ranks?|nodes?|hosts?|workers?)\b.{0,24}(?:not|n't|never) (?:get|see|receive|inherit|have)"
        r" (?:the )?(?:NCCL_"
        r"|env|variab|setting)"
        r"|only (?:\w+ )?(?:on|in) (?:the )?(?:head|master|first|launch\w*|rank 0)\b",
    ),
    Statement(
        "retry-exceeded",
        r"(?<!RNR_)(?<![^\W_])RETRY_EXC(?:_ERR)?\b|(?<!RNR )retry (?:counter |count )?(?:was |were |has"
        r" been |is )?exceeded"
        r"|\bvendor[ _]err(?:or)? 129\b|\bstatus[= :]{1,3}12\b",
    ),
    Statement(
        "operator-module-missing",
        r"\bgpu[- ]operator\b|\bdriver (?:daemonset|container|pod)\b|nvidia-(?:peermem|driver)-ctr",
        context=True,
    ),
    Statement(
        "operator-module-missing",
        r"\b(?:driver|peermem)\b.{0,80}\b(?:containers?|pods?|sidecar)\b|userspace-only|fast path",
        r"(?:empty|not found|missing|skip|never be loaded|userspace-only).{0,80}|/lib/modules",
    ),
    Statement(
        "operator-stub",
        r"\b(?:gpu[- ]operator|driver container)\b",
        r"(?:" + PEERMEM + r").{0,60}(?:stub|invalid argument)",
    ),
    Statement(
        "operator-waits-for-ofed", r"waiting for mellanox ofed|\bwaits? for (?:the )?(?:MOFED|OFED)\b"
    ),
    Statement(
        "operator-ofed-changed",
        r"\b(?:MOFED|OFED|DOCA)[- ]?(?:driver )?(?:container|pod)\b",
        r"restart|upgrad|replac|updat|reload",
        unless=PEERMEM,
    ),
    Statement("talos-no-peermem", r"\btalos\b.{0,120}" + PEERMEM + "|" + PEERMEM + r".{0,120}\btalos\b"),
)

OTHERS = (
    Statement(
        "ibgda-cpu-assisted",
        r"\bIBGDA\b|\bdoorbells?\b",
        r"\bCPU[- ](?:assisted|proxy|fallback|thread)|by the (?:CPU|processor|host)\b",
    ),
    Statement(
        "nic-buffers-not-mappable",
        r"\b(?:QPs?|queues?|control buffers?|CQs?|UMEM)\b",
        r"(?:not|n't|cannot|fail\w*)\b.{0,60}\bGPU memory|GPU memory\b.{0,60}(?:not|n't|cannot|fail)",
        unless=r"ibv_reg_mr",
    ),
    Statement(
        "efa-peermem-proprietary-driver",
        r"\befa_nv_peermem\b",
        r"proprietary|closed|open (?:kernel )?(?:driver|modules)",
    ),
    Statement(
        "proof-misread",
        r"DMA-?BUF is available|GPU Direct RDMA Enabled|\bGDRDMA\b|ib_write_bw",
        r"(?:does|do|did)(?: not|n't) (?:prove|mean|imply|show (?:that|whether|if))"
        r"|although GDR is (?:disabled|off)"
        r"|GDR_READ.*misread",
    ),
    # -- NVSHMEM, DeepEP, NCCL's device API
    Statement(
        "ibgda-peer-mapping-denied",
        r"PeerMappingOverride|NVreg_EnableStreamMemOPs|\bdoorbell\b|\bUARs?\b|cuMemHostRegister",
        r"fail|denied|not permitted|cannot|could not|not mapp|solved|fixed|(?:not|n't|never) (?:been )?set"
        r"|missing"
        r"|without|forgot|required|needed",
        r"PeerMappingOverride|NVreg_EnableStreamMemOPs",
    ),
    Statement(
        "nic-not-mlx5",
        r"\bIBGDA\b|\bNVSHMEM\b",
        r"\b(?:only|requires?|needs?)\b.{0,40}\bmlx5\b|not an? mlx5",
    ),
    Statement(
        "nic-atomics-off",
        r"PCI_ATOMIC_MODE|\batomics?\b.{0,30}(?:NIC|firmware|HCA)",
        r"off|disabled|not|=\s*0",
        r"=",
    ),
    Statement("gin-unavailable", r"\bGIN\b", r"unavailable|not (?:supported|available)|disabled"),
    Statement(
        "gin-library-mismatch",
        r"\bNCCL\b|\bNVSHMEM\b",
        r"(?:built|compiled) (?:with|against) (?:another|a different|a newer|an older)",
    ),
    # -- UCX, NIXL, Mooncake, PyTorch
    Statement(
        "ucx-lacks-cuda",
        r"\bUCX\b|ucx_info|--without-cuda",
        r"(?:\b(?:without|no|lacks?|lacking|not)\b|n't\b).{0,24}\b(?:CUDA|cuda_copy|gdr_copy)\b"
        r"|\bCPU[- ](?:only|build"
        r"|version)"
        r"|\bnon-CUDA\b|grep.{0,6}cuda.{0,30}\b(?:nothing|empty|no output|no result)"
        r"|\bCUDA\b.{0,40}(?:not|n't|missing)\b.{0,20}(?:discover|found|load|enabled|built|detect"
        r"|support)"
        r"|\bcuda_(?:copy|ipc)\b.{0,40}(?:\bnot|n't|\bun)(?: be)? ?(?:available|found|listed)|"
        r"\bmissing\b.{0,40}\bcuda_(?:copy|ipc)\b",
        r"with-cuda|\bwith CUDA\b|CUDA[- ](?:enabled|aware)",
        r"transport|failure handler",
    ),
    Statement(
        "ucx-transport-excluded",
        r"\bUCX_TLS\b|\bUCX_NET_DEVICES\b",
        r"excludes?|leaves? out|not list|without (?:rc|dc|ib|cuda)|lacks?\b"
        r"|UCX_TLS[\"'\]]{0,3}\s*(?:=|to|is)\s*[\"'`]?(?:tcp|self|sm|shm|posix)(?:,(?:tcp|self|sm|shm|posix"
        r"|cma))*(?![\w,])"
        r"|UCX_NET_DEVICES[\"'\]]{0,3}\s*(?:=|to|is)\s*[\"'`]?(?:eth|en[ops]|bond|lo\b|docker)\w*",
        r"UCX_TLS\b.{0,12}(?:rc|cuda|all|ib)\w*|UCX_NET_DEVICES\b.{0,12}mlx|unset UCX_TLS"
        r"|UCX_TLS\b.{0,20}unset",
        unless=r"-x .{0,80}-x |mpirun|perftest",
    ),
    Statement(
        "rdma-transport-not-chosen",
        r"\b(?:Mooncake|NIXL|transfer engine|UCX|libfabric)\b",
        r"(?:uses?|chose|f[ae]ll(?:s|ing|en)? ?back (?:to|on)|via|over) (?:the )?TCP\b"
        r"|\bTCP (?:is |was |being |gets )+(?:selected|chosen|used|taken)",
    ),
    Statement(
        "mooncake-forces-peermem",
        r"\bMooncake\b",
        r"(?:only|needs?|requires?)\b.{0,80}(?:" + PEERMEM + r"|ibv_reg_mr)|WITH_NVIDIA_PEERMEM",
    ),
    Statement(
        "torch-expandable-segments",
        r"expandable[_ ]segments",
        r"true|fail|cannot|not|enabled|caus",
        r"expandable",
    ),
    Statement(
        "vmm-not-rdma-capable",
        r"\bcuMemCreate\b|gpuDirectRDMACapable|\bVMM\b",
        r"(?:without|not|n't|no|lacks?|missing)\b.{0,40}gpuDirectRDMACapable|not RDMA[- ]capable"
        r"|gpuDirectRDMACapable\b.{0,24}(?:\b0\b|not|n't|unset|missing|false)",
        r"gpuDirectRDMACapable",
    ),
    # -- libraries
    Statement(
        "verbs-library-missing",
        r"\blibibverbs(?:\.so\S*|1)?\b",
        r"(?:\black(?:s|ing| of)?|missing|without|\bno|cannot open|fail\w* to open"
        r"|(?:not|n't) (?:include|contain|ship|have|find))\b(?! which).{0,60}?\blibibverbs"
        r"|\b(?:not|n't|never)\b.{0,60}\b(?:unless|until|without)\b.{0,24}\blibibverbs"
        r"|(?:\u6ca1\u6709|\u672a|\u7f3a\u5c11).{0,6}libibverbs|libibverbs.{0,8}(?:\u6ca1\u6709|\u672a)"
        r"|\blibibverbs.{0,60}?(?:missing|(?:not|n't) (?:be )?(?:installed|found)|cannot open)\b",
        r"install|apt|dnf|yum",
        r"ibv_reg_dmabuf|dma-?buf|symbol|version|too old|libibverbs (?:driver|provider|plugin)"
        r"|(?:driver|provider|plugin)s? (?:for|of) libibverbs",
    ),
    Statement(
        "verbs-library-missing",
        r"\b(?:infiniband|rdma|ib ?verbs)(?:[- ]core)? (?:dependenc\w+|librar\w+|packages?"
        r"|user[- ]?space)\b",
        r"\bmissing\b|\black(?:s|ed|ing)?\b|\bwithout\b|(?:not|n't) (?:be |been )?(?:installed"
        r"|included|shipped)",
        r"install|add",
    ),
    Statement(
        "verbs-provider-mismatch",
        r"\blibibverbs\b|\bibv_dev(?:info|ices)\b|\brdma-core\b",
        r"\bproviders?\b.{0,60}(?:(?:not|n't) (?:be |been )?(?:staged|installed|found|present|mounted"
        r"|shipped"
        r"|included|there)|\bmissing|\b(?:newer|older) than\b)"
        r"|\b(?:missing|lacks?|rejects?|rejected|without)\b.{0,30}\bproviders?\b",
        unless=r"libfabric|\bFI_",
    ),
    Statement(
        "verbs-provider-mismatch",
        r"\blibmlx5\b|\brdma-core\b|\blibibverbs\b|\bperftest\b|IBVERBS_PRIVATE",
        r"mismatch|differ|not from|IBVERBS_PRIVATE|another version"
        r"|version\b.{0,40}\b(?:container|image)\b.{0,60}\b(?:kernel|host)",
        r"same version",
    ),
    Statement(
        "mkeys-exhausted",
        r"\bmkeys?\b|memory keys?\b|CREATE_MKEY",
        r"exhaust|no (?:space|room|more)|limit|run(?:s|ning)? out|too many",
    ),
)
"""Conditions of single programs."""

PROGRAM_STATEMENTS = (*PROGRAMS, *SETTINGS, *OTHERS)
