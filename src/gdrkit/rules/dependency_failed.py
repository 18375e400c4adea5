"""The rule about a module that cannot be loaded because a dependency cannot."""

from __future__ import annotations

from gdrkit.evidence import EvidenceMissing
from gdrkit.facts.module_state import is_in_kernel
from gdrkit.facts.modules import dependencies
from gdrkit.node import Node
from gdrkit.rules.deciding_command import DMESG, DecidingCommand
from gdrkit.rules.engine import judge
from gdrkit.rules.load_order import OF_ANY_MODULE
from gdrkit.rules.module_admission import modules_are_disabled
from gdrkit.rules.module_subjects import not_applicable_if_loaded, peermem_module
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import ADDRESS, Failed, Layer, Outcome, Passed, Unknown, rule
from gdrkit.rules.stage import LoadPosition, Stage


@rule(
    "dependency-failed",
    Layer.KERNEL,
    per=peermem_module,
    takes=(ADDRESS,),
    loading=LoadPosition(Stage.DEPENDENCIES, 1),
    reported_by=(DecidingCommand(DMESG, "an error of a module that it needs, such as nvidia or ib_core"),),
    remedies=(RemedyName.SIGN_MODULE,),
    cost="The module cannot be loaded before the modules that it depends on.",
)
def dependency_failed(node: Node, module: str) -> Outcome:
    """A module that this one depends on cannot be loaded.

    Cost: modprobe does not even try the module itself.

    How to tell: modprobe loads dependencies first, and reports their errors under the name of the module
    that you asked for. So "could not insert 'nvidia_peermem': No such device" is about nvidia, which found
    no GPU, and "Key was rejected by service" may be about any module in the chain.
    `modprobe --show-depends nvidia_peermem` lists the chain.

    What to do: Load the dependencies one by one, by their own names, such as `sudo modprobe nvidia`; each
    then reports its own error. Fix the one that fails.

    Why: The other module is unsigned, built for another kernel, blocked by an install line, or its init
    fails: without a GPU, nvidia returns ENODEV.

    Source: kmod libkmod-module.c, kmod_module_probe_insert_module().
    """
    if (not_applicable := not_applicable_if_loaded(node, module)) is not None:
        return not_applicable
    unknown: Unknown | None = None
    for name in dependencies(node, module):
        if is_in_kernel(node, name):
            continue
        for check in OF_ANY_MODULE:
            outcome = judge(node, check, name)
            if isinstance(outcome, Failed) and check is not modules_are_disabled and outcome.takes is None:
                return Failed(
                    seen=f"{name}: {check.code}: {outcome.seen}",
                    expected=f"a {name} that can be loaded",
                    subject=module,
                )
            if isinstance(outcome, Unknown):
                unknown = unknown or outcome
    if unknown is not None:
        raise EvidenceMissing(unknown.missing)
    return Passed("its dependencies pass every check before their init")
