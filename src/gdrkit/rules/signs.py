"""What would tell one cause of a line from another: a command, and what it shows if that is the cause. PURE.

Only for causes that some line leaves open. `{module}` and `{file}` are the module that the line names, with
underscores and with dashes. The sources are those of the rules that bear the codes.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

DMESG = "sudo dmesg | grep -iE 'peermem|nvrm|module|lockdown|elf'"
SMI = "nvidia-smi -q"
MODINFO = "modinfo {file}"
LSMOD = "lsmod | grep -E 'peer_?mem'"
PODS = "kubectl logs -n gpu-operator -l app=nvidia-driver-daemonset -c nvidia-peermem-ctr --tail=-1"
DEVINFO = "ibv_devinfo"
DMABUF = "gdr probe verbs"
NCCL_VERSION = "NCCL_DEBUG=VERSION, set for the job"


class Sign(Struct, frozen=True):
    """A command, and what it shows where the cause is this one."""

    command: str
    shows: str


def _dmesg(shows: str) -> Sign:
    return Sign(DMESG, shows)


SIGNS: Mapping[str, tuple[Sign, ...]] = {
    # -- a module that does not load -------------------------------------------------------------------
    "peermem-stub": (
        Sign(MODINFO, "an empty `depends:`"),
        _dmesg("nothing of {module} but taint, if it reaches back far enough"),
    ),
    "module-crc-mismatch": (_dmesg("`{module}: disagrees about version of symbol ...`"),),
    "module-symbol-namespace": (_dmesg("`{module}: module uses symbol (...) from namespace ...`"),),
    "module-bad-parameter": (
        _dmesg("`invalid for parameter`, or `invalid ... param value`"),
        Sign("modprobe -c | grep {module}", "`options {module} ...` with a value that it does not take"),
    ),
    "peermem-registration-refused": (
        _dmesg("`error while registering ... client`"),
        Sign(LSMOD, "nv_peer_mem"),
    ),
    "module-corrupt": (
        _dmesg("`Invalid ELF ...`, or `No module found in object`"),
        Sign(MODINFO, "an error"),
    ),
    "install-override": (Sign("modprobe --show-depends {module}", "a line that begins with `install`"),),
    "dependency-failed": (_dmesg("a complaint of another module that it needs: nvidia, ib_core"),),
    "init-failed": (_dmesg("a complaint of {module} itself, in words of its own"),),
    "module-wrong-kernel": (_dmesg("`version magic ... should be ...`, or `symbol module_layout`"),),
    "module-symbol-duplicate": (_dmesg("`{module}: exports duplicate symbol ...`"),),
    "module-symbol-missing": (
        _dmesg("`{module}: Unknown symbol ... (err -2)`"),
        Sign("grep -w ib_register_peer_memory_client /proc/kallsyms", "nothing"),
    ),
    "module-symbol-gpl-only": (
        _dmesg("`{module}: module license '...' taints kernel`, then `Unknown symbol ... (err -2)`"),
        Sign("grep -w ib_register_peer_memory_client /proc/kallsyms", "the symbol: somebody exports it"),
    ),
    "module-not-found": (Sign("modinfo -n {file}", "`Module {file} not found`"),),
    "module-unsigned": (Sign(MODINFO, "no `signer:`"), _dmesg("`Loading of unsigned module is rejected`")),
    "module-unknown-key": (
        _dmesg("`Loading of module with unavailable key is rejected`"),
        Sign(MODINFO, "a `signer:` that `mokutil --list-enrolled` and .builtin_trusted_keys do not hold"),
    ),
    "module-signature-broken": (
        _dmesg("nothing about keys: a signature that is wrong is refused in silence"),
    ),
    "module-key-revoked": (Sign("mokutil --list-enrolled --mokx", "the signer's certificate"),),
    "lockdown-blocks-module": (_dmesg("`Lockdown: modprobe: unsigned module loading is restricted`"),),
    "module-blacklisted": (_dmesg("`Module {module} is blacklisted`"),),
    "modules-disabled": (Sign("cat /proc/sys/kernel/modules_disabled", "1"),),
    # -- GPU memory that cannot be registered ----------------------------------------------------------
    "peermem-not-loaded": (Sign(LSMOD, "nothing"),),
    "legacy-nv-peer-mem": (Sign(LSMOD, "nv_peer_mem"),),
    "gpu-integrated": (Sign(SMI, "`Product Name: NVIDIA GB10`, or a frame buffer of N/A"),),
    "gpu-consumer": (Sign(SMI, "`Product Name` with GeForce or TITAN"),),
    "gpu-unsupported": (Sign("gdr probe cuda", "attribute 116 (GPU_DIRECT_RDMA_SUPPORTED) = 0"),),
    "gpu-vgpu": (Sign(SMI, "`Virtualization Mode: VGPU`"),),
    "gpu-confidential": (Sign(SMI, "`Conf Compute Protected Memory Usage` above 0"),),
    "gpu-mig": (Sign(SMI, "`MIG Mode: Current: Enabled`"),),
    "wsl": (Sign("uname -r", "`microsoft` in the kernel's release"),),
    "gpu-before-turing": (Sign(SMI, "`Product Architecture`: Volta, Pascal or older"),),
    "bar1-exhausted": (
        Sign(SMI, "`BAR1 Memory Usage: Free` of 36 MiB or less, or little against what is registered"),
        _dmesg("`no space for BAR1 mappings`"),
    ),
    "memory-not-registrable": (
        Sign("gdr probe cuda", "plain cudaMalloc memory goes through: then it is the kind of memory"),
    ),
    "memlock-limit": (Sign("ulimit -l", "a number, not `unlimited`, in the shell or pod that fails"),),
    "topology-refused": (
        _dmesg("`PCI topology not supported for dma-buf`, or error -524, on 580.65.06 or newer"),
    ),
    "driver-proprietary": (Sign("cat /proc/driver/nvidia/version", "no `Open Kernel Module`"),),
    "driver-not-loaded": (Sign("cat /proc/driver/nvidia/version", "`No such file or directory`"),),
    "driver-mismatch": (Sign("cat /proc/driver/nvidia/version", "another version than the libraries have"),),
    "kernel-lacks-dmabuf": (Sign(DMABUF, "EOPNOTSUPP (95), with a libibverbs that has ibv_reg_dmabuf_mr"),),
    "kernel-lacks-odp": (Sign("grep ON_DEMAND_PAGING /boot/config-$(uname -r)", "`is not set`"),),
    "verbs-lacks-dmabuf": (Sign(DMABUF, "no ibv_reg_dmabuf_mr in the libibverbs that is loaded"),),
    "dmabuf-mr-refused": (
        Sign(DMABUF, "EINVAL, EOPNOTSUPP or EPROTONOSUPPORT for one device, not for others"),
    ),
    # -- NCCL ------------------------------------------------------------------------------------------
    "nccl-misses-peermem": (Sign(NCCL_VERSION, "a version before 2.23.4, while nvidia_peermem is loaded"),),
    "nccl-lacks-dmabuf": (Sign(NCCL_VERSION, "a version before 2.13.4"),),
    "dmabuf-disabled-by-env": (Sign("env | grep NCCL, in the job", "NCCL_DMABUF_ENABLE=0"),),
    "gdr-level-too-low": (
        Sign("env | grep NCCL, in the job", "NCCL_NET_GDR_LEVEL below the pair's distance"),
    ),
    "hca-not-selected": (Sign("env | grep NCCL, in the job", "NCCL_IB_HCA without the device"),),
    "pair-distant": (Sign("nvidia-smi topo -m", "PHB or NODE between GPU and NIC"),),
    "pair-cross-socket": (Sign("nvidia-smi topo -m", "SYS between GPU and NIC"),),
    "acs-redirect": (Sign("sudo lspci -vvv | grep -i acsctl", "ReqRedir+ on a bridge above GPU or NIC"),),
    "iommu-translating": (Sign("cat /sys/kernel/iommu_groups/*/type", "DMA or DMA-FQ"),),
    "gid-index-wrong": (Sign("show_gids", "no RoCE v2 entry at NCCL_IB_GID_INDEX"),),
    "no-rdma-device": (Sign(DEVINFO, "`No IB devices found`, on the host"),),
    "rdma-device-not-in-container": (Sign(DEVINFO, "devices on the host, none in the container"),),
    "port-down": (Sign(DEVINFO, "`PORT_DOWN`"),),
    "iommu-groups-differ": (Sign("rdma_topo check", "GPU and the NIC's DMA function in two groups"),),
    # -- Kubernetes ------------------------------------------------------------------------------------
    "operator-stub": (
        _dmesg("nothing of nvidia_peermem; its container: `Invalid argument`"),
        Sign(PODS, "`Invalid argument`"),
    ),
    "operator-ofed-changed": (_dmesg("`nvidia_peermem: disagrees about version of symbol`"),),
    "operator-module-missing": (Sign(PODS, "`Module nvidia-peermem not found in directory`"),),
    "operator-waits-for-ofed": (
        Sign(PODS, "`waiting for mellanox ofed ...`, and nothing after it"),
        Sign("kubectl get nicclusterpolicy -A", "none, with driver.rdma.useHostMofed false"),
    ),
}
"""By code, the best sign first."""


def fill(text: str, module: str) -> str:
    """A command or a sign, for a module."""
    name = module or "nvidia_peermem"
    return text.replace("{module}", name).replace("{file}", name.replace("_", "-"))
