"""User-space libraries that decide: libibverbs, NCCL, UCX, the driver's own; and the memory lock limit."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from gdrkit.evidence import EvidenceAbsent, EvidenceMissing, Missing, MissingReason
from gdrkit.facts import packages
from gdrkit.facts.commands import UCX_INFO
from gdrkit.formats.errors import FormatError
from gdrkit.formats.versions import numbers
from gdrkit.node import Node, each_known, fact, first_collected, first_of, if_absent, if_missing, likely

FOLDERS = (
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib64",
    "lib64",
    "lib/x86_64-linux-gnu",
    "lib/aarch64-linux-gnu",
    "usr/lib",
    "usr/local/lib",
)
"""Where the dynamic linker finds libraries on Debian's, Red Hat's and SUSE's systems, its own order aside.
Sources: ld.so(8); Debian's multiarch folders in /etc/ld.so.conf.d."""

MORE_FOLDERS = (
    "usr/local/lib64",
    "usr/local/cuda/lib64",
    "opt/hpcx/ucx/lib",
    "opt/mellanox/ucx/lib",
    "opt/hpcx/nccl_rdma_sharp_plugin/lib",
)
"""Where images and vendors put copies that programs bring along."""

DMABUF_CALL = "ibv_reg_dmabuf_mr"
FIRST_WITH_DMABUF = 34
"""rdma-core's release that brought ibv_reg_dmabuf_mr: libibverbs/libibverbs.map.in at v34.0,
IBVERBS_1.12.
"""


NVSHMEM_HOST = "libnvshmem_host.so.3"


class Library(Struct, frozen=True):
    """A shared library: its file with every link followed, and the version in the file's name."""

    path: str
    version: str  # "1.14.44.0"; "" where the name has none


class LibraryCopy(Struct, frozen=True):
    """One copy of a library that programs bring along, and where its version was read."""

    version: str
    source: str


def find(node: Node, name: str, folders: tuple[str, ...] = FOLDERS) -> str:
    """The first folder's file of that name. Raises EvidenceAbsent if somebody looked in all of them.

    A hit beats a folder that nobody looked at. Missing names the library, not one of many paths.
    """
    reason: EvidenceMissing | None = None
    library = name.partition(".so")[0]
    for folder in folders:
        path = f"{folder}/{name}"
        try:
            if node.exists(path):
                return path
        except EvidenceMissing as lacks:
            reason = reason or EvidenceMissing(Missing(library, lacks.missing.why, f"ls -l /{path}"))
    raise reason or EvidenceAbsent(Missing(library, MissingReason.ABSENT, f"ldconfig -p | grep {library}"))


@fact
def libibverbs(node: Node) -> Library:
    """The libibverbs that programs on this node load. Raises EvidenceAbsent if there is none: images bring
    their own.
    """
    return _library(node, find(node, "libibverbs.so.1"))


def _library(node: Node, path: str) -> Library:
    target = if_absent(path, node.resolve, path)
    match = re.search(r"\.so\.([\d.]+)$", target)
    return Library(target, match[1] if match and "." in match[1] else "")


@fact
def verbs_has_dmabuf(node: Node) -> bool:
    """Whether that libibverbs offers ibv_reg_dmabuf_mr, by its symbol table; else, likely, by its
    version.
    """

    def symbol_table() -> bool:
        return has_dmabuf(node, libibverbs(node).path)

    def library_version() -> bool:
        version = numbers(libibverbs(node).version)
        if (
            len(version) < 3
        ):  # ABI, ABI minor, release of rdma-core: rdma-core CMakeLists.txt, PACKAGE_VERSION
            raise EvidenceMissing(Missing("libibverbs", MissingReason.UNDECIDED, _ASK_VERBS))
        return version[2] >= FIRST_WITH_DMABUF

    def package_version() -> bool:
        for name in ("libibverbs1", "libibverbs"):
            package = packages.installed(node).get(name)
            if package and re.match(r"\d\d(?:\.\d+)?[-~]", package.version):
                node.cite(f"package {name}", text=package.version)
                return numbers(package.version)[0] >= FIRST_WITH_DMABUF
        raise EvidenceMissing(Missing("libibverbs", MissingReason.NOT_COLLECTED, _ASK_VERBS))

    try:
        return first_of(symbol_table, likely(node, library_version), likely(node, package_version))
    except (
        EvidenceMissing
    ) as lacks:  # whichever file was in the way, what is missing is a look at the library
        missing = Missing("libibverbs", lacks.missing.why, _ASK_VERBS)
        raise (EvidenceAbsent if isinstance(lacks, EvidenceAbsent) else EvidenceMissing)(missing) from lacks


