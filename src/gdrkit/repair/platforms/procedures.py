"""How a step is carried out on a node: the actions of its remedy, each of an allowed shape."""

from __future__ import annotations

from collections.abc import Iterable

from gdrkit.evidence import EvidenceMissing, MissingReason
from gdrkit.facts.kernel import release
from gdrkit.node import Node
from gdrkit.repair.platforms import container, job, operator
from gdrkit.repair.platforms.action import Action, AskPerson, Procedure
from gdrkit.repair.platforms.boot_quoting import for_kernel
from gdrkit.repair.platforms.change import Change
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.command_shapes import fault, is_release
from gdrkit.repair.platforms.families import family
from gdrkit.repair.platforms.immutable import carry_out as by_image
from gdrkit.repair.platforms.immutable_systems import CAPABILITY, immutable
from gdrkit.repair.platforms.means import CONTAINER, OPERATOR, Means, by_pods, means
from gdrkit.repair.platforms.platform import without_packages
from gdrkit.repair.remedies.remedy import Remedy


def procedure_for(node: Node, remedy: Remedy, choices: ProcedureChoices) -> Procedure:
    """The exact commands and files of a step on this node, or what its platform has in their place.

    If the distribution is not supported, or evidence is missing, the procedure only says what to achieve. So
    it does if a command has another shape than those that the remedy and the platform declare. If the
    platform cannot do it, it says why.
    """
    way = means(node, remedy)
    if way.cannot:
        actions: tuple[Action, ...] = (AskPerson(what=f"not possible here: {way.cannot}"),)
        return Procedure(remedy=remedy.name, platform=way.platform, actions=actions)
    try:
        found = _actions(node, remedy, choices, way)
        if found is None:
            return _by_hand(remedy, "", "")
        actions = tuple(found)
    except EvidenceMissing as error:
        missing = error.missing
        return _by_hand(remedy, way.platform, f"{missing.source} is missing; {missing.ask}")
    platform = family(node)
    shapes = (*remedy.commands, *(platform.commands if platform else ()))
    wrong = _unusual_release(node) or next(filter(None, (fault(action, shapes) for action in actions)), "")
    if wrong:
        return _by_hand(remedy, way.platform, wrong)
    return Procedure(remedy=remedy.name, platform=way.platform, actions=actions)


def _actions(node: Node, remedy: Remedy, choices: ProcedureChoices, way: Means) -> Iterable[Action] | None:
    """None where nothing is known of the distribution."""
    system = immutable(node)
    if by_pods(node, remedy) and way.platform != CONTAINER:
        return (AskPerson(what=CAPABILITY.what),)
    if remedy.changes is Change.JOB and (way.platform == CONTAINER or system is not None):
        return job.carry_out(node, remedy, choices)
    if way.platform == CONTAINER:
        return container.carry_out(remedy)
    if way.platform == OPERATOR:
        return operator.carry_out(node, remedy)
    if system is not None:
        return by_image(node, system, remedy, choices)
    if (platform := family(node)) is not None:
        return remedy.procedure(node, platform, choices)
    if remedy.changes is not Change.ARGUMENT:
        return None

    def argument(given: str, name: str) -> tuple[Action, ...]:
        del name
        how = f"add {for_kernel(given)} to the kernel's command line in this distribution's own way"
        often = "often GRUB_CMDLINE_LINUX in /etc/default/grub, after which GRUB's menu is written anew"
        return (AskPerson(what=f"make sure that {remedy.becomes}: {how} ({often})"),)

    found = remedy.procedure(node, without_packages("", argument), choices)
    return [action for action in found if isinstance(action, AskPerson)] or None


def _unusual_release(node: Node) -> str:
    """Why the kernel's release fits no command; "" if it does, or is only not collected."""
    try:
        kernel = release(node)
    except EvidenceMissing as error:
        return error.missing.ask if error.missing.why is MissingReason.GARBLED else ""
    return "" if is_release(kernel) else f"not a kernel release: {kernel}"


def _by_hand(remedy: Remedy, platform: str, why: str) -> Procedure:
    """A procedure that says what to achieve, and why there are no commands."""
    what = f"make sure that {remedy.becomes}" + (f" (no exact commands: {why})" if why else "")
    return Procedure(remedy=remedy.name, platform=platform, actions=(AskPerson(what=what),))
