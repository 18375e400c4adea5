"""The cases themselves: what is planted, how often, and that a seed gives the same machine everywhere."""

from __future__ import annotations

import copy
import itertools
import random
from collections import Counter
from pathlib import Path

import pytest
from machines.cases import Case, case, cases, consistent, with_faults
from machines.compose import compose
from machines.draw import TRUSTS
from machines.faults import BY_NAME, FAULTS, NOT_SHOWN
from machines.faults.fault import Evidence, Fault
from machines.hardware import GPUS, NICS
from machines.judge import ask, compare
from machines.kernels import KERNELS
from machines.run import cells
from machines.words import CODES_OF, known

from tests.seed import SEED

CODES = {page.stem for page in Path("docs/codes").glob("*.md")} - {"index"}


def test_every_code_that_a_machine_can_show_has_a_fault():
    planted = known(code for fault in FAULTS for code in fault.codes[:1])
    also = known(code for fault in FAULTS for code in fault.codes[1:])

    assert CODES - planted - set(NOT_SHOWN) - {"dependency-failed"} == set()
    assert (planted | also | set(NOT_SHOWN)) <= CODES


def test_words_of_these_machines_are_no_codes_of_gdrkit():
    """One that became a code needs no translation any more."""
    assert set(CODES_OF) & CODES == set()


@pytest.mark.slow
def test_many_machines_have_each_code_ten_times_and_every_part():
    """No cell of the coverage is empty."""
    codes: Counter[str] = Counter()
    seen: dict[str, set[str]] = {}
    for made in cases(1, 1100):
        codes.update({code for fault in made.faults for code in known(fault.codes[:1])})
        for name, cell in cells(made).items():
            seen.setdefault(name, set()).update(cell.split(" + "))
    assert {code: codes[code] for code in CODES - set(NOT_SHOWN) if codes[code] < 10} == {}
    assert set(GPUS) - seen["GPU"] - {"GT 1030"} == set()
    assert set(NICS) - seen["NIC"] == set()
    assert set(TRUSTS) - seen["keys"] == set()
    assert {kernel.title for kernel in KERNELS} - seen["kernel"] == set()
    wanted = {
        f"{kind} {state}"
        for kind in ("mlnx", "doca")
        for state in ("running", "not running", "rebuilt", "removed")
    }
    assert wanted | {"inbox"} <= seen["OFED"]
    assert {"DOWN", "INIT"} <= {state for cell in seen["port"] for state in cell.split("/")}
    assert {"MIG", "confidential", "passed through", "operator", "container", "host"} <= seen["mode"]
    assert {"off", "identity", "DMA", "DMA-FQ"} <= seen["IOMMU"]
    assert all(seen[name] == {"yes", "no"} for name in ("bond", "build ids", "IMEX"))
    assert seen["in use"] == {"dma-buf", "no"}


@pytest.mark.parametrize("number", range(0, 40, 4))
def test_a_seed_gives_the_same_machine_again(number):
    one, two = case(3, number), case(3, number)

    assert one.machine == two.machine
    assert compose(one.machine).files == compose(two.machine).files


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_changes_the_evidence_and_is_true(fault):
    """The healthy machine works; with the fault, one of its codes is true, and something is different."""
    made = case(11, 0, fault.name)

    assert made.faults == (fault,)
    assert made.truth.codes & set(fault.codes)
    if fault.repairable:
        assert consistent(made.healthy)
        assert made.healthy_truth.states["nccl"] & {"active", "ready", "unknown"}
        assert made.machine != made.healthy
    assert compose(made.machine).files or fault.platform


def beside(first: Fault, second: Fault) -> Case | None:
    """A machine with both faults; None if they do not fit the same one."""
    made = with_faults(5, 0, random.Random(first.name + second.name), (first, second))
    return made if len(made.faults) == 2 else None


HIDING = [fault for fault in FAULTS if fault.removes - {Evidence.LOADED}]


@pytest.mark.slow
@pytest.mark.parametrize("hiding", HIDING, ids=lambda fault: fault.name)
def test_a_fault_hides_only_what_needs_the_evidence_that_it_removes(hiding):
    """Beside it, every other fault is still named, unless that needs the evidence that it removes.

    Ten of those that fit, each day others: all take two minutes."""
    order = random.Random(f"{SEED} {hiding.name}").sample(FAULTS, len(FAULTS))
    both = (made for fault in order if (made := beside(fault, hiding)) is not None)
    wrong, judged = [], 0
    for made in itertools.islice(both, 10):
        judged += 1
        misses = compare(made, ask(made.machine, modprobe=False))
        named = [miss for miss in misses if miss.kind in ("named", "claim", "state")]
        wrong += [(made.faults[0].name, miss) for miss in named]

    assert judged == 10
    assert wrong == [], f"GDRKIT_SEED={SEED}"


def test_some_hidden_faults_are_planted():
    """Else the exemption would be for nothing."""
    assert any(
        made and any(fault.hidden_by(made.faults) for fault in made.faults)
        for made in (
            beside(BY_NAME[name], BY_NAME["no NIC"])
            for name in ("port down", "NIC left out", "small read requests")
        )
    )


def test_composing_does_not_change_the_description():
    made = case(5, 7)
    before = copy.deepcopy(made.machine)
    compose(made.machine)

    assert made.machine == before
