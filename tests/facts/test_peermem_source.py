"""The lines of nvidia-peermem's own source, by version."""

from __future__ import annotations

import pytest

from gdrkit.facts.peermem_source import parameter_line, registration_line


@pytest.mark.parametrize(
    ("version", "legacy", "place", "kind"),
    [
        ("515.105.01", False, "nv_mem_client_init:474", "traditional"),
        ("535.288.01", False, "nv_mem_client_init:526 ERROR", "traditional"),
        ("550.163.01", True, "nv_mem_client_init:535 ERROR", "traditional"),
        ("560.35.03", False, "nv_mem_nc_client_init:548 ERROR", "nc"),
        ("595.45.04", False, "nv_mem_nc_client_init:603 ERROR", "nc"),
        ("595.45.04", True, "nv_mem_legacy_client_init:573 ERROR", "traditional"),
    ],
)
def test_a_refused_registration_is_logged_at_a_line_of_its_version(
    version: str, legacy: bool, place: str, kind: str
) -> None:
    """As logged in a guest of the lab by NVIDIA's own module of these versions."""
    text = f"nvidia-peermem {place} nv_mem_client_init -- error while registering {kind} client"
    assert registration_line(version, legacy=legacy) == text


@pytest.mark.parametrize("version", ["", "470.82.01", "999.1.1", "not a version"])
def test_versions_that_were_not_read_have_no_line(version: str) -> None:
    assert registration_line(version, legacy=False) == ""
    assert parameter_line(version, "peerdirect_support", 5) == ""


def test_a_parameter_that_a_version_does_not_have_has_no_line() -> None:
    assert parameter_line("535.288.01", "persistent_api_support", 2) == ""
    assert parameter_line("595.45.04", "something_else", 2) == ""
