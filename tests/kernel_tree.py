"""A machine with only a kernel and modules, for tests of loading.

    tree = KernelTree()
    tree.module("gdr_provider", exports={"gdr_hello": 7})
    tree.module("gdr_user", imports={"gdr_hello": 7}, depends=("gdr_provider",))
    modprobe(tree.node(), "gdr_user")

Everything that is not set is absent, as on a live machine. The kernel's own symbols are those of
Module.symvers; one of its own modules is loaded as a reference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gdrkit.node import Node
from tests.index_builder import with_indexes
from tests.memory_host import MemoryHost
from tests.module_builder import MODULE_LAYOUT_CRC, RELEASE, Export, build_module

FOLDER = f"lib/modules/{RELEASE}"
KERNEL_SYMBOLS: Mapping[str, Export] = {
    "module_layout": Export(MODULE_LAYOUT_CRC),
    "_printk": Export(0x92997ED8),
    "param_ops_int": Export(0x8BE2A45B),
    "__fentry__": Export(0xBDFB6DBB),
    "class_create": Export(0x11111111, gpl_only=True),
    "dma_buf_get": Export(0x22222222, gpl_only=True, namespace="DMA_BUF"),
}
CONFIG = "CONFIG_MODULE_SIG=y\nCONFIG_MODULE_FORCE_LOAD=y\nCONFIG_SECURITY_LOCKDOWN_LSM=y\n"


class KernelTree:
    """Builds the files, commands and modules of a machine."""

    def __init__(self, **options: Any) -> None:
        self.files: dict[str, bytes | str] = {
            "proc/sys/kernel/osrelease": RELEASE + "\n",
            "proc/sys/kernel/arch": "x86_64\n",
            "proc/sys/kernel/tainted": "0\n",
            "proc/sys/kernel/modules_disabled": "0\n",
            "proc/cmdline": "BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro quiet\n",
            "sys/module/module/parameters/sig_enforce": "N\n",
            "sys/kernel/security/lockdown": "[none] integrity confidentiality\n",
            f"boot/config-{RELEASE}": "#\n" + CONFIG,
            "etc/os-release": 'ID=debian\nVERSION_ID="12"\n',
            "proc/keys": KEYS,
        }
        self.commands: dict[tuple[str, ...], bytes | str] = {}
        self.machine: str = options.pop("machine", "x86_64")
        self.paths: dict[str, str] = {}  # name -> path below the folder
        self.depends: dict[str, tuple[str, ...]] = {}
        self.exports: dict[str, tuple[str, ...]] = {}
        self.loaded: dict[str, str] = {}  # name -> taint
        self.complete: bool = options.pop("complete", True)
        self.symvers = True
        self.gone: set[str] = set()  # indexes that depmod's lists lack
        self.module("reference", intree=True, at="kernel/lib", loaded="")
        assert not options

    def module(
        self,
        name: str,
        *,
        at: str = "updates/dkms",
        depends: Iterable[str] = (),
        loaded: str | None = None,  # its taint if it is loaded
        content: bytes | None = None,
        file: str = "",
        **shape: Any,
    ) -> KernelTree:
        """Add a module and its lines in depmod's lists; `shape` is passed to build_module."""
        shape.setdefault("machine", self.machine)
        if content is None:
            content = build_module(name, depends=depends, **shape)
        self.paths[name] = f"{at}/{file or name + '.ko'}"
        self.files[f"{FOLDER}/{self.paths[name]}"] = content
        self.depends[name] = tuple(depends)
        self.exports[name] = tuple(shape.get("exports", ()))
        if loaded is not None:
            self.loaded[name] = loaded
        return self

    def put(self, path: str, content: bytes | str) -> KernelTree:
        self.files[path] = content
        self.gone.discard(path)
        return self

    def without(self, *paths: str) -> KernelTree:
        for path in paths:
            self.files.pop(path, None)
        self.gone.update(path for path in paths if path.endswith(".bin"))
        return self

    def path(self, name: str) -> str:
        return f"{FOLDER}/{self.paths[name]}"

    def host(self) -> MemoryHost:
        files = with_indexes({**self._lists(), **self.files})
        for path in self.gone:
            files.pop(path, None)
        return MemoryHost(files, commands=self.commands, complete=self.complete)

    def node(self) -> Node:
        return Node(self.host())

    def _closure(self, name: str) -> list[str]:
        """All dependencies of a module, direct ones first, as depmod writes them."""
        found: dict[str, None] = {}
        for needed in self.depends.get(name, ()):
            if needed in self.paths:
                found[needed] = None
                found.update(dict.fromkeys(self._closure(needed)))
        return list(found)

    def _lists(self) -> dict[str, bytes | str]:
        lines = [
            f"{path}:{''.join(f' {self.paths[needed]}' for needed in self._closure(name))}"
            for name, path in self.paths.items()
        ]
        symbols = [
            f"alias symbol:{symbol} {name}" for name, offered in self.exports.items() for symbol in offered
        ]
        lists: dict[str, bytes | str] = {
            f"{FOLDER}/modules.dep": "".join(f"{line}\n" for line in lines),
            f"{FOLDER}/modules.symbols": "# Aliases for symbols, used by symbol_request().\n"
            + "".join(f"{line}\n" for line in ("alias symbol:reference_symbol reference", *symbols)),
            f"{FOLDER}/modules.builtin": "kernel/lib/crc32.ko\n",
            "proc/modules": "".join(
                f"{name} 16384 0 - Live 0x0000000000000000{f' ({taint})' if taint else ''}\n"
                for name, taint in self.loaded.items()
            ),
        }
        if self.symvers:
            lists[f"{FOLDER}/build/Module.symvers"] = symvers(KERNEL_SYMBOLS)
        return lists


def symvers(exported: Mapping[str, Export], owner: str = "vmlinux") -> str:
    """Module.symvers. Source: Linux Documentation/kbuild/modules.rst."""
    return "".join(
        f"0x{export.crc or 0:08x}\t{symbol}\t{owner}\t"
        f"EXPORT_SYMBOL{'_GPL' if export.gpl_only else ''}\t{export.namespace}\n"
        for symbol, export in exported.items()
    )


def keys(*certificates: tuple[str, str], machine: int = 0, platform: int = 0) -> str:
    """/proc/keys as root sees it: certificates by name and key id, and the number in each keyring."""
    described = [
        f"keyring   .builtin_trusted_keys: {len(certificates)}",
        f"keyring   .machine: {machine or 'empty'}",
        f"keyring   .platform: {platform or 'empty'}",
    ]
    described += [f"asymmetri {name}: {key}: X509.rsa {key[-8:]} []" for name, key in certificates]
    return "".join(
        f"{0x0C0FFEE0 + number:08x} I------     1 perm 1f030000     0     0 {row}\n"
        for number, row in enumerate(described)
    )


KEYS = keys(("Build time autogenerated kernel key", "0011223344556677889900112233445566778899"))
