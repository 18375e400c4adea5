"""What outputs show that no rule of a node reads: mostly of the commands that gdr asks for.

Each row is one output: the command, if its lines alone do not tell what they are; what it prints if a cause
is there, and the causes. The same output without it, shown whole, excludes them if the row says so.

Sources: the rules, whose `reported_by` names most of these commands; nvidia-smi itself; NVIDIA IMEX guide,
nvidia-imex-ctl; systemctl(1); NVIDIA/DCGM dcgmlib/dcgm_errors.h and dcgmi/Diag.cpp; GDS guide, gdscheck;
libfabric util/info.c; Linux kernel/kallsyms.c; pciutils ls-kernel.c; pci.ids; kmod tools/modprobe.c;
Linux fs/proc/meminfo.c; open-gpu-kernel-modules kernel-open/nvidia/nv-procfs.c; SUSE's kmod;
gpu-driver-container, nvidia-driver; amazon-ec2-utils, ec2-metadata; iputils ping/ping_common.c, finish();
Linux drivers/infiniband/core/sysfs.c, rate_show() and link_layer_show(); binutils nm.c; ldconfig(8).
"""

from __future__ import annotations

from msgspec import Struct

from gdrkit.programs.aws_ofi_nccl.rules import WITHOUT_GDR

EMPTY = r"\A\Z"
"""An output without lines."""


class AskedOutput(Struct, frozen=True, kw_only=True):
    """What an output looks like if a cause is there."""

    codes: tuple[str, ...]
    shows: str  # found in the output; in a line of any output, if there is no command
    command: str = ""  # found in the command line
    decides: bool = False  # it proves the cause
    states: bool = False  # it does not show that anything needs what is missing
    excludes: str = ""  # found in an output that excludes the causes
    beside: str = ""  # of the line above or below: then nobody asked for the line, and it shows nothing
    in_rack: tuple[str, ...] = ()  # its causes instead of them, where the text names a GPU of an NVLink rack


