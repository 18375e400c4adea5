"""The outcome of a rule for one subject; where evidence is missing, a line of the kernel log can decide."""

from __future__ import annotations

from gdrkit.evidence import Confidence, EvidenceAbsent, EvidenceMissing
from gdrkit.node import Node, fact, if_missing
from gdrkit.rules.rule import Failed, NotApplicable, Outcome, Rule, Unknown


@fact
def subjects_of(node: Node, rule: Rule) -> tuple[object, ...]:
    """The subjects of a rule on this node."""
    return tuple(rule.per(node))


@fact
def judge(node: Node, rule: Rule, subject: object) -> Outcome:
    """The outcome of the rule. If evidence is missing: a failure that the kernel log shows unambiguously, or
    not applicable if the rule asks for the file of a module that has none. Only rules about the loading of a
    module have such lines."""
    try:
        return rule.check(node, subject)
    except EvidenceMissing as error:
        if rule.loading is None:
            return Unknown(error.missing)
        if (logged := logged_failure(node, rule.code, subject)) is not None:
            return logged
        if isinstance(error, EvidenceAbsent) and _has_no_file(node, rule, subject):
            return NotApplicable(f"{subject} has no file")
        return Unknown(error.missing)


def _has_no_file(node: Node, asking: Rule, module: object) -> bool:
    """Whether another rule finds that a module has no file, about which a rule asks."""
    from gdrkit.rules.module_not_found import module_not_found

    return asking is not module_not_found and isinstance(judge(node, module_not_found, module), Failed)


def logged_failure(node: Node, code: str, subject: object) -> Failed | None:
    """The failure that the last line of the kernel log shows whose only cause is this code for this module.

    None without such a line, or without a log. Loaded here: only rules about the loading of a module ask.
    """
    from gdrkit.facts.loader_log import load_lines

    for line in reversed(if_missing((), load_lines, node)):
        if line.causes == (code,) and line.values.get("module") == subject:
            # The module, the keys or the settings may have changed since.
            node.cite("dmesg", text=line.text, line=line.number, confidence=Confidence.LIKELY)
            return Failed(seen=line.text, expected="no such line in the kernel log", subject=str(subject))
    return None
