"""User-space libraries that matter here: libibverbs, libcuda, NCCL, NVSHMEM, UCX; and the memory lock
limit."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from gdrkit.evidence import EvidenceAbsent, EvidenceMissing, Missing, MissingReason
from gdrkit.evidence.quoting import quoted
from gdrkit.facts import packages
from gdrkit.facts.kubernetes import runs_pods
from gdrkit.facts.wheels import LibraryCopy, installed_wheels
from gdrkit.formats.errors import FormatError
from gdrkit.formats.versions import numbers
from gdrkit.node import Node, each_known, fact, first_of, if_absent, if_missing, likely

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
"""Where the dynamic linker finds libraries on Debian, Red Hat and SUSE; not in the linker's order.
Sources: ld.so(8); Debian's multiarch folders in /etc/ld.so.conf.d."""

MORE_FOLDERS = (
    "usr/local/lib64",
    "usr/local/cuda/lib64",
    "opt/hpcx/ucx/lib",
    "opt/mellanox/ucx/lib",
    "opt/hpcx/nccl_rdma_sharp_plugin/lib",
)
"""Where images and vendors put copies that programs bring with them."""

DMABUF_CALL = "ibv_reg_dmabuf_mr"
FIRST_WITH_DMABUF = 34
"""The release of rdma-core that added ibv_reg_dmabuf_mr: libibverbs/libibverbs.map.in at v34.0,
IBVERBS_1.12."""


class SharedLibrary(Struct, frozen=True):
    """A shared library: its path with every link followed, and the version in the file's name."""

    path: str
    version: str  # "1.14.44.0"; "" where the name has none


def find(node: Node, name: str, folders: tuple[str, ...] = FOLDERS) -> str:
    """The path of a library, in the first folder that has it. Raises EvidenceAbsent if no folder has it.

    Folders that were not collected matter only if no other has it. The error names the library, not one of
    the many paths.
    """
    reason: EvidenceMissing | None = None
    library = name.partition(".so")[0]
    for folder in folders:
        path = f"{folder}/{name}"
        try:
            if node.exists(path):
                return path
        except EvidenceMissing as error:
            reason = reason or EvidenceMissing(
                Missing(library, error.missing.why, f"ls -l {quoted(f'/{path}')}")
            )
    if reason is not None:
        raise reason.fresh()
    raise EvidenceAbsent(Missing(library, MissingReason.ABSENT, f"ldconfig -p | grep {quoted(library)}"))


@fact
def libibverbs(node: Node) -> SharedLibrary:
    """The libibverbs that programs on this node load. Raises EvidenceAbsent if there is none; container
    images bring their own.
    """
    return _library(node, find(node, "libibverbs.so.1"))


def _library(node: Node, path: str) -> SharedLibrary:
    target = if_absent(path, node.resolve, path)
    match = re.search(r"\.so\.([\d.]+)$", target)
    return SharedLibrary(target, match[1] if match and "." in match[1] else "")


_ASK_VERBS = f"nm -D $(ldconfig -p | grep -o '/.*libibverbs.so.1$') | grep {DMABUF_CALL}"
_ASK_POD = (
    "kubectl exec POD -- sh -c "
    f"""'grep -c {DMABUF_CALL} "$(ldconfig -p | grep -o "/.*libibverbs.so.1$")"'"""
)
"""Images of jobs rarely have nm: grep finds the name in the file's own string table."""


def _ask_verbs(node: Node) -> str:
    return _ASK_POD if if_missing(False, runs_pods, node) else _ASK_VERBS


@fact
def verbs_has_dmabuf(node: Node) -> bool:
    """Whether this libibverbs has ibv_reg_dmabuf_mr, by its symbol table, else by its version (likely)."""

    def symbol_table() -> bool:
        return has_dmabuf(node, libibverbs(node).path)

    def release() -> bool:
        return rdma_core_release(node) >= FIRST_WITH_DMABUF

    try:
        return first_of(symbol_table, likely(node, release))
    except EvidenceMissing as error:
        # Whichever file is missing, the command to suggest looks at the library.
        missing = Missing("libibverbs", error.missing.why, _ask_verbs(node))
        raise (EvidenceAbsent if isinstance(error, EvidenceAbsent) else EvidenceMissing)(missing) from error


