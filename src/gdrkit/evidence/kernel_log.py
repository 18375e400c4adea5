"""The kernel log as dmesg prints it, read from /dev/kmsg without a child process.

Source: Linux Documentation/ABI/testing/dev-kmsg; kernel/printk/printk.c, msg_add_ext_text(); util-linux
sys-utils/dmesg.c, print_record().
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from errno import EAGAIN, EPIPE

RECORD_BYTES = 8192
"""The most that one read returns: Linux kernel/printk/internal.h, PRINTK_MESSAGE_MAX, before 6.4
include/linux/printk.h, CONSOLE_EXT_LOG_MAX. With a smaller buffer, read(2) fails with EINVAL."""

LOG_LIMIT_BYTES = 64 << 20
"""The most that is read. log_buf_len= makes ring buffers of 16 MiB on machines with hundreds of
processors."""


DEVICE = "/dev/kmsg"


def dmesg(device: str = DEVICE) -> bytes:
    """The messages in the kernel's ring buffer, one per line. Raises OSError as open(2) and read(2) do."""
    return b"".join(as_lines(_records(device)))


def as_lines(records: Iterator[bytes]) -> Iterator[bytes]:
    """Records of /dev/kmsg as dmesg prints them: "[    1.234567] text". Further lines of one are indented
    and have no time: users can write them, as by the name of a file. Lost messages are reported as printk
    does.

    A record is "priority,sequence,microseconds,flags...;text", then lines of " KEY=value" that dmesg drops.
    Gaps in the sequence are records that were overwritten during the read. What is not a record is skipped,
    as by dmesg: a container may show another file in this place.
    """
    following = None
    for record in records:
        head, _, body = record.partition(b";")
        _, sequence_word, stamp_word, *_ = (*head.split(b","), b"", b"")
        if not _is_number(sequence_word) or not _is_number(stamp_word):
            continue
        sequence, microseconds = int(sequence_word), int(stamp_word)
        seconds, rest = divmod(microseconds, 1_000_000)
        stamp = b"[%5d.%06d] " % (seconds, rest)
        if following is not None and sequence != following:
            yield b"%s** %d printk messages dropped **\n" % (stamp, sequence - following)
        following = sequence + 1
        text = body.partition(b"\n")[0]
        if b"\\x" in text:
            text = _unescaped(text)
        yield b"%s%s\n" % (stamp, text.replace(b"\n", b"\n" + b" " * len(stamp)))


def _is_number(word: bytes) -> bool:
    return word.isdigit() and len(word) <= 20


def _unescaped(text: bytes) -> bytes:
    """The text with the kernel's \\xHH escapes, for backslashes and all but printable ASCII, decoded."""
    import re

    return re.sub(rb"\\x([0-9a-f]{2})", lambda found: bytes((int(found[1], 16),)), text)


def _records(device: str) -> Iterator[bytes]:
    """The records in turn, without waiting for new ones. EPIPE: the next one has been overwritten."""
    fd = os.open(device, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    left = LOG_LIMIT_BYTES
    try:
        while left > 0:
            try:
                record = os.read(fd, RECORD_BYTES)
            except OSError as error:
                if error.errno == EPIPE:
                    continue
                if error.errno == EAGAIN:
                    return
                raise
            if not record:
                return
            left -= len(record)
            yield record
    finally:
        os.close(fd)
