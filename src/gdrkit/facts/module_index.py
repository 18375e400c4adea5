"""depmod's lists of a kernel's modules: their files, their dependencies, and the symbols they export.

modprobe reads the .bin files alone, so modules.dep.bin decides wherever it was collected; depmod writes the
text from the same list (kmod, tools/depmod.c), which may since have been replaced, or not been copied along.
The text has thousands of lines and only a few are needed, so it is searched, not parsed.
"""

from __future__ import annotations

import functools
import posixpath
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from gdrkit.evidence import Confidence, EvidenceAbsent, EvidenceMissing, Missing, MissingReason
from gdrkit.evidence.missing import absent, is_loop
from gdrkit.evidence.quoting import quoted
from gdrkit.facts.kernel import is_running, release
from gdrkit.facts.kmod import kmod_version
from gdrkit.facts.virtual import is_wsl, scope
from gdrkit.formats.errors import FormatError
from gdrkit.formats.module_name import canonical
from gdrkit.messages.errors import ELOOP, ENOENT
from gdrkit.node import Node, fact, if_absent, if_missing, seek

if TYPE_CHECKING:
    import weakref

    from gdrkit.formats.kmod_index import Index

_DASHES = bytes.maketrans(b"-", b"_")
DEPENDENCIES_LIMIT = 500
"""The most modules that one may need. In a distribution's kernel the largest number is about 60."""

_SUFFIXES = (".ko", ".ko.xz", ".ko.zst", ".ko.gz")  # kmod, libkmod-util.c, kmod_exts


class _Dependencies(Struct):
    """modules.dep, and a copy with underscores for dashes to search in."""

    text: bytes
    folded: bytes


@fact
def modules_dir(node: Node) -> str:
    """The folder of the running kernel's modules. Raises EvidenceAbsent if there is none."""
    kernel = release(node)
    folder = seek((f"lib/modules/{kernel}", f"usr/lib/modules/{kernel}"), node.exists)
    if folder is None:
        raise EvidenceAbsent(
            Missing(f"lib/modules/{kernel}", MissingReason.ABSENT, f"ls {quoted(f'/lib/modules/{kernel}')}")
        )
    return folder


@fact
def require_index(node: Node) -> None:
    """Raises EvidenceMissing if there is no folder of the running kernel's modules, or it is not known
    whether it has an index: then no module is known to be absent.

    Some systems keep their modules elsewhere, and a container has no /lib/modules. Only WSL is known to have
    no modules where it has no such folder: microsoft/WSL issue 10586. In a folder without an index,
    where depmod did not run, modprobe finds no module."""
    try:
        path = f"{modules_dir(node)}/modules.dep"
        if is_running(node) and node.confidence(modules_dir) is not Confidence.CERTAIN:
            path = "proc/sys/kernel/osrelease"
        elif node.exists(path) or node.exists(f"{path}.bin") or not _in_a_container(node):
            return
    except EvidenceAbsent as absent:
        if is_wsl(node):
            return
        path = absent.missing.source
    ask = "ls /lib/modules/$(uname -r)/modules.dep"
    where = ", on the host" if _in_a_container(node) else ""
    raise EvidenceMissing(Missing(path, MissingReason.UNDECIDED, ask + where))


def _in_a_container(node: Node) -> bool:
    return if_missing("host", scope, node) == "container"


@fact
def _dependency_file(node: Node) -> _Dependencies:
    text = node.read(f"{modules_dir(node)}/modules.dep")
    if text and b".ko" not in text:
        raise FormatError("no line names a module file")
    text = b"\n" + text
    return _Dependencies(text, text.translate(_DASHES))


@fact
def compiled(node: Node, index: str) -> Index:
    """One of the indexes that modprobe reads: dep, alias, symbols, builtin, builtin.alias. Raises
    EvidenceAbsent if there is none, or if kmod ignores it as it is cut within its header or another kind of
    file: index_mm_open(), index_file_open()."""
    path, data = index_file(node, index), index_bytes(node, index)
    import weakref

    from gdrkit.formats import kmod_index  # here: a container has no index

    if kmod_index.is_ignored(data):
        if len(data) in range(_LEAST_THAT_CRASHES, kmod_index.HEADER.size) and not _checks_sizes(node):
            raise FormatError("the root of the index is cut")
        node.cite(path, text=f"{len(data)} bytes, too few for an index")
        raise absent(path)
    if wrong := kmod_index.complaint(data):
        node.cite(path, text=wrong)
        raise absent(path)
    return kmod_index.Index(data, bounded=functools.partial(_is_bounded, weakref.ref(node)))


_BOUNDED_SINCE = 34  # libkmod-index.c, index_mm_read_node()
_LEAST_THAT_CRASHES = 10
"""The least size of an index, cut within its header, with which kmod 30 was seen to crash: index_file_open()
reads the root's offset without asking whether all of it is there."""


