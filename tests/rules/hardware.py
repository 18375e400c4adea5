"""Helpers for tests of rules about hardware."""

from __future__ import annotations

from gdrkit.evidence import Missing
from gdrkit.node import Node
from gdrkit.rules.rule import Failed, NotApplicable, Outcome, Passed, Rule, Unknown
from gdrkit.verdict.check_results import check_results
from tests.known_answers import note_outcome

GPU, NIC = "0000:1b:00.0", "0000:18:00.0"
GPU_FOLDER = f"sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/{GPU}"
OF_A_GPU = ("dmabuf", "peermem", "efa-p2p", "cpu-mapped", "nvidia-fs", "p2pdma")
"""The paths that are lost with a GPU whose memory is out of reach for other devices."""
NIC_FOLDER = f"sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/{NIC}"


def outcomes(node: Node, rule: Rule) -> list[Outcome]:
    """The rule's outcome for each of its subjects, which are compared whole at the end of the test."""
    results = check_results(node, [rule])
    for result in results:
        note_outcome(node, result)
    return [result.outcome for result in results]


def outcome(node: Node, rule: Rule) -> Outcome:
    """The rule's outcome for its only subject."""
    (only,) = outcomes(node, rule)
    return only


def failed(node: Node, rule: Rule) -> Failed:
    found = outcome(node, rule)
    assert isinstance(found, Failed), found
    return found


def passed(node: Node, rule: Rule) -> Passed:
    found = outcome(node, rule)
    assert isinstance(found, Passed), found
    return found


def not_applicable(node: Node, rule: Rule) -> NotApplicable:
    found = outcome(node, rule)
    assert isinstance(found, NotApplicable), found
    return found


def missing(node: Node, rule: Rule) -> Missing:
    found = outcome(node, rule)
    assert isinstance(found, Unknown), found
    return found.missing
