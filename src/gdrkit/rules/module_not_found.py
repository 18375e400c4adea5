"""The rule about a module that is not installed."""

from __future__ import annotations

from gdrkit.evidence import EvidenceAbsent
from gdrkit.facts.driver_files import CONTAINER, peermem_path
from gdrkit.facts.kubernetes import gpu_operator
from gdrkit.facts.modprobe_config import configuration
from gdrkit.facts.modules import builtin, module_path, modules_dir, require_index
from gdrkit.facts.virtual import scope
from gdrkit.node import Node, if_absent, if_missing
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.module_subjects import not_applicable_if_loaded, peermem_module
from gdrkit.rules.rule import ADDRESS, Failed, Layer, NotApplicable, Outcome, Passed, rule
from gdrkit.rules.stage import LoadPosition, Stage


@rule(
    "module-not-found",
    Layer.KERNEL,
    per=peermem_module,
    takes=(ADDRESS,),
    loading=LoadPosition(Stage.MODPROBE, 1),
    reported_by=(DecidingCommand("modinfo -n {file}", "`Module {file} not found`"),),
    cost="Programs that need the module do without it.",
    references=("man:modprobe(8)", "man:depmod(8)"),
)
def module_not_found(node: Node, module: str) -> Outcome:
    """No file of this module is installed for the running kernel.

    Cost: The module cannot be loaded, and programs that need it do without it.

    How to tell: `modinfo -n nvidia-peermem` says "Module nvidia-peermem not found". modprobe says "FATAL:
    Module ... not found in directory /lib/modules/<release>". depmod's list of the running kernel's modules
    has no such name, and no install line replaces it.

    What to do: Install the driver's modules for the running kernel (the distribution's package for this
    release, or `sudo dkms autoinstall` once the headers are installed). Then run `sudo depmod` and try
    again.

    Why: The package with the modules was installed for another kernel, most often because the kernel was
    upgraded since; DKMS skipped the build because the kernel's headers are missing; the module was copied
    there but depmod was not run; the driver's installer left it out; or this is a container whose
    /lib/modules is not the host's.

    Source: kmod tools/modprobe.c, insmod(); libkmod.c, kmod_lookup_alias_from_moddep_file().
    """
    if (not_applicable := not_applicable_if_loaded(node, module)) is not None:
        return not_applicable
    try:
        path = module_path(node, module)
        node.map(path)
    except EvidenceAbsent as absent:
        if _built_in(node, module):
            return NotApplicable(f"{module} is built into the kernel")
        if _in_a_container(node):
            return NotApplicable("a container's /lib/modules is not its host's")
        if _container_has_it(node):
            return NotApplicable("the driver's container has the file, and loads it")
        if configuration(node).install_command(module) is not None:
            return NotApplicable(f"an install line runs a command instead of loading {module}")
        require_index(node)
        return Failed(
            seen=f"{absent.missing.source} is not there",
            expected=f"{module}.ko below /{_folder(node)}, in depmod's list",
            subject=module,
        )
    return Passed(f"/{path}")


def _in_a_container(node: Node) -> bool:
    # An unknown scope is judged as a host; the trail of the answer records that.
    return if_missing(False, lambda: scope(node) == "container")


def _container_has_it(node: Node) -> bool:
    """Whether the GPU Operator's driver container has the file. Raises EvidenceMissing where its files were
    not collected, although the operator manages the driver."""
    managed = if_missing(None, gpu_operator, node) is not None
    path = if_absent("", peermem_path, node) if managed else if_missing("", peermem_path, node)
    return path.startswith(f"{CONTAINER}/")


def _built_in(node: Node, module: str) -> bool:
    return if_absent(False, builtin, node, module)


def _folder(node: Node) -> str:
    return if_absent("lib/modules", modules_dir, node)
