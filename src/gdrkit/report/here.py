"""What a page recommends, in the words of the node's platform; and what to ask the owner of the host."""

from __future__ import annotations

import re

from gdrkit.catalogue import rule_of
from gdrkit.evidence.quoting import in_prose
from gdrkit.facts.rdma import nics
from gdrkit.facts.virtual import is_administrator, virtual_machine
from gdrkit.node import Node, if_missing
from gdrkit.repair.platforms.change import Change
from gdrkit.repair.platforms.families import immutable
from gdrkit.repair.platforms.means import CONTAINER, OPERATOR, can_do, has_packages, platform_of
from gdrkit.repair.remedies import remedy_of
from gdrkit.report.answers import advice, deciding, first_cause, missing_of, split_sentences
from gdrkit.report.document import Report
from gdrkit.verdict.path_state import GOOD, State

_PACKAGES = (
    r"\b(?:apt|apt-get|dpkg|dnf|yum|zypper|dkms|DKMS|mokutil|grubby|update-grub|update-initramfs|dracut|"
    r"initramfs|DOCA-OFED|MLNX_OFED|openibd)\b|/etc/(?:modprobe|modules-load|default|init|security)|"
    r"modprobe\.d|modules-load\.d|\bpackages?\b|/usr/src|\binstaller\b"
)
_SHELL = r"\bsudo\b|\bsystemctl\b|\bmodprobe\b|\brmmod\b|\bsetpci\b|\bnvidia-smi\b|\bmlxfwreset\b|\bmst"
_HOST = (
    rf"{_PACKAGES}|{_SHELL}|\b[Rr]eboot|\b[Rr]estart|kernel command line|firmware setup|\bBIOS\b|\bhost\b"
)
_LACKS = {CONTAINER: _HOST, OPERATOR: r"\b(?:dkms|DKMS|mokutil)\b|modprobe\.d|modules-load\.d"}
"""What a sentence must not name, by platform; of a system that boots an image, packages and a shell."""


ESTIMATE = "`gdr estimate`"
"""What knows nothing of a node whose RDMA devices are not known."""


def advice_here(node: Node, code: str, given: str = "") -> str:
    """What to do about a code on this node: `given` or the page's first sentences where the platform can do
    them; else those of its sentences that it can, and where the rest is. "" for the page as it is."""
    words = given or advice(code)
    if ESTIMATE in words and not if_missing((), nics, node):
        given = words = " ".join(one for one in split_sentences(words) if ESTIMATE not in one)
    if has_packages(node):
        return given
    platform = platform_of(node)
    lacking = re.compile(_LACKS.get(platform, f"{_PACKAGES}|{_SHELL}"))
    sentences = split_sentences(words)
    kept = [one for one in sentences if not lacking.search(one)]
    if len(kept) == len(sentences):
        return given
    able = [name for name in rule_of(code).remedies if can_do(node, remedy_of(name))]
    if platform == CONTAINER and any(remedy_of(name).changes is not Change.JOB for name in able):
        return f"Ask the owner of the host for {' or '.join(able)}: `gdr fix` there prints the commands."
    if able:
        return f"`gdr fix --steps {able[0]}` says how {_on(platform, node)}."
    if kept:
        return " ".join(kept)
    if platform == CONTAINER:
        return "Ask the owner of the host: from inside the container, nothing can be done about it."
    return f"Nothing {_on(platform, node)}: its image decides."


def _on(platform: str, node: Node) -> str:
    system = immutable(node)
    return "for the GPU Operator" if platform == OPERATOR else f"on {system.title}" if system else "here"


def request(node: Node, report: Report) -> str:
    """One sentence to send to the owner of the host, for a reader who cannot change it: in a container, in a
    virtual machine without a NIC, or without root. "" if there is nothing to ask."""
    inside = report.node.scope == "container"
    plain = report.node.source == "live" and not if_missing(True, is_administrator, node)
    cause = first_cause(report)
    guest = if_missing("none", virtual_machine, node) != "none"
    without_nic = guest and cause is not None and cause.code == "no-rdma-device"
    if report.verdict.state in GOOD or not (inside or plain or without_nic):
        return ""
    where = "the host of my container" if inside else "the machine"
    name = f" {in_prose(report.node.hostname)}" if report.node.hostname else ""
    if report.verdict.state is State.UNKNOWN:
        return _for_evidence(report, f"{where}{name}")
    if cause is None or not cause.expected or not _is_of_host(cause.code):
        return ""  # where nothing was expected, nothing is missing
    seen = f"{in_prose(cause.seen)} [{cause.code}]"
    if without_nic:
        return (
            f"My virtual machine{name} has GPUs and no RDMA device ({cause.code}): could you give it one, "
            "or tell me which type of machine has GPUs with a NIC beside each?"
        )
    steps = [remedy_of(step.remedy).title for step in report.plan[0].steps] if report.plan else []
    asked = " and then ".join(steps) if steps else f"look at it with `gdr codes {cause.code}`"
    return (
        f"On {where}{name}, GPU memory does not reach the network directly: {seen}. Please {asked}. "
        "`gdr fix` there prints how; what `gdr collect` wrote here, without root, is attached."
    )


def _for_evidence(report: Report, where: str) -> str:
    found = deciding(report)
    if not found:
        return ""
    source, _ = missing_of(found[0])
    return (
        f"Could you run `sudo gdr collect` on {where} and send me the file? Without root I cannot see "
        f"whether GPU memory reaches the network directly there ({in_prose(source)})."
    )


def _is_of_host(code: str) -> bool:
    """Whether something outside the job may have to be done about a code."""
    remedies = rule_of(code).remedies
    return not remedies or any(remedy_of(name).changes is not Change.JOB for name in remedies)
