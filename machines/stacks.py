"""The modules of a machine: which there are, what each imports and exports, and their bytes.

A checksum depends on the symbol and on the build that exports it: modules of one build agree, those of two
builds do not. Names: Linux drivers/infiniband/core/Makefile, NVIDIA open-gpu-kernel-modules (nv-p2p.h,
nvidia-peermem.c at the tags from 515 to 595), MLNX_OFED's mlx_compat."""

from __future__ import annotations

import functools
import hashlib
import lzma
import posixpath
import struct
import zlib
from typing import NamedTuple

from backports import zstd

from machines import elf, signing
from machines.kernels import DISTRIBUTIONS, Kernel
from machines.machine import Machine

PEER_API = ("ib_register_peer_memory_client", "ib_unregister_peer_memory_client")
P2P = (
    "nvidia_p2p_get_pages",
    "nvidia_p2p_put_pages",
    "nvidia_p2p_dma_map_pages",
    "nvidia_p2p_dma_unmap_pages",
    "nvidia_p2p_free_page_table",
    "nvidia_p2p_free_dma_mapping",
)
P2P_PERSISTENT = ("nvidia_p2p_get_pages_persistent", "nvidia_p2p_put_pages_persistent")
DMA_BUF = (
    "dma_buf_export",
    "dma_buf_fd",
    "dma_buf_put",
    "dma_buf_get",
    "dma_buf_dynamic_attach",
    "dma_buf_map_attachment",
    "dma_buf_pin",
    "dma_buf_unpin",
)
GPL_ONLY = ("class_create", "device_create", "mmu_interval_notifier_remove", "hmm_range_fault")
VMLINUX = (
    "kfree",
    "__kmalloc",
    "param_ops_int",
    "param_ops_uint",
    "param_ops_bool",
    "param_ops_charp",
    "init_net",
    "dma_map_resource",
    "dma_map_sg_attrs",
    "__pci_register_driver",
    "pci_unregister_driver",
    "register_netdev",
    "unregister_netdev",
    "pin_user_pages_fast",
    "__module_get",
    "module_put",
    "cdev_add",
    "module_layout",
)
UMEM = ("ib_umem_get", "ib_umem_release", "ib_umem_find_best_pgsz")
UMEM_DMABUF = ("ib_umem_dmabuf_get", "ib_umem_dmabuf_get_pinned", "ib_umem_dmabuf_map_pages")
UMEM_ODP = ("ib_umem_odp_get", "ib_umem_odp_release")
CORE = ("ib_register_client", "ib_register_device", "ib_alloc_pd_user", "ib_query_port")
_PLACES = {
    "mlx5_ib": "drivers/infiniband/hw/mlx5",
    "mlx5_core": "drivers/net/ethernet/mellanox/mlx5/core",
    "mlxfw": "drivers/net/ethernet/mellanox/mlxfw",
    "efa": "drivers/infiniband/hw/efa",
    "rdma_rxe": "drivers/infiniband/sw/rxe",
    "mlx_compat": "compat",
}
HYPHENS = ("nvidia_uvm", "nvidia_modeset", "nvidia_drm", "nvidia_peermem")
SIZES = {"nvidia": 14299136, "mlx5_core": 2678784, "ib_core": 462848, "ib_uverbs": 188416}


class Module(NamedTuple):
    """One build of one module. Hashable, so that its bytes are made once."""

    name: str
    tag: str  # of the build
    folder: str  # below lib/modules/<release>
    imports: tuple[tuple[str, str, str], ...] = ()  # symbol, module ("" for the kernel), tag of its build
    exports: tuple[str, ...] = ()
    license: str = "Dual BSD/GPL"
    version: str = ""
    parameters: tuple[tuple[str, str], ...] = ()
    namespaces: tuple[str, ...] = ()
    signer: str = ""
    damage: str = ""
    flags: str = ""  # in vermagic, if not those of the kernel
    loaded: bool = False
    on_disk: bool = True
    users: int = 0

    @property
    def file(self) -> str:
        return (self.name.replace("_", "-") if self.name in HYPHENS else self.name) + ".ko"

    @property
    def in_tree(self) -> bool:
        return self.folder.startswith("kernel/drivers")

    @property
    def needs(self) -> tuple[str, ...]:
        return tuple(sorted({provider for _, provider, _ in self.imports if provider}))


def checksum(symbol: str, tag: str) -> int:
    """The checksum of a symbol of one build."""
    return zlib.crc32(f"{symbol}@{tag}".encode())


