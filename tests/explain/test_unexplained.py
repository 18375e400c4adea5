"""Which lines report a failure that gdr knows no cause of."""

from __future__ import annotations

import pytest

from gdrkit.explain.failing import fails
from gdrkit.explain.lines.transcript import TextLine
from gdrkit.explain.outputs.pasted_host import PastedHost
from gdrkit.explain.unexplained import reports_failure


@pytest.mark.parametrize(
    "text",
    [
        "Group     Comms     Nodes     Status  Errors",
        "Errors: 0",
        "# Errors of the test",
        "MAX_ERRORS=3",
        "| N/A   38C    P8              4W /  N/A  | Not Supported          |      0%      Default |",
    ],
)
def test_titles_comments_and_settings_report_none(text: str):
    assert not reports_failure(TextLine(1, text, "machine"))


def test_a_sentence_of_a_program_does():
    assert reports_failure(TextLine(1, "Errors were found in the table", "machine"))


def test_a_long_word_of_capitals_keeps_no_reader_busy():
    """Capitals may each begin a word of a title: without possessive repetitions this takes for ever."""
    assert not reports_failure(TextLine(1, "A" * 4000 + "!", "machine"))


def test_a_line_of_lspci_about_what_a_device_lacks_is_no_failure():
    text = (
        "$ lspci -vvv\n04:00.0 Ethernet controller: Mellanox Technologies MT27710 Family [ConnectX-4 Lx]\n"
        "\t\tDevCap2: Completion Timeout: Range ABC, TimeoutDis+ NROPrPrP- LTR-\n"
        "\t\t\t EmergencyPowerReduction Not Supported, EmergencyPowerReductionInit-\n"
    )
    assert not fails(PastedHost(text).lines)
    assert fails(PastedHost(f"{text}$ mytool\nmytool: error: cannot open the file\n").lines)