@fact
def rdma_core_release(node: Node) -> int:
    """The release of rdma-core that libibverbs is of, by its file's name, else by its package. Raises
    EvidenceAbsent if there is no libibverbs."""

    def library_version() -> int:
        version = numbers(libibverbs(node).version)
        # ABI, ABI minor, release of rdma-core: rdma-core CMakeLists.txt, PACKAGE_VERSION
        if len(version) < 3:
            raise EvidenceMissing(Missing("libibverbs", MissingReason.UNDECIDED, _ask_verbs(node)))
        return version[2]

    def package_version() -> int:
        for name in ("libibverbs1", "libibverbs"):
            package = packages.installed(node).get(name)
            if package and re.match(r"\d\d(?:\.\d+)?[-~]", package.version):
                node.cite(f"package {name}", text=package.version)
                return numbers(package.version)[0]
        raise EvidenceMissing(Missing("libibverbs", MissingReason.NOT_COLLECTED, _ask_verbs(node)))

    return first_of(library_version, package_version)


@fact
def has_dmabuf(node: Node, path: str) -> bool:
    """Whether a copy of libibverbs has ibv_reg_dmabuf_mr."""
    from gdrkit.formats.elf import parse

    symbols = parse(node.map(path)).dynamic_exports()
    if "ibv_get_device_list" not in symbols:
        raise FormatError("not libibverbs: it has no ibv_get_device_list")
    offered = DMABUF_CALL in symbols
    node.cite(path, ".dynsym", DMABUF_CALL if offered else f"no {DMABUF_CALL}")
    return offered


@fact
def other_libibverbs(node: Node) -> tuple[SharedLibrary, ...]:
    """Copies that programs may load instead of the system's, in vendors' folders and images; () if none is
    known.
    """
    return tuple(_each(node, "libibverbs.so.1", MORE_FOLDERS))


def libraries(node: Node, name: str) -> tuple[LibraryCopy, ...]:
    """Every known copy of a library, with the version in its file's name, "" if it has none. Raises
    EvidenceAbsent if no folder has it."""
    folders = (*FOLDERS, *MORE_FOLDERS)
    found = tuple(LibraryCopy(one.version, one.path) for one in _each(node, name, folders))
    if not found:
        find(node, name, folders)  # says whether all folders were looked into
    return tuple(dict.fromkeys(found))


def _each(node: Node, name: str, folders: tuple[str, ...]) -> Iterator[SharedLibrary]:
    return each_known(lambda folder: _library(node, find(node, name, (folder,))), folders)


# -- the driver's user space ---------------------------------------------------------------------------


@fact
def libcuda_version(node: Node) -> str:
    """The driver version of libcuda, "580.126.09". Raises EvidenceAbsent if no libcuda is installed."""
    target = _library(node, find(node, "libcuda.so.1"))
    if not re.fullmatch(r"\d{3,}\.\d+(\.\d+)?", target.version):
        raise EvidenceMissing(Missing("libcuda", MissingReason.UNDECIDED, "ls -l /usr/lib/*/libcuda.so*"))
    return target.version


# -- NCCL and UCX --------------------------------------------------------------------------------------


@fact
def nccl_copies(node: Node) -> tuple[LibraryCopy, ...]:
    """Every known libnccl on the node: the system's, and those of Python environments. () if none is
    known."""
    return versioned_copies(node, "libnccl.so.2", "nvidia_nccl") or _packaged_nccl(node)


