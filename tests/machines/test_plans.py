"""Plans on machines with planted faults: a step cures what it is for, and no step is superfluous."""

from __future__ import annotations

import random

import pytest
from machines.cases import case, with_faults
from machines.faults import BY_NAME
from machines.judge import Answer, ask
from machines.machine import Machine


def answer(*names: str) -> Answer:
    """gdrkit's answer about the first machine that all these faults fit, and whose NCCL detects peermem."""
    faults = tuple(BY_NAME[name] for name in names)
    drawn = (with_faults(5, n, random.Random(n), faults, len(faults)) for n in range(100))
    return ask(
        next(m for m in drawn if m.faults == faults and m.machine.libraries.nccl >= "2.23.4").machine,
        modprobe=False,
    )


def plans(found: Answer) -> dict[tuple[str, ...], dict[str, list[str]]]:
    """What still blocks after each step of each plan, by the plan's steps."""
    return {
        tuple(step["remedy"] for step in plan["steps"]): {
            step["remedy"]: step["then"]["blocked_by"] for step in plan["steps"]
        }
        for plan in found.report["plan"]
    }


@pytest.mark.parametrize("fault", ["value that peermem refuses", "no number for a parameter"])
def test_a_line_with_a_value_that_the_kernel_or_the_module_refuses_is_removed(fault):
    found = plans(answer(fault, "old libibverbs", "proprietary driver"))

    assert found["allow-module", "load-peermem"]["allow-module"] == ["peermem-not-loaded"]


def test_an_ofed_that_peermem_was_built_against_is_only_started():
    """The files on disk agree. The first plan is for the path that lacks less, and so is the headline."""
    found = answer("OFED not running", "NCCL_DMABUF_ENABLE=0", "proprietary driver")

    assert next(iter(plans(found))) == ("restart-ofed", "load-peermem")
    assert found.headline == "module-symbol-missing"


def test_an_altered_module_is_found_by_a_certificate_that_its_kernel_is_not_known_to_ask():
    """SUSE's kernels are not known to ask the firmware's keys; the loaded driver shows that this does."""
    drawn = (case(55190, number, "altered after signing") for number in range(200))
    made = next(one for one in drawn if _is_suse(one.machine) and one.machine.trust.name == "key in db")
    found = ask(made.machine)

    assert found.modprobe["reason"] == "module-signature-broken"
    assert ask(made.healthy).modprobe["exit_code"] == 0


def _is_suse(machine: Machine) -> bool:
    return machine.kernel.distribution.startswith("sles")
