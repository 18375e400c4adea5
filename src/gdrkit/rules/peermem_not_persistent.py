"""nvidia-peermem that the next boot will not bring back."""

from __future__ import annotations

from gdrkit.facts.kubernetes import has_gpu_operator
from gdrkit.facts.modprobe_config import autoload, configuration
from gdrkit.facts.modules import is_loaded
from gdrkit.node import Node, if_absent
from gdrkit.rules.module_subjects import peermem
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import Failed, Layer, NotApplicable, Outcome, Passed, rule

UNITS = ("etc/systemd/system", "usr/lib/systemd/system", "lib/systemd/system")


@rule(
    "peermem-not-persistent",
    Layer.DRIVER,
    per=peermem,
    whole_machine=True,
    remedies=(RemedyName.PERSIST_PEERMEM,),
    cost="After the next boot the peermem path is gone, and jobs get slower without an error.",
    references=("https://www.freedesktop.org/software/systemd/man/latest/modules-load.d.html",),
)
def peermem_not_persistent(node: Node, module: str) -> Outcome:
    """nvidia-peermem is loaded now, and nothing will load it at the next boot.

    Cost: Nothing now; at the next boot the module is missing.

    How to tell: nvidia_peermem in /proc/modules; no line of it in modules-load.d or /etc/modules, no soft
    dependency of nvidia, no service of its name. A line in modules-load.d does not help a module that is
    blacklisted: systemd obeys blacklists there.

    What to do: `echo nvidia-peermem > /etc/modules-load.d/nvidia-peermem.conf`. Where dma-buf is ready,
    better not to need it.

    Why: Somebody ran modprobe by hand.

    Source: modules-load.d(5); systemd src/modules-load/modules-load.c, KMOD_PROBE_APPLY_BLACKLIST.
    """
    if not is_loaded(node, module):
        return NotApplicable("it is not loaded now")
    if has_gpu_operator(node):
        return NotApplicable("a container of the GPU Operator loads it")
    entry = next((entry for entry in autoload(node) if entry.name == module), None)
    blacklisted = configuration(node).blacklisted(module)
    if entry and blacklisted:
        return Failed(
            seen=f"{entry.file}:{entry.line} names it, {blacklisted.file}:{blacklisted.line} blacklists it",
            expected="no blacklist entry",
            subject=module,
        )
    if entry:
        return Passed(f"{entry.file}:{entry.line}")
    if other := _another_way(node, module):
        return Passed(other)
    return Failed(seen="nothing loads it at boot", expected="a line in modules-load.d", subject=module)


def _another_way(node: Node, module: str) -> str:
    """A soft dependency of the driver, or a service of that name; "" if there is none."""
    softdep = configuration(node).soft_dependencies("nvidia")
    if softdep and module in (*softdep.pre, *softdep.post):
        return f"{softdep.file}:{softdep.line}"
    for folder in UNITS:
        for name in if_absent((), node.list, folder):
            if "peermem" in name.replace("_", "").replace("-", "") and name.endswith(".service"):
                return f"{folder}/{name}"
    return ""
