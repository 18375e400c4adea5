"""Modules on disk and in the kernel: files, the tables of the real depmod, /proc/modules, kallsyms, symvers.

Formats: Linux kernel/module/procfs.c and sysfs.c, kernel/kallsyms.c, scripts/mod/modpost.c; depmod(8)."""

from __future__ import annotations

import functools
import posixpath
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from machines import stacks
from machines.kernels import Kernel
from machines.machine import Machine
from machines.programs import depmod
from machines.stacks import Module
from machines.tree import Tree

TABLES = (
    "modules.dep", "modules.symbols", "modules.alias", "modules.softdep", "modules.devname",
    "modules.dep.bin", "modules.symbols.bin", "modules.alias.bin", "modules.builtin.bin",
)  # fmt: skip
_ZERO = "0" * 16


def files(machine: Machine) -> list[Module]:
    """Every module file of the machine."""
    found = stacks.rdma_stack(machine, machine.inbox_tag)
    if machine.ofed and machine.ofed.on_disk:
        found += stacks.rdma_stack(machine, machine.ofed.tag)
    if machine.driver and machine.driver.on_disk and not machine.driver.root:
        found += stacks.nvidia_stack(machine)
    if machine.legacy_client:
        found.append(_legacy(machine))
    if machine.beside.efa_peermem and machine.driver:
        signer = machine.driver.signer
        found.append(
            Module("efa_nv_peermem", "efa_nv_peermem-1.2.3", "updates/dkms", version="1.2.3", signer=signer)
        )
    return found


def running(machine: Machine) -> list[Module]:
    """The modules that are loaded, in the order of their loading."""
    loaded: list[Module] = []
    if machine.rdma_driver_loaded:
        stack = {module.name: module for module in stacks.rdma_stack(machine, machine.running_stack)}
        order = (
            "mlx_compat",
            "ib_core",
            "ib_uverbs",
            "ib_cm",
            "iw_cm",
            "rdma_cm",
            "rdma_ucm",
            "ib_umad",
            "mlxfw",
            "mlx5_core",
            "mlx5_ib",
            "efa",
        )
        vendors = {nic.bound for nic in machine.functions if nic.nic}
        skipped = set() if "mlx5_core" in vendors else {"mlxfw", "mlx5_core", "mlx5_ib"}
        loaded += [stack[name] for name in order if name in stack and name not in skipped]
    driver = machine.driver
    if driver and driver.loaded:
        version = driver.running_version or driver.version
        old = f"nvidia-{version}-{'open' if driver.is_open else 'proprietary'}"
        for module in stacks.nvidia_stack(machine):
            if module.name == "nvidia_peermem" and not machine.peermem.loaded:
                continue
            if module.name != "nvidia_peermem":
                module = module._replace(tag=old, version=version)
            loaded.append(module._replace(damage=""))
    if machine.legacy_client == "loaded":
        loaded.append(_legacy(machine))
    for name, version in {**machine.third_party, **machine.beside.modules}.items():
        exports = stacks.P2P[:2] if name == "nvidia_vgpu_vfio" else ()
        signer = driver.signer if driver else ""
        loaded.append(
            Module(name, f"{name}-{version}", "updates/dkms", (), exports, "GPL", version, signer=signer)
        )
    return loaded


def _legacy(machine: Machine) -> Module:
    driver = machine.driver
    tag = driver.tag if driver else ""
    stack = machine.running_stack
    imports = [(name, "nvidia", tag) for name in stacks.P2P]
    imports += [(name, machine.provider(stack) or "ib_core", stack) for name in stacks.PEER_API]
    signer = driver.signer if driver else ""
    return Module(
        "nv_peer_mem", "nv_peer_mem-1.3", "updates/dkms", tuple(imports), version="1.3-0", signer=signer
    )


