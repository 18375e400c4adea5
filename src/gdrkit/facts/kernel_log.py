"""The kernel's log of this boot, and whether it is complete."""

from __future__ import annotations

import re

from msgspec import Struct

from gdrkit.facts.commands import DMESG
from gdrkit.formats.errors import FormatError
from gdrkit.formats.month import MONTH
from gdrkit.formats.regex import regex
from gdrkit.node import Node, fact

# `[   12.345678] `, `[Thu Nov 20 17:55:01 2026] ` (dmesg -T), each perhaps after `<6>` (dmesg -r) or after
# `kern  :info  : ` (dmesg -x). Source: util-linux dmesg(1).
_STAMP = regex(
    r"(?:<\d+>|\w+ *:\w+ *: )?\[ *(?:(?P<seconds>\d+\.\d+)|[A-Z][a-z]{2} [A-Z][a-z]{2} [^\]]{10,20})\]"
    r"(?:\[ *[CT]\d+\])? ?(?P<text>.*)"
)
# `Nov 20 17:55:01 node kernel: text`, `2026-11-20T17:55:01+0100 node kernel: text`. See journalctl(1), -o.
_JOURNAL = regex(
    rf"(?:{MONTH} [ \d]\d [\d:]{{8}}(?:\.\d+)?|\d{{4}}-\d\d-\d\d[T ]\S+|\[ *\d+\.\d+\]) \S+ "
    r"(?P<program>[\w.@:()\-/\\]+?(?:\[\d+\])?): (?P<text>.*)"
)
# Further lines of one message, below its stamp: util-linux sys-utils/dmesg.c, print_record(), and systemd
# src/shared/logs-show.c, print_multiline().
_CONTINUED = regex(r" {8,80}\S")
# Lines that report lost lines. Sources: Linux kernel/printk/printk.c (both forms), systemd's
# journald-kmsg.c, Linux lib/ratelimit.c: of the module loader's lines, only lockdown's is rate limited.
_DROPPED = regex(
    r"\*\* \d+ printk messages dropped|^\d+ messages suppressed|^Missed \d+ kernel messages"
    r"|lockdown\w*: \d+ callbacks suppressed"
)
_BY_USERS = regex(
    r".{0,15}\[\d{1,10}\](?:: | trap )|traps: |process '|oom-kill:|Memory cgroup stats for |overlayfs: "
    r"|[\w.-]{1,32}: (?:Unknown parameter|Bad value for|Unexpected value for) '",
    re.DOTALL,
)
"""Messages in which the kernel quotes what any user may choose: the name of a program that crashes and of
its file, options of mount(2) in a user namespace, and the name of a cgroup. With line breaks in it, what
follows looks like other messages; in one line it may hold their words. Sources: Linux arch/x86/mm/fault.c,
show_signal_msg(), and arch/x86/kernel/traps.c; mm/memory.c, print_vma_addr(); fs/fs_context.c and
fs/fs_parser.c; fs/exec.c, do_execveat_common(); mm/oom_kill.c, dump_oom_victim()."""


LINE_CHARACTERS = 4096
"""How much of a line is read: twice what the kernel prints at most (include/linux/printk.h,
PRINTK_MESSAGE_MAX)."""


class KernelLogLine(Struct, frozen=True):
    """One message of the kernel."""

    seconds: float | None  # since boot; None if the log has only dates
    text: str
    number: int  # line in the source, from 1


class KernelLog(Struct, frozen=True):
    """The kernel's messages of one boot."""

    lines: tuple[KernelLogLine, ...]
    complete: bool  # it starts at boot and lost no line, so a message that is not in it was not printed
    source: str


@fact
def lines(node: Node) -> KernelLog:
    """The kernel's log of this boot. Raises EvidenceMissing where reading is denied, as by
    dmesg_restrict."""
    return parse(node.run(DMESG), DMESG.line)


def parse(text: str, source: str) -> KernelLog:
    """The kernel's messages in the output of dmesg or journalctl. Raises FormatError if there are none.

    Lines of other programs in a journal are left out, and what users wrote. Of several boots, only the last
    is returned.
    """
    found: list[KernelLogLine] = []
    of_users: float | None = None
    before: KernelLogLine | None = None
    for number, raw in enumerate(
        text.split("\n"), 1
    ):  # a message may hold what splitlines() takes for an end
        raw = raw[:LINE_CHARACTERS].removesuffix("\r")
        line = _line(raw, number)
        if line is None and before is not None and _CONTINUED.match(raw):
            line = KernelLogLine(before.seconds, raw.strip(), number)
        before = line
        if line is None:
            continue
        if _BY_USERS.match(line.text):
            of_users, before = line.seconds, None
        elif (
            of_users is None or line.seconds != of_users
        ):  # by syslog(2) each line of one message has its time
            found.append(line)
    if not found:
        raise FormatError("no line is a kernel message")
    starts = [index for index, line in enumerate(found) if _begins_boot(line)]
    boot = found[starts[-1] :] if starts else found
    dropped = any(_DROPPED.search(line.text) for line in boot)
    return KernelLog(tuple(boot), bool(starts) and not dropped, source)


def _begins_boot(line: KernelLogLine) -> bool:
    """The kernel's banner, printed before the clock runs. Source: Linux init/main.c, start_kernel()."""
    return line.text.startswith("Linux version ") and (line.seconds is None or line.seconds < 1)


def _line(raw: str, number: int) -> KernelLogLine | None:
    """One message; None if the line is not the kernel's."""
    journal = _JOURNAL.fullmatch(raw)
    if journal is not None and raw.startswith("[") and journal["program"] != "kernel":
        journal = None  # a line of dmesg, `[   12.3] mlx5_core 0000:18:00.0: text`, not of a journal
    if journal is not None:
        if journal["program"] != "kernel":
            program = journal["program"].partition("[")[0]  # a program that calls itself kernel has a pid
            missed = journal["text"].startswith("Missed ") and program == "systemd-journald"
            return KernelLogLine(None, journal["text"], number) if missed else None
        raw = journal["text"]
    stamp = _STAMP.fullmatch(raw)
    if stamp is not None:
        seconds = stamp["seconds"]
        return KernelLogLine(float(seconds) if seconds else None, stamp["text"], number)
    return KernelLogLine(None, raw, number) if journal is not None else None
