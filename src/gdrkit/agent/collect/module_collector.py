"""Collect module files, symbol tables and libraries, all reduced in size."""

from __future__ import annotations

import mmap
import os
import posixpath
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Callable, Dict, Iterator, List, Optional, Sequence, Set, Tuple

from . import elf_reduce, index_reduce, module_choice
from .module_files import BROKEN_LIMIT_BYTES, FILE_LIMIT_BYTES, StoredModule, small
from .patterns import is_name, select
from .reductions import aliases, symbol_table
from .sources import (
    DKMS_MODULES,
    FOLDERS,
    LIBRARIES,
    LIBRARY_FOLDERS,
    MODULE_FOLDERS,
    MODULES,
    PROVIDERS,
    SYMBOL_TABLES,
    WANTED_SYMBOLS,
    WHOLE_MODULES,
)
from .tree import FileContent
from .unpack import DecompressionFailed, unpack
from .walker import Walker

FOREIGN_LIMIT = 64
"""How many loaded out-of-tree modules are kept: each may export symbols that another one imports. A machine
has one or two dozen: OFED's and NVIDIA's."""
WORKERS = min(4, os.cpu_count() or 1)
_SHELL = ("bin", "bin/sh", "usr/bin/sh")
"""Links that lead to the shell of install lines, whose messages differ between shells."""
_NOT_ENTERED = ("build", "source")  # links to the headers, or a whole source tree

_NCCL_VERSION = re.compile(rb"NCCL version \d[\w.+-]{2,40}")


