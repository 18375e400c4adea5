"""The glossary: terms in the output of gdrkit, each explained in a sentence or two."""

from __future__ import annotations

from msgspec import Struct

from gdrkit.facts.gpu_ids import is_supported_model


class Term(Struct, frozen=True):
    """One term. `also` lists other spellings that `gdr codes WORD` accepts."""

    name: str
    text: str
    short: str = ""  # a few words, shown where `gdr doctor` first uses the term; empty if it needs none
    also: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()  # codes whose pages explain more


GLOSSARY = (
    Term(
        "ACS",
        "Access Control Services: bits in a PCIe port that send traffic between two devices up to the "
        "root complex, where the IOMMU checks it, instead of straight across the switch. Virtual "
        "machines need that; on bare metal it costs bandwidth.",
        short="a check that sends PCIe traffic through the CPU",
        also=("access-control-services",),
        codes=("acs-redirect",),
    ),
    Term("active", "State of a path: seen in use on this machine."),
    Term(
        "ATS",
        "Address Translation Services: a PCIe device asks the IOMMU for translations in advance and "
        "caches them.",
        short="lets a device ask for address translations in advance",
        also=("address-translation-services",),
    ),
    Term(
        "BAR1",
        "The window in PCIe address space through which other devices reach GPU memory. Memory "
        "outside of it, or beyond its size, cannot be registered with a NIC.",
        short="the window through which a NIC reaches GPU memory",
        also=("bar",),
        codes=("bar1-small", "bar1-exhausted"),
    ),
    Term(
        "blocked",
        "State of a path: something stops it that can be fixed. Every blocker is listed.",
    ),
    Term(
        "bundle",
        "An archive written by `gdr collect`: all evidence about a node. Every command that accepts a "
        "node accepts a bundle.",
    ),
    Term(
        "C2C",
        "NVLink-C2C: the link between CPU and GPU in one package, as in GH200, GB200 and GB10.",
    ),
    Term(
        "CDMM",
        "Coherent Driver-based Memory Management: the NVIDIA driver keeps the memory of a coherent "
        "GPU to itself instead of adding it to the kernel as a NUMA node.",
        codes=("gpu-cdmm",),
    ),
    Term(
        "coherent GPU",
        "A GPU whose memory the CPU reads and writes with cache coherence over NVLink-C2C (GH200, GB200).",
        also=("coherent",),
    ),
    Term(
        "consumer",
        "A program that sends GPU memory over the network: nccl, ucx, verbs, nvshmem, deepep, nccl-gin, "
        "nixl, mooncake, mnnvl. Each uses its own checks, so each has its own verdict.",
    ),
    Term(
        "CRC",
        "The checksum of a kernel symbol's type (modversions). A module and the kernel must agree on "
        "it, or the module is refused: `disagrees about version of symbol`.",
        also=("modversions",),
        codes=("module-crc-mismatch",),
    ),
    Term(
        "Data Direct",
        "A second PCIe function of a ConnectX-8, closer to the GPU, through which it reads GPU memory.",
        codes=("data-direct-missing",),
    ),
    Term(
        "direct path",
        "dmabuf or peermem: the NIC reads and writes GPU memory itself.",
        also=("direct",),
    ),
    Term(
        "DKMS",
        "Dynamic Kernel Module Support: rebuilds modules such as NVIDIA's or OFED's for each new kernel.",
        codes=("ofed-multiple-dkms",),
    ),
    Term(
        "dma-buf",
        "The kernel's mechanism for sharing memory between devices, and the preferred direct path: the GPU "
        "driver exports a buffer, the RDMA driver imports it. Needs NVIDIA's open kernel modules and "
        "Linux 5.12 or newer; nvidia-peermem is not needed.",
        short="the kernel's way to share GPU memory with a NIC",
        also=("dmabuf",),
        codes=("driver-proprietary", "kernel-lacks-dmabuf", "verbs-lacks-dmabuf"),
    ),
    Term(
        "EFA",
        "Elastic Fabric Adapter: the RDMA device of AWS. NCCL reaches it through libfabric and the "
        "plugin aws-ofi-nccl.",
    ),
    Term(
        "fallback",
        "A path that copies through host memory: host-mapped, staged or socket.",
    ),
    Term(
        "GDR level",
        "NCCL_NET_GDR_LEVEL: the greatest distance between GPU and NIC at which NCCL still goes "
        "directly (LOC, PIX, PXB, P2C, PXN, PHB, SYS).",
        also=("gdr-level", "NCCL_NET_GDR_LEVEL"),
        codes=("gdr-level-too-low", "gdr-level-ignored"),
    ),
    Term(
        "GDRDMA",
        "End of a channel line in NCCL's log, as in `[send] via NET/IB/0/GDRDMA`: this direction of this "
        "channel carries GPU memory directly. A line without it means a copy in host memory. Only these "
        "lines show which path was taken; NCCL_DEBUG=INFO prints them, and `gdr nccl` counts them.",
        also=("/GDRDMA",),
        codes=("proof-misread", "send-needs-nvlink", "gdr-level-too-low"),
    ),
    Term(
        "GID",
        "Global identifier: the address of an RDMA port. On RoCE a port has one per IP address and version.",
        short="the address of an RDMA port",
    ),
    Term(
        "GPUDirect RDMA",
        "A NIC reads and writes GPU memory without a copy in host memory.",
        also=("gdr", "gpudirect", "gpudirect-rdma"),
    ),
    Term(
        "HCA",
        "Host Channel Adapter: an RDMA device, such as mlx5_0.",
        also=("rdma device",),
    ),
    Term(
        "host-mapped",
        "Path: GPU and NIC share pinned host memory. On an integrated GPU this is as good as direct; "
        "elsewhere every byte crosses PCIe twice.",
        short="GPU and NIC share pinned host memory",
        also=("zero copy", "cudaHostAlloc"),
    ),
    Term(
        "impossible",
        "State of a path: this hardware cannot do it, and no setting, driver or package changes that.",
    ),
    Term(
        "inbox",
        "The RDMA drivers that come with the kernel, as opposed to OFED.",
    ),
    Term(
        "integrated GPU",
        "A GPU that has no memory of its own, as in DGX Spark (GB10) and Jetson.",
        also=("integrated", "GB10", "DGX Spark", "Spark", "Jetson"),
        codes=("gpu-integrated",),
    ),
    Term(
        "IOMMU",
        "Translates the addresses that devices use. In translation mode traffic between GPU and NIC "
        "goes through the root complex; in passthrough mode (`iommu=pt`; on Arm `iommu.passthrough=1`) "
        "addresses are used as they are.",
        short="translates the addresses that devices use",
        also=("iommu=pt", "passthrough"),
        codes=("iommu-translating",),
    ),
    Term(
        "layer",
        "Where a problem is, from the bottom up: hardware, firmware, kernel, driver, rdma, pcie, "
        "library, application. Fix the first broken layer first.",
    ),
    Term(
        "leg",
        "In NCCL's log: one channel of one rank in one direction, and what carries it.",
        also=("channel",),
    ),
    Term(
        "lockdown",
        "A mode of the kernel, turned on by Secure Boot on most distributions, in which only signed "
        "modules load.",
        codes=("lockdown-blocks-module",),
    ),
    Term(
        "MIG",
        "Multi-Instance GPU: one GPU split into several.",
        codes=("gpu-mig",),
    ),
    Term(
        "MNNVL",
        "Multi-node NVLink: NVLink between hosts (GB200 NVL72). Traffic on it never touches a NIC.",
        also=("multi-node nvlink",),
    ),
    Term(
        "MOK",
        "Machine Owner Key: a key that the owner enrols through shim, so that Secure Boot accepts "
        "modules signed with it.",
        also=("mokutil",),
        codes=("module-unknown-key",),
    ),
    Term(
        "MTU",
        "The largest packet of an interface. RoCE sends 4096 bytes at a time if it is above that, 1024 with "
        "1500: set 9000 at both ends and on switches between them. `sudo ip link set dev NAME mtu 9000` "
        "lasts until the next boot, `mtu: 9000` in netplan after that.",
        also=("jumbo frames", "jumbo"),
    ),
    Term(
        "next boot",
        "The second verdict on a node that is ready now: what it will be after it boots, with the kernel, "
        "the module files and the settings that are installed. A module that was loaded by hand is gone.",
        also=("next_boot", "next-boot", "reboot"),
        codes=("peermem-not-persistent", "ofed-rebuilt-after-driver"),
    ),
    Term(
        "NODE",
        "Distance in `nvidia-smi topo -m`: through two host bridges of one NUMA node.",
        short="far: through two host bridges of one CPU",
    ),
    Term(
        "nvidia-peermem",
        "NVIDIA's kernel module that registers GPU memory with the RDMA core through the peer-memory "
        "API: the older direct path. Not needed where dma-buf works.",
        short="NVIDIA's older module for the direct path",
        also=("peermem", "nvidia_peermem"),
        codes=("peermem-stub", "peermem-not-loaded"),
    ),
    Term(
        "ODP",
        "On-demand paging: the NIC handles page faults. mlx5 needs it built in for dma-buf.",
        codes=("kernel-lacks-odp",),
    ),
    Term(
        "OFED",
        "RDMA drivers and libraries from NVIDIA that replace the kernel's own: MLNX_OFED, today "
        "DOCA-OFED. They provide the peer-memory API.",
        short="NVIDIA's RDMA drivers, instead of the kernel's",
        also=("mlnx_ofed", "doca-ofed", "doca"),
    ),
    Term(
        "open kernel modules",
        "The NVIDIA driver's kernel modules with published source. Only they offer dma-buf. The "
        "flavour is chosen at installation; GPUs before Turing need the proprietary one.",
        also=("open modules",),
        codes=("driver-proprietary",),
    ),
    Term(
        "P2C",
        "NCCL: the path from a GPU over C2C to its CPU and from there to the NIC.",
    ),
    Term(
        "P2P",
        "Peer-to-peer between GPUs of one machine, which NCCL_P2P_LEVEL limits. For the way to a NIC, see "
        "GDR level.",
        also=("NCCL_P2P_LEVEL", "NCCL_P2P_DISABLE"),
    ),
    Term("pair", "One GPU and one RDMA device."),
    Term(
        "path",
        "How data gets from GPU memory to the network: dmabuf, peermem, efa-p2p, host-mapped, staged or "
        "socket; nvlink, beside every NIC, to other hosts of a rack. Where GPU kernels start transfers, "
        "also gpu-initiated, if the GPU itself rings the NIC's doorbell, and cpu-assisted, if the CPU does. "
        "Not to a network: cpu-mapped, for the CPU alone, and nvidia-fs and p2pdma, from storage.",
    ),
    Term(
        "PCIe lanes",
        "The width of a PCIe link: x4, x8, x16. A slot may have fewer than its card. A card of 8 GT/s, "
        "as a ConnectX-4 or ConnectX-5 (not the Ex), stays so in a faster slot. "
        "`gdr estimate` says what a link carries.",
        also=("lanes", "slot", "x1", "x2", "x4", "x8", "x16", "ConnectX-4", "ConnectX-5"),
        codes=("link-narrower-than-port", "link-degraded"),
    ),
    Term(
        "peer-memory API",
        "ib_register_peer_memory_client(): functions of the RDMA core through which nvidia-peermem "
        "registers. OFED's RDMA core has them; the kernel's own has them only on some distributions.",
        short="what nvidia-peermem needs from the RDMA driver",
        also=("peer memory", "peerdirect"),
        codes=("rdma-lacks-peer-api", "peermem-stub"),
    ),
    Term(
        "PHB",
        "Distance in `nvidia-smi topo -m`: through a PCIe host bridge, that is, through the CPU.",
        short="far: through the CPU's host bridge",
    ),
    Term(
        "PIX",
        "Distance in `nvidia-smi topo -m`: through at most one PCIe switch. The best for a GPU and its NIC.",
        short="near: at most one PCIe switch",
    ),
    Term(
        "professional card",
        "NVIDIA supports GPUDirect RDMA on Quadro, on RTX professional cards (RTX A6000, RTX 6000 Ada, RTX "
        "PRO 6000) and on cards for data centres, not on GeForce and TITAN. At PHB or farther from the NIC, "
        "NCCL still copies through host memory unless NCCL_NET_GDR_LEVEL allows it.",
        also=("workstation card", "Quadro"),
        codes=("gpu-unsupported", "gpu-consumer", "pair-distant"),
    ),
    Term(
        "PXB",
        "Distance in `nvidia-smi topo -m`: through several PCIe switches, but not through the CPU.",
        short="near: several PCIe switches, not the CPU",
    ),
    Term(
        "PXN",
        "NCCL: a GPU sends through another GPU of the node, over NVLink, because that one is near the NIC.",
    ),
    Term(
        "rail",
        "In a cluster whose nodes have several NICs: all NICs with the same number, on one leaf switch.",
    ),
    Term("rank", "One process of a parallel job, usually with one GPU."),
    Term("ready", "State of a path: nothing stops it, but it was not seen in use."),
    Term(
        "remedy",
        "A named fix, as listed by `gdr doctor` and accepted by `gdr fix --steps`.",
    ),
    Term("RoCE", "RDMA over Converged Ethernet."),
    Term(
        "Secure Boot",
        "Firmware starts only signed software. The kernel then refuses modules whose signing key it "
        "does not know.",
        codes=("module-unknown-key", "module-unsigned"),
    ),
    Term(
        "socket",
        "Path: GPU memory is copied to host memory and sent through the kernel's TCP stack.",
    ),
    Term(
        "staged",
        "Path: GPU memory is copied to pinned host memory, and the NIC sends it from there.",
        short="copied through host memory",
    ),
    Term(
        "stub",
        "A nvidia-peermem that was built without the peer-memory API: it can only fail with `Invalid "
        "argument`.",
        short="an empty build that can never load",
        also=("empty module",),
        codes=("peermem-stub",),
    ),
    Term(
        "SYS",
        "Distance in `nvidia-smi topo -m`: across the link between two CPU sockets.",
        short="far: on another CPU socket",
        codes=("pair-cross-socket",),
    ),
    Term(
        "unified memory",
        "Memory of CPU and GPU alike. On DGX Spark and Jetson, all of it. Elsewhere what cudaMallocManaged "
        "returns, which moves between the two and cannot be registered with a NIC.",
        also=("cudaMallocManaged", "managed memory", "UMA"),
        codes=("gpu-integrated", "memory-not-registrable"),
    ),
    Term(
        "unknown",
        "State of a path: evidence is missing. The output names it, and the command to find out.",
    ),
    Term(
        "verbs",
        "The RDMA programming interface, libibverbs; as a consumer: programs such as perftest that use it.",
        also=("libibverbs", "ibverbs"),
    ),
    Term(
        "vermagic",
        "The kernel release and build options that a module was built for. They must match.",
        codes=("module-wrong-kernel",),
    ),
    Term(
        "vGPU",
        "A virtual GPU in a virtual machine, time-sliced or MIG-backed.",
        codes=("gpu-vgpu",),
    ),
)
"""Every term, in alphabetical order."""


def term(word: str) -> Term | None:
    """The term with this name or spelling, case-insensitive; None if there is none. A name of a card that
    NVIDIA supports, or its beginning, is a spelling too."""
    wanted = _folded(word)
    for entry in GLOSSARY:
        if wanted in {_folded(entry.name), *map(_folded, entry.also)}:
            return entry
    return term("professional card") if is_supported_model(word) else None


def _folded(word: str) -> str:
    return word.casefold().replace("_", "-").replace(" ", "-")
