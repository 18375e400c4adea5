"""Which modules the rules about loading judge, and when they do not apply."""

from __future__ import annotations

from collections.abc import Iterable

from gdrkit.evidence import EvidenceMissing
from gdrkit.facts.driver import DRIVER
from gdrkit.facts.driver_files import driver_path, peermem_path
from gdrkit.facts.modules import PEERMEM, is_loaded, module_path, name_of
from gdrkit.facts.pci import gpus
from gdrkit.facts.running_files import is_loaded_for_sure
from gdrkit.node import Node, if_missing
from gdrkit.rules.capabilities import GPU_MEMORY, Need
from gdrkit.rules.gpu_passed_through import is_passed_through
from gdrkit.rules.rule import ADDRESS, NotApplicable


def peermem_module(node: Node) -> Iterable[str]:
    """nvidia_peermem, by the name of its file, which some distributions change."""
    return (file_name(node),) if gpu_expected(node) else ()


def modules_to_load(node: Node) -> Iterable[str]:
    """nvidia_peermem, and nvidia where a GPU of this machine waits for it."""
    yield from peermem_module(node)
    if if_missing(False, lambda: _waits_for_driver(node)):
        yield DRIVER


def _waits_for_driver(node: Node) -> bool:
    """Whether nvidia is not loaded although its file is there and a GPU is not passed through."""
    own = any(not is_passed_through(node, gpu) for gpu in gpus(node))
    return own and not is_loaded(node, DRIVER) and bool(driver_path(node))


def lost_without(module: str) -> tuple[Need, ...]:
    """What a machine lacks without a module: without nvidia, GPU memory cannot be registered at all."""
    return GPU_MEMORY if module == DRIVER else (ADDRESS,)


def peermem(node: Node) -> Iterable[str]:
    """nvidia_peermem, by the name that the kernel uses."""
    return (PEERMEM,) if gpu_expected(node) else ()


def node_with_gpu(node: Node) -> Iterable[str]:
    """The node, for rules that matter only with a GPU."""
    return ("node",) if gpu_expected(node) else ()


def gpu_expected(node: Node) -> bool:
    """Whether the machine has a GPU that it uses itself: else no rule about its modules applies.

    nvidia is loaded only where it found one: its init fails with ENODEV otherwise (kernel-open/nvidia/nv.c).
    So a machine whose GPUs are all gone since is still judged: what is wrong besides waits for their return.
    In a pasted text the writer looked for these modules. Else raises EvidenceMissing where neither is known,
    as of a storage node without one of its PCI devices."""
    try:
        found = gpus(node)
        return any(not is_passed_through(node, gpu) for gpu in found) if found else is_loaded(node, DRIVER)
    except EvidenceMissing:
        if is_loaded_for_sure(node, DRIVER) or is_pasted(node):
            return True
        raise


def is_pasted(node: Node) -> bool:
    """Whether the evidence is what a person chose to paste, not what was collected of a machine."""
    return node.host.source == "pasted"


def file_name(node: Node) -> str:
    """The module name of nvidia-peermem's file; the usual one if it is loaded, or if no file is found."""

    def as_installed() -> str:
        if if_missing(False, is_loaded, node, PEERMEM):
            return PEERMEM
        found = name_of(peermem_path(node))
        module_path(node, found)
        return found

    return if_missing(PEERMEM, as_installed)  # module-not-found reports a missing file


def not_applicable_if_loaded(node: Node, module: str) -> NotApplicable | None:
    """NotApplicable if the module is loaded; None if it is not, or if that is not known."""
    return if_missing(
        None, lambda: NotApplicable(f"{module} is loaded") if is_loaded(node, module) else None
    )
