"""Lines about NVIDIA's modules in the kernel's log."""

from __future__ import annotations

import pytest

from gdrkit.evidence import EvidenceMissing, MissingReason
from gdrkit.facts.driver_log import last_line, last_line_if_any
from gdrkit.facts.modules import is_loaded
from tests.rules.machines import kernel_log, node

SAID = "nvidia-peermem nv_mem_client_init:445 ERROR refused"


def test_the_last_of_several_lines_is_returned():
    found = last_line(node(log=kernel_log(SAID, f"{SAID} again")), "refused")

    assert found is not None
    assert found.text.endswith("again")


def test_only_a_complete_log_shows_that_there_is_no_line():
    assert last_line(node(log=kernel_log()), "refused") is None
    with pytest.raises(EvidenceMissing) as caught:
        last_line(node(log=kernel_log(from_boot=False)), "refused")

    assert caught.value.missing.why is MissingReason.TRUNCATED


def test_an_optional_log_can_be_missing():
    assert last_line_if_any(node(complete=False), "refused") is None


def test_after_a_supposed_step_the_log_is_stale():
    machine = node(log=kernel_log(SAID))
    assert last_line(machine, "refused") is not None

    later = machine.after("load it", [is_loaded.becomes(True, "nvidia_peermem")])

    with pytest.raises(EvidenceMissing) as caught:
        last_line(later, "refused")
    assert caught.value.missing.why is MissingReason.STALE
