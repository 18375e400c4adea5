"""The command that answers a question quotes what comes from a stranger's evidence."""

import errno
import os
import shlex

import pytest

from gdrkit.evidence import Command, EvidenceAbsent, MissingReason, QuestionKind
from gdrkit.evidence.missing import (
    MOUNT_POINTS,
    absent,
    denied,
    for_names,
    not_collected,
    not_mounted,
    of_command,
    of_error,
    timed_out,
    truncated,
    unreadable,
)
from gdrkit.facts.pci import sysfs_devices
from gdrkit.node import Node
from tests.memory_host import MemoryHost

EVIL = "etc/x;id;.conf"


@pytest.mark.parametrize("error", [absent(EVIL), denied(EVIL), not_collected(EVIL), unreadable(EVIL, "odd")])
def test_a_name_in_a_suggested_command_is_one_word(error):
    assert "/" + EVIL in shlex.split(error.missing.ask)


def test_a_device_whose_address_is_a_command_is_left_out():
    names = ("0000:1b:00.0", "0000:1b:00.0;id", "0000:$(id):00.0")
    files = {f"sys/bus/pci/devices/{name}/uevent": "PCI_CLASS=30200\nPCI_ID=10DE:2330\n" for name in names}
    assert [device.address for device in sysfs_devices(Node(MemoryHost(files)))] == ["0000:1b:00.0"]


NOT_MOUNTED = "the file system is not mounted here; run it on the host itself"


@pytest.mark.parametrize(
    ("error", "why", "ask", "kind"),
    [
        (absent("a b"), "absent", "ls -ld '/a b'", "run"),
        (not_collected("a"), "not-collected", "cat /a", "read"),
        (not_collected("a", "note"), "not-collected", "cat /a (note)", "read"),
        (denied("a", "note"), "denied", "sudo cat /a (note)", "read"),
        (truncated("a"), "truncated", "cat /a", "read"),
        (timed_out("a"), "timed-out", "cat /a", "read"),
        (unreadable("a", "a directory"), "undecided", "ls -ld /a (a directory)", "run"),
        (not_mounted("a"), "not-collected", f"cat /a ({NOT_MOUNTED})", "read"),
        (for_names(denied("a", "note")), "denied", "sudo ls /a (note)", "list"),
        (for_names(not_collected("a")), "not-collected", "ls /a", "list"),
        (for_names(absent("a")), "absent", "ls -ld /a", "run"),
    ],
)
def test_each_reason_has_its_question(error, why, ask, kind):
    missing = error.missing
    assert (missing.source, missing.why, missing.ask, missing.kind) == (
        missing.source, MissingReason(why), ask, QuestionKind(kind),
    )  # fmt: skip
    assert missing.source in ("a", "a b")
    assert isinstance(error, EvidenceAbsent) is (why == "absent")


@pytest.mark.parametrize(
    ("number", "why", "ask"),
    [
        (errno.ENOENT, "absent", "ls -ld /a"),
        (errno.ENOTDIR, "absent", "ls -ld /a"),
        (errno.ENAMETOOLONG, "absent", "ls -ld /a"),
        (errno.ESRCH, "absent", "ls -ld /a"),
        (errno.EACCES, "denied", "sudo cat /a"),
        (errno.EPERM, "denied", "sudo cat /a"),
        (errno.ETIMEDOUT, "timed-out", "cat /a"),
        (errno.ELOOP, "undecided", "ls -ld /a (symbolic link loop)"),
        (errno.EINVAL, "undecided", "ls -ld /a (Invalid argument)"),
    ],
)
def test_each_error_number_is_a_reason(number, why, ask):
    missing = of_error("a", OSError(number, os.strerror(number))).missing
    assert (missing.source, missing.why, missing.ask) == ("a", MissingReason(why), ask)
    assert of_error("a", OSError("odd")).missing.ask == "ls -ld /a (odd)"


@pytest.mark.parametrize(
    ("complaint", "why", "ask"),
    [
        ("Operation not permitted", "denied", "sudo dmesg -T (Operation not permitted)"),
        ("dmesg: PERMISSION denied", "denied", "sudo dmesg -T (dmesg: PERMISSION denied)"),
        ("Are you root?", "denied", "sudo dmesg -T (Are you root?)"),
        ("timed out after 10 s", "timed-out", "dmesg -T (timed out after 10 s)"),
        ("  two\n lines ", "not-collected", "dmesg -T (two lines)"),
        ("", "not-collected", "dmesg -T"),
        ("x" * 161, "not-collected", f"dmesg -T ({'x' * 160})"),
    ],
)
def test_each_complaint_of_a_command_is_a_reason(complaint, why, ask):
    missing = of_command(Command(("dmesg", "-T"), ()), complaint).missing
    assert (missing.source, missing.why, missing.ask) == ("dmesg -T", MissingReason(why), ask)


def test_mount_points_are_those_that_containers_cover():
    assert {"proc", "sys", "sys/firmware", "sys/kernel/debug"} < set(MOUNT_POINTS)
