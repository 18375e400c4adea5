"""A rule that fails on a machine does not pass where one of the inputs that it read is hidden: it is unknown
then. It may still fail by other evidence, or not apply.
"""

from __future__ import annotations

import pytest
from machines.cases import case
from machines.faults import FAULTS
from machines.judge import written
from machines.words import known

from gdrkit.catalogue import rule_of
from gdrkit.evidence import Host
from gdrkit.evidence.target import open_host
from gdrkit.node import Node
from gdrkit.rules.rule import Failed, Passed, Rule
from gdrkit.verdict.check_results import CheckResult, check_results
from tests.hiding_host import HidingHost

INFERRED = {
    "gpu-unsupported",  # data-centre products support it
    "bar1-exhausted",  # a large window is rarely full
    "dmabuf-no-p2p-importer",  # Linux's own drivers can
    "gpu-needs-reset",  # ordinary users read no kernel log, and a folder has no output of nvidia-smi
    "gpu-refused-by-driver",
    "gpu-excluded",
    "nvswitch-fabric-down",
    "nic-failed",
    "send-needs-nvlink",  # the newest NCCL needs NVLink before Ampere only
    "ofed-rebuilt-after-driver",  # what runs agrees; what runs after a reboot is not known
}
"""Codes that may pass, likely, and name the evidence that would make it certain."""


def results(host: Host, rule: Rule) -> dict[object, CheckResult]:
    return {result.subject: result for result in check_results(Node(host), [rule])}


@pytest.mark.parametrize("fault", [one for one in FAULTS if known(one.codes)], ids=lambda one: one.name)
def test_what_fails_does_not_pass_without_one_of_its_inputs(fault):
    rule = rule_of(sorted(known(fault.codes[:1]))[0])
    with written(case(12, 0, fault.name).machine) as path:
        real = open_host(str(path))
        whole = HidingHost(real)
        failing = [one.subject for one in results(whole, rule).values() if isinstance(one.outcome, Failed)]
        for source in whole.asked if failing else ():
            now = results(HidingHost(real, {source}), rule)
            for subject in failing:
                outcome = now[subject].outcome if subject in now else None
                inferred = isinstance(outcome, Passed) and outcome.lacking and rule.code in INFERRED
                assert inferred or not isinstance(outcome, Passed), (source, outcome)
