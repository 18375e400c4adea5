"""The modules that are loaded now."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from gdrkit.evidence import EvidenceMissing, MissingReason
from gdrkit.formats.errors import FormatError
from gdrkit.formats.module_name import canonical
from gdrkit.formats.whole_number import signed_number, whole_number
from gdrkit.node import Node, each_known, fact, if_absent, if_missing

PEERMEM = "nvidia_peermem"


class LoadedModule(Struct, frozen=True):
    """A line of /proc/modules. Source: Linux kernel/module/procfs.c, m_show()."""

    name: str
    size_bytes: int
    references: int | None  # None, shown as -, where the kernel cannot unload modules
    users: tuple[str, ...]  # modules that use it; "[permanent]" is not one
    state: str  # Live, Loading, Unloading
    taint: str  # letters such as POE; empty if it taints nothing


class RunningModule(Struct, frozen=True):
    """A loaded module as /sys/module/<name> shows it. Empty: not shown."""

    version: str
    srcversion: str
    taint: str
    reference_count: int | None
    parameters: Mapping[str, str]  # the readable ones


_SIGNS = ("proc/driver/nvidia/version", "sys/module/nvidia/initstate")
"""What is there only while nvidia is loaded: open-gpu-kernel-modules kernel-open/nvidia/nv-procfs.c; Linux
kernel/module/sysfs.c, which gives modules that are built in no such file."""


@fact
def loaded(node: Node) -> Mapping[str, LoadedModule]:
    """The loaded modules by name, the most recently loaded first.

    A copy of /proc/modules can be empty or cut, since the kernel gives files there no size: what other files
    contradict is not known. Raises FormatError."""
    modules = parse(node.text("proc/modules"))
    for sign in _SIGNS if "nvidia" not in modules else ():
        if if_missing(False, node.exists, sign):
            raise FormatError(f"no line of nvidia, although /{sign} is there")
    return modules


def parse(text: str) -> dict[str, LoadedModule]:
    """The modules in /proc/modules. A kernel without loaded modules has an empty file. Raises
    FormatError."""
    modules = {}
    for line in text.splitlines():
        words = line.split()
        # name size references users state address (taint); old captures have no address
        size, references = (whole_number(words[1]), signed_number(words[2])) if len(words) > 4 else (None, 0)
        if size is None or (references is None and words[2] != "-"):
            raise FormatError(f"malformed line in /proc/modules: {line[:40]!r}")
        taint = words[-1].strip("()+-") if words[-1].startswith("(") else ""
        users = tuple(user for user in words[3].split(",") if user not in ("", "-", "[permanent]"))
        modules[words[0]] = LoadedModule(words[0], size, references, users, words[4], taint)
    return modules


@fact
def is_loaded(node: Node, name: str) -> bool:
    """Whether a module is loaded and ready, or built in with its own folder in /sys.

    Source: kmod, kmod_module_get_initstate(), which decides what modprobe considers as loaded.
    """
    name = canonical(name)
    try:
        module = loaded(node).get(name)
    except EvidenceMissing as error:
        shown = node.exists(f"sys/module/{name}/initstate")
        if not shown and error.missing.why is MissingReason.GARBLED and not node.exists("sys/module"):
            raise error.fresh() from None
        return shown
    return module is not None and module.state == "Live"


@fact
def running(node: Node, name: str) -> RunningModule:
    """What the kernel shows of a loaded module. Raises EvidenceAbsent if it is not loaded."""
    folder = f"sys/module/{canonical(name)}"
    names = node.list(folder)

    def text(file: str) -> str:
        return node.text(f"{folder}/{file}").strip() if file in names else ""

    return RunningModule(
        text("version"),
        text("srcversion"),
        text("taint"),
        signed_number(text("refcnt")),
        _parameters(node, folder) if "parameters" in names else {},
    )


def _parameters(node: Node, folder: str) -> dict[str, str]:
    """The values of the readable parameters; some are write-only or only for root."""
    names = if_absent((), node.list, f"{folder}/parameters")
    return dict(
        each_known(lambda name: (name, node.text(f"{folder}/parameters/{name}").rstrip("\n")), names)
    )
