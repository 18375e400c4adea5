"""Errors of Linux: their numbers, their words in each program's dialect, and what they mean of a module.

Numbers are those of the node that is judged, and not of the machine that judges it: 95 is EOPNOTSUPP on
Linux alone. Sources: Linux include/uapi/asm-generic/errno*.h; strerror(3) of the GNU C library in the "C"
locale; kmod tools/modprobe.c, insmod_insert(), and tools/insmod.c, mod_strerror(). Go prints the C library's
words with a small first letter: syscall/zerrors_linux_amd64.go.
"""

from __future__ import annotations

import functools

from msgspec import Struct

EPERM, ENOENT, ENOEXEC, EBADF, ENOMEM, EFAULT, EEXIST, EINVAL = 1, 2, 8, 9, 12, 14, 17, 22
ENOSPC, ERANGE, EBADMSG, EPROTONOSUPPORT, EOPNOTSUPP, EKEYREJECTED = 28, 34, 74, 93, 95, 129


class ErrnoMeaning(Struct, frozen=True):
    """One number, and what stands for it."""

    number: int
    name: str
    words: str  # strerror(3)
    modprobe: str = ""  # its own words, where it has some
    insmod: str = ""
    causes: tuple[str, ...] = ()  # why finit_module(2) returns it, likeliest first, beside ANY_INIT


ANY_INIT = ("dependency-failed", "init-failed")
"""What every error can mean: some module's init returned it, this one's or that of one it needs."""

ERRORS = (
    ErrnoMeaning(
        EINVAL, "EINVAL", "Invalid argument", insmod="Invalid parameters",
        causes=(
            "peermem-stub", "module-crc-mismatch", "module-symbol-namespace", "module-bad-parameter",
            "peermem-registration-refused", "module-corrupt", "install-override",
        ),
    ),
    ErrnoMeaning(
        ENOEXEC, "ENOEXEC", "Exec format error", insmod="Invalid module format",
        causes=("module-wrong-kernel", "module-corrupt", "module-symbol-duplicate"),
    ),
    ErrnoMeaning(
        ENOENT, "ENOENT", "No such file or directory",
        modprobe="Unknown symbol in module, or unknown parameter (see dmesg)",
        insmod="Unknown symbol in module",
        causes=("module-symbol-missing", "module-symbol-gpl-only", "module-not-found"),
    ),
    ErrnoMeaning(
        EKEYREJECTED, "EKEYREJECTED", "Key was rejected by service",
        causes=("module-unsigned", "module-unknown-key", "module-signature-broken", "module-key-revoked"),
    ),
    ErrnoMeaning(  # Linux before 5.4
        126, "ENOKEY", "Required key not available", causes=("module-unsigned", "module-unknown-key"),
    ),
    ErrnoMeaning(
        EPERM, "EPERM", "Operation not permitted",
        causes=("lockdown-blocks-module", "module-blacklisted", "modules-disabled"),
    ),
    ErrnoMeaning(EBADMSG, "EBADMSG", "Bad message", causes=("module-signature-broken",)),
    ErrnoMeaning(ERANGE, "ERANGE", "Numerical result out of range", causes=("module-bad-parameter",)),
    ErrnoMeaning(ENOSPC, "ENOSPC", "No space left on device", causes=("module-bad-parameter",)),
    ErrnoMeaning(19, "ENODEV", "No such device"),
    ErrnoMeaning(16, "EBUSY", "Device or resource busy"),
    ErrnoMeaning(5, "EIO", "Input/output error"),
    ErrnoMeaning(ENOMEM, "ENOMEM", "Cannot allocate memory"),
    ErrnoMeaning(38, "ENOSYS", "Function not implemented"),
    ErrnoMeaning(EOPNOTSUPP, "EOPNOTSUPP", "Operation not supported"),
    ErrnoMeaning(EPROTONOSUPPORT, "EPROTONOSUPPORT", "Protocol not supported"),
    ErrnoMeaning(13, "EACCES", "Permission denied"),
    ErrnoMeaning(6, "ENXIO", "No such device or address"),
    ErrnoMeaning(EEXIST, "EEXIST", "File exists"),
    ErrnoMeaning(110, "ETIMEDOUT", "Connection timed out"),
    ErrnoMeaning(EFAULT, "EFAULT", "Bad address"),
    ErrnoMeaning(11, "EAGAIN", "Resource temporarily unavailable"),
    ErrnoMeaning(128, "EKEYREVOKED", "Key has been revoked"),
    ErrnoMeaning(127, "EKEYEXPIRED", "Key has expired"),
    ErrnoMeaning(65, "ENOPKG", "Package not installed"),
    ErrnoMeaning(101, "ENETUNREACH", "Network is unreachable"),
    ErrnoMeaning(EBADF, "EBADF", "Bad file descriptor"),
)  # fmt: skip
"""Those whose causes are known first, then others that calls of modules and of RDMA return."""

UNSUPPORTED = (EOPNOTSUPP, EPROTONOSUPPORT)
"""What the kernel and libibverbs answer where nobody below them implements a call; NCCL takes both for a no:
net_ib.cc, ncclIbDmaBufSupport()."""


def words_of(number: int) -> str:
    """What modprobe prints for an error."""
    error = _by_number().get(number)
    return (error.modprobe or error.words) if error else f"Unknown error {number}"


def name_of(number: int) -> str:
    """EINVAL for 22; the number itself where it has no name here."""
    error = _by_number().get(number)
    return error.name if error else str(number)


def strerror(number: int) -> str:
    """What the C library calls an error."""
    error = _by_number().get(number)
    return error.words if error else f"Unknown error {number}"


def number_in(text: str) -> int | None:
    """The number of the error whose words a text holds; None if it holds none's."""
    return next((error.number for error in _longest_first() if error.words in text), None)


def causes(words: str) -> tuple[str, ...]:
    """Everything that can make modprobe, insmod or their like print these words."""
    words = words.strip()
    return _by_words().get(words[:1].upper() + words[1:], ANY_INIT)


def line_starts(words: str) -> tuple[str, ...]:
    """The words of every error that begin with these, in upper or lower case."""
    return tuple(known for known in tool_wording() if known.lower().startswith(words.lower()))


@functools.cache
def tool_wording() -> tuple[str, ...]:
    """All words of all errors that a loader prints."""
    return tuple(words for error in ERRORS for words in (error.modprobe, error.insmod, error.words) if words)


@functools.cache
def _by_number() -> dict[int, ErrnoMeaning]:
    return {error.number: error for error in ERRORS}


@functools.cache
def _by_words() -> dict[str, tuple[str, ...]]:
    # The C library's words for ENOENT are no loader's own: they may be about any file.
    return {
        words: (*error.causes, *ANY_INIT)
        for error in ERRORS
        if error.causes
        for words in (error.modprobe or error.words, error.insmod)
        if words
    }


@functools.cache
def _longest_first() -> tuple[ErrnoMeaning, ...]:
    return tuple(sorted(ERRORS, key=lambda error: -len(error.words)))
