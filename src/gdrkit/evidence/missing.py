"""Why a host has no answer, one function for each reason."""

from __future__ import annotations

from errno import EACCES, ELOOP, ENAMETOOLONG, ENOENT, ENOTDIR, EPERM, ESRCH, ETIMEDOUT

from gdrkit.evidence import Command, EvidenceAbsent, EvidenceMissing, Missing, MissingReason, QuestionKind

NOT_THERE = frozenset({ENOENT, ENOTDIR, ENAMETOOLONG, ESRCH})  # ESRCH: a process that ended under our eyes
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
"""Directories that say nothing while they are empty: on a machine that is up, something is mounted there."""


def absent(path: str) -> EvidenceAbsent:
    """Somebody looked, and it is not there."""
    return EvidenceAbsent(Missing(path, MissingReason.ABSENT, f"ls -ld /{path}"))


def not_collected(path: str, note: str = "") -> EvidenceMissing:
    """Nobody looked."""
    return EvidenceMissing(of_path(path, MissingReason.NOT_COLLECTED, note))


def denied(path: str, note: str = "") -> EvidenceMissing:
    """There, but not for this user."""
    return EvidenceMissing(of_path(path, MissingReason.DENIED, note))


def truncated(path: str, note: str = "") -> EvidenceMissing:
    """There, but only the beginning of it, or a part, reached us."""
    return EvidenceMissing(of_path(path, MissingReason.TRUNCATED, note))


def unreadable(path: str, note: str) -> EvidenceMissing:
    """There, and looked at, but nothing to read: a directory, a device, an error from the kernel."""
    return EvidenceMissing(Missing(path, MissingReason.UNDECIDED, _ask(f"ls -ld /{path}", note)))


def timed_out(path: str) -> EvidenceMissing:
    """Too slow to answer."""
    return EvidenceMissing(of_path(path, MissingReason.TIMED_OUT))


COMMANDS = {QuestionKind.READ: "cat", QuestionKind.LIST: "ls"}
"""What answers each kind of question about a path."""


def of_path(
    path: str, why: MissingReason, note: str = "", kind: QuestionKind = QuestionKind.READ
) -> Missing:
    """What is not known of a path, and the command that answers this kind of question."""
    command = f"{COMMANDS[kind]} /{path}"
    return Missing(
        path, why, _ask(f"sudo {command}" if why is MissingReason.DENIED else command, note), kind, note
    )


def for_names(lacks: EvidenceMissing) -> EvidenceMissing:
    """The same reason, asking for names: a host knows paths, only the question knows what it wants."""
    missing = lacks.missing
    if missing.kind is not QuestionKind.READ:
        return lacks
    return EvidenceMissing(of_path(missing.source, missing.why, missing.note, QuestionKind.LIST))


def of_error(path: str, error: OSError) -> EvidenceMissing:
    """What an error of open(2), read(2) or stat(2) means for the question about this path."""
    if error.errno in NOT_THERE:
        return absent(path)
    if error.errno in NOT_ALLOWED:
        return denied(path)
    if error.errno == ETIMEDOUT:
        return timed_out(path)
    if error.errno == ELOOP:
        return unreadable(path, "symbolic links that lead nowhere")
    return unreadable(path, error.strerror or str(error))


def not_mounted(path: str) -> EvidenceMissing:
    """Below a mount point that is empty here, so that nothing follows from what is not there."""
    return not_collected(path, "nothing is mounted there; look on the host itself")


def of_command(command: Command, complaint: str) -> EvidenceMissing:
    """A command that gave no output: not installed, failed or stopped. What it said is quoted."""
    words = " ".join(complaint.split())[:QUOTE]
    lower = words.lower()
    why = MissingReason.NOT_COLLECTED
    if "not permitted" in lower or "permission denied" in lower or "are you root" in lower:
        why = MissingReason.DENIED
    elif "timed out" in lower:
        why = MissingReason.TIMED_OUT
    ask = f"sudo {command.line}" if why is MissingReason.DENIED else command.line
    return EvidenceMissing(Missing(command.line, why, _ask(ask, words)))


GO_ON = ("modinfo", "dpkg")
"""Commands that fail if one of many arguments failed, with an output whole for the others. A sosreport asks
modinfo for built-in modules too, so it always "fails". Source: kmod tools/modinfo.c, do_modinfo();
dpkg-query(1), EXIT STATUS 1: "failed either fully or partially"."""

QUOTE = 160  # characters of a complaint that are quoted: two lines of a terminal


def _ask(command: str, note: str) -> str:
    return f"{command} ({note})" if note else command