def versioned_copies(node: Node, library: str, wheel: str) -> tuple[LibraryCopy, ...]:
    """Copies whose file name shows the version, and wheels of Python environments."""
    libraries = _each(node, library, (*FOLDERS, *MORE_FOLDERS))
    found = [LibraryCopy(seen.version, seen.path) for seen in libraries if len(numbers(seen.version)) == 3]
    for copy in installed_wheels(node, rf"{wheel}_cu\d+", (wheel.replace("_", "/"),)):
        if three := re.fullmatch(r"(\d+\.\d+\.\d+)(?:\.\d+)?", copy.version):
            found.append(LibraryCopy(three[1], copy.source, copy.one_of))
    return tuple(dict.fromkeys(found))


def _packaged_nccl(node: Node) -> tuple[LibraryCopy, ...]:
    """By the list of packages, where no file of NCCL is known."""
    known = if_missing({}, packages.installed, node)
    for name in ("libnccl2", "libnccl"):
        package = known.get(name)
        if package and len(numbers(package.version)) >= 3:
            return (LibraryCopy(".".join(map(str, numbers(package.version)[:3])), f"package {name}"),)
    return ()


@fact
def nccl_is_installed(node: Node) -> bool:
    """Whether NCCL is in the system's folders. Raises EvidenceMissing where they were not collected."""
    return if_absent(False, lambda: bool(find(node, "libnccl.so.2")))


@fact
def nccl_version(node: Node) -> str:
    """The version of the node's NCCL, the oldest of several. Raises EvidenceMissing if none is known."""
    copies = nccl_copies(node)
    if not copies:
        raise EvidenceMissing(
            Missing(
                "libnccl", MissingReason.NOT_COLLECTED, "ldconfig -p | grep libnccl; pip list | grep nccl"
            )
        )
    return min((copy.version for copy in copies), key=numbers)


# -- limits --------------------------------------------------------------------------------------------


@fact
def memlock_limit_bytes(node: Node) -> int | None:
    """How much memory a process of the current user may lock, in bytes; None is unlimited.

    Source: proc(5), /proc/<pid>/limits. In a bundle it is the collector's limit, which equals a shell's.
    """
    return _memlock_limits(node)[0]


@fact
def memlock_ceiling_bytes(node: Node) -> int | None:
    """How far that process may raise the limit itself, in bytes; None is unlimited."""
    return _memlock_limits(node)[1]


def _memlock_limits(node: Node) -> tuple[int | None, int | None]:
    pattern = r"^Max locked memory +([0-9]{1,20}|unlimited) +([0-9]{1,20}|unlimited)\b"
    match = re.search(pattern, node.text("proc/self/limits"), re.MULTILINE)
    if match is None:
        raise FormatError("no line `Max locked memory`")
    soft, hard = (None if word == "unlimited" else int(word) for word in match.groups())
    return soft, hard


LIMITS_CONF, LIMITS_FOLDER = "etc/security/limits.conf", "etc/security/limits.d"


@fact
def unlimited_logins(node: Node) -> frozenset[str]:
    """Whose logins may lock any amount of memory by /etc/security: "*" (all users but root), "root".

    Source: pam_limits.c, parse_config_file(): the last line of a user, or of all, decides each of its
    limits, and limits.conf is read before limits.d in the order of the C locale; `-` is both limits."""
    paths = [
        LIMITS_CONF,
        *sorted(f"{LIMITS_FOLDER}/{name}" for name in if_absent((), node.list, LIMITS_FOLDER)),
    ]
    lifted: dict[tuple[str, str], bool] = {}
    for path in paths:
        if path.endswith(".conf"):
            lifted |= _memlock_lines(if_absent("", node.text, path))
    return frozenset(who for who, _ in lifted if all(lifted.get((who, kind)) for kind in ("soft", "hard")))


def _memlock_lines(text: str) -> Iterator[tuple[tuple[str, str], bool]]:
    """Each line for all users or for root: whose, which limit, and whether it lifts it."""
    for line in text.splitlines():
        match line.partition("#")[0].split():
            case [("*" | "root") as who, ("soft" | "hard" | "-") as kind, "memlock", value]:
                for one in ("soft", "hard") if kind == "-" else (kind,):
                    yield (who, one), value in ("unlimited", "infinity", "-1")
