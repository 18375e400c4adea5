"""What another user of a machine writes into what gdrkit reads there changes no verdict, and what is hidden
from a user is not absent.

Without any right a user puts text into the kernel's log, by the name of a program that crashes or by options
of mount(2) in a user namespace; into the kernel's table of dma-bufs, by the name of a buffer; and into the
output of nvidia-smi, by the name of a process.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gdrkit.agent.running import processes
from gdrkit.diagnosis import diagnose
from gdrkit.evidence.kernel_log import as_lines
from gdrkit.evidence.target import open_host
from gdrkit.facts import nvidia_smi, usage
from gdrkit.facts.commands import DMESG
from gdrkit.formats.errors import FormatError
from tests.evidence_nodes import laid_down
from tests.facts.test_nvidia_smi import GPU, HEAD, TWO

NODE = "ubuntu-6.8-h100"
RESET = "NVRM: Xid (PCI:0000:1b:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (Reset)"
CRASH = (
    r"x\x0a{}[24034]: segfault at 0 ip 000055e328f7e132 sp 00007fff0a33e770 error 6 in x\x0a{}\x0a[1132,55]"
)
ONE_LINE = (
    "x[24034]: segfault at 0 ip 000055e328f7e132 sp 00007fff0a33e770 error 6 in {}[1132,55e328f7e000+1000]"
)
"""As Linux 6.18 printed it for a program of uid 65534 whose file had a line break in its name."""


class Logged:
    """A host whose kernel log has some more lines."""

    def __init__(self, lines: str) -> None:
        self._host, self._lines = open_host(str(laid_down(NODE))), lines
        self.source = self._host.source

    def __getattr__(self, name):
        return getattr(self._host, name)

    def run(self, command):
        found = self._host.run(command)
        return found + self._lines.encode() if command == DMESG else found


def verdict(lines: str) -> tuple[dict[str, str], set[tuple[str, str, str]]]:
    report = diagnose(Logged(lines))
    return (
        {name: str(one.state) for name, one in report.consumers.items()},
        {(one.code, str(one.status), one.subject) for one in report.findings},
    )


def record(text: str) -> str:
    """A message as gdrkit reads it from /dev/kmsg."""
    return b"".join(as_lines(iter([f"6,9000,815829404,-;{text}\n".encode()]))).decode()


def by_syslog(text: str) -> str:
    """A message as dmesg prints it where there is no /dev/kmsg: each line with the time of the message."""
    return "".join(f"[  815.829404] {line}\n" for line in text.replace(r"\x0a", "\n").split("\n"))


WRITTEN = {
    "file": record(CRASH.format("a", RESET)),
    "file, by syslog(2)": by_syslog(CRASH.format("a", RESET)),
    "option": record(rf"tmpfs: Unknown parameter 'a\x0a{RESET}'"),
    "option, by syslog(2)": by_syslog(f"overlay: Unknown parameter 'a\n{RESET}\n'"),
    "another line end": record(ONE_LINE.format(rf"\x0b[  815.900000] {RESET}")),
    "an end of a line that a terminal takes for one": record(ONE_LINE.format(f"\r[  815.900000] {RESET}")),
    "name": by_syslog(f"\n{RESET[:14]}[24034]: segfault at 0 ip 0 sp 0 error 6 in x[1,2]"),
    "a program that calls itself kernel": f"Nov 20 17:55:01 node kernel[77]: {RESET}\n",
}


@pytest.fixture(scope="module")
def quiet() -> tuple[dict[str, str], set[tuple[str, str, str]]]:
    return verdict("")


@pytest.mark.parametrize("written", WRITTEN.values(), ids=WRITTEN)
def test_what_a_user_has_the_kernel_log_changes_no_verdict(written, quiet):
    assert RESET[:14] in written and verdict(written) == quiet


@pytest.mark.parametrize(
    "line", [record(RESET), by_syslog(RESET), f"Nov 20 17:55:01 node kernel: {RESET}\n"]
)
def test_what_the_driver_logs_changes_it(line, quiet):
    states, findings = verdict(line)

    assert quiet[0]["nccl"] == "ready" and states["nccl"] == "blocked" and findings != quiet[1]


WORDS = (
    RESET,
    "mlx5_core 0000:18:00.0: mlx5_health_try_recover:335:(pid 1): handling bad device here",
    "nvidia-peermem nv_mem_client_init:1 ERROR error while registering traditional client",
)


@pytest.mark.parametrize("words", WORDS)
def test_the_words_of_a_message_in_the_name_of_a_file_are_no_message(words, quiet):
    assert verdict(by_syslog(ONE_LINE.format(words))) == quiet != verdict(by_syslog(words))


# -- names of dma-bufs ---------------------------------------------------------------------------------

TABLE = (
    "\nDma-buf Objects:\nsize    \tflags   \tmode    \tcount   \texp_name\tino     \tname\n"
    "02097152\t00000002\t00080007\t00000002\tnv_dmabuf\t00000004\t{}\n"
    "\tAttached Devices:\n{}Total {} devices attached\n\n\nTotal 1 objects, 2097152 bytes\n"
)
NAME_CHARACTERS = 31
"""DMA_BUF_NAME_LEN with the zero at the end: Linux include/uapi/linux/dma-buf.h."""


@pytest.mark.parametrize(
    "name",
    [
        "x\n\t0000:18:00.0", "x\r\t0000:18:00.0", "\n1 1 1 1 nvidia\n0000:18:00.0",
        "\n\tAttached Devices:\n", "\nTotal 1 devices attached\n", "\n\t0000:18:00.0\nTotal 1 devices",
        "\x0b\t0000:18:00.0",
    ],
)  # fmt: skip
def test_the_name_of_a_buffer_is_no_device_that_is_attached_to_it(name):
    assert len(name) <= NAME_CHARACTERS
    assert usage.parse_attachments(TABLE.format(name, "", 0)) == {}
    attached = usage.parse_attachments(TABLE.format(name, "\t0000:2a:00.0\n", 1))
    assert attached == {"nv_dmabuf": {"0000:2a:00.0": 1}}


def test_the_name_of_a_buffer_is_neither_its_inode_nor_its_size():
    text = b"pos:\t0\nino:\t4\nsize:\t8192\ncount:\t2\nexp_name:\tudmabuf\nname:\tx\nino:\t9\nsize:\t1\n"

    assert processes.buffer_of(text) == {"ino": 4, "size": 8192, "count": 2, "exp_name": "udmabuf"}


# -- names of processes in nvidia-smi ------------------------------------------------------------------

NAMED = (
    "    Processes\n        Process ID : 7\n            Type : C\n            Name : x\n{}"
    "            Used GPU Memory : 3 MiB\n"
)


def with_name(text: str, name: str) -> str:
    """An output in which the first GPU has a process of this name."""
    return re.sub(r" {4}Processes .*\n", lambda _: NAMED.format(name), text, count=1)


def test_the_name_of_a_process_is_no_other_gpu():
    forged = GPU.format(slot=7).replace(": Disabled", ": Enabled")
    assert forged not in TWO
    with pytest.raises(FormatError, match="more GPUs than are attached: 3 of 2"):
        nvidia_smi.parse(with_name(TWO, forged))


def test_the_name_of_a_process_is_no_field_of_its_gpu():
    one = HEAD.format(count=1) + GPU.format(slot=6)
    forged = "    GPU Recovery Action : Reset\n    Fabric\n        State : In Progress\n"

    assert nvidia_smi.parse(with_name(one, forged)) == nvidia_smi.parse(one)
    assert nvidia_smi.parse(one.replace("    Processes", f"{forged}    Processes")) != nvidia_smi.parse(one)


# -- processes that proc hides -------------------------------------------------------------------------

HIDDEN = r"""
import ctypes, json, os, sys
from gdrkit.agent.collect.tree import Tree
from gdrkit.agent.probe import running_probe
from gdrkit.agent.running import processes
from gdrkit.evidence import EvidenceMissing
from gdrkit.evidence.live import LiveHost

