"""What to do, where the text shows a system that boots an image, or a driver that a container builds."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from gdrkit.catalogue import rule_of
from gdrkit.evidence.quoting import quoted
from gdrkit.explain.answer import FAR
from gdrkit.explain.explanation import Answer
from gdrkit.explain.lines.blocks import EVIDENCE
from gdrkit.explain.lines.transcript import TextLine
from gdrkit.facts.driver import driver_flavour
from gdrkit.facts.modules import PEERMEM
from gdrkit.facts.object_owner import owner_of
from gdrkit.formats.regex import regex
from gdrkit.node import Node, if_missing
from gdrkit.repair.platforms.action import AskPerson
from gdrkit.repair.platforms.change import Change
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.immutable_systems import immutable
from gdrkit.repair.platforms.means import OPERATOR, means, platform_of
from gdrkit.repair.platforms.procedures import procedure_for
from gdrkit.repair.remedies import remedy_of
from gdrkit.report.here import POINTER, advice_here, in_guest, remedy_here
from gdrkit.rules.remedy_names import RemedyName


def of_platform(answer: Answer, node: Node) -> Answer:
    """An answer whose first step its machine can take."""
    system = immutable(node)
    if answer.cause is None or not answer.now:
        return answer
    if system is None:
        step = in_guest(node, answer.now[0])
        return replace(answer, now=(step, *answer.now[1:])) if step else _of_container(answer, node)
    of_peermem = PEERMEM in (answer.subject, rule_of(answer.cause).module)
    why = system.cannot.get(Change.LOADING, "") if of_peermem else ""
    if why:
        step = (
            f"Nothing can be installed for it: on {system.title}, {why}. Use dma-buf, which needs no such"
            f" module: {_by_hand(node, RemedyName.USE_DMABUF, answer.machine)}."
        )
        if if_missing("", driver_flavour, node) != "open":
            change = _by_hand(node, RemedyName.OPEN_KERNEL_MODULES, answer.machine)
            step += f" It needs the open modules: {change}."
    else:
        step = advice_here(node, answer.cause, answer.now[0])
        remedy = remedy_here(node, answer.cause)
        if POINTER in step and remedy is not None:  # `gdr fix` needs a node, and not its text
            if words := _by_hand(node, remedy, answer.machine):
                step = f"{words[:1].upper()}{words[1:]}."
            else:
                step = step.replace(
                    f"--steps {remedy}`", f"--steps {remedy} BUNDLE` with a file of `gdr collect`"
                )
    return replace(answer, now=(step, *answer.now[1:]))


_CONTENT = regex(r"write the lines below to (?P<file>\S+), as (?P<command>gdr config [^;]+) does")


def _by_hand(node: Node, name: RemedyName, machine: str) -> str:
    """What a person does for a remedy on a system that boots an image; of files, what writes them."""
    words = []
    for one in procedure_for(node, remedy_of(name), ProcedureChoices()).actions:
        if not isinstance(one, AskPerson):
            continue
        if found := _CONTENT.search(one.what):
            words.append(f"`{found['command']}` writes {found['file']}")
        else:
            lines = ", ".join(f"`{line}`" for line in one.commands)
            words.append(f"{one.what} ({lines})" if lines else one.what)
    return "; ".join(words).replace(" NODE ", f" {quoted(machine)} " if machine else " NODE ")


SIGNED = (
    "Nobody can sign it there: {}. Set driver.usePrecompiled: true, where there is an image for the kernel"
    " of the node, or turn Secure Boot off in its firmware."
)


def _of_container(answer: Answer, node: Node) -> Answer:
    """An answer without steps for a module that the GPU Operator's container builds and nobody can sign."""
    signs = RemedyName.SIGN_MODULE in rule_of(answer.cause or "").remedies
    if not signs or platform_of(node) != OPERATOR:
        return answer
    return replace(answer, now=(SIGNED.format(means(node, remedy_of(RemedyName.SIGN_MODULE)).cannot),))


_EDITS = regex(
    r"\b(?:ClusterPolicy|NicClusterPolicy|NVIDIADriver|useHostMofed|use_ocp_driver_toolkit|IPC_LOCK|kubectl"
    r" (?:patch|apply|edit))\b|\b(?:driver|ofedDriver|operator|rdma)\.\w|\brequest the resource\b"
)
"""What steps name that change an object of a cluster."""


FAR_IN_GUEST = (
    "The text shows a virtual machine, whose PCIe tree need not be the host's: ask whoever runs it for a"
    " file for NCCL_TOPO_FILE, or for a tree that shows which GPU and NIC share a switch. {}"
)
_GUEST = regex(
    r"\s*(?:Virtualization: +)?(?:kvm|qemu|vmware|microsoft|xen|amazon|google)\s*$"
    r"|.{0,80}\bHypervisor (?:vendor|detected): +\S|flags\s*:.* hypervisor\b"
)
"""What systemd-detect-virt, hostnamectl, lscpu, the kernel and /proc/cpuinfo print in a virtual machine."""


def of_guest(answer: Answer, lines: Iterable[TextLine]) -> Answer:
    """An answer about a distance, where the text shows that a hypervisor decides which one a guest sees."""
    far = answer.cause in FAR and answer.now
    if not far or not any(_GUEST.match(line.text) for line in lines if line.kind in EVIDENCE):
        return answer
    return replace(answer, now=(FAR_IN_GUEST.format(answer.now[0]), *answer.now[1:]))


def of_owner(answer: Answer, lines: Iterable[TextLine]) -> Answer:
    """An answer that changes an object of a cluster, with what manages the one that the text shows."""
    if not answer.now or not _EDITS.search(answer.now[0]):
        return answer
    shown = [line for line in lines if line.kind in EVIDENCE]
    owner = owner_of(line.text for line in shown)
    if owner is None:
        return answer
    line = shown[owner.at]
    step = f"{answer.now[0]} By line {line.number}, {owner.sentence}"
    return replace(answer, now=(step, *answer.now[1:]))
