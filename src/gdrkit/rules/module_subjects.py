"""Which modules the rules about loading judge, and when they do not apply."""

from __future__ import annotations

from collections.abc import Iterable

from gdrkit.facts.driver_files import peermem_path
from gdrkit.facts.modules import PEERMEM, is_loaded, module_path, name_of
from gdrkit.facts.pci import gpus
from gdrkit.node import Node, if_missing
from gdrkit.rules.rule import NotApplicable


def peermem_module(node: Node) -> Iterable[str]:
    """nvidia_peermem, by the name of its file, which some distributions change."""
    return (file_name(node),) if gpu_expected(node) else ()


def peermem(node: Node) -> Iterable[str]:
    """nvidia_peermem, by the name that the kernel uses."""
    return (PEERMEM,) if gpu_expected(node) else ()


def node_with_gpu(node: Node) -> Iterable[str]:
    """The node, for rules that matter only with a GPU."""
    return ("node",) if gpu_expected(node) else ()


def gpu_expected(node: Node) -> bool:
    """False if the PCI devices are known and none is an NVIDIA GPU: no rule about its modules applies."""
    return if_missing(True, lambda: bool(gpus(node)))


def file_name(node: Node) -> str:
    """The module name of nvidia-peermem's file; the usual one if no file is found."""

    def as_installed() -> str:
        found = name_of(peermem_path(node))
        module_path(node, found)
        return found

    return if_missing(PEERMEM, as_installed)  # module-not-found reports a missing file


def not_applicable_if_loaded(node: Node, module: str) -> NotApplicable | None:
    """NotApplicable if the module is loaded; None if it is not, or if that is not known."""
    return if_missing(
        None, lambda: NotApplicable(f"{module} is loaded") if is_loaded(node, module) else None
    )