def _is_bounded(asking: weakref.ref[Node]) -> bool:
    """Whether this kmod looks for no node behind an index. Weak, as the node keeps its indexes: otherwise
    only a garbage collection could free what a node takes."""
    node = asking()
    return node is not None and _checks_sizes(node)


def _checks_sizes(node: Node) -> bool:
    return if_missing(0, kmod_version, node) >= _BOUNDED_SINCE


def index_file(node: Node, index: str) -> str:
    """The path of one of these indexes."""
    return f"{modules_dir(node)}/modules.{index}.bin"


@fact
def index_bytes(node: Node, index: str) -> bytes:
    """The content of one of these indexes. Raises EvidenceAbsent if there is none."""
    path = index_file(node, index)
    try:
        return node.read(path)
    except EvidenceAbsent:
        if _is_copy_of_texts(node):
            raise EvidenceMissing(
                Missing(path, MissingReason.NOT_COLLECTED, f"ls {quoted('/' + path)}")
            ) from None
        raise


@fact
def _is_copy_of_texts(node: Node) -> bool:
    """Whether a folder of modules has depmod's texts and none of its indexes. depmod writes both in one run,
    so the texts alone were copied; one index that is missing beside others is a fault."""
    folder = modules_dir(node)
    indexes = (f"{folder}/modules.{name}.bin" for name in ("dep", "alias", "symbols", "builtin"))
    return if_missing(False, node.exists, f"{folder}/modules.dep") and not any(
        if_missing(True, node.exists, path) for path in indexes
    )


@fact
def index_was_collected(node: Node) -> bool:
    """Whether it is known what modprobe reads: modules.dep.bin, or that there is none."""
    return if_missing(False, lambda: if_absent(b"", compiled, node, "dep") is not None)


@fact
def _dependency_line(node: Node, name: str) -> tuple[str, ...]:
    """Paths below the modules' folder: the module's, then its dependencies'. Raises EvidenceAbsent."""
    try:
        index = compiled(node, "dep")
    except EvidenceMissing as error:
        if error.missing.why in (MissingReason.ABSENT, MissingReason.GARBLED):  # whatever the text lists
            raise
        return _line_of_text(node, name)
    line, path = index.search(canonical(name)), index_file(node, "dep")
    if line is None:
        raise _not_listed(node, path, name)
    own, colon, needed = line.encode("utf-8", "replace").partition(b":")
    if canonical(_file_name(own).partition(b".")[0].decode("utf-8", "replace")) != canonical(name):
        node.cite(path, canonical(name), line)  # depmod names it by its file: kmod_module_new_from_path()
        raise FormatError(f"{canonical(name)} is not the name of its file")
    return tuple(found.decode("utf-8", "replace") for found in (own, *_needed(needed if colon else b"")))


def _line_of_text(node: Node, name: str) -> tuple[str, ...]:
    """The same from modules.dep, where what modprobe reads was not collected."""
    index = _dependency_file(node)
    wanted = canonical(name).encode("utf-8", "replace")
    start = 0
    while wanted and (start := index.folded.find(wanted + b".ko", start)) >= 0:
        # The path at the start of the line, before the colon, must end in this name: /<name>.ko[.xz]:
        line_start = index.text.rfind(b"\n", 0, start) + 1
        line_end = index.text.find(b"\n", start)
        line_end = line_end if line_end >= 0 else len(index.text)
        own, colon, needed = index.text[line_start:line_end].partition(b":")
        if colon and _file_name(own).translate(_DASHES) == wanted:
            return tuple(path.decode("utf-8", "replace") for path in (own, *_needed(needed)))
        start = line_end
    raise _not_listed(node, f"{modules_dir(node)}/modules.dep", name)


def _not_listed(node: Node, path: str, name: str) -> EvidenceAbsent:
    node.cite(path, canonical(name), "absent")
    ask = f"modinfo -n {quoted(canonical(name))}"
    return EvidenceAbsent(Missing(f"{path} ({canonical(name)})", MissingReason.ABSENT, ask))


def _needed(text: bytes) -> list[bytes]:
    """The paths after the colon. Raises FormatError for more than any module needs."""
    paths = text.split(maxsplit=DEPENDENCIES_LIMIT)
    if len(paths) > DEPENDENCIES_LIMIT:
        raise FormatError(f"a module with more than {DEPENDENCIES_LIMIT} dependencies")
    return paths


def _file_name(path: bytes) -> bytes:
    return path.rpartition(b"/")[2].partition(b".ko")[0]


def name_of(path: str) -> str:
    """The kernel's name of a module, by the name of its file."""
    return canonical(posixpath.basename(path).partition(".ko")[0])


@fact
def module_path(node: Node, name: str) -> str:
    """The file that modprobe would load for a module. Raises EvidenceAbsent if depmod lists none."""
    own = _dependency_line(node, name)[0]
    return own.lstrip("/") if own.startswith("/") else f"{modules_dir(node)}/{own}"


