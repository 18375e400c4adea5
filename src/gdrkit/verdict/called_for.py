"""Which rules a node calls for: those about what it is known to lack are not loaded for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gdrkit.catalogue import CALLED_FOR_BY, CODES, rule_of
from gdrkit.facts.driver import driver_build, driver_version
from gdrkit.facts.driver_files import DRIVER, driver_path, peermem_path
from gdrkit.facts.expectation import expectation
from gdrkit.facts.kubernetes import files, pod_logs, runs_pods
from gdrkit.facts.loaded_modules import is_loaded
from gdrkit.facts.pci import gpus
from gdrkit.facts.rdma import rdma_devices
from gdrkit.facts.unused_nics import unused_functions
from gdrkit.node import Node, fact, if_absent, if_missing
from gdrkit.programs.nccl.log import logs
from gdrkit.programs.verbs.perftest_log import runs
from gdrkit.rules.module_subjects import gpu_expected
from gdrkit.rules.rule import Rule


def rules_called_for(node: Node) -> tuple[Rule, ...]:
    """The rules that may have a subject on this node, and apply to it."""
    lacked = [modules for name, modules in CALLED_FOR_BY.items() if is_known_to_lack(node, name)]
    idle = frozenset().union(*lacked)
    return tuple(rule_of(code) for code, module in CODES.items() if module not in idle)


@fact
def is_known_to_lack(node: Node, name: str) -> bool:
    """Whether a node lacks something that calls for rules; False where that is not known."""
    return if_missing(False, LACKS[name], node)


def _no_gpu(node: Node) -> bool:
    return not gpus(node) and not gpu_expected(node)


def _no_nic(node: Node) -> bool:
    return not rdma_devices(node) and not unused_functions(node)


def _no_driver(node: Node) -> bool:
    parts: tuple[Callable[[Node], object], ...] = (driver_version, driver_build, driver_path, peermem_path)
    return not is_loaded(node, DRIVER) and all(if_absent(None, part, node) is None for part in parts)


LACKS: Mapping[str, Callable[[Node], bool]] = {
    "a GPU": _no_gpu,
    "a NIC": _no_nic,
    "a GPU or a NIC": lambda node: _no_gpu(node) and _no_nic(node),
    "NVIDIA's driver": _no_driver,
    "pods": lambda node: not (files(node) or pod_logs(node) or runs_pods(node)),
    "a log of a job": lambda node: not (logs(node) or runs(node)),
    "an expectation": lambda node: not expectation(node).file,
    "a message": lambda node: True,
}
"""How each is known to be lacking. A message of a program is in no file of a node."""