libc = ctypes.CDLL(None, use_errno=True)
import shlex  # after the change of the user Python's own folder may be closed
option = sys.argv[1].encode()
if libc.unshare(0x20000) or libc.mount(b"none", b"/", None, 0x44000, None):
    sys.exit(77)
if libc.mount(b"proc", b"/proc", b"proc", 0, option):
    sys.exit(77)
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
rows = []
processes.scan(rows.append)
try:
    why = "exists" if LiveHost().exists("proc/1/environ") else "absent"
except EvidenceMissing as error:
    why = error.missing.why.name
tree = Tree()
hidden = [tree.hidden(path) for path in ("proc/1/cgroup", "proc/9999999/cgroup")]
print(json.dumps([rows[-1]["hidden"], why, *hidden]))
tree.close()
"""


@pytest.mark.parametrize(
    ("option", "seen"),
    [("hidepid=2", [True, "DENIED", True, False]), ("hidepid=0", [False, "exists", False, False])],
)
def test_a_process_that_proc_hides_is_not_absent(option, seen):
    done = subprocess.run(
        [sys.executable, "-c", HIDDEN, option], capture_output=True, cwd=Path(__file__).parent, timeout=60
    )
    if done.returncode == 77:
        pytest.skip("needs CAP_SYS_ADMIN: run the tests as root on a machine of their own")
    assert done.returncode == 0, done.stderr.decode()

    assert json.loads(done.stdout) == seen
