"""Which file a loaded module came from. What runs is not always what lies on disk.

A package can be installed, rebuilt or removed while the old module stays in the kernel, and an initramfs can
bring another copy than the one that depmod found.
"""

from __future__ import annotations

from msgspec import Struct

from gdrkit.evidence import Confidence, EvidenceAbsent, EvidenceMissing, Missing, MissingReason
from gdrkit.evidence.quoting import quoted
from gdrkit.facts.loaded_modules import is_loaded, loaded, running
from gdrkit.facts.module_files import build_id, information
from gdrkit.facts.module_index import all_paths, module_path, require_index
from gdrkit.formats.module_name import canonical
from gdrkit.node import Node, fact, if_missing

RDMA_STACK = ("mlx_compat", "ib_core", "ib_uverbs", "mlx5_core", "mlx5_ib")
"""The modules whose builds the rules compare: an OFED replaces all of them together."""
OPENIBD = "etc/init.d/openibd"
_GONE = "its file is gone"


class RunningFile(Struct, frozen=True):
    """The file of a loaded module."""

    path: str  # "" if no file on disk is the module that runs
    differs: str = ""  # how the one that modprobe would load differs from it; "" if it does not


@fact
def running_file(node: Node, name: str) -> RunningFile:
    """The file that a loaded module came from. Raises EvidenceAbsent if it is not loaded.

    The file that modprobe would load is compared first, then every other installed one.
    """
    if not is_loaded(node, name):
        ask = f"grep -w {quoted(canonical(name))} /proc/modules"
        raise EvidenceAbsent(Missing(f"loaded {name}", MissingReason.ABSENT, ask))
    try:
        path = module_path(node, name)
        differs = _difference(node, name, path)
    except EvidenceAbsent:
        require_index(node)  # without the folder of modules, as in a container, no file is known to be gone
        return RunningFile("", _GONE)
    if not differs:
        return RunningFile(path)
    for other in all_paths(node, name):
        if other != path and not if_missing("not read", _difference, node, name, other):
            return RunningFile(other, differs)
    return RunningFile("", differs)


def _difference(node: Node, name: str, path: str) -> str:
    """How a file differs from the loaded module; "" if nothing shows that it does.

    The build id is a hash of the module's content; srcversion is one of its sources, which a rebuild for
    another kernel or with other options keeps. Sources: ld(1), --build-id; Linux
    scripts/mod/sumversion.c; kernel/module/main.c, check_modinfo(), for the taint of foreign modules.
    """
    module = information(node, path)
    folder = f"sys/module/{canonical(name)}"
    note = if_missing(b"", node.read, f"{folder}/notes/.note.gnu.build-id")
    own = if_missing(b"", build_id, node, path)
    if note and own:
        return "" if note == own else "its build id is another"
    present = if_missing(None, lambda: loaded(node).get(canonical(name)))
    foreign = None if present is None else "O" in present.taint
    if foreign is not None and foreign == module.intree:
        return f"it is {'not ' if foreign else ''}of the kernel's own build"
    now = if_missing(None, running, node, name)
    shown = if_missing((), node.list, folder)
    for field in ("srcversion", "version") if now is not None else ():
        runs, found = getattr(now, field), getattr(module, field)
        # sysfs has no file for a field that a module lacks; a sosreport has only some of the files.
        if runs != found and ((runs and found) or "holders" in shown):
            return f"its {field} is {runs or 'not set'}, the file's {found or 'not set'}"
    if not (now and now.srcversion) and (foreign or not module.intree):
        node.cite(f"{folder}/srcversion", text="not known", confidence=Confidence.LIKELY)
    return ""


@fact
def loaded_path(node: Node, name: str) -> str:
    """The file that a loaded module came from; if it is not loaded, the file that modprobe would load.

    Raises EvidenceMissing if no file on disk is the loaded module.
    """
    if not is_loaded(node, name):
        return module_path(node, name)
    found = running_file(node, name)
    if not found.path:
        raise EvidenceMissing(not_the_file(node, name, found.differs))
    return found.path


def not_the_file(node: Node, name: str, differs: str) -> Missing:
    """That the contents of a running module are not known, as no file has them. A registration shows what
    it can do, and changes nothing; a restart would run the file, which answers another question."""
    source = f"the running {canonical(name)} is not the file on disk ({differs})"
    return Missing(source, MissingReason.UNDECIDED, "gdr probe memory")


@fact
def replaced(node: Node, name: str) -> str:
    """How the file that modprobe would load differs from the loaded module; "" if it does not, or if that is
    not known."""
    return if_missing("", lambda: running_file(node, name).differs)


@fact
def is_loaded_for_sure(node: Node, name: str) -> bool:
    """Whether the module is loaded; False also where that is not known."""
    return if_missing(False, is_loaded, node, name)