def write(tree: Tree, machine: Machine) -> None:
    """Write everything about modules."""
    kernel, compress = machine.kernel, machine.distribution.compress
    at = f"lib/modules/{kernel.release}"
    on_disk = files(machine)
    placed = [(module, stacks.path(module, compress)) for module in on_disk]
    if machine.driver and machine.driver.root:
        for module in stacks.nvidia_stack(machine) if machine.driver.on_disk else []:
            tree.file(
                f"{machine.driver.root}/{at}/{stacks.path(module, '')}",
                stacks.packed(module, kernel, "", machine.build_ids),
            )
    for module, path in placed:
        tree.file(f"{at}/{path}", stacks.packed(module, kernel, compress, machine.build_ids))
    tables = _depmod(tuple(placed), kernel, compress, machine.distribution.search)
    for name, content in tables.items():
        tree.file(f"{at}/{name}", content)
    tree.file(f"{at}/modules.order", _order(placed))
    tree.file(f"{at}/modules.builtin", "kernel/drivers/dma-buf/udmabuf.ko\n")
    _running(tree, machine, running(machine))
    _symvers(tree, machine, on_disk)
    _system_map(tree, kernel)


def _order(placed: Sequence[tuple[Module, str]]) -> str:
    """modules.order: in-tree modules as they were built, before they were compressed."""
    return "".join(f"{module.folder}/{module.file}\n" for module, _ in placed if module.in_tree)


@functools.lru_cache(maxsize=4000)
def _depmod(
    placed: tuple[tuple[Module, str], ...], kernel: Kernel, compress: str, search: str
) -> dict[str, bytes]:
    """The tables that depmod makes of these files."""
    with tempfile.TemporaryDirectory(prefix="machines-", dir=memory()) as folder:
        top = Path(folder, "lib/modules", kernel.release)
        for module, path in placed:
            (top / path).parent.mkdir(parents=True, exist_ok=True)
            (top / path).write_bytes(stacks.packed(module, kernel, compress))
        top.mkdir(parents=True, exist_ok=True)
        (top / "modules.order").write_text(_order(placed))
        (top / "modules.builtin").write_text("")
        settings = Path(folder, "depmod.conf")
        settings.write_text(f"search {search}\n")
        command = [depmod(), "-b", folder, "-C", str(settings), kernel.release]
        subprocess.run(command, check=True, capture_output=True)
        return {name: (top / name).read_bytes() for name in TABLES if (top / name).exists()}


