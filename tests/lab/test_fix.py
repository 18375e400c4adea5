"""`gdr fix` in guests: the rows, without one; and some of them, in one."""

from __future__ import annotations

import os

import pytest
from lab.cache import apt_command, missing_packages
from lab.fix_scenarios import MADE_KEY, PASSWORD, PLAIN, SECURE, as_case
from lab.kernels import kernel
from lab.sources import SOURCES

from lab import fix

ROWS = (*PLAIN, *SECURE, *MADE_KEY)


def test_every_scenario_has_a_name_of_its_own_and_modules_that_exist() -> None:
    names = {source.name for source in SOURCES}
    assert len({row.name for row in ROWS}) == len(ROWS) >= 25
    for row in ROWS:
        assert {place.variant.source for place in as_case(row).place} <= names
        assert row.why


def test_a_scenario_that_came_out_wrong_is_complained_of() -> None:
    row = next(row for row in ROWS if row.name == "install-line")
    answer = {"exit_code": 1, "loaded": False, "said": ""}
    good = {"exit_code": 0, "loaded": True, "said": ""}
    told = {
        "before": answer, "after": good, "undone": answer, "differs": [],
        "predicted_before": {"reason": "install-override"}, "apply": [0, ""], "undo": [0, ""],
    }  # fmt: skip
    assert list(fix.complaints(row, told)) == []
    for change in (
        {"after": answer}, {"differs": ["/etc/x"]}, {"undone": good}, {"apply": [2, ""]},
        {"predicted_before": {"reason": ""}}, {"undo": [70, ""]}, {"apply": [0, PASSWORD]},
        {"before": good}, {"broken": "Traceback"},
    ):  # fmt: skip
        assert list(fix.complaints(row, {**told, **change})), change


@pytest.mark.lab
@pytest.mark.skipif(
    bool(missing_packages()) and os.environ.get("CI") != "true", reason=f"run: {apt_command()}"
)
def test_a_guest_is_mended_judged_by_modprobe_and_taken_back() -> None:
    found = fix.judge(kernel("6.1-amd64"), ("install-line", "killed-and-resumed", "old-module"))
    assert found and all(not wrong for _, wrong in found), found