@fact
def dependencies(node: Node, name: str) -> tuple[str, ...]:
    """The modules that a module needs, directly or not, in the order in which modprobe loads them.

    Source: kmod, kmod_module_parse_depline(): the line lists direct ones first, and is loaded from its end.
    """
    return tuple(name_of(path) for path in reversed(_dependency_line(node, name)[1:]))


@fact
def missing_dependency(node: Node, name: str) -> tuple[str, int] | None:
    """The first file of a dependency that depmod lists and that is not there, or is a link back to itself,
    and the error of stat(2); None if none is known.

    kmod then treats the module as one without dependencies: kmod_module_parse_depline().
    """
    for path in _dependency_line(node, name)[1:]:
        full = f"{modules_dir(node)}/{path}"
        try:
            if not node.exists(full):
                return full, ENOENT
        except EvidenceMissing as error:
            if is_loop(error.missing):
                return full, ELOOP
    return None


@fact
def builtin(node: Node, name: str) -> bool:
    """Whether a module is built into the kernel image. False if depmod has no list of those."""
    return if_absent(False, lambda: b"/" + canonical(name).encode() + b".ko\n" in _builtin_list(node))


@fact
def _builtin_list(node: Node) -> bytes:
    """modules.builtin, with underscores for dashes."""
    return node.read(f"{modules_dir(node)}/modules.builtin").translate(_DASHES) + b"\n"


@fact
def symbol_owner(node: Node, symbol: str) -> str:
    """The module that exports a symbol, by depmod's list; "" if none does."""
    text = _symbol_list(node)
    key = b"alias symbol:" + symbol.encode() + b" "
    start = text.find(key)
    if start < 0:
        return ""
    line = text[start + len(key) :].split(b"\n", 1)[0]
    return canonical(line.decode("utf-8", "replace").strip())


@fact
def _symbol_list(node: Node) -> bytes:
    text = node.read(f"{modules_dir(node)}/modules.symbols")
    if b"alias symbol:" not in text:
        raise FormatError("no line names a symbol")
    return text


@fact
def all_paths(node: Node, name: str) -> tuple[str, ...]:
    """Every installed file of a module, the one that modprobe would load first; () if there is none.

    These are depmod's choice, files in the folders of DKMS, weak-updates and drivers' installers, and the
    file of the kernel's own build (modules.order). Sources: depmod.d(5),
    dkms(8), Red Hat's weak-modules(8), Linux Documentation/kbuild/kbuild.rst (modules.order).
    """
    folder = modules_dir(node)
    chosen = if_absent("", module_path, node, name)
    found = dict.fromkeys((chosen,) if chosen else ())
    for subfolder in ("updates", "extra", "weak-updates"):
        for path in _below(node, f"{folder}/{subfolder}", depth=3):
            if name_of(path) == canonical(name) and path.endswith(_SUFFIXES):
                found[path] = None
    in_tree = _in_tree_paths(node, canonical(name))
    for path in (*_packaged_paths(node, folder, in_tree), *in_tree):
        found[path] = None
    return tuple(found)


def _packaged_paths(node: Node, folder: str, in_tree: list[str]) -> Iterator[str]:
    """Files where an OFED puts its builds of the kernel's own modules: below a folder of the package, in the
    folders of the kernel's tree. Source: mlnx-ofa_kernel.spec, `extra/mlnx-ofa_kernel/drivers/...`."""
    for path in in_tree:
        inner = posixpath.dirname(path.removeprefix(f"{folder}/kernel/"))
        for subfolder in ("updates", "extra", "weak-updates"):
            for package in if_absent((), node.list, f"{folder}/{subfolder}"):
                place = f"{folder}/{subfolder}/{package}/{inner}"
                for name in if_absent((), node.list, place) if "." not in package else ():
                    if name_of(name) == name_of(path) and name.endswith(_SUFFIXES):
                        yield f"{place}/{name}"


def _below(node: Node, folder: str, depth: int) -> list[str]:
    """All paths in a folder and in its subfolders, `depth` levels deep."""
    paths: list[str] = []
    for name in if_absent((), node.list, folder):
        path = f"{folder}/{name}"
        paths.append(path)
        if depth > 1 and "." not in name:
            paths.extend(_below(node, path, depth - 1))
    return paths


def _in_tree_paths(node: Node, name: str) -> list[str]:
    folder = modules_dir(node)
    text = if_absent("", node.text, f"{folder}/modules.order")
    pattern = re.escape(name).replace("_", "[-_]")
    candidates = [
        f"{folder}/{own}{suffix}"
        for own in re.findall(rf"^(\S*/{pattern})\.k?o$", text, re.MULTILINE)
        for suffix in _SUFFIXES
    ]
    return [path for path in candidates if node.exists(path)]
