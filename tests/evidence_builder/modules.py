"""The kernel's modules: which there are, what each imports and exports, and what depmod makes of them.

Names of symbols and who exports them: Linux drivers/infiniband (core/Makefile: umem and umem_dmabuf are
part of ib_uverbs), NVIDIA open-gpu-kernel-modules (nv-p2p.h, nvidia-peermem.c). Checksums are invented.
That of a symbol depends on the build, so modules of one build agree and modules of two builds do not."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import NamedTuple

from tests.module_builder import Export

PEER_API = ("ib_register_peer_memory_client", "ib_unregister_peer_memory_client")
P2P = (
    "nvidia_p2p_get_pages",
    "nvidia_p2p_put_pages",
    "nvidia_p2p_dma_map_pages",
    "nvidia_p2p_dma_unmap_pages",
    "nvidia_p2p_free_page_table",
    "nvidia_p2p_free_dma_mapping",
)
P2P_PERSISTENT = ("nvidia_p2p_get_pages_persistent", "nvidia_p2p_put_pages_persistent")  # since 525.105.17
DMA_BUF = "DMA_BUF"  # the symbol namespace; since Linux 5.16
_DMABUF_KERNEL = (
    "dma_buf_dynamic_attach",
    "dma_buf_map_attachment",
    "dma_buf_pin",
    "dma_buf_unpin",
    "dma_buf_get",
)
_DMABUF_EXPORTER = ("dma_buf_export", "dma_buf_fd", "dma_buf_put")
_UMEM = ("ib_umem_get", "ib_umem_release", "ib_umem_find_best_pgsz", "ib_umem_copy_from")
_UMEM_ODP = ("ib_umem_odp_get", "ib_umem_odp_release", "ib_umem_odp_alloc_implicit")
_DEVX = "ib_umem_dmabuf_get_pinned"  # mlx5_ib imports it since Linux 6.1, Debian's as well
_UMEM_DMABUF = ("ib_umem_dmabuf_get", "ib_umem_dmabuf_map_pages", "ib_umem_dmabuf_unmap_pages")
VMLINUX = (
    *(
        "_printk",
        "kfree",
        "kmalloc_trace",
        "kmalloc_caches",
        "param_ops_int",
        "param_ops_uint",
        "param_ops_charp",
    ),
    *(
        "param_ops_bool",
        "__fentry__",
        "__x86_return_thunk",
        "init_net",
        "dma_map_sg_attrs",
        "dma_unmap_sg_attrs",
    ),
    *(
        "dma_map_resource",
        "pci_enable_device",
        "__pci_register_driver",
        "pci_unregister_driver",
        "pci_find_ext_capability",
    ),
    *("register_netdev", "unregister_netdev", "pin_user_pages_fast", "unpin_user_page_range_dirty_lock"),
    *("__module_get", "module_put", "__register_chrdev", "mmu_interval_notifier_insert", "cdev_add"),
)
VMLINUX_GPL = ("class_create", "device_create", "mmu_interval_notifier_remove", "hmm_range_fault")


_CORE = ("ib_register_client", "ib_register_device", "ib_alloc_pd_user", "ib_dereg_mr_user", "ib_query_port")
_RDMA_EXPORTS: dict[str, tuple[str, ...]] = {
    "ib_core": _CORE,
    "ib_cm": ("ib_create_cm_id",),
    "iw_cm": ("iw_create_cm_id",),
    "rdma_cm": ("__rdma_create_kernel_id",),
    "mlxfw": ("mlxfw_firmware_flash",),
    "mlx5_core": ("mlx5_core_create_mkey", "mlx5_cmd_exec", "mlx5_core_create_psv"),
}
_RDMA_IMPORTS: dict[str, dict[str, str]] = {  # beyond what every module imports
    "ib_core": {"init_net": ""},
    "ib_uverbs": {"pin_user_pages_fast": "", "unpin_user_page_range_dirty_lock": "", "dma_map_sg_attrs": ""}
    | dict.fromkeys(_CORE[:3], "ib_core"),
    "ib_cm": {"ib_register_client": "ib_core"},
    "iw_cm": {"ib_query_port": "ib_core"},
    "rdma_cm": {"ib_register_client": "ib_core", "ib_create_cm_id": "ib_cm", "iw_create_cm_id": "iw_cm"},
    "rdma_ucm": {"__rdma_create_kernel_id": "rdma_cm", "ib_uverbs_get_ucontext_file": "ib_uverbs"},
    "ib_umad": {"ib_register_client": "ib_core"},
    "mlxfw": {},
    "mlx5_core": {"mlxfw_firmware_flash": "mlxfw", "register_netdev": "", "__pci_register_driver": ""},
    "mlx5_ib": {"ib_register_device": "ib_core", "ib_query_port": "ib_core"}
    | dict.fromkeys(_RDMA_EXPORTS["mlx5_core"][:2], "mlx5_core"),
}
_NVIDIA_PARAMETERS = {
    "nvidia": {"NVreg_ModifyDeviceFiles": "int", "NVreg_EnableResizableBar": "int", "NVreg_RmMsg": "charp"},
    "nvidia_uvm": {"uvm_disable_hmm": "bool"},
    "nvidia_drm": {"modeset": "bool"},
}
_SIZES = {
    **{"ib_core": 462848, "ib_uverbs": 188416, "ib_cm": 147456, "iw_cm": 57344, "rdma_cm": 147456},
    **{"rdma_ucm": 32768, "ib_umad": 40960, "mlxfw": 36864, "mlx5_core": 2678784, "mlx5_ib": 503808},
    **{"nvidia": 14299136, "nvidia_uvm": 1830912, "nvidia_modeset": 1806336, "nvidia_drm": 139264},
}


class Kernel(NamedTuple):
    """The properties of a kernel that determine its modules."""

    release: str
    architecture: str
    dmabuf: bool = True  # Linux 5.12, or a distribution that has it backported
    odp: bool = True  # CONFIG_INFINIBAND_ON_DEMAND_PAGING
    namespaces: bool = True  # Linux 5.16

    @property
    def devx(self) -> bool:
        """Whether mlx5 registers its queues as dma-bufs: Linux 6.1."""
        major, minor = self.release.split(".")[:2]
        return (int(major), int(minor.split("-")[0])) >= (6, 1)


class Shape(NamedTuple):
    """A module as compiled, without checksums."""

    name: str
    imports: Mapping[str, str]  # symbol -> the module that has it, "" for the kernel itself
    exports: tuple[str, ...] = ()
    license: str = "Dual BSD/GPL"
    parameters: Mapping[str, str] = {}
    version: str = ""
    import_ns: tuple[str, ...] = ()
    size: int = 65536


def vmlinux_exports(kernel: Kernel) -> dict[str, Export]:
    """All symbols that the kernel exports to the modules here."""
    names = [*VMLINUX, *VMLINUX_GPL, *_DMABUF_KERNEL, *_DMABUF_EXPORTER, "module_layout"]
    if kernel.architecture != "x86_64":
        names = [name for name in names if name not in ("__fentry__", "__x86_return_thunk")]
    exports = {}
    for name in names:
        dma_buf = name in (*_DMABUF_KERNEL, *_DMABUF_EXPORTER)
        space = DMA_BUF if dma_buf and kernel.namespaces else ""
        exports[name] = Export(checksum(name, kernel.release), dma_buf or name in VMLINUX_GPL, space)
    return exports


def checksum(symbol: str, build: str) -> int:
    """The checksum of a symbol in this build."""
    return zlib.crc32(f"{symbol} of {build}".encode())


def _common(kernel: Kernel) -> dict[str, str]:
    names = ["_printk", "kfree", "kmalloc_trace", "kmalloc_caches"]
    if kernel.architecture == "x86_64":
        names += ["__fentry__", "__x86_return_thunk"]
    return dict.fromkeys(names, "")


def rdma_shapes(kernel: Kernel, peer_api: str = "", ofed: str = "") -> dict[str, Shape]:
    """The RDMA stack. `peer_api`: the module that exports the API, if any; `ofed`: its version, if not
    inbox."""
    common = _common(kernel) | ({"backport_dependency_symbol": "mlx_compat"} if ofed else {})
    umem = (*_UMEM, *(_UMEM_ODP if kernel.odp else ()), *(_UMEM_DMABUF if kernel.dmabuf else ()))
    dmabuf = dict.fromkeys(_DMABUF_KERNEL, "") if kernel.dmabuf else {}
    pinned = (_DEVX,) if kernel.dmabuf else ()
    queues = pinned if kernel.devx or ofed else ()
    wants: dict[str, dict[str, str]] = {
        **_RDMA_IMPORTS,
        "ib_uverbs": _RDMA_IMPORTS["ib_uverbs"] | dmabuf,
        "mlx5_ib": _RDMA_IMPORTS["mlx5_ib"] | dict.fromkeys((*umem, *queues), "ib_uverbs"),
    }
    gives = {**_RDMA_EXPORTS, "ib_uverbs": (*umem, *pinned, "ib_uverbs_get_ucontext_file")}
    if peer_api:
        gives[peer_api] = (*gives[peer_api], *PEER_API)
    shapes = {
        name: Shape(name, common | imports, gives.get(name, ()), version=ofed, size=_SIZES[name])
        for name, imports in wants.items()
    }
    if kernel.dmabuf and kernel.namespaces:
        shapes["ib_uverbs"] = shapes["ib_uverbs"]._replace(import_ns=(DMA_BUF,))
    shapes["mlx5_core"] = shapes["mlx5_core"]._replace(parameters={"debug_mask": "uint", "prof_sel": "uint"})
    if ofed:
        exports = ("backport_dependency_symbol",)
        shapes["mlx_compat"] = Shape("mlx_compat", _common(kernel), exports, version=ofed, size=73728)
    return shapes


def nvidia_shapes(
    kernel: Kernel, version: str, flavour: str, peermem: str, client: str = ""
) -> dict[str, Shape]:
    """NVIDIA's modules. `peermem` is full, stub or none; `client` is the module that has the peer API."""
    common = _common(kernel)
    is_open = flavour == "open"
    dmabuf = dict.fromkeys((*_DMABUF_EXPORTER, *_DMABUF_KERNEL[:1]), "") if is_open else {}
    p2p = (*P2P, *(P2P_PERSISTENT if persistent_api(version) else ()))
    wants = {
        "nvidia": {"dma_map_resource": "", "__pci_register_driver": "", "cdev_add": ""} | dmabuf,
        "nvidia_uvm": {"nvUvmInterfaceRegisterGpu": "nvidia", "nvUvmInterfaceSessionCreate": "nvidia"},
        "nvidia_modeset": {"nvidia_get_rm_ops": "nvidia"},
        "nvidia_drm": {"nvKmsKapiGetFunctionsTable": "nvidia_modeset"},
    }
    gives = {
        "nvidia": (*p2p, "nvidia_get_rm_ops", "nvUvmInterfaceRegisterGpu", "nvUvmInterfaceSessionCreate"),
        "nvidia_modeset": ("nvKmsKapiGetFunctionsTable",),
    }
    shapes = {
        name: Shape(
            name,
            common | imports,
            gives.get(name, ()),
            "Dual MIT/GPL" if is_open else "MIT" if name == "nvidia_drm" else "NVIDIA",
            _NVIDIA_PARAMETERS.get(name, {}),
            version,
            (DMA_BUF,) if name == "nvidia" and is_open and kernel.namespaces else (),
            _SIZES[name],
        )
        for name, imports in wants.items()
    }
    if peermem != "none":
        shapes["nvidia_peermem"] = _peermem(kernel, version, p2p if peermem == "full" else (), client)
    return shapes


