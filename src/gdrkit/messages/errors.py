"""Errors of Linux: their numbers, their texts in each program, and their meaning for a module.

Numbers are those of the diagnosed node, not of the machine that runs gdr: 95 is EOPNOTSUPP on Linux only.
Sources: Linux include/uapi/asm-generic/errno*.h; strerror(3) of the GNU C library in the "C" locale; kmod
tools/modprobe.c, insmod_insert(), and tools/insmod.c, mod_strerror(). Go prints the C library's texts with a
lower-case first letter: syscall/zerrors_linux_amd64.go.
"""

from __future__ import annotations

import functools

from msgspec import Struct

EPERM, ENOENT, ENOEXEC, EBADF, ENOMEM, EFAULT, EEXIST, EINVAL = 1, 2, 8, 9, 12, 14, 17, 22
ENOSPC, ERANGE, ENOPKG, EBADMSG, EPROTONOSUPPORT, EOPNOTSUPP = 28, 34, 65, 74, 93, 95
ELOOP, ENOKEY, EKEYREJECTED = 40, 126, 129


class ErrnoMeaning(Struct, frozen=True):
    """One error: its number, name, texts and causes."""

    number: int
    name: str
    words: str  # strerror(3)
    modprobe: str = ""  # its own text, if it has one
    insmod: str = ""
    causes: tuple[str, ...] = ()  # why finit_module(2) returns it, likeliest first, besides ANY_INIT


ANY_INIT = ("dependency-failed", "init-failed")
"""Possible causes of every error: the init of this module, or of one that it needs, returned it."""

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
        ENOKEY, "ENOKEY", "Required key not available", causes=("module-unsigned", "module-unknown-key"),
    ),
    ErrnoMeaning(
        EPERM, "EPERM", "Operation not permitted",
        causes=("lockdown-blocks-module", "module-blacklisted", "modules-disabled"),
    ),
    ErrnoMeaning(EBADMSG, "EBADMSG", "Bad message", causes=("module-signature-broken",)),
    ErrnoMeaning(ERANGE, "ERANGE", "Numerical result out of range", causes=("module-bad-parameter",)),
    ErrnoMeaning(ENOSPC, "ENOSPC", "No space left on device", causes=("module-bad-parameter",)),
    ErrnoMeaning(ELOOP, "ELOOP", "Too many levels of symbolic links", causes=("module-corrupt",)),
    ErrnoMeaning(19, "ENODEV", "No such device"),
    ErrnoMeaning(16, "EBUSY", "Device or resource busy"),
    ErrnoMeaning(5, "EIO", "Input/output error"),
    ErrnoMeaning(ENOMEM, "ENOMEM", "Cannot allocate memory"),
    ErrnoMeaning(38, "ENOSYS", "Function not implemented", causes=("wsl",)),
    ErrnoMeaning(EOPNOTSUPP, "EOPNOTSUPP", "Operation not supported"),
    ErrnoMeaning(EPROTONOSUPPORT, "EPROTONOSUPPORT", "Protocol not supported"),
    ErrnoMeaning(13, "EACCES", "Permission denied"),
    ErrnoMeaning(6, "ENXIO", "No such device or address"),
    ErrnoMeaning(EEXIST, "EEXIST", "File exists"),
    ErrnoMeaning(110, "ETIMEDOUT", "Connection timed out"),
    ErrnoMeaning(113, "EHOSTUNREACH", "No route to host"),
    ErrnoMeaning(EFAULT, "EFAULT", "Bad address"),
    ErrnoMeaning(11, "EAGAIN", "Resource temporarily unavailable"),
    ErrnoMeaning(128, "EKEYREVOKED", "Key has been revoked"),
    ErrnoMeaning(127, "EKEYEXPIRED", "Key has expired"),
    ErrnoMeaning(ENOPKG, "ENOPKG", "Package not installed"),
    ErrnoMeaning(101, "ENETUNREACH", "Network is unreachable"),
    ErrnoMeaning(EBADF, "EBADF", "Bad file descriptor"),
)  # fmt: skip
"""First the errors with known causes, then others that loading a module and RDMA calls return."""

UNSUPPORTED = (EOPNOTSUPP, EPROTONOSUPPORT)
"""What the kernel and libibverbs return if no driver implements a call. NCCL treats both as not supported:
net_ib.cc, ncclIbDmaBufSupport()."""


def c_library_words(number: int) -> str:
    """The text of strerror(3) for an error."""
    error = _by_number().get(number)
    return error.words if error else f"Unknown error {number}"


def words_of(number: int) -> str:
    """The text that modprobe prints for an error."""
    error = _by_number().get(number)
    return (error.modprobe or error.words) if error else f"Unknown error {number}"


def name_of(number: int) -> str:
    """The name of an error, such as EINVAL for 22; the number if the name is not known."""
    error = _by_number().get(number)
    return error.name if error else str(number)


def strerror(number: int) -> str:
    """The C library's text for an error."""
    error = _by_number().get(number)
    return error.words if error else f"Unknown error {number}"


def number_in(text: str) -> int | None:
    """The number of the error whose text is in a text; None if there is none."""
    return next((error.number for error in _longest_first() if error.words in text), None)


def causes(words: str) -> tuple[str, ...]:
    """Codes of all causes for which modprobe, insmod and similar programs print this text."""
    words = words.strip()
    return _by_words().get(words[:1].upper() + words[1:], ANY_INIT)


def line_starts(words: str) -> tuple[str, ...]:
    """The texts of all errors that begin with this one, ignoring case."""
    return tuple(known for known in tool_wording() if known.lower().startswith(words.lower()))


@functools.cache
def tool_wording() -> tuple[str, ...]:
    """All texts of all errors that a loader prints."""
    return tuple(words for error in ERRORS for words in (error.modprobe, error.insmod, error.words) if words)


@functools.cache
def _by_number() -> dict[int, ErrnoMeaning]:
    return {error.number: error for error in ERRORS}


@functools.cache
def _by_words() -> dict[str, tuple[str, ...]]:
    # The C library's text for ENOENT is left out: it may be about any file.
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