_ASK_VERBS = f"nm -D $(ldconfig -p | grep -o '/.*libibverbs.so.1$') | grep {DMABUF_CALL}"


@fact
def has_dmabuf(node: Node, path: str) -> bool:
    """Whether a copy of libibverbs offers ibv_reg_dmabuf_mr."""
    from gdrkit.formats.elf import parse

    symbols = parse(node.map(path)).dynamic_exports()
    if "ibv_get_device_list" not in symbols:
        raise FormatError("not libibverbs: it has no ibv_get_device_list")
    offered = DMABUF_CALL in symbols
    node.cite(path, ".dynsym", DMABUF_CALL if offered else f"no {DMABUF_CALL}")
    return offered


@fact
def other_libibverbs(node: Node) -> tuple[Library, ...]:
    """Copies that programs may load instead of the system's: in vendors' folders and images. () if none is
    seen.
    """
    # Copies that nobody has or nobody looked for change nothing for the system's own.
    return tuple(_each(node, "libibverbs.so.1", MORE_FOLDERS))


def _each(node: Node, name: str, folders: tuple[str, ...]) -> Iterator[Library]:
    return each_known(lambda folder: _library(node, find(node, name, (folder,))), folders)


# -- the driver's user space ---------------------------------------------------------------------------


@fact
def libcuda_version(node: Node) -> str:
    """The driver version that user space belongs to, "580.126.09". Raises EvidenceAbsent if no libcuda is
    installed.
    """
    target = _library(node, find(node, "libcuda.so.1"))
    if not re.fullmatch(r"\d{3,}\.\d+(\.\d+)?", target.version):
        raise EvidenceMissing(Missing("libcuda", MissingReason.UNDECIDED, "ls -l /usr/lib/*/libcuda.so*"))
    return target.version


# -- NCCL and UCX --------------------------------------------------------------------------------------


@fact
def nccl_copies(node: Node) -> tuple[LibraryCopy, ...]:
    """Every libnccl that is seen on the node: the system's, and those of Python environments. () if none
    is.
    """
    return _copies(node, "libnccl.so.2", "nvidia_nccl") or _packaged_nccl(node)


@fact
def nvshmem_copies(node: Node) -> tuple[LibraryCopy, ...]:
    """Every NVSHMEM that is seen on the node. Raises EvidenceAbsent if somebody looked and there is none:
    images bring their own.
    """
    found = _copies(node, NVSHMEM_HOST, "nvidia_nvshmem")
    if not found:
        find(node, NVSHMEM_HOST, (*FOLDERS, *MORE_FOLDERS))
        raise EvidenceMissing(
            Missing(NVSHMEM_HOST, MissingReason.UNDECIDED, f"strings {NVSHMEM_HOST} | grep -i 'NVSHMEM v'")
        )
    return found


def _copies(node: Node, library: str, wheel: str) -> tuple[LibraryCopy, ...]:
    """Files of a library whose name has the version, and wheels of Python environments."""
    libraries = _each(node, library, (*FOLDERS, *MORE_FOLDERS))
    found = [LibraryCopy(seen.version, seen.path) for seen in libraries if len(numbers(seen.version)) == 3]
    pattern = re.compile(rf"{wheel}_cu\d+-(?P<version>\d+\.\d+\.\d+)(?:\.\d+)?\.dist-info")
    for folder in _python_folders(node):
        for name in _if_seen(node, folder):
            if match := pattern.fullmatch(name):
                found.append(LibraryCopy(match["version"], f"{folder}/{name}"))
    return tuple(dict.fromkeys(found))


def _packaged_nccl(node: Node) -> tuple[LibraryCopy, ...]:
    """What the list of packages says where no file of NCCL is seen."""
    known = if_missing({}, packages.installed, node)
    for name in ("libnccl2", "libnccl"):
        package = known.get(name)
        if package and len(numbers(package.version)) >= 3:
            return (LibraryCopy(".".join(map(str, numbers(package.version)[:3])), f"package {name}"),)
    return ()