class ModuleCollector:
    """Collects modules, symbol tables and libraries from several folders."""

    def __init__(self, walker: Walker, extra: Sequence[str]) -> None:
        self.walker, self.extra = walker, extra
        self.linked: Optional[Set[bytes]] = set()  # symbols; None: not all are known
        self._names: Set[str] = set()
        self._kept: Set[str] = set()

    # -- modules -----------------------------------------------------------------------------------

    def modules(self, show: Callable[[str], None]) -> None:
        """Keep the chosen module files of each folder of modules."""
        chosen: Dict[str, str] = {}
        for path in _SHELL:
            self.walker.tree.is_link(path)
        for pattern in MODULE_FOLDERS:
            folder = pattern.replace("<release>", self.walker.release)
            for path in self._choose(folder):
                chosen.setdefault(self.walker.resolved(path) or "", path)
        for path in self.walker.matches(DKMS_MODULES):
            if _matches(posixpath.basename(path), WHOLE_MODULES):
                chosen.setdefault(self.walker.resolved(path) or "", path)
        chosen.pop("", None)  # links that could not be followed
        with ThreadPoolExecutor(WORKERS) as pool:
            jobs = [(real, pool.submit(self._module, real, path)) for real, path in sorted(chosen.items())]
            for real, job in jobs:
                show(posixpath.basename(real))
                try:
                    module, content = job.result()
                except OSError as error:
                    self.walker.fails(real, error)
                else:
                    self._keep(real, module, content)
                    self.walker.bundle.also(chosen[real], real)

    def _module(self, real: str, path: str) -> Tuple[StoredModule, FileContent]:
        content = self.walker.tree.read(real, FILE_LIMIT_BYTES)
        if not content.whole:
            head = content.data[:BROKEN_LIMIT_BYTES]
            return StoredModule(head, "truncated", "too large", {}, 0, frozenset()), content
        return small(content.data, _matches(posixpath.basename(path), WHOLE_MODULES)), content

    def _keep(self, real: str, module: StoredModule, content: FileContent) -> None:
        if module.linked is None:
            self.linked = None
        elif self.linked is not None:
            self.linked |= module.linked
        self.walker.bundle.file(
            real,
            module.data,
            content.modified_s,
            module.status,
            text=False,
            why=module.why,
            size=content.size,
            content_size=module.content_size,
            digests=module.digests,
            head=module.head,
        )

    def _choose(self, folder: str) -> List[str]:
        """Paths of the module files to keep, below a folder of modules."""
        tree = self.walker.tree
        real = self.walker.resolved(folder)
        if real is None or real in self._kept or not tree.is_folder(real):
            self.walker.listing(folder)
            return []
        self._kept.add(real)
        files = list(self._files(folder))
        peek = tree.peek
        needs = module_choice.dependencies(
            peek(f"{folder}/modules.dep", 16 << 20).decode("utf-8", "replace")
        )
        lists = [f"{folder}/modules.{name}" for name in ("softdep", "weakdep")]
        for row in FOLDERS:
            if row.path.endswith("/modprobe.d"):
                lists += self.walker.matches(f"{row.path}/*.conf", listed=False)
        soft = module_choice.soft_dependencies(b"\n".join(map(peek, lists)).decode("utf-8", "replace"))
        text = peek("proc/modules", 1 << 20).decode("utf-8", "replace")
        table = [words for words in map(str.split, text.splitlines()) if words]
        loaded = [words[0] for words in table]
        foreign = [words[0] for words in table if "O" in words[-1].strip("()") and words[-1].startswith("(")]
        seeds = [*MODULES, *self.extra, *foreign[:FOREIGN_LIMIT]]
        if any(":" in name for name in self.extra):
            text = peek(f"{folder}/modules.alias", 16 << 20).decode("utf-8", "replace")
            seeds += module_choice.of_aliases(text, self.extra)
        names = module_choice.closure(files, seeds, needs, soft, self._declared)
        size = self.walker.size
        names |= set(module_choice.references(loaded, needs, names, lambda path: size(f"{folder}/{path}")))
        self._names |= names
        found = [path for path in files if module_choice.module_of(path) in names]
        listed = [f"{folder}/{needs[name][0]}" for name in sorted(names) if name in needs]
        return [*found, *(path for path in listed if path not in files)]  # behind links to folders

    def _files(self, folder: str) -> Iterator[str]:
        """Every module file below a folder. Links to files count, links to folders are not followed."""
        for name in self.walker.listing(folder) or []:
            path = f"{folder}/{name}"
            if module_choice.module_of(name):
                yield path
            elif name not in _NOT_ENTERED and self._is_folder(path):
                yield from self._files(path)
        for name in _NOT_ENTERED:
            self.walker.tree.is_link(f"{folder}/{name}")

    def _is_folder(self, path: str) -> bool:
        """Whether this is a folder, not a link to one."""
        return self.walker.tree.is_folder(self.walker.tree.resolve(path, last=False))

    def _declared(self, path: str) -> List[str]:
        raw = self.walker.tree.peek(path, FILE_LIMIT_BYTES)
        try:
            return module_choice.declared(unpack(raw, FILE_LIMIT_BYTES))
        except DecompressionFailed:
            return []

    # -- tables ------------------------------------------------------------------------------------

    def tables(self, show: Callable[[str], None]) -> None:
        """Keep the parts of each symbol table and index about symbols of the kept modules."""
        for row in SYMBOL_TABLES:
            for path in self.walker.matches(row.pattern, row.listed):
                show(path)
                self._table(path, row.limit_bytes)

    def _table(self, path: str, limit_bytes: int) -> None:
        walker = self.walker
        real = walker.resolved(path)
        if real is None or real in self._kept:
            return
        self._kept.add(real)
        try:
            content = walker.tree.read(real, limit_bytes)
            data = unpack(content.data, limit_bytes)
        except DecompressionFailed as reason:
            walker.bundle.note(real, "unreadable", str(reason))
            return
        except OSError as error:
            walker.fails(real, error)
            return
        if path.endswith(".bin"):
            lines, why = self._index(path, data), "the part about the collected modules"
        elif path.endswith("modules.alias"):
            lines, why = aliases(data, self._names), "plain aliases, and aliases of the collected modules"
        else:
            lines = symbol_table(path, data, self.linked, WANTED_SYMBOLS)
            about = "symbols that the collected modules import or export"
            why = f"lines about {about if self.linked is not None else 'all exports'}"
        status = "reduced" if content.whole else "truncated"
        walker.bundle.file(
            real, lines, content.modified_s, status, text=False, addresses=False, why=why, size=content.size
        )

    def _index(self, path: str, data: bytes) -> bytes:
        """The part of an index about the kept modules; all of one that cannot be read, as its damage is
        evidence."""
        names, linked = self._names, self.linked
        if linked is None:
            return data
        symbols = linked

        def about_modules(key: bytes, values: List[bytes]) -> bool:
            modules = (value.decode("utf-8", "replace").replace("-", "_") for value in values)
            return b":" not in key or any(module in names for module in modules)

        def about_symbols(key: bytes, _: List[bytes]) -> bool:
            symbol = key.partition(b":")[2]
            return symbol in symbols or WANTED_SYMBOLS.match(symbol) is not None

        by_symbol = path.endswith("modules.symbols.bin")
        return index_reduce.reduce(data, about_symbols if by_symbol else about_modules) or data

    # -- libraries ---------------------------------------------------------------------------------

    def libraries(self, show: Callable[[str], None]) -> None:
        """Keep the dynamic symbols of the libraries."""
        folders = [path for pattern in LIBRARY_FOLDERS for path in self._library_folders(pattern)]
        if self.walker.tree.root == "/":
            searched = os.environ.get("LD_LIBRARY_PATH", "").split(":")
            folders += [path.strip("/") for path in searched if path.startswith("/")]
        for folder in dict.fromkeys(folders):
            for name in LIBRARIES:
                self._library(f"{folder}/{name}", show)
            for path in self.walker.matches(f"{folder}/{PROVIDERS}"):
                self._library(path, show)

    def _library_folders(self, pattern: str) -> List[str]:
        return [pattern] if is_name(pattern) else self.walker.matches(pattern)

    def _library(self, path: str, show: Callable[[str], None]) -> None:
        walker = self.walker
        real = walker.resolved(path)
        if real is None or real in self._kept:
            return
        try:
            fd = walker.tree.open(real)
            try:
                status = os.fstat(fd)
                show(path)
                reduced = self._dynamic(fd, posixpath.basename(real))
            finally:
                os.close(fd)
        except (OSError, ValueError) as error:
            walker.fails(real, error)
            return
        self._kept.add(real)
        if reduced is None:
            walker.bundle.note(real, "unreadable", "not a valid ELF file")
        else:
            walker.bundle.file(
                real, reduced, int(status.st_mtime), "reduced", text=False, size=status.st_size
            )

    def _dynamic(self, fd: int, name: str) -> Optional[bytes]:
        """A library's dynamic symbols, followed by NCCL's version if the file's name does not have it."""
        with mmap.mmap(fd, 0, access=mmap.ACCESS_READ) as data:
            reduced = elf_reduce.reduce(data, elf_reduce.KEEP_OF_LIBRARY)
            version = b""
            if name.startswith("libnccl.so") and name.count(".") < 3:
                at = data.find(b"NCCL version ")
                match = _NCCL_VERSION.match(data, at) if at >= 0 else None
                version = match.group() + b"\0" if match else b""
        return reduced.data + version if reduced else None


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return bool(select([name.replace("-", "_")], list(patterns))) or bool(select([name], list(patterns)))