@functools.cache
def memory() -> str | None:
    """A folder in memory for what is thrown away soon; None for the usual one."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def _running(tree: Tree, machine: Machine, loaded: list[Module]) -> None:
    names = {module.name for module in loaded}
    lines, symbols = [], []
    for export in stacks.vmlinux(machine.kernel):
        symbols += [f"{_ZERO} T {export.name}", f"{_ZERO} r __ksymtab_{export.name}"]
    for module in reversed(loaded):
        users = [other.name for other in loaded if module.name in other.needs]
        taint = taint_of(module, machine)
        size = stacks.SIZES.get(module.name, 65536)
        held = "".join(f"{user}," for user in users) or "-"
        lines.append(
            f"{module.name} {size} {len(users)} {held} Live 0x{_ZERO}" + (f" ({taint})" if taint else "")
        )
        at = f"sys/module/{module.name}"
        values: dict[str, object] = {
            "initstate": "live",
            "coresize": size,
            "refcnt": len(users),
            "taint": taint,
            "srcversion": stacks.srcversion(module),
        }
        if module.version:
            values["version"] = module.version
        for name, value in values.items():
            tree.line(f"{at}/{name}", value)
        if machine.build_ids:
            tree.file(f"{at}/notes/.note.gnu.build-id", stacks.build_id(module))
        tree.folders.add(f"{at}/holders")
        for user in users:
            tree.link(f"{at}/holders/{user}", f"sys/module/{user}")
        for parameter, kind in module.parameters:
            if not parameter.startswith("NVreg_"):
                tree.line(f"{at}/parameters/{parameter}", _value(machine, parameter, kind))
        for name in module.exports:
            symbols += [f"{_ZERO} t {name}\t[{module.name}]", f"{_ZERO} r __ksymtab_{name}\t[{module.name}]"]
    tree.file("proc/modules", "".join(f"{line}\n" for line in lines))
    tree.file("proc/kallsyms", "".join(f"{line}\n" for line in symbols))
    tree.command("sos_commands/kernel/lsmod", ("lsmod",), _lsmod(lines))
    if "ib_core" in names and machine.client_folders:
        clients = ["nv_mem"] if "nvidia_peermem" in names or "nv_peer_mem" in names else []
        for client in clients:
            tree.line(f"sys/kernel/mm/memory_peers/{client}/version", "1.0")
            tree.line(f"sys/kernel/mm/memory_peers/{client}/num_alloc_mrs", 0)


def _value(machine: Machine, parameter: str, kind: str) -> str:
    for line in machine.modprobe_d:
        if line.startswith("options nvidia-peermem") and f"{parameter}=" in line:
            return line.split(f"{parameter}=")[1].split()[0]
    return "1" if parameter == "persistent_api_support" else "N" if kind == "bool" else "0"


def _lsmod(lines: list[str]) -> str:
    rows = [line.split() for line in lines]
    text = "".join(f"{row[0]:<24}{row[1]:>8}  {row[2]} {row[3].strip('-,')}".rstrip() + "\n" for row in rows)
    return "Module                  Size  Used by\n" + text


def taint_of(module: Module, machine: Machine) -> str:
    """The letters of /proc/modules: P proprietary, O out of tree, E not verified."""
    if module.in_tree:
        return ""
    proprietary = "P" if module.license in ("NVIDIA", "Linux-OpenIB") else ""
    trusted = machine.trust.trusts(module.signer, machine.builtin) if module.signer else False
    return proprietary + "O" + ("" if trusted else "E")


def _symvers(tree: Tree, machine: Machine, on_disk: list[Module]) -> None:
    kernel = machine.kernel
    kinds = {False: "EXPORT_SYMBOL", True: "EXPORT_SYMBOL_GPL"}
    rows = [
        f"0x{e.checksum:08x}\t{e.name}\tvmlinux\t{kinds[e.gpl_only]}\t{e.namespace}"
        for e in stacks.vmlinux(kernel)
    ]
    rows += _rows([module for module in on_disk if module.in_tree])
    headers = f"usr/src/linux-headers-{kernel.release}"
    if machine.distribution.family == "rpm":
        headers = f"usr/src/kernels/{kernel.release}"
    if machine.distribution.family != "talos":
        tree.file(f"{headers}/Module.symvers", "".join(f"{row}\n" for row in rows))
        tree.link(f"lib/modules/{kernel.release}/build", headers)
    if machine.ofed and machine.ofed.on_disk:
        table = "".join(f"{row}\n" for row in _rows([m for m in on_disk if m.tag == machine.ofed.tag]))
        tree.file(f"usr/src/ofa_kernel/{kernel.arch}/{kernel.release}/Module.symvers", table)
        tree.link("usr/src/ofa_kernel/default", f"usr/src/ofa_kernel/{kernel.arch}/{kernel.release}")


def _rows(modules: list[Module]) -> list[str]:
    return [
        f"0x{stacks.checksum(name, module.tag):08x}\t{name}\t"
        f"{posixpath.join(module.folder, module.name).removeprefix('kernel/')}\tEXPORT_SYMBOL\t"
        for module in modules
        for name in module.exports
    ]


def _system_map(tree: Tree, kernel: Kernel) -> None:
    """The symbols of vmlinux: its plain exports, then those for GPL modules, each table with its bounds."""
    address, rows = 0xFFFFFFFF82000000, []
    exports = sorted(stacks.vmlinux(kernel))
    for suffix, gpl_only in (("", False), ("_gpl", True)):
        rows.append(f"{address:016x} R __start___ksymtab{suffix}")
        for export in exports:
            if export.gpl_only == gpl_only:
                rows.append(f"{address:016x} r __ksymtab_{export.name}")
                address += 12
        rows.append(f"{address:016x} R __stop___ksymtab{suffix}")
    rows = [f"{0xFFFFFFFF81000000 + 64 * at:016x} T {e.name}" for at, e in enumerate(exports)] + rows
    tree.file(f"boot/System.map-{kernel.release}", "".join(f"{row}\n" for row in rows))
