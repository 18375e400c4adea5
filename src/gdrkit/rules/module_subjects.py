"""Which modules the rules of loading ask about, and when they need not ask."""

from __future__ import annotations

from collections.abc import Iterable

from gdrkit.facts.driver_files import peermem_path
from gdrkit.facts.modules import PEERMEM, is_loaded, module_path, name_of
from gdrkit.facts.pci import gpus
from gdrkit.node import Node, if_missing
from gdrkit.rules.rule import NotApplicable


def peermem_module(node: Node) -> Iterable[str]:
    """nvidia_peermem, by the name of its file where a distribution renamed it."""
    return (file_name(node),) if gpu_expected(node) else ()


def peermem(node: Node) -> Iterable[str]:
    """nvidia_peermem, by the name that the kernel and its users call it."""
    return (PEERMEM,) if gpu_expected(node) else ()


def node_with_gpu(node: Node) -> Iterable[str]:
    """The node, for rules about what serves a GPU alone."""
    return ("node",) if gpu_expected(node) else ()


def gpu_expected(node: Node) -> bool:
    """False where somebody looked and there is no NVIDIA GPU: then nobody needs what serves one."""
    return if_missing(True, lambda: bool(gpus(node)))


def file_name(node: Node) -> str:
    """The name of nvidia-peermem's file, as a module; its usual one where no file is seen."""

    def as_installed() -> str:
        found = name_of(peermem_path(node))
        module_path(node, found)
        return found

    return if_missing(PEERMEM, as_installed)  # the rule of missing modules says what is missing


def in_kernel_already(node: Node, module: str) -> NotApplicable | None:
    """Why there is no question of loading a module; None if there is, or if nobody can tell."""
    return if_missing(
        None, lambda: NotApplicable(f"{module} is loaded") if is_loaded(node, module) else None
    )