def srcversion(module: Module) -> str:
    """The srcversion of a build: 24 upper-case hex digits (modpost's hash of the sources)."""
    text = f"{module.name} {module.tag} {module.damage} {module.exports}"
    return f"{zlib.crc32(text.encode()):08X}{zlib.crc32(text[::-1].encode()):08X}A7C0FFEE"


def build_id(module: Module) -> bytes:
    """The note .note.gnu.build-id of a build: 20 bytes that the linker makes of its content (ld(1))."""
    text = f"{module.name} {module.tag} {module.damage} {module.exports} {module.imports}"
    return struct.pack("<III4s", 4, 20, 3, b"GNU") + hashlib.sha1(text.encode()).digest()


def log_function(kernel: Kernel) -> str:
    """The symbol behind printk(), renamed in Linux 5.15."""
    return "_printk" if kernel.number >= (5, 15) else "printk"


@functools.cache
def vmlinux(kernel: Kernel) -> tuple[elf.Export, ...]:
    """What the kernel itself exports."""
    tag = kernel.own_tag
    names = [*VMLINUX, log_function(kernel), *(["__fentry__"] if kernel.arch == "x86_64" else [])]
    if kernel.mm_kobj:
        names.append("mm_kobj")
    exports = [elf.Export(name, checksum(name, tag)) for name in names]
    exports += [elf.Export(name, checksum(name, tag), True) for name in GPL_ONLY]
    space = "DMA_BUF" if kernel.namespaces else ""
    return (*exports, *(elf.Export(name, checksum(name, tag), True, space) for name in DMA_BUF))


def _common(kernel: Kernel) -> tuple[str, ...]:
    traced = ("__fentry__",) if kernel.arch == "x86_64" else ()
    return (log_function(kernel), "kfree", "__kmalloc", *traced)


def rdma_stack(machine: Machine, tag: str) -> list[Module]:
    """The RDMA modules of one build: the kernel's own, or an OFED's."""
    ofed = (machine.ofed.signer, machine.ofed.version) if machine.ofed else None
    amazon = any(nic.part == "EFA" for nic in machine.functions)
    made = _rdma_stack(machine.kernel, tag, machine.provider(tag), amazon, ofed)
    return [_of_amazon(machine, module) if module.name == "efa" else module for module in made]


@functools.cache
def _rdma_stack(
    kernel: Kernel, tag: str, provider: str, amazon: bool, ofed: tuple[str, str] | None
) -> tuple[Module, ...]:
    """The modules of a build; `ofed` is the signer and the version of the OFED that is installed."""
    inbox = tag == kernel.own_tag
    dmabuf, odp = kernel.imports_dmabuf(tag), kernel.odp or not inbox
    exports = {
        "ib_core": CORE,
        "ib_uverbs": (*UMEM, *(UMEM_ODP if odp else ()), *(UMEM_DMABUF if dmabuf else ())),
        "ib_cm": ("ib_create_cm_id",),
        "iw_cm": ("iw_create_cm_id",),
        "rdma_cm": ("__rdma_create_kernel_id",),
        "rdma_ucm": (),
        "ib_umad": (),
        "mlxfw": ("mlxfw_firmware_flash",),
        "mlx5_core": ("mlx5_core_create_mkey", "mlx5_cmd_exec"),
        "mlx5_ib": (),
    }
    if provider:
        exports[provider] = (*exports[provider], *PEER_API)
    wants: dict[str, dict[str, str]] = {
        "ib_core": {"init_net": ""},
        "ib_uverbs": dict.fromkeys(CORE[:2], "ib_core")
        | (dict.fromkeys(DMA_BUF[3:], "") if dmabuf else {})
        | {"pin_user_pages_fast": ""},
        "ib_cm": {"ib_register_client": "ib_core"},
        "iw_cm": {"ib_query_port": "ib_core"},
        "rdma_cm": {"ib_register_client": "ib_core", "ib_create_cm_id": "ib_cm", "iw_create_cm_id": "iw_cm"},
        "rdma_ucm": {"__rdma_create_kernel_id": "rdma_cm", "ib_umem_get": "ib_uverbs"},
        "ib_umad": {"ib_register_client": "ib_core"},
        "mlxfw": {},
        "mlx5_core": {"mlxfw_firmware_flash": "mlxfw", "__pci_register_driver": "", "register_netdev": ""},
        "mlx5_ib": {"ib_register_device": "ib_core", "mlx5_cmd_exec": "mlx5_core"}
        | dict.fromkeys(exports["ib_uverbs"], "ib_uverbs"),
    }
    if inbox and not kernel.devx:
        wants["mlx5_ib"].pop(UMEM_DMABUF[1], None)
    if not odp:  # mlx5/mr.c: IS_ENABLED() hides the calls from the compiler; odp.c is not built
        for symbol in (UMEM_DMABUF[0], UMEM_DMABUF[2]):
            wants["mlx5_ib"].pop(symbol, None)
    if inbox and amazon:
        exports["efa"] = ()
        wants["efa"] = {"ib_register_device": "ib_core"} | dict.fromkeys(UMEM, "ib_uverbs")
        wants["efa"] |= {"ib_umem_dmabuf_get_pinned": "ib_uverbs"} if dmabuf else {}
    if not inbox:
        exports["mlx_compat"], wants["mlx_compat"] = ("backport_dependency_symbol",), {}
    return tuple(_rdma_module(kernel, tag, name, exports, wants[name], dmabuf, ofed) for name in exports)


