"""Runs in the guest: run modprobe for each case and report the kernel's answer. Standard library only.

Reads /lab/boot.json, writes one JSON object per line to a virtio port: begin, one per case, end. Without
the end line the host knows that the guest failed, and does not judge any prediction.
"""

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
import time
import zlib

sys.path.insert(0, "/lab")
import evidence

CASE_SECONDS = 60


class Log:
    """The kernel's log, read from the last position on."""

    def __init__(self):
        self.fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(self.fd, 0, os.SEEK_END)

    def new(self):
        lines = []
        while True:
            try:
                record = os.read(self.fd, 8192)
            except BlockingIOError:
                return lines
            except BrokenPipeError:  # records were overwritten; the next read continues after them
                lines.append("lab: records of the kernel log were lost")
                continue
            head, _, text = record.decode("utf-8", "replace").partition(";")
            if int(head.split(",")[0]) >> 3 == 0:  # facility 0 is the kernel
                lines.extend(text.partition("\n")[0].split("\\x0a"))


class Trace:
    """The modules whose init was called, from the kernel's event just before it
    (include/trace/events/module.h).
    """

    BASE = "/sys/kernel/tracing"

    def __init__(self):
        self.works = run(["/bin/busybox", "mount", "-t", "tracefs", "tracefs", self.BASE])[0] == 0
        try:
            write(self.BASE + "/events/module/module_load/enable", b"1")
        except OSError:  # lockdown=confidentiality forbids it
            self.works = False

    def new(self):
        """Names of modules whose init was called since the last call; None if tracing does not work."""
        if not self.works:
            return None
        names = re.findall(r"module_load: (\S+)", read(self.BASE + "/trace").decode())
        write(self.BASE + "/trace", b"")
        return names


class Port:
    """The connection to the host. Each content is sent once, by digest."""

    def __init__(self):
        self.file = open("/dev/vport0p1", "wb", buffering=0)
        self.sent = set()

    def say(self, **what):
        data = json.dumps(what, separators=(",", ":")).encode() + b"\n"
        while data:
            data = data[self.file.write(data) :]

    def content(self, data):
        name = hashlib.sha256(data).hexdigest()[:16]
        if name not in self.sent:
            self.sent.add(name)
            self.say(event="content", name=name, data=base64.b64encode(zlib.compress(data, 6)).decode())
        return name


def run(argv, seconds=CASE_SECONDS):
    """Exit code, standard output, standard error; exit code None if it took too long."""
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return None, "", "timed out"
    except OSError as error:
        return 127, "", str(error)
    return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")


def read(path):
    with open(path, "rb") as file:
        return file.read()


def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


def loaded():
    return [line.split()[0] for line in read("/proc/modules").decode().splitlines()]


def unload(before):
    """Unload the modules of a case, users first. Those that cannot be unloaded remain, as evidence for the
    next.
    """
    for _ in range(4):
        extra = [name for name in loaded() if name not in before]
        if not extra:
            return []
        for name in extra:
            run(["/usr/sbin/rmmod", name])
    return [name for name in loaded() if name not in before]


def install(case):
    for path, blob in case["files"].items():
        write(path, read("/lab/blobs/" + blob))
    for path, text in case["texts"].items():
        write(path, text.encode())
    steps = [["/usr/sbin/depmod", "-a"]] if case["depmod"] else []
    for argv in steps + case["before"]:
        may_fail = argv[0] == "-"
        code, _, stderr = run(argv[may_fail:])
        if code != 0 and not may_fail:
            yield "%s: exit %s: %s" % (" ".join(argv), code, stderr.strip())


def tidy(case, before):
    stuck = unload(before)
    for path in list(case["files"]) + list(case["texts"]):
        if os.path.lexists(path):
            os.unlink(path)
    for argv in case["after"]:
        run(argv)
    return stuck


def judge(case, log, trace, port, whole):
    """Run one case: collect the bundle first, then run modprobe."""
    began = time.monotonic()
    before = loaded()
    complaints = list(install(case))
    placed = time.monotonic()
    there = evidence.snapshot(port.content, {case["module"], case["asked"]}) if whole else None
    log.new()
    trace.new()
    collected = time.monotonic()
    already = loaded()
    code, stdout, stderr = run(case["argv"])
    ran = time.monotonic()
    time.sleep(0.005)
    after = loaded()
    answer = {
        "exit_code": code,
        "stdout": stdout,
        "stderr": stderr,
        "log": log.new(),
        "ran": trace.new(),
        "new": [name for name in after if name not in already],
        "loaded": case["module"] in after,
        "tainted": read("/proc/sys/kernel/tainted").decode().strip(),
    }
    stuck = tidy(case, before)
    times = {"place": placed - began, "collect": collected - placed, "run": ran - collected}
    times["tidy"] = time.monotonic() - ran
    return {
        "event": "case",
        "name": case["name"],
        "answer": answer,
        "evidence": there,
        "stuck": stuck,
        "complaints": complaints,
        "seconds": {key: round(value, 2) for key, value in times.items()},
    }


def main():
    boot = json.loads(read("/lab/boot.json"))
    port = Port()
    port.say(
        event="begin",
        release=os.uname().release,
        version=read("/proc/version").decode().strip(),
        kmod=run(["/usr/sbin/modprobe", "--version"])[1].split("\n")[0],
        uptime=read("/proc/uptime").decode(),
    )
    log = Log()
    trace = Trace()
    if boot["pace"]:  # setting up the guest logs lines too: let the kernel's rate limit expire
        time.sleep(6)
    for case in boot["cases"]:
        began = time.monotonic()
        port.say(**judge(case, log, trace, port, case["name"] in boot["collect"]))
        time.sleep(max(0.0, began + boot["pace"] - time.monotonic()))
    for script in boot["scripts"]:
        code, stdout, stderr = run(script["argv"], script.get("seconds", CASE_SECONDS))
        port.say(
            event="script", name=script["name"], exit_code=code, stdout=stdout, stderr=stderr, log=log.new()
        )
    port.say(event="end", uptime=read("/proc/uptime").decode())


if __name__ == "__main__":
    try:
        main()
    except Exception as error:
        import traceback

        traceback.print_exc()
        print("LAB-BROKEN", re.sub(r"\s+", " ", repr(error)), flush=True)
