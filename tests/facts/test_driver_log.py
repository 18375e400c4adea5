"""The kernel's log as a witness of NVIDIA's modules."""

from __future__ import annotations

import pytest

from gdrkit.evidence import EvidenceMissing, MissingReason
from gdrkit.facts.driver_log import last_line, last_line_if_any
from gdrkit.facts.modules import is_loaded
from tests.rules.machines import kernel_log, node

SAID = "nvidia-peermem nv_mem_client_init:445 ERROR refused"


def test_the_last_of_several_lines():
    found = last_line(node(log=kernel_log(SAID, f"{SAID} again")), "refused")

    assert found is not None
    assert found.text.endswith("again")


def test_silence_only_of_a_whole_log():
    assert last_line(node(log=kernel_log()), "refused") is None
    with pytest.raises(EvidenceMissing) as lacks:
        last_line(node(log=kernel_log(from_boot=False)), "refused")

    assert lacks.value.missing.why is MissingReason.TRUNCATED


def test_where_it_only_adds_it_may_be_missing():
    assert last_line_if_any(node(complete=False), "refused") is None


def test_once_a_step_is_supposed_it_has_nothing_to_say():
    machine = node(log=kernel_log(SAID))
    assert last_line(machine, "refused") is not None

    later = machine.after("load it", [is_loaded.becomes(True, "nvidia_peermem")])

    with pytest.raises(EvidenceMissing) as lacks:
        last_line(later, "refused")
    assert lacks.value.missing.why is MissingReason.STALE
