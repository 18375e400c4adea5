"""The exceptions for missing evidence, one function for each reason."""

from __future__ import annotations

import os
from errno import EACCES, ELOOP, ENAMETOOLONG, ENOENT, ENOTDIR, EPERM, ESRCH, ETIMEDOUT

from gdrkit.evidence import Command, EvidenceAbsent, EvidenceMissing, Missing, MissingReason, QuestionKind

NOT_THERE = frozenset({ENOENT, ENOTDIR, ENAMETOOLONG, ESRCH})  # ESRCH: the process has just ended
NOT_ALLOWED = frozenset({EACCES, EPERM})

MOUNT_POINTS = (
    "sys/firmware/efi/efivars",
    "sys/firmware",  # container runtimes cover it with an empty tmpfs: moby oci/defaults.go, MaskedPaths
    "sys/kernel/security",
    "sys/kernel/debug",
    "sys/kernel/tracing",
    "sys/kernel/config",
    "proc",
    "sys",
)
"""Mount points. If one is empty, nothing is mounted there, and nothing below it counts as absent."""


def _word(path: str) -> str:
    """A path as one word of a shell: names in a stranger's evidence may hold anything."""
    from gdrkit.evidence.quoting import quoted

    return quoted("/" + path)


def absent(path: str) -> EvidenceAbsent:
    """The path does not exist."""
    return EvidenceAbsent(Missing(path, MissingReason.ABSENT, f"ls -ld {_word(path)}"))


def not_collected(path: str, note: str = "") -> EvidenceMissing:
    """The path was not looked for, or is not in this bundle."""
    return EvidenceMissing(of_path(path, MissingReason.NOT_COLLECTED, note))


def denied(path: str, note: str = "") -> EvidenceMissing:
    """The path exists, but this user may not read it."""
    return EvidenceMissing(of_path(path, MissingReason.DENIED, note))


def truncated(path: str, note: str = "") -> EvidenceMissing:
    """The path exists, but only a part of it was collected."""
    return EvidenceMissing(of_path(path, MissingReason.TRUNCATED, note))


def unreadable(path: str, note: str) -> EvidenceMissing:
    """The path exists, but cannot be read: a directory, a device, an error from the kernel."""
    return EvidenceMissing(Missing(path, MissingReason.UNDECIDED, _ask(f"ls -ld {_word(path)}", note)))


def timed_out(path: str) -> EvidenceMissing:
    """Reading the path took too long."""
    return EvidenceMissing(of_path(path, MissingReason.TIMED_OUT))


COMMANDS = {QuestionKind.READ: "cat", QuestionKind.LIST: "ls"}
"""The command that answers each kind of question about a path."""


def of_path(
    path: str, why: MissingReason, note: str = "", kind: QuestionKind = QuestionKind.READ
) -> Missing:
    """A Missing for a path, with the command that answers this kind of question."""
    command = f"{COMMANDS[kind]} {_word(path)}"
    return Missing(
        path, why, _ask(f"sudo {command}" if why is MissingReason.DENIED else command, note), kind, note
    )


def for_names(error: EvidenceMissing) -> EvidenceMissing:
    """The same reason, with `ls` in place of `cat`: a host knows the path, only the caller wants names."""
    missing = error.missing
    if missing.kind is not QuestionKind.READ:
        return error
    return EvidenceMissing(of_path(missing.source, missing.why, missing.note, QuestionKind.LIST))


LOOP = "symbolic link loop"


def is_loop(missing: Missing) -> bool:
    """Whether a path could not be read because its links lead back to themselves: on a live machine, in a
    bundle that has the links, and in one whose collector could not follow them."""
    return LOOP in missing.ask or os.strerror(ELOOP) in missing.ask


def of_error(path: str, error: OSError) -> EvidenceMissing:
    """The reason that an error of open(2), read(2) or stat(2) gives for this path."""
    if error.errno in NOT_THERE:
        return absent(path)
    if error.errno in NOT_ALLOWED:
        return denied(path)
    if error.errno == ETIMEDOUT:
        return timed_out(path)
    if error.errno == ELOOP:
        return unreadable(path, LOOP)
    return unreadable(path, error.strerror or str(error))


def not_mounted(path: str) -> EvidenceMissing:
    """The path is below an empty mount point, so it may well exist on the machine."""
    return not_collected(path, "the file system is not mounted here; run it on the host itself")


QUOTE = 160  # characters of an error message: two lines of a terminal


def of_command(command: Command, complaint: str) -> EvidenceMissing:
    """A command that gave no output: not installed, failed or timed out. Its error message is quoted."""
    message = " ".join(complaint.split())[:QUOTE]
    lower = message.lower()
    why = MissingReason.NOT_COLLECTED
    if "not permitted" in lower or "permission denied" in lower or "are you root" in lower:
        why = MissingReason.DENIED
    elif "timed out" in lower:
        why = MissingReason.TIMED_OUT
    ask = f"sudo {command.line}" if why is MissingReason.DENIED else command.line
    return EvidenceMissing(Missing(command.line, why, _ask(ask, message)))


def of_long_output(command: Command, note: str = "") -> EvidenceMissing:
    """A command that printed more than is kept; only a part of it was collected."""
    return EvidenceMissing(Missing(command.line, MissingReason.TRUNCATED, _ask(command.line, note)))


GO_ON = ("modinfo", "dpkg")
"""Commands that fail if one of several arguments fails, but print complete output for the others. A
sosreport asks modinfo for built-in modules too, so modinfo always "fails". Source: kmod tools/modinfo.c,
do_modinfo(); dpkg-query(1), EXIT STATUS 1: "failed either fully or partially"."""


def _ask(command: str, note: str) -> str:
    return f"{command} ({note})" if note else command