def _python_folders(node: Node) -> list[str]:
    """Folders of installed Python packages that were listed."""
    found = []
    for base in ("usr/lib", "usr/local/lib", "opt/conda/lib", "opt/venv/lib"):
        for name in _if_seen(node, base):
            if re.fullmatch(r"python3(\.\d+)?", name):
                found += [f"{base}/{name}/dist-packages", f"{base}/{name}/site-packages"]
    return found


def _if_seen(node: Node, folder: str) -> tuple[str, ...]:
    """Names in a folder; () also where nobody looked: which environments programs have is nobody's duty to
    list.
    """
    return if_missing((), node.list, folder)


@fact
def nccl_is_installed(node: Node) -> bool:
    """Whether the system's folders hold an NCCL. Raises EvidenceMissing where nobody looked."""
    return if_absent(False, lambda: bool(find(node, "libnccl.so.2")))


@fact
def nccl_version(node: Node) -> str:
    """The version of the node's NCCL, the oldest of several. Raises EvidenceMissing if none is seen."""
    copies = nccl_copies(node)
    if not copies:
        raise EvidenceMissing(
            Missing(
                "libnccl", MissingReason.NOT_COLLECTED, "ldconfig -p | grep libnccl; pip list | grep nccl"
            )
        )
    return min((copy.version for copy in copies), key=numbers)


@fact
def ucx_version(node: Node) -> str:
    """The version of the UCX installed here, by its pkg-config file, package or own answer.

    Raises EvidenceAbsent if somebody looked and there is none. The library's file name does not carry it.
    """

    def pkg_config() -> str:
        paths = (f"{folder}/pkgconfig/ucx.pc" for folder in (*FOLDERS, *MORE_FOLDERS))
        for text in each_known(node.text, paths):
            found = re.search(r"^Version: *(\d+\.\d+\.\d+)", text, re.MULTILINE)
            if found:
                return found[1]
        raise EvidenceMissing(Missing("libucp", MissingReason.NOT_COLLECTED, UCX_INFO.line))

    def package() -> str:
        # A node without a package list may have UCX all the same.
        known = if_missing({}, packages.installed, node)
        for name in ("ucx", "libucx0"):
            if name in known and len(numbers(known[name].version)) >= 2:
                return ".".join(map(str, numbers(known[name].version)[:3]))
        raise EvidenceMissing(Missing("libucp", MissingReason.NOT_COLLECTED, UCX_INFO.line))

    def library() -> str:
        """Only whether there is one: looked for and not there settles it."""
        find(node, "libucp.so.0", (*FOLDERS, *MORE_FOLDERS))
        raise EvidenceMissing(Missing("libucp", MissingReason.NOT_COLLECTED, UCX_INFO.line))

    def ucx_info() -> str:
        found = re.search(r"(?:Version|version=|Library version:) *(\d+\.\d+\.\d+)", node.run(UCX_INFO))
        if found is None:
            raise FormatError("no version in it")
        return found[1]

    return first_collected(pkg_config, package, library, ucx_info)


@fact
def net_plugins(node: Node) -> tuple[str, ...]:
    """Files of NCCL network plugins that NCCL would load by itself, in the linker's folders; () if none is
    seen.

    Source: NCCL src/plugin/net.cc: libnccl-net.so, unless NCCL_NET_PLUGIN names another.
    """
    # A plugin that nobody looked for is not claimed to be absent: this only adds remarks.
    folders = (*FOLDERS, *MORE_FOLDERS)
    return tuple(each_known(lambda folder: find(node, "libnccl-net.so", (folder,)), folders))


# -- limits --------------------------------------------------------------------------------------------


@fact
def memlock_limit_bytes(node: Node) -> int | None:
    """How much memory a process of whoever asks may lock; None is unlimited.

    Source: proc(5), /proc/<pid>/limits. In a bundle it is the collector's own limit, as a shell would have
    it.
    """
    match = re.search(
        r"^Max locked memory +(?P<soft>\d+|unlimited) ", node.text("proc/self/limits"), re.MULTILINE
    )
    if match is None:
        raise FormatError("no line on locked memory")
    return None if match["soft"] == "unlimited" else int(match["soft"])
