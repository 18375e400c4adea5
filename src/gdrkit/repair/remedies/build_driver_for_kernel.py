"""A kernel that was upgraded without the driver's modules has them, installed or built."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.facts.driver import driver_flavour, driver_version
from gdrkit.facts.driver_files import DRIVER, driver_path
from gdrkit.facts.kernel import release
from gdrkit.facts.libraries import libcuda_version
from gdrkit.facts.module_index import module_path
from gdrkit.facts.module_state import kernel_match
from gdrkit.facts.modules import PEERMEM, is_loaded
from gdrkit.facts.other_kernels import driver_elsewhere
from gdrkit.facts.running_files import is_loaded_for_sure
from gdrkit.facts.secure_boot import signatures_needed
from gdrkit.node import Node, Supposition, if_missing
from gdrkit.repair.platforms.action import Action, AskPerson, RunCommand
from gdrkit.repair.platforms.change import Change
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.platform import Platform
from gdrkit.repair.remedies.load_driver import LOAD_DRIVER
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.rules.remedy_names import RemedyName


def _effect(node: Node) -> Iterable[Supposition]:
    """The driver is loaded afterwards. Whether it then has a working nvidia-peermem is not known."""
    if is_loaded_for_sure(node, DRIVER) or _has_modules(node):
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


def _has_modules(node: Node) -> bool:
    """Whether there is a module file for this kernel. True also where that is not known."""
    try:
        driver_path(node)
        return kernel_match(node, DRIVER).misfit is None
    except EvidenceMissing as error:
        return error.missing.why is not MissingReason.ABSENT


def _procedure(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Install or build the modules for the running kernel, then load them.

    Sources: dkms(8), autoinstall; Ubuntu's packages linux-modules-nvidia-BRANCH-RELEASE, which Canonical
    signs; NVIDIA driver installation guide, pre-installation actions: headers of the running kernel."""
    yield from build_for(node, platform, release(node))
    if driver_elsewhere(node) is not None:
        yield from LOAD_DRIVER.procedure(node, platform, choices)


def build_for(node: Node, platform: Platform, kernel: str) -> Iterator[Action]:
    """Install or build the modules for a kernel: the running one, or one that boots next."""
    found = driver_elsewhere(node)
    if found is None:
        yield AskPerson(what=f"install the driver's modules for {kernel}")
        return
    if found.dkms is None:
        name = f"{found.prebuilt}-{kernel}"
        yield platform.packages(
            name, why="the same modules for the running kernel", undo=((*platform.remove, name),)
        )
        flavour = re.sub(r"^[\d.]+-\d+-", "", kernel)
        yield AskPerson(
            what="for the kernels to come, install the metapackage too, such as "
            f"{found.prebuilt}-{flavour}: it follows that of the kernel"
        )
    else:
        headers = platform.headers.format(kernel=kernel)
        yield platform.packages(
            headers, why="without headers, DKMS skips the build", undo=((*platform.remove, headers),)
        )
        yield RunCommand(
            argv=("dkms", "autoinstall", "-k", kernel),
            why=f"build {found.dkms.name} {found.dkms.version} for the running kernel",
            undo=(("dkms", "uninstall", "-m", found.dkms.name, "-v", found.dkms.version, "-k", kernel),),
            never_executed=True,
        )


BUILD_DRIVER_FOR_KERNEL = Remedy(
    name=RemedyName.BUILD_DRIVER_FOR_KERNEL,
    title="install or build the driver's modules for the running kernel, and load them",
    effect=_effect,
    changes=Change.DRIVER,
    becomes="the driver of the former kernel runs with this one; whether nvidia-peermem loads is unknown",
    risk="a failed build leaves no driver, as now; if signatures are enforced, the modules load only if "
    "signed by a trusted key, as those of distributions are",
    undo="boot the former kernel, which keeps its modules",
    drops_signatures=True,
    procedure=_procedure,
    commands=(
        "dkms autoinstall -k KERNEL",
        "dkms uninstall -m DKMS -v VERSION -k KERNEL",
        *LOAD_DRIVER.commands,
    ),
)