OUTPUTS = (
    AskedOutput(
        codes=("iommu-translating",),
        command=r"\bcat /sys/kernel/iommu_groups/\S+/type",
        shows=r"^DMA(?:-FQ)?$",
        excludes=r"\A(?:identity\s*)+\Z",
        states=True,
    ),
    AskedOutput(
        codes=("iommu-translating",),
        shows=r"\biommu: Default domain type: Translated\b"
        r"|^(?!.*\biommu=(?:pt|off)\b).{0,60}\bBOOT_IMAGE=.*\bintel_iommu=on\b",
        states=True,
    ),
    AskedOutput(
        codes=("acs-redirect",),
        command=r"\blspci\b.*\bgrep\b.*\bACSCtl\b",
        shows=r"\bReqRedir\+",
        excludes=r"\A(?:^[ \t]{0,8}ACSCtl:[^\n]{0,60}\bReqRedir- CmpltRedir- [^\n]{0,80}(?:\n|\Z))+\Z",
        states=True,
    ),
    AskedOutput(
        codes=("acs-redirect",),
        command=r"\blspci\b.*\bgrep (?:-\w+ )?-\w*c\w* .{0,20}\bReqRedir\\?\+",
        shows=r"^[1-9]\d{0,5}$",
        excludes=EMPTY,
        states=True,
    ),
    AskedOutput(
        codes=("gpu-integrated",),  # perftest src/cuda_memory.c: what CUDA says of the GPU that it uses
        shows=r"^CUDA device integrated: 1$",
        excludes=r"^CUDA device integrated: 0$",
        states=True,
    ),
    AskedOutput(
        codes=("operator-module-missing",),
        shows=r"\bperforming userspace-only install\b",
        states=True,
    ),
    AskedOutput(
        codes=("efa-gdr-unsupported-instance",),
        command=r"^ec2-metadata (?:-t|--instance-type)\b",
        shows=rf"^instance-type: {WITHOUT_GDR.pattern}",
        states=True,
    ),
    AskedOutput(
        codes=("no-rdma-device",),
        command=r"^(?:sudo )?lsmod *(?:\| *grep (?:-\w+ )?[\"']?mlx5?[\"']?)?$",
        shows=r"\A(?![\s\S]*^mlx5_ib\b)[\s\S]*^mlx5_core\b",
    ),
    AskedOutput(
        codes=("no-rdma-device", "rdma-device-not-in-container"),
        command=r"^(?:sudo )?ibv_devices$",
        shows=r"\bnode GUID\s+-+\s+-+\s*\Z",
    ),
    AskedOutput(
        codes=("driver-not-loaded",),
        command=r"/proc/driver/nvidia/version",
        shows=r"version'?: No such file",
        excludes=r"NVRM version",
    ),
    AskedOutput(
        codes=("driver-not-loaded",),
        shows=r"^\s*Kernel driver in use: nouveau$",
    ),
    AskedOutput(  # nccl-tests src/common.cu: the GPU of each rank
        codes=("gpu-integrated",),
        shows=r"^#?\s*Rank +\d+ .{0,80} device +\d+ \[[\da-f:]{1,12}\] NVIDIA GB10$",
        decides=True,
    ),
    AskedOutput(
        codes=("gpu-excluded",),
        shows=r"\bGPU Excluded:\s+Yes$",
    ),
    AskedOutput(
        codes=("nic-failed",),
        shows=r"\[?ConnectX-\w+[^\]]* Flash Recovery\]?",
    ),
    AskedOutput(
        codes=("install-override",),
        command=r"\bmodprobe\b.*(?:--show-depends|-D|-v|-n|--dry-run)\b",
        shows=r"^install \S*/(?:true|false)\b",
    ),
    AskedOutput(
        codes=("nvswitch-fabric-down",),
        in_rack=("mnnvl-fabric-incomplete",),
        command=r"\bnvidia-smi -q\b.*\bFabric",
        shows=r"\bState\s*: (?!Completed|N/A)\w|\bStatus\s*: (?!Success|N/A)\w",
        excludes=r"\bState\s*: Completed\s+Status\s*: Success",
    ),
    AskedOutput(
        codes=("nvswitch-fabric-down",),
        command=r"\bsystemctl status \S*fabricmanager",
        shows=r"\bActive: (?:failed|activating)",
    ),
    AskedOutput(
        codes=("nvswitch-fabric-down",),
        command=r"\bsystemctl (?:status|is-active) \S*fabricmanager",
        shows=r"\bActive: inactive|^inactive$",
        states=True,
    ),
    AskedOutput(
        codes=("mnnvl-imex-not-ready",),
        shows=r"^Node #\d+ +[*-] \S+ +[*-] +(?:- )?(?!READY)[A-Z_]{4,}|^\s*Domain State: (?!UP\b)\w+",
        excludes=r"^\s*Domain State: UP$",
    ),
    AskedOutput(
        codes=("link-degraded",),
        shows=r"\bis running at PCI link (?:generation|width) \d+X?, which is below",
    ),
    AskedOutput(
        codes=("nvswitch-fabric-down",),
        shows=r"^\| (?:Fabric Manager|NVSwitch Fabric|Nvlink/NVSwitch) +\| Fail\b",
    ),
    AskedOutput(
        codes=("gpu-mig",),
        command=r"\bnvidia-smi\b.*\bMIG|\bnvidia-smi -q -d MIG",
        shows=r"\bCurrent\s*: Enabled",
        states=True,
    ),
    AskedOutput(
        codes=("gpu-mig",),
        shows=r"^\|\s+\|\s+\|\s+Enabled \|$",
        states=True,
    ),
    AskedOutput(
        codes=("gpu-confidential",),
        command=r"\bnvidia-smi conf-compute -f",
        shows=r"^CC status: ON$",
        states=True,
    ),
    AskedOutput(
        codes=("driver-proprietary",),
        command=r"\bmodinfo (?:-F|--field[ =]) ?license nvidia(?:\.ko\S*)?$",
        shows=r"^NVIDIA$",
        states=True,
    ),
    AskedOutput(  # numbers of attributes: cuda.h, CUdevice_attribute
        codes=("driver-proprietary", "gpu-unsupported"),
        command=r"\bcuDeviceGetAttribute\b",
        shows=r"\(124, 0\)|\bDMA_BUF_SUPPORTED\W{1,12}0\b",
        states=True,
    ),
    AskedOutput(
        codes=("gpu-consumer", "gpu-integrated"),
        command=r"\bcuDeviceGetAttribute\b",
        shows=r"(?!)",
        excludes=r"\(116, 1\)|\bGPU_DIRECT_RDMA_SUPPORTED\W{1,12}1\b",
    ),
    AskedOutput(
        codes=("driver-proprietary",),
        shows=r"^ii  nvidia-dkms-\d+(?:-server)?(?::\w+)? |^kmod-nvidia-(?:latest-)?dkms-\d",
        states=True,
    ),
    AskedOutput(
        codes=("rdma-lacks-peer-api",),
        command=r"\bgrep (?:-\w+ )?[\"']?ib_register_peer_memory_client[\"']? /proc/kallsyms",
        shows=EMPTY,
        excludes=r"\bib_register_peer_memory_client\b",
        states=True,
    ),
    AskedOutput(
        codes=("verbs-lacks-dmabuf", "verbs-library-old"),
        command=r"\bnm -D \S*libibverbs\S* *\| *grep (?:-\w+ )?[\"']?ibv_reg_dmabuf_mr",
        shows=EMPTY,
        excludes=r"\bT ibv_reg_dmabuf_mr\b",
        states=True,
    ),
    AskedOutput(
        codes=("ucx-lacks-cuda",),
        command=r"\bucx_info -\w*d\w* *\| *grep (?:-\w+ )?[\"']?cuda[\"']?$",
        shows=EMPTY,
        excludes=r"\bcuda_copy\b",
    ),
    AskedOutput(
        codes=("ucx-lacks-cuda",),
        shows=r"^# Configured with: .*--without-cuda\b",
    ),
    AskedOutput(
        codes=("ucx-lacks-cuda",),
        command=r"\bucx_info -\w*d\w*(?: *\| *grep (?:-\w+ )?[\"']?(?:Transport|Component)\S*(?: .*)?)?$",
        shows=r"\A(?![\s\S]*cuda)[\s\S]*Component: ib\b",
        states=True,
    ),
    AskedOutput(
        codes=("ucx-lacks-verbs",),
        command=r"\bucx_info -\w*d\w* *\| *grep (?:-\w+ )?[\"']?(?:Component: ib|rc_\w+|mlx5)[\"']?$",
        shows=EMPTY,
        excludes=r"\bComponent: ib\b|\brc_(?:verbs|mlx5)\b",
        states=True,
    ),
    AskedOutput(
        codes=("module-not-found",),
        command=r"\bfind /lib/modules/(?:\$\(uname -r\)|`uname -r`)/? .*-i?name \S*(?:peermem|peer_mem)\S*$",
        shows=EMPTY,
        excludes=r"nvidia[-_]peermem\.ko",
        states=True,
    ),
    AskedOutput(
        codes=("nvidia-fs-not-loaded",),
        command=r"\blsmod *\| *grep (?:-\w+ )?[\"']?nvidia[_-]fs[\"']?$",
        shows=EMPTY,
        excludes=r"^nvidia_fs\s",
        states=True,
    ),
    AskedOutput(
        codes=("gdrcopy-not-loaded",),
        command=r"\bls\b.*/dev/gdrdrv",
        shows=r"/dev/gdrdrv'?: No such file",
        excludes=r"^c[rwx-]{9}.*/dev/gdrdrv$",
        states=True,
    ),
    AskedOutput(
        codes=("mnnvl-imex-channel-missing",),
        command=r"\bls\b.*/dev/nvidia-caps-imex-channels",
        shows=r"imex-channels/?'?: No such file|\A(?:total 0)?\Z",
        excludes=r"\bchannel\d",
        states=True,
    ),
    AskedOutput(
        codes=("kernel-lacks-odp",),
        shows=r"^(?:# ?)?CONFIG_INFINIBAND_ON_DEMAND_PAGING is not set$",
        excludes=r"^CONFIG_INFINIBAND_ON_DEMAND_PAGING=y$",
        states=True,
    ),
    AskedOutput(
        codes=("devmem-header-split-off",),
        command=r"\bethtool -g",
        shows=r"^TCP data split:\s+off$",
        excludes=r"^TCP data split:\s+on$",
        states=True,
    ),
    AskedOutput(
        codes=("libfabric-too-old",),
        shows=r"^libfabric: 1\.(?:\d|1\d|2[01])(?:\.|$)",
        excludes=r"^libfabric: (?:1\.(?:2[2-9]|[3-9]\d)|[2-9])(?:\.|$)",
        states=True,
    ),
    AskedOutput(
        codes=("efa-driver-too-old",),
        command=r"\bmodinfo (?:-F|--field[ =]) ?version efa$",
        shows=r"^(?:[01]\.|2\.(?:\d|1[0-6])\.|2\.17\.[0-2]\b)",
        states=True,
    ),
    AskedOutput(
        codes=("gds-compat-mode",),
        shows=r"^\s*properties\.use_compat_mode : true$",
        excludes=r"^\s*properties\.use_compat_mode : false$",
        states=True,
    ),
    AskedOutput(
        codes=("nvidia-fs-symbols-missing",), states=True,
        shows=r"^\s*NVMe\s+: Unsupported$", excludes=r"^\s*NVMe\s+: Supported$",
    ),
    AskedOutput(
        codes=("nvidia-fs-symbols-missing",),
        command=r"^(?:sudo )?cat /proc/driver/nvidia-fs/modules$",
        shows=r"\A(?![\s\S]*^nvme: 1$)[\s\S]*^\w+: \d$",
        excludes=r"^nvme: 1$",
        states=True,
    ),
    AskedOutput(
        codes=("gds-p2pdma-off",), states=True,
        shows=r"^\s*NVMe P2PDMA\s+: Unsupported$", excludes=r"^\s*NVMe P2PDMA\s+: Supported$",
    ),
    AskedOutput(
        codes=("ibgda-peer-mapping-denied",),
        shows=r"^RegistryDwords: \"(?!.*PeerMappingOverride *= *(?:0x)?0*[1-9a-f])",
        excludes=r"^RegistryDwords(?:PerDevice)?: \".*PeerMappingOverride *= *(?:0x)?0*[1-9a-f]",
        states=True,
        beside=r"^(?!RegistryDwords)[A-Z]\w+: ",
    ),
    AskedOutput(
        codes=("module-unsupported",),
        command=r"\bmodinfo (?:-F|--field[ =]) ?supported \S+$",
        shows=EMPTY,
        excludes=r"\A(?:yes|external)\s*\Z",
        states=True,
    ),
    AskedOutput(
        codes=("memlock-limit",),
        command=r"^ulimit (?:-[HS] )?-[HS]?l$",
        shows=r"(?!)",
        excludes=r"^unlimited$",
    ),
    AskedOutput(
        codes=("memlock-limit",),
        shows=r"(?!)",
        excludes=r"^max locked memory\s+\(kbytes, -l\) unlimited$|^Max locked memory\s+unlimited\b",
    ),
    AskedOutput(  # UCX registers CUDA's type by address only where it finds the file of nvidia-peermem
        codes=("peermem-not-loaded", "ucx-misses-peermem"),
        shows=r"(?!)",
        excludes=r"\bmem_type bit 0x[24] .*\(md reg_mem_types 0x[\da-f]*[2367abef]\)"
        r"|\bfailed to register address 0x[\da-f]+ \(cuda\) .*\(md supports: (?:\S*\|)?cuda[|)]",
    ),
    AskedOutput(  # an address of one link alone at one end, at an index that is another one's at the other
        codes=("gid-index-wrong",),
        shows=r"ibv_modify_qp failed with .*, local GID (?:::ffff:(?!169\.254\.)\S+, remote GID fe80:"
        r"|fe80:\S+, remote GID ::ffff:(?!169\.254\.))",
    ),
    AskedOutput(
        codes=("no-rdma-device", "rdma-device-not-in-container", "no-efa-device"),
        shows=r"(?!)",
        excludes=r"^provider: efa$",
    ),
    AskedOutput(
        codes=("no-efa-device",), command=r"\bfi_info -p efa\b", shows=r"^fi_getinfo: -61\b",
    ),
    AskedOutput(  # an answer may have come over another interface
        codes=("rail-unreachable",), states=True,
        shows=r"^\d{1,6} packets transmitted, 0 received,.{0,30} 100% packet loss\b",
    ),
    AskedOutput(
        codes=("retry-exceeded",), command=r"\brdma statistic\b", states=True,
        shows=r"\b(?:out_of_sequence|packet_seq_err|local_ack_timeout_err|rnr_nak_retry_err) [1-9]",
    ),
    AskedOutput(
        codes=("verbs-library-missing",), command=r"\bldconfig -p *\| *grep (?:-\w+ )?[\"']?libibverbs\b",
        shows=EMPTY, excludes=r"\blibibverbs\.so\.1\b", states=True,
    ),
    AskedOutput(
        codes=("umad-device-missing",), command=r"^(?:sudo )?ls (?:-\w+ )?/dev/infiniband/?$", states=True,
        shows=r"\A(?![\s\S]*\bumad\d)[\s\S]*\buverbs\d", excludes=r"\A(?=[\s\S]*\bissm\d)[\s\S]*\bumad\d",
    ),
    AskedOutput(
        codes=("gcp-devices-missing",), command=r"/proc/driver/nvp2p_dma_buf", states=True,
        shows=r"nvp2p_dma_buf'?: No such file",
    ),
    AskedOutput(
        codes=("lock-inversion",), command=r"\bcat \S+/nvidia_peermem/parameters/peerdirect_support$",
        shows=r"^1$", excludes=r"\A0\s*\Z", states=True,
    ),
    AskedOutput(
        codes=("nccl-skips-efa",), command=r"\bcat /sys/class/infiniband/\S+/link_layer$",
        shows=r"^Unspecified$", states=True,
    ),
    AskedOutput(
        codes=("port-on-one-lane",), command=r"\bcat /sys/class/infiniband/\S+/rate$",
        shows=r"^[\d.]+ Gb/sec \(1X ", excludes=r"\A(?:[\d.]+ Gb/sec \((?!1X)\d+X \w+\)\s*)+\Z", states=True,
    ),
    AskedOutput(
        codes=("port-slower-than-others",), command=r"\bcat /sys/class/infiniband/\S+/rate$", states=True,
        shows=r"\A([\d.]+ Gb/sec .*)\n(?:\1\n)*(?!\1)[\d.]+ Gb/sec ", excludes=r"\A(.+)(?:\n\1)+\s*\Z",
    ),
    AskedOutput(
        codes=("torch-expandable-segments",), states=True,
        shows=r"^PYTORCH_(?:CUDA_)?ALLOC_CONF=\S*\bexpandable_segments:True\b",
    ),
    AskedOutput(codes=("mooncake-forces-peermem",), states=True, shows=r"^WITH_NVIDIA_PEERMEM=1$"),
    AskedOutput(codes=("mooncake-forces-dmabuf",), states=True, shows=r"^WITH_NVIDIA_PEERMEM=0$"),
    AskedOutput(
        codes=("module-unsupported",), command=r"\bmodprobe -c\b.*\ballow_unsupported_modules",
        shows=r"^allow_unsupported_modules 0$", excludes=r"^allow_unsupported_modules 1$", states=True,
    ),
    AskedOutput(
        codes=("driver-ignores-peer-memory",), command=r"\bnm -u \S+\.ko\S*$", states=True,
        shows=r"\A(?![\s\S]*\bib_umem_get_peer\b)[\s\S]*\bU ib_umem_get$",
        excludes=r"\bU ib_umem_get_peer$",
    ),
)  # fmt: skip