def _of_amazon(machine: Machine, efa: Module) -> Module:
    """Amazon's own efa in place of the kernel's, if it is installed: signed as the driver is."""
    version, driver = machine.beside.efa, machine.driver
    if not version or driver is None:
        return efa
    place = "updates/dkms" if machine.distribution.family == "deb" else "extra"
    return efa._replace(tag=f"efa-{version}", folder=place, version=version, signer=driver.signer)


def _rdma_module(
    kernel: Kernel,
    tag: str,
    name: str,
    exports: dict[str, tuple[str, ...]],
    wanted: dict[str, str],
    dmabuf: bool,
    ofed: tuple[str, str] | None,
) -> Module:
    distribution = DISTRIBUTIONS[kernel.distribution]
    inbox = tag == kernel.own_tag
    place = _PLACES.get(name, "drivers/infiniband/core")
    needed = {**dict.fromkeys(_common(kernel), ""), **wanted}
    if not inbox and name != "mlx_compat":
        needed["backport_dependency_symbol"] = "mlx_compat"
    imports = tuple((symbol, by, tag if by else kernel.own_tag) for symbol, by in needed.items())
    spaces = ("DMA_BUF",) if name == "ib_uverbs" and dmabuf and kernel.namespaces else ()
    folder, signer, version = f"kernel/{place}", distribution.kernel_key, ""
    if not inbox and ofed:
        dkms = distribution.family == "deb"
        folder = "updates/dkms" if dkms else f"extra/mlnx-ofa_kernel/{place}"
        signer, version = ofed
    return Module(
        name, tag, folder, imports, exports[name], version=version, namespaces=spaces, signer=signer
    )


def nvidia_stack(machine: Machine) -> list[Module]:
    """The driver's modules as they lie on disk, nvidia-peermem included."""
    driver, kernel = machine.driver, machine.kernel
    if driver is None:
        return []
    common = dict.fromkeys(_common(kernel), "")
    dmabuf = dict.fromkeys(DMA_BUF[:5], "") if driver.is_open else {}
    p2p = (*P2P, *(P2P_PERSISTENT if has_persistent(driver.number) else ()))
    wants = {
        "nvidia": {"dma_map_resource": "", "__pci_register_driver": "", "cdev_add": ""} | dmabuf,
        "nvidia_uvm": {"nvUvmInterfaceRegisterGpu": "nvidia"},
        "nvidia_modeset": {"nvidia_get_rm_ops": "nvidia"},
        "nvidia_drm": {"nvKmsKapiGetFunctionsTable": "nvidia_modeset"},
    }
    gives = {
        "nvidia": (*p2p, "nvidia_get_rm_ops", "nvUvmInterfaceRegisterGpu"),
        "nvidia_modeset": ("nvKmsKapiGetFunctionsTable",),
    }
    parameters = {"nvidia": (("NVreg_EnableResizableBar", "int"), ("NVreg_RegistryDwords", "charp"))}
    modules = []
    for name, wanted in wants.items():
        imports = tuple(
            (symbol, by, driver.tag if by else machine.inbox_tag)
            for symbol, by in {**common, **wanted}.items()
        )
        main = name == "nvidia"
        imported = main and driver.is_open and kernel.namespaces and driver.damage != "namespace"
        spaces = ("DMA_BUF",) if imported else ()
        signer = driver.signed_nvidia if main and driver.signed_nvidia is not None else driver.signer
        damage = driver.damage if main and driver.damage != "namespace" else ""
        modules.append(
            Module(
                name,
                driver.tag,
                driver.folder,
                imports,
                gives.get(name, ()),
                "Dual MIT/GPL" if driver.is_open else "NVIDIA",
                driver.version,
                parameters.get(name, ()),
                spaces,
                signer,
                damage,
                driver.flags,
            )
        )
    if machine.peermem.kind != "none":
        modules.append(peermem(machine, p2p))
    return modules


