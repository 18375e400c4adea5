"""The kernel's log, and when it is complete."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.evidence import EvidenceMissing
from gdrkit.facts.kernel_log import lines, parse
from gdrkit.formats.errors import FormatError
from gdrkit.node import Node
from tests.memory_host import MemoryHost

BOOT = "[    0.000000] Linux version 6.1.0-56-amd64 (gcc) #1 SMP\n[    0.000000] Command line: ro\n"


def test_a_log_that_begins_at_boot_is_complete() -> None:
    log = parse(BOOT + "[   12.345678] nvidia: loading out-of-tree module taints kernel.\n", "dmesg")
    assert log.complete
    assert log.lines[-1].text == "nvidia: loading out-of-tree module taints kernel."
    assert log.lines[-1].seconds == 12.345678
    assert log.lines[-1].number == 3


def test_on_arm_a_line_on_the_boot_processor_comes_first() -> None:
    text = "[    0.000000] Booting Linux on physical CPU 0x0000000000 [0x410fd4f0]\n" + BOOT
    assert parse(text, "dmesg").complete


def test_a_log_that_lost_its_beginning_is_not_complete() -> None:
    assert not parse("[ 9000.000001] eth0: link up\n", "dmesg").complete


def test_a_banner_later_in_the_log_is_not_a_boot() -> None:
    assert not parse("[ 9000.000001] Linux version 5.4 was quoted here\n", "dmesg").complete


@pytest.mark.parametrize(
    "loss",
    [
        "[    3.0] ** 12 printk messages dropped **",
        "[    3.0] lockdown: 4 callbacks suppressed",
        "Nov 20 17:55:01 node systemd-journald[312]: Missed 27 kernel messages",
    ],
)
def test_a_log_that_lost_lines_is_not_complete(loss: str) -> None:
    assert not parse(BOOT + loss + "\n", "dmesg").complete


def test_dates_instead_of_seconds_are_parsed_too() -> None:
    log = parse("[Thu Nov 20 17:55:01 2026] Linux version 6.1 (gcc)\n", "dmesg")
    assert log.complete
    assert log.lines[0].seconds is None


def test_priorities_and_callers_are_removed() -> None:
    log = parse("<6>[    1.0] a\n<4>[    2.0][  T123] b\nkern  :info  : [    3.0] c\n", "dmesg")
    assert [line.text for line in log.lines] == ["a", "b", "c"]


def test_of_a_journal_only_the_kernels_lines_count_and_only_the_last_boot() -> None:
    log = parse(
        "Nov 19 08:00:00 node kernel: Linux version 6.0 (gcc)\n"
        "Nov 20 08:00:00 node kernel: Linux version 6.1 (gcc)\n"
        "Nov 20 08:00:01 node systemd[1]: Started something.\n"
        "2026-11-20T08:00:02+0100 node kernel: nvidia: module license 'NVIDIA' taints kernel.\n",
        "journalctl",
    )
    assert [line.text for line in log.lines] == [
        "Linux version 6.1 (gcc)",
        "nvidia: module license 'NVIDIA' taints kernel.",
    ]
    assert log.complete


def test_an_error_text_is_not_a_log() -> None:
    text = "dmesg: read kernel buffer failed: Operation not permitted\n"
    with pytest.raises(FormatError):
        parse(text, "dmesg")
    with pytest.raises(EvidenceMissing):
        lines(Node(MemoryHost(commands={("dmesg",): text})))


def test_a_log_that_was_not_collected_is_not_empty() -> None:
    with pytest.raises(EvidenceMissing):
        lines(Node(MemoryHost()))


@given(st.text())
def test_any_text_is_a_log_or_none(text: str) -> None:
    with contextlib.suppress(FormatError):
        assert parse(text, "x").lines


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("[   10.0] NVRM: first\n               NVRM: second", True),  # dmesg
        ("Nov 20 17:55:01 node kernel: NVRM: first\n" + " " * 30 + "NVRM: second", True),  # journalctl
        ("[   10.0] NVRM: first\nNVRM: second", False),
        ("[   10.0] NVRM: first\nNov 20 17:55:01 node app[7]: x\n" + " " * 30 + "NVRM: second", False),
        ("[   10.0] NVRM: first\n[   11.0] a.out[7]: segfault at x\n               NVRM: second", False),
        ("[Thu Nov 20 17:55:01 2026] traps: NVRM: first\n" + " " * 27 + "NVRM: second", False),
    ],
)
def test_further_lines_of_a_message_stand_below_its_stamp(text, taken):
    """Not those of a program's message, nor of one with words that a user chose."""
    log = parse(f"[    0.000000] Linux version 6.8.0\n{text}\n", "dmesg")
    assert ("NVRM: second" in [line.text for line in log.lines]) is taken
