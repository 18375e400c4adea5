"""Processes that hold RDMA objects in a guest, and what gdrkit's probe records of them, by who asks.

The guest has rdma_rxe and a module that exports dma-bufs as NVIDIA's does (guest/gdrlab.c): it has no GPU.
What each process holds is in guest/holder.py, so the truth is known.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from gdrkit.agent.probe.program import program
from gdrkit.agent.probe.running_probe import DEADLINE_S
from lab.cache import LabError, command, digest, say
from lab.kernels import Kernel
from lab.modules import WORK
from lab.profiles import profile
from lab.rdma import SETUP
from lab.rootfs import RDMA
from lab.session import boot
from lab.toolchain import inside

FIXTURES = Path(__file__).parent.parent / "tests/lab/live"
_GUEST = Path(__file__).parent / "guest"
_SETUP = (
    SETUP.replace("rdma link add", "busybox insmod /lab/gdrlab.ko\nrdma link add")
    + """
busybox mount -t debugfs debugfs /sys/kernel/debug 2>/dev/null || true
busybox mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null || true
busybox mount -t securityfs securityfs /sys/kernel/security 2>/dev/null || true
"""
)
_HOLDERS = (
    ("host", "write"), ("closed", "dmabuf close"), ("open", "dmabuf"), ("threads", "thread"),
    ("parent", "fork"), ("flushes", "flush moves"), ("rests", "flush"), ("inside", "write"),
)  # fmt: skip
_BEFORE = {"inside": "busybox unshare -p -f "}
"""One lives in a pid namespace of its own."""
HOLD_S = 3000
_START = "mkdir -p /lab/out; cd /lab; " + "".join(
    f"{_BEFORE.get(name, '')}python3 holder.py {name} {HOLD_S} {words} > out/{name} 2>&1 &\n"
    for name, words in _HOLDERS
)
_WAIT = f"""{_START}
for _ in $(busybox seq 60); do
[ $(cat out/* | busybox wc -l) -ge {len(_HOLDERS)} ] && break; sleep 1; done
sleep 4; cat out/*"""
_NOBODY = """python3 -c '
import os
os.setgroups([]); os.setgid(65534); os.setuid(65534); os.chdir("/")
os.execvp("python3", ["python3", "-I", "/lab/running.py"])'"""
_NO_PERF = "busybox mount -t tmpfs none /sys/bus/event_source/devices; exec python3 -I /lab/trace.py 600"
_SET = "grep -c gdr_ /sys/kernel/tracing/kprobe_events"
_BY_FILES = f"""busybox unshare -m /bin/sh -c '{_NO_PERF}' > out/files & T=$!
for _ in $(busybox seq 60); do grep -q probes out/files && break; sleep 1; done"""
_FILES = f"""cd /lab; {_BY_FILES}
python3 holder.py again 6 write > out/again 2>&1; sleep 3; cat out/files out/again
echo set $({_SET}); kill -TERM $T; sleep 2; echo ended $({_SET}); busybox rm out/files
{_BY_FILES}
kill -KILL $T; sleep 2; echo killed $({_SET})
python3 -I /lab/trace.py 1; echo next $({_SET}) $(busybox ls /sys/kernel/tracing/instances)"""
"""Where perf has no kprobes, tracefs is used: ended, and killed."""
ROUNDS, FILE_ROUNDS, ROUNDS_S = 1000, 100, 500
"""Or as many as it does in that time: here everything is emulated."""
_ROUNDS = f"""
import os, time
trace = sys.modules["gdrkit.agent.running.trace"]
files = sys.modules["gdrkit.agent.running.trace_files"]
PATHS = ("/sys/kernel/debug/kprobes/list", "/sys/kernel/tracing/kprobe_events")
def left():
    return [len(os.listdir("/proc/self/fd")), *(len(open(path).readlines()) for path in PATHS)]
before = left()
for made, count in ((trace.Perf, {ROUNDS}), (files.TraceFiles, {FILE_ROUNDS})):
    end, done = time.monotonic() + {ROUNDS_S}, 0
    while done < count and time.monotonic() < end:
        source = made()
        source.counts()
        source.close()
        done += 1
    print(made.__name__, done, source.probes, before, left(), flush=True)
"""
_LOCKED = "echo {} > /sys/kernel/security/lockdown; "
STEPS = {
    "setup": _SETUP,
    "holders": _WAIT,
    "root": "python3 -I /lab/running.py",
    "nobody": _NOBODY,
    "other_pid_namespace": "busybox unshare -p -m -f /bin/sh -c 'busybox mount -t proc proc /proc; "
    "python3 -I /lab/running.py'",
    "other_net_namespace": "busybox unshare -n python3 -I /lab/running.py",
    "exclusive": "rdma system set netns exclusive; busybox unshare -n python3 -I /lab/running.py; "
    "rdma system set netns shared",
    "trace": "mkdir -p /lab/out; cd /lab; python3 -I trace.py 600 > out/trace & T=$!; "
    "for _ in $(busybox seq 60); do grep -q probes out/trace && break; sleep 1; done; "
    "python3 holder.py late 6 write > out/late 2>&1; sleep 3; cat out/trace out/late; "
    "echo running $(grep -c rxe_reg_user_mr /sys/kernel/debug/kprobes/list); kill -KILL $T; sleep 2; "
    "echo killed $(grep -c rxe_reg_user_mr /sys/kernel/debug/kprobes/list); "
    "cat /sys/kernel/tracing/kprobe_events",
    "trace_nobody": _NOBODY.replace("running.py", "trace.py"),
    "trace_files": _FILES,
    "apart": f"cd /lab; busybox unshare -n python3 holder.py apart {HOLD_S} > out/apart 2>&1 &\n"
    "for _ in $(busybox seq 60); do [ -s /lab/out/apart ] && break; sleep 1; done; "
    "python3 -I /lab/running.py",
    "deep": "python3 -I /lab/running.py --deep",
    "rounds": "python3 -I /lab/rounds.py",
    "rdma_resource": "rdma resource show mr; rdma resource show qp; rdma resource show ctx",
    "bufinfo": "cat /sys/kernel/debug/dma_buf/bufinfo",
    "integrity": _LOCKED.format("integrity") + "python3 -I /lab/running.py --deep",
    "integrity_trace": "python3 -I /lab/trace.py 1",
    "confidentiality": _LOCKED.format("confidentiality") + "python3 -I /lab/running.py --deep",
    "confidentiality_trace": "python3 -I /lab/trace.py 1",
    "lockdown_log": "busybox dmesg | grep -i lockdown",
    "left": "for p in /proc/[0-9]*; do "
    "case \"$(tr '\\0' ' ' < $p/cmdline)\" in 'python3 -I'*) echo $p;; esac; done",
}
_SHORT: dict[str, Any] = {"seconds": 120}
_LONG: dict[str, Any] = {"seconds": 4 * ROUNDS_S, "expected": 4 * ROUNDS_S}
RECORDS = (
    "root", "nobody", "other_pid_namespace", "other_net_namespace", "exclusive", "apart", "deep",
    "integrity",
    "confidentiality",
)  # fmt: skip


def outputs(kernel: Kernel) -> dict[str, str]:
    """The output of each step. Raises LabError if one failed, or a record is not JSON."""
    scripts: list[dict[str, Any]] = [
        {"name": name, "argv": ["/bin/sh", "-c", line], **(_LONG if name == "rounds" else _SHORT)}
        for name, line in STEPS.items()
    ]
    files = {
        "lab/holder.py": (_GUEST / "holder.py").read_bytes(),
        "lab/running.py": _patient(program("running_probe")).encode(),
        "lab/trace.py": program("trace_probe").encode(),
        "lab/rounds.py": _rounds(program("trace_probe")).encode(),
        "lab/gdrlab.ko": _module(kernel),
    }
    session = boot(kernel, profile("plain"), (), seed=0, packages=RDMA, scripts=scripts, files=files)
    say(f"guest with running processes: {session.transcript.seconds:.1f} s")
    printed = {}
    for event in session.transcript.of("script"):
        name, text = event["name"], event["stdout"]
        printed[name] = text
        try:
            if name in RECORDS:
                json.loads(text)
        except ValueError:
            raise LabError(f"{name}: {text[-500:]}\n{event['stderr']}\n{event['log']}") from None
        if event["exit_code"] != 0 and name in ("setup", "holders"):
            raise LabError(f"{name}: exit {event['exit_code']}\n{text}\n{event['stderr']}\n{event['log']}")
    return printed


def _patient(text: str) -> str:
    """The probe with more time: this guest is emulated, so everything takes many times as long."""
    patient = text.replace(f"DEADLINE_S = {DEADLINE_S}", "DEADLINE_S = 90.0")
    if patient == text:
        raise LabError("the probe has no deadline")
    return patient


def _rounds(text: str) -> str:
    """The modules of the probe, and a program that sets and removes its probes many times."""
    modules, end, _ = text.rpartition("sys.exit(module.main())")
    if not end:
        raise LabError("the probe does not end with its main")
    return modules + _ROUNDS


def _module(kernel: Kernel) -> bytes:
    """gdrlab.ko for a kernel, built once."""
    source = (_GUEST / "gdrlab.c").read_text()
    home = kernel.home / f"gdrlab-{digest(source)}"
    made = home / "gdrlab.ko"
    if not made.exists():
        home.mkdir(parents=True, exist_ok=True)
        (home / "gdrlab.c").write_text(source)
        (home / "Makefile").write_text("obj-m := gdrlab.o\nccflags-y := -w\n")
        where = WORK if kernel.tools else home
        words = ["make", "-s", "-C", kernel.own_headers, f"M={where}", "KBUILD_MODPOST_WARN=1",
                 "CONFIG_DEBUG_INFO_BTF_MODULES=", "modules"]  # fmt: skip
        if kernel.tools:
            inside(kernel.tools, home, *words)
        else:
            command(*words)
    return made.read_bytes()


def live(kernel: Kernel, *, write: bool) -> int:
    """Print each output; with `write`, save them as fixtures."""
    printed = outputs(kernel)
    home = FIXTURES / kernel.flavour.name
    if write:
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
    for name, text in printed.items():
        print(f"--- {name}\n{text.rstrip()[:2000]}")
        if write and name != "setup":
            (home / f"{name}.{'json' if name in RECORDS else 'txt'}").write_text(text)
    return 0
