"""Steps that every repair of a failed device needs: a person drains the node, and may open a ticket."""

from __future__ import annotations

from gdrkit.repair.platforms.action import AskPerson


def drain(reason: str) -> AskPerson:
    """Draining ends no job, but is a scheduler's business."""
    return AskPerson(
        what=f"drain the node: `scontrol update NodeName=NAME State=DRAIN Reason={reason}`, or "
        "`kubectl drain NAME --ignore-daemonsets`"
    )


def ticket(what: str) -> AskPerson:
    """What to do with a device that fails again. `what` says when."""
    return AskPerson(
        what=f"{what}, reseat the card, and have it replaced: attach the kernel log and the output of "
        "`sudo nvidia-bug-report.sh` to the ticket"
    )
