"""nvidia-peermem is loaded, but not at the next boot."""

from __future__ import annotations

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.facts.boot_loading import other_loader, scripted_loader
from gdrkit.facts.expected_gpu import has_own_driver
from gdrkit.facts.kubernetes import has_gpu_operator
from gdrkit.facts.modprobe_config import configuration
from gdrkit.facts.modules import is_loaded
from gdrkit.facts.modules_load import autoload
from gdrkit.node import Node
from gdrkit.rules.module_subjects import peermem
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import Failed, Layer, NotApplicable, Outcome, Passed, rule


@rule(
    "peermem-not-persistent",
    Layer.DRIVER,
    per=peermem,
    whole_machine=True,
    remedies=(RemedyName.PERSIST_PEERMEM,),
    cost="After the next boot the peermem path is gone, and jobs become slower without an error.",
    references=("https://www.freedesktop.org/software/systemd/man/latest/modules-load.d.html",),
)
def peermem_not_persistent(node: Node, module: str) -> Outcome:
    """nvidia-peermem is loaded now, but nothing loads it at the next boot.

    Cost: None now; after the next boot the module is missing.

    How to tell: `lsmod` lists nvidia_peermem, but no line in modules-load.d or /etc/modules, no soft
    dependency of nvidia, no service, no udev rule and no rc.local names it. A line in modules-load.d has no
    effect if the module is blacklisted: systemd obeys blacklists there.

    What to do: Run `echo nvidia-peermem | sudo tee /etc/modules-load.d/nvidia-peermem.conf`. If dma-buf is
    ready, it is better to do without nvidia-peermem.

    Why: The module was loaded by hand with modprobe.

    Source: modules-load.d(5); systemd src/modules-load/modules-load.c, KMOD_PROBE_APPLY_BLACKLIST.
    """
    if not is_loaded(node, module):
        return NotApplicable("it is not loaded now")
    if has_gpu_operator(node):
        return NotApplicable("a container of the GPU Operator loads it")
    entry = next((entry for entry in autoload(node) if entry.name == module), None)
    blacklisted = configuration(node).blacklisted(module)
    where = f"{blacklisted.file}:{blacklisted.line} blacklists it" if blacklisted else ""
    if entry and where:
        return Failed(
            seen=f"{entry.file}:{entry.line} names it, {where}",
            expected="no blacklist entry",
            subject=module,
        )
    if entry:
        return Passed(f"{entry.file}:{entry.line}")
    if other := other_loader(node, module) or scripted_loader(node, module):
        return Passed(other)
    if not has_own_driver(node):  # a container brought it, or an installer that this disk does not show
        source = f"what loads {module}, of which this disk has no file"
        raise EvidenceMissing(Missing(source, MissingReason.UNDECIDED, "kubectl get clusterpolicy -o yaml"))
    return Failed(
        seen="; ".join(filter(None, ("nothing loads it at boot", where))),
        expected="a line in modules-load.d" + (", and no blacklist entry" if where else ""),
        subject=module,
    )
