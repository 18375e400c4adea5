"""Recognise an error message that a collector stored in place of a command's output."""

from __future__ import annotations

HEAD_BYTES = 2048
"""How much of a file is examined. An error message is short; an output that only begins with one is kept."""

COMPLAINTS = (
    "command not found",  # sos and bash
    "no such file or directory",  # sh: 1: ..., nice: ..., timeout: failed to run command
    "libkmod: error",  # kmod libkmod/libkmod-module.c, kmod_module_new_from_loaded()
    "modinfo: error",
    "modprobe: error",
    "modprobe: fatal",
    "efi variables are not supported on this system",  # mokutil src/mokutil.c, main()
    "this system doesn't support secure boot",  # mokutil src/mokutil.c, test_sb()
    "failed to read secureboot",
    "couldn't communicate with the nvidia driver",  # nvidia-smi without a driver
    "failed to initialize nvml",
    "no devices were found",
    "operation not permitted",  # dmesg: read kernel buffer failed
    "permission denied",
    "must be root",
    "are you root",
    "timed out",
    "no ib devices found",
    "unable to open file",
    "pcilib: cannot open",  # lspci without /proc/bus/pci or /sys
    "lspci: cannot find any working access method",
    'failed to open connection to "system" message bus',
    "system has not been booted with systemd",
    "no journal files were found",
)
"""Substrings, in lower case, of error messages that programs print instead of their output."""


def complaint(data: bytes | memoryview) -> str:
    """The error message that was stored in place of an output; "" if the data is an output.

    Every line at the beginning and at the end must be an error message, or belong to one ("Error: ..."). So
    a kernel log that quotes "Permission denied" is still a log, and an output that follows the error
    messages of a command with many arguments is still an output."""
    lines = _lines(bytes(data[:HEAD_BYTES]), whole=len(data) <= HEAD_BYTES)
    if not lines or not all(_complains(line) for line in lines):
        return ""
    tail = _lines(bytes(data[-HEAD_BYTES:])[::-1], whole=False)
    if not all(_complains(line[::-1]) for line in tail):
        return ""
    return next((line.strip() for line in lines if _known(line)), "")


def without_complaints(data: bytes | memoryview) -> bytes:
    """The output without the lines that are error messages."""
    lines = bytes(data).splitlines(keepends=True)
    return b"".join(line for line in lines if not _known(line.decode("utf-8", "replace")))


def _lines(part: bytes, whole: bool) -> list[str]:
    """The lines that are neither blank nor cut off at the end."""
    if not whole:
        part = part.rpartition(b"\n")[0]
    return [line for line in part.decode("utf-8", "replace").splitlines() if line.strip()]


def _known(line: str) -> bool:
    lower = line.lower()
    return not lower.startswith("[") and any(words in lower for words in COMPLAINTS)


def _complains(line: str) -> bool:
    return _known(line) or line.lower().lstrip().startswith(("error", "warning", "fatal", "usage:", "try "))
