"""Devices that the kernel lists and that no program can use: one answer for pictures, tables and estimates,
and the verdict's own, since the same rules give it."""

from __future__ import annotations

from gdrkit.facts.pci import PciGpu
from gdrkit.facts.rdma import RdmaDevice
from gdrkit.node import Node
from gdrkit.rules.device_not_answering import device_not_answering
from gdrkit.rules.driver_not_loaded import driver_not_loaded
from gdrkit.rules.engine import judge
from gdrkit.rules.gpu_needs_reset import gpu_needs_reset
from gdrkit.rules.gpu_passed_through import gpu_passed_through
from gdrkit.rules.gpu_refused import gpu_excluded, gpu_refused_by_driver
from gdrkit.rules.nic_failed import nic_failed
from gdrkit.rules.nvswitch_fabric_down import nvswitch_fabric_down
from gdrkit.rules.rule import Failed

BY_FILES = {device_not_answering: "no answer", gpu_passed_through: "in a VM", gpu_excluded: "excluded"}
BY_DRIVER = {
    gpu_needs_reset: "to reset",
    gpu_refused_by_driver: "refused",
    nvswitch_fabric_down: "no fabric",
}
"""The rules that ask nvidia-smi where files do not decide. Of each rule two words that fit below a box."""
OF_NICS = {device_not_answering: "no answer", nic_failed: "failed"}
OF_NODE = {driver_not_loaded: "no driver"}
WORDS = {rule.code: word for rule, word in (BY_FILES | BY_DRIVER | OF_NICS | OF_NODE).items()}


def unusable_gpu(node: Node, gpu: PciGpu, *, ask_driver: bool = True) -> str | None:
    """The code of why no program can use a GPU; None if one can, or if that is not known."""
    rules = (*BY_FILES, *(BY_DRIVER if ask_driver else ()))
    found = next((rule.code for rule in rules if isinstance(judge(node, rule, gpu), Failed)), None)
    if found is None and isinstance(judge(node, driver_not_loaded, "node"), Failed):
        return driver_not_loaded.code
    return found


def unusable_nic(node: Node, nic: RdmaDevice) -> str | None:
    """The code of why no program can use an RDMA device; None if one can, or if that is not known."""
    return next((rule.code for rule in OF_NICS if isinstance(judge(node, rule, nic), Failed)), None)