def peermem(machine: Machine, p2p: tuple[str, ...]) -> Module:
    """nvidia-peermem: full or a stub. Before 560 the stub checks its parameters, and so imports printk."""
    driver, kernel, state = machine.driver, machine.kernel, machine.peermem
    assert driver is not None
    names: dict[str, tuple[str, str]] = {"param_ops_int": ("", machine.inbox_tag)}
    if kernel.arch == "x86_64":
        names["__fentry__"] = ("", machine.inbox_tag)
    if state.kind == "full" or 515 <= driver.branch < 560:
        names[log_function(kernel)] = ("", machine.inbox_tag)
    if state.kind == "full":
        names |= dict.fromkeys(("kfree", "__kmalloc", "__module_get", "module_put"), ("", machine.inbox_tag))
        provider = machine.provider(state.built_against) or "ib_core"
        names |= dict.fromkeys(p2p, ("nvidia", state.driver_tag or driver.tag))
        names |= dict.fromkeys(PEER_API, (provider, state.built_against))
    for name in state.extra_imports:
        names[name] = ("", machine.inbox_tag)
    parameters = [("peerdirect_support", "int")]
    if driver.branch >= 560:
        parameters.append(("persistent_api_support", "int"))
    dual = driver.number >= (550, 40, 7) or (535, 146) <= driver.number < (536,)
    license = state.license or ("Dual BSD/GPL" if dual else "Linux-OpenIB")
    imports = tuple((symbol, by, tag) for symbol, (by, tag) in names.items())
    version = (state.driver_tag or driver.tag).split("-")[1]
    signer = driver.signer if state.signer is None else state.signer
    return Module(
        "nvidia_peermem",
        f"{driver.tag}+{state.built_against}",
        driver.folder,
        imports,
        (),
        license,
        version,
        tuple(parameters),
        (),
        signer,
        state.damage,
        state.flags,
    )


def has_persistent(number: tuple[int, ...]) -> bool:
    """nvidia_p2p_get_pages_persistent: 525.105.17, and 535.43.02 and later."""
    return number >= (535, 43) or (525, 105, 17) <= number < (526,)


def flags_of(kernel: Kernel) -> str:
    """The flags in vermagic."""
    return "SMP preempt mod_unload modversions " + ("aarch64" if kernel.arch == "aarch64" else "")


@functools.lru_cache(maxsize=20000)
def image(module: Module, kernel: Kernel, identified: bool = False) -> bytes:
    """The bytes of a module file, signed, not compressed; with a build id if it is `identified`."""
    if module.damage == "empty":
        return b""
    info = [("license", module.license)]
    for name, kind in module.parameters:
        info += [("parmtype", f"{name}:{kind}"), ("parm", f"{name}:{name} of {module.name}")]
    info += [("version", module.version)] if module.version else []
    info += [("srcversion", srcversion(module)), ("depends", ",".join(module.needs))]
    info += [("import_ns", space) for space in module.namespaces]
    info += [("retpoline", "Y")] if kernel.arch == "x86_64" else []
    info += [("intree", "Y")] if module.in_tree else []
    info += [("name", module.name), ("vermagic", f"{kernel.release} {module.flags or flags_of(kernel)}")]
    arch = kernel.arch
    if module.damage == "foreign":
        arch = "aarch64" if arch == "x86_64" else "x86_64"
    inbox = kernel.own_tag
    content = elf.module(
        module.name,
        info,
        {symbol: checksum(symbol, tag) for symbol, _, tag in module.imports},
        [elf.Export(name, checksum(name, module.tag)) for name in module.exports],
        arch,
        checksum("module_layout", inbox),
        build_id(module) if identified else b"",
    )
    if module.signer:
        content = signing.sign(content, module.signer)
    if module.damage == "altered":
        content = content[:70] + bytes([content[70] ^ 1]) + content[71:]
    return content[: len(content) // 3] if module.damage == "truncated" else content


@functools.lru_cache(maxsize=20000)
def packed(module: Module, kernel: Kernel, compress: str, identified: bool = False) -> bytes:
    """The file on disk: the image, compressed where the distribution does so."""
    content = image(module, kernel, identified)
    if compress == "xz":
        return lzma.compress(content, preset=0, check=lzma.CHECK_CRC32)
    return zstd.compress(content, 1) if compress == "zst" else content


def path(module: Module, compress: str) -> str:
    """Below lib/modules/<release>."""
    name = f"{module.folder}/{module.file}"
    return posixpath.join(name + (f".{compress}" if compress else ""))
