"""The remedy for a kernel that was upgraded without the driver's modules."""

from __future__ import annotations

from collections.abc import Iterable

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.facts.driver import DRIVER, driver_flavour, driver_path, driver_version
from gdrkit.facts.libraries import libcuda_version
from gdrkit.facts.module_state import kernel_match
from gdrkit.facts.modules import PEERMEM, is_loaded, module_path
from gdrkit.facts.other_kernels import driver_elsewhere
from gdrkit.facts.running_files import is_loaded_for_sure
from gdrkit.facts.secure_boot import signatures_needed
from gdrkit.node import Node, Supposition, if_missing
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.rules.remedy_names import RemedyName


def _build(node: Node) -> Iterable[Supposition]:
    """The driver is loaded afterwards. Whether it then has a working nvidia-peermem is not known."""
    if is_loaded_for_sure(node, DRIVER) or _fits(node):
        raise EvidenceMissing(
            Missing("a kernel without the driver's modules", MissingReason.UNDECIDED, "modinfo nvidia")
        )
    found = driver_elsewhere(node)
    if found is None:
        raise EvidenceMissing(
            Missing("a driver of another kernel", MissingReason.UNDECIDED, "ls /lib/modules; dkms status")
        )
    unsure = Missing("modules that are built", MissingReason.STALE, "modinfo nvidia nvidia-peermem")
    refused = if_missing(True, signatures_needed, node)
    yield is_loaded.becomes(unsure if refused else True, DRIVER)
    yield driver_flavour.becomes(found.flavour or unsure)
    yield driver_version.becomes(found.version or if_missing(None, libcuda_version, node) or unsure)
    yield driver_path.becomes(unsure)
    yield module_path.becomes(unsure, DRIVER)
    yield module_path.becomes(unsure, PEERMEM)


def _fits(node: Node) -> bool:
    """Whether there is a module file for this kernel. True also where that is not known."""
    try:
        driver_path(node)
        return kernel_match(node, DRIVER).misfit is None
    except EvidenceMissing as error:
        return error.missing.why is not MissingReason.ABSENT


build_for_kernel = Remedy(
    name=RemedyName.BUILD_DRIVER_FOR_KERNEL,
    title="install or build the driver's modules for the running kernel, and load them",
    effect=_build,
    becomes="the driver of the former kernel runs with this one; whether nvidia-peermem loads is unknown",
    risk="a failed build leaves no driver, as now; if signatures are enforced, the modules load only if "
    "signed by a trusted key, as those of distributions are",
    undo="boot the former kernel, which keeps its modules",
    replaces_driver=True,
    drops_signatures=True,
)
