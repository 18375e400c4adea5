"""What was read of one process is never said of another, nor of the program that it starts.

Real processes in a pid namespace: after each step of the reading one ends and another gets its pid, or it
starts another program, takes another name, or forks a child that keeps its device open.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from gdrkit.agent.running import files
from tests.system_programs import program as installed

SCRIPT = r"""
import ctypes, json, os, signal, stat, sys
from gdrkit.agent.running import processes

libc = ctypes.CDLL(None, use_errno=True)
LAST = "/proc/sys/kernel/ns_last_pid"
DEVICES = ("/dev/nvidia3", "/dev/infiniband/uverbs0")
NAMES = (b"first", b") R 1\n(\x1b[2J")
PID = 500

def prepare():
    try:
        if libc.mount(b"none", b"/", None, 0x44000, None):
            sys.exit(77)
        if libc.mount(b"tmpfs", b"/dev", b"tmpfs", 0, None):
            sys.exit(77)
        os.mkdir("/dev/infiniband")
        for device in DEVICES:
            os.mknod(device, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
        open(LAST, "r+").close()
    except OSError:
        sys.exit(77)

class Process:
    "A process of a known pid, which may be another one after each step."

    def __init__(self):
        self.number = 0
        self.start()

    def start(self):
        with open(LAST, "w") as stream:
            stream.write(str(PID - 1))
        told, tell = os.pipe()
        pid = os.fork()
        if not pid:
            os.dup2(tell, 1)
            self.run()
        os.close(tell)
        assert pid == PID, pid
        self.told = os.fdopen(told)
        assert self.told.readline() == "ready\n"

    def run(self):
        "Run program 0 or 1, which holds a device of its own, and starts the other one when it is told to."
        code = (
            "import ctypes, os, signal, sys\n"
            "devices, names, number, code = eval(sys.argv[1])\n"
            "def other(*_):\n"
            "    words = repr((devices, names, 1 - number, code))\n"
            "    os.execve(sys.executable, [sys.executable, '-I', '-S', '-c', code, words],"
            " {'NCCL_NUMBER': str(1 - number)})\n"
            "name = 1\n"
            "def renamed(*_):\n"
            "    global name\n"
            "    ctypes.CDLL(None).prctl(15, names[name])\n"
            "    name = 1 - name\n"
            "    os.write(1, b'ready\\n')\n"
            "def forks(*_):\n"
            "    if not os.fork():\n"
            "        os.open(devices[1], os.O_RDWR)\n"
            "        renamed()\n"
            "signal.signal(signal.SIGUSR1, other)\n"
            "signal.signal(signal.SIGUSR2, renamed)\n"
            "signal.signal(signal.SIGHUP, forks)\n"
            "ctypes.CDLL(None).prctl(15, names[number])\n"
            "held = os.open(devices[number], os.O_RDWR)\n"
            "os.write(1, b'ready\\n')\n"
            "while True: signal.pause()\n"
        )
        words = repr((DEVICES, NAMES, self.number, code))
        environment = {"NCCL_NUMBER": str(self.number)}
        os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", code, words], environment)

    def end(self):
        os.kill(PID, signal.SIGKILL)
        os.waitpid(PID, 0)
        self.told.close()

    def reused(self):
        self.end()
        self.number = 1 - self.number
        self.start()

    def started_another(self):
        os.kill(PID, signal.SIGUSR1)
        self.number = 1 - self.number
        assert self.told.readline() == "ready\n"

    def renamed(self):
        os.kill(PID, signal.SIGUSR2)
        assert self.told.readline() == "ready\n"

    def forked(self):
        os.kill(PID, signal.SIGHUP)
        assert self.told.readline() == "ready\n"

def looked(after, change):
    "The rows of a look in which the process changes after a step; and whether it had so many steps."
    left = [after]

    def step(method):
        def stepping(reader, *arguments):
            found = method(reader, *arguments)
            if reader.pid == PID:
                left[0] -= 1
                if left[0] == 0:
                    change()
            return found
        return stepping

    real = {name: getattr(processes.Reader, name) for name in ("read", "link", "names")}
    for name, method in real.items():
        setattr(processes.Reader, name, step(method))
    rows = []
    try:
        processes.scan(rows.append)
    finally:
        for name, method in real.items():
            setattr(processes.Reader, name, method)
    return rows, left[0] <= 0

prepare()
process = Process()
change, after, seen = getattr(process, sys.argv[1]), 0, []
while True:
    after += 1
    rows, more = looked(after, change)
    seen += [
        [one["pid"] == PID, one["name"], [*one["devices"]], one["environment"].get("NCCL_NUMBER")]
        for one in rows
        if "pid" in one
    ]
    if not more:
        break
process.end()
print(json.dumps([after, seen]))
"""
NAMESPACE = ("--mount", "--pid", "--fork", "--mount-proc", "--kill-child")
GPU, NIC, OTHER_NAME = "/dev/nvidia3", "/dev/infiniband/uverbs0", ") R 1\n(\x1b[2J"
FIRST = [True, "first", [GPU], "0"]
ALLOWED = {
    "reused": (FIRST, [True, OTHER_NAME, [NIC], "1"]),
    "started_another": (FIRST, [True, OTHER_NAME, [NIC], "1"]),
    "renamed": (FIRST, [True, OTHER_NAME, [GPU], "0"]),
    "forked": (FIRST, [False, OTHER_NAME, [GPU, NIC], "0"]),
}
"""The rows that are true: whether of the first process, its name, devices, and number in its environment."""


@pytest.mark.parametrize("change", ALLOWED)
def test_what_is_read_of_a_process_is_of_one_process_and_one_program(change):
    done = subprocess.run(
        [installed("unshare"), *NAMESPACE, sys.executable, "-I", "-c", SCRIPT, change],
        capture_output=True,
        timeout=60,
    )
    if done.returncode in (1, 77) and not done.stdout:
        pytest.skip("needs CAP_SYS_ADMIN and CAP_MKNOD: run the tests as root on a machine of their own")
    assert done.returncode == 0, done.stderr
    steps, seen = json.loads(done.stdout)

    assert [row for row in seen if row not in ALLOWED[change]] == []
    assert all(row in seen for row in ALLOWED[change])
    assert steps > 10 and len(seen) > (1 if change == "reused" else steps / 2)


@pytest.mark.parametrize("name", ["python3", "a) R 1 (b", ")) ) 9 9 9", "\n\n", ""])
def test_the_start_of_a_process_stands_behind_any_name(name):
    assert files.start_in(f"5 ({name}) S " + "1 " * 18 + "77 8 9\n") == 77


def test_a_process_started_before_now_and_after_the_machine():
    child = subprocess.Popen([sys.executable, "-I", "-c", "input()"], stdin=subprocess.PIPE)
    try:
        started = files.start_of(child.pid)
        assert started is not None and 0 < started <= files.ticks_after_boot()
    finally:
        child.communicate(b"\n", timeout=20)
    assert files.start_of(child.pid) is None
