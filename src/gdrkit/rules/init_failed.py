"""The rule about a module whose own init fails."""

from __future__ import annotations

from gdrkit.evidence import Confidence, Missing, MissingReason
from gdrkit.facts.module_init import InitOutcome, init
from gdrkit.node import Node
from gdrkit.rules.deciding_command import DMESG, DecidingCommand
from gdrkit.rules.module_subjects import in_kernel_already, peermem_module
from gdrkit.rules.rule import ADDRESS, Layer, NotApplicable, Outcome, Passed, rule
from gdrkit.rules.stage import LoadPosition, Stage


@rule(
    "init-failed",
    Layer.KERNEL,
    per=peermem_module,
    takes=(ADDRESS,),
    loading=LoadPosition(Stage.INIT, 3),
    reported_by=(DecidingCommand(DMESG, "a complaint of {module} itself, in words of its own"),),
    cost="the module cannot be loaded",
)
def init_failed(node: Node, module: str) -> Outcome:
    """The kernel accepted the module, and its own init then returned an error.

    Cost: The module is not loaded.

    How to tell: modprobe prints the error that init returned, whatever it is, and the kernel's log has
    nothing, unless the module itself logs. ENOENT reads like a missing symbol, EINVAL like a bad CRC, and
    for EEXIST modprobe even exits 0 while the module is not loaded.

    What to do: Look at what the module logs. Nobody can tell from a file what an init will return; so
    nothing is said against a module that nobody has tried to load.

    Why: There is no device for it, a resource is taken, or the module decided so: nvidia-peermem
    as a stub is the best known case and has a code of its own.

    Source: Linux kernel/module/main.c, do_init_module().
    """
    if (outside := in_kernel_already(node, module)) is not None:
        return outside
    found = init(node, module)
    if found is InitOutcome.REGISTERS:
        return Passed("registers with the RDMA core, which is loaded")
    if found is InitOutcome.STUB:
        return NotApplicable("a stub, which is a finding of its own")
    node.cite(f"init of {module}", text="nothing is known of it", confidence=Confidence.LIKELY)
    missing = Missing(
        f"init of {module}", MissingReason.UNDECIDED, f"sudo modprobe {module}; sudo dmesg | tail"
    )
    return Passed("nothing is known against its init", lacking=(missing,))
