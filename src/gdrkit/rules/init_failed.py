"""The rule about a module whose own init fails."""

from __future__ import annotations

from gdrkit.evidence import Confidence, Missing, MissingReason
from gdrkit.evidence.quoting import quoted
from gdrkit.facts.module_init import InitOutcome, init
from gdrkit.node import Node
from gdrkit.rules.deciding_command import DMESG, DecidingCommand
from gdrkit.rules.module_subjects import not_applicable_if_loaded, peermem_module
from gdrkit.rules.rule import ADDRESS, Layer, NotApplicable, Outcome, Passed, rule
from gdrkit.rules.stage import LoadPosition, Stage


@rule(
    "init-failed",
    Layer.KERNEL,
    per=peermem_module,
    takes=(ADDRESS,),
    loading=LoadPosition(Stage.INIT, 3),
    reported_by=(DecidingCommand(DMESG, "an error that {module} itself logs"),),
    cost="The module cannot be loaded.",
)
def init_failed(node: Node, module: str) -> Outcome:
    """The kernel accepted the module, but the module's own init returned an error.

    Cost: The module is not loaded.

    How to tell: modprobe prints the error that init returned, and the kernel's log has no line unless the
    module itself logs: run `sudo modprobe nvidia_peermem; sudo dmesg | tail`. The error can mislead: ENOENT
    reads like a missing symbol, EINVAL like a bad CRC, and with EEXIST modprobe even exits 0 although the
    module is not loaded.

    What to do: Read what the module logs, and fix the cause that it names. A file does not show what its
    init will return, so gdrkit reports nothing about a module before it is loaded for the first time.

    Why: The device is missing, a resource is in use, or the module decided to refuse. nvidia-peermem as a
    stub is the best known case and has a code of its own, peermem-stub.

    Source: Linux kernel/module/main.c, do_init_module().
    """
    if (not_applicable := not_applicable_if_loaded(node, module)) is not None:
        return not_applicable
    found = init(node, module)
    if found is InitOutcome.REGISTERS:
        return Passed("it registers with the RDMA core, which is loaded")
    if found is InitOutcome.STUB:
        return NotApplicable("a stub, which has a finding of its own")
    node.cite(f"init of {module}", text="not known", confidence=Confidence.LIKELY)
    missing = Missing(
        f"init of {module}",
        MissingReason.UNDECIDED,
        f"sudo modprobe {quoted(module)}; sudo dmesg | tail",
    )
    return Passed("no reason is known why its init would fail", lacking=(missing,))
