"""The verdict after the next boot, and what both kinds of boot need to reach it: that of the kernel that
runs, and that of another one."""

from __future__ import annotations

from msgspec import Struct

from gdrkit.catalogue import Code
from gdrkit.evidence import Confidence, EvidenceMissing, Missing, MissingReason
from gdrkit.loader import modprobe
from gdrkit.node import Node
from gdrkit.rules.driver_not_loaded import driver_not_loaded
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import Failed, Rule
from gdrkit.verdict.check_results import CheckResult
from gdrkit.verdict.node_state import ConsumerState
from gdrkit.verdict.path_state import State

STEP = "a reboot"
NVIDIA = "nvidia"
"""How the names of the driver's modules begin: all need nvidia."""
NOT_PERSISTENT: Code = "peermem-not-persistent"
AT_BOOT = (RemedyName.REBOOT, RemedyName.LOAD_DRIVER, RemedyName.RESTART_OFED)
"""Steps that the boot itself takes."""


class NextBoot(Struct, frozen=True, kw_only=True):
    """The verdict of one program after the next boot."""

    state: State
    kernel: str = ""  # that boots; "" if not known
    cause: Code | None = None  # None unless it is blocked
    seen: str = ""  # what the boot will find, or the evidence that is missing
    steps: tuple[RemedyName, ...] = ()  # that keep it ready, taken before the boot
    advice: str = ""  # what keeps it ready, where no step and no command does
    commands: tuple[str, ...] = ()  # that keep it ready, where they are for a kernel that does not run yet
    confidence: Confidence = Confidence.CERTAIN


def undecided(source: str, ask: str = "gdr doctor") -> EvidenceMissing:
    """Only the boot itself decides, and no one reboots to find out: `gdr doctor` tells it afterwards."""
    return EvidenceMissing(Missing(source, MissingReason.UNDECIDED, ask))


def is_accepted(node: Node, module: str) -> bool:
    """Whether modprobe is predicted to load a module. Raises EvidenceMissing where that is not decided."""
    prediction = modprobe(node, module)
    if prediction.undecided:
        raise undecided(f"result of loading {module} at boot", f"gdr modprobe {module}")
    return prediction.loaded


def cause_of(state: ConsumerState) -> tuple[CheckResult, Failed]:
    """What blocks a program after the boot. Raises EvidenceMissing where nothing is known to."""
    blocked_by = state.worst.blocked_by if state.worst else ()
    no_driver = (result for result in blocked_by if result.rule is driver_not_loaded)
    cause = next(no_driver, state.cause)  # without the driver, whatever else is missing follows
    if cause is None or not isinstance(cause.outcome, Failed):
        missing = state.worst.missing if state.worst else ()
        raise undecided(missing[0].source if missing else "verdict after the boot")
    return cause, cause.outcome


def with_subject(rule: Rule, outcome: Failed) -> str:
    """What a rule saw, with what it is about."""
    if outcome.subject in outcome.seen:
        return outcome.seen
    about = f"{outcome.subject} does not load" if rule.loading is not None else outcome.subject
    return f"{about}: {outcome.seen}"
