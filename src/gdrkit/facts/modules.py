"""Kernel modules: what is loaded, what is on disk, what each imports and exports. Collects other modules."""

from __future__ import annotations

from gdrkit.facts.kernel_symbols import (
    VMLINUX,
    KernelSymbol,
    Provider,
    export_of,
    exporter,
    kernel_symbol,
    module_layout_crc,
    provider,
    usable_by,
)
from gdrkit.facts.loaded_modules import PEERMEM, LoadedModule, RunningModule, is_loaded, loaded, running
from gdrkit.facts.module_files import (
    ModInfo,
    content,
    exports,
    image,
    imports,
    information,
    versions,
    weak_imports,
)
from gdrkit.facts.module_index import (
    all_paths,
    builtin,
    dependencies,
    index_was_collected,
    missing_dependency,
    module_path,
    modules_dir,
    name_of,
    require_index,
    symbol_owner,
)
from gdrkit.facts.reference_modules import struct_module_size_bytes, vermagic
from gdrkit.facts.running_files import loaded_path, replaced

__all__ = [
    "PEERMEM", "VMLINUX", "KernelSymbol", "LoadedModule", "ModInfo", "Provider", "RunningModule",
    "all_paths", "builtin", "content", "dependencies", "export_of", "exporter", "exports",
    "image", "imports", "index_was_collected", "information", "is_loaded",
    "kernel_symbol", "loaded", "loaded_path",
    "missing_dependency", "module_layout_crc", "module_path", "modules_dir", "name_of", "provider",
    "replaced", "require_index", "running", "struct_module_size_bytes", "symbol_owner", "usable_by",
    "vermagic", "versions", "weak_imports",
]  # fmt: skip