def _peermem(kernel: Kernel, version: str, p2p: tuple[str, ...], client: str) -> Shape:
    """nvidia-peermem. Without `p2p` it is the stub: parameters, and an init function that returns an
    error."""
    needs: dict[str, str] = {"param_ops_int": ""}
    if kernel.architecture == "x86_64":
        needs |= {"__fentry__": "", "__x86_return_thunk": ""}
    if p2p:
        needs |= dict.fromkeys(p2p, "nvidia") | dict.fromkeys(PEER_API, client)
        needs |= {"kfree": "", "_printk": "", "__module_get": "", "module_put": ""}
    parameters = {"peerdirect_support": "int"}
    if number(version) >= (560,):
        parameters["persistent_api_support"] = "int"
    dual = number(version) >= (550, 40, 7) or (535, 146) <= number(version) < (536,)
    licence = "Dual BSD/GPL" if dual else "Linux-OpenIB"
    return Shape("nvidia_peermem", needs, (), licence, parameters, version, size=20480)


def legacy_shape(kernel: Kernel, version: str, client: str) -> Shape:
    """nv_peer_mem of the archived project."""
    needs = _common(kernel) | dict.fromkeys(P2P, "nvidia") | dict.fromkeys(PEER_API, client)
    return Shape("nv_peer_mem", needs, (), "Dual BSD/GPL", {}, version, size=16384)


def number(version: str) -> tuple[int, ...]:
    """A driver version as numbers."""
    return tuple(int(part) for part in version.split("."))


def persistent_api(version: str) -> bool:
    """Whether nvidia.ko exports the persistent calls: 525.105.17, 535.43.02 and later, but not 530."""
    return number(version) >= (535, 43) or (525, 105) <= number(version) < (526,)
