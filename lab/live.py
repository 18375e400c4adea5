"""Processes that hold RDMA objects in a guest, and what gdrkit's probe records of them, by who asks.

The guest has rdma_rxe and a module that exports dma-bufs as NVIDIA's does (guest/gdrlab.c): it has no GPU.
What each process holds is in guest/holder.py, so the truth is known.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from gdrkit.agent.probe.program import program
from gdrkit.agent.probe.running_probe import DEADLINE_S
from lab.cache import LabError, command, digest, say
from lab.doctor import gdrkit_files
from lab.kernels import Kernel
from lab.modules import WORK
from lab.packages import DEBIAN_13
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
os.execvp("python3", ["python3", "-I", *"{}".split()])'"""
_NO_PERF = "busybox mount -t tmpfs none /sys/bus/event_source/devices; exec python3 -I /lab/trace.py 600"
_SET = "grep -c gdr_ /sys/kernel/tracing/kprobe_events"
_BY_FILES = f"""busybox unshare -m /bin/sh -c '{_NO_PERF}' > out/files & T=$!
for _ in $(busybox seq 60); do grep -q probes out/files && break; sleep 1; done"""
_OTHER = "busybox mount -t proc proc /proc; python3 -I /lab/{}"
_FILES = f"""cd /lab; {_BY_FILES}
busybox unshare -p -m -f /bin/sh -c '{_OTHER.format("trace.py 1")}'
python3 holder.py again 6 write > out/again 2>&1; sleep 3; cat out/files out/again
echo set $({_SET}); kill -TERM $T; sleep 2; echo ended $({_SET}); busybox rm out/files
{_BY_FILES}
kill -KILL $T; sleep 2; echo killed $({_SET})
python3 -I /lab/trace.py 1; echo next $({_SET}) $(busybox ls /sys/kernel/tracing/instances)"""
"""Where perf has no kprobes, tracefs is used: ended, and killed. Another one, which cannot see its process,
leaves its probes alone."""
_TRACED = "grep -c rxe_reg_user_mr /sys/kernel/debug/kprobes/list"
_INSTANCES = "busybox ls /sys/kernel/tracing/instances"
_LEFT = """for p in /proc/[0-9]*; do case "$(tr '\\0' ' ' < $p/cmdline 2>/dev/null)" in
*python3\\ -[I]\\ *) echo $p;; esac; done"""
"""The processes of gdrkit's scripts. A look that is under way ends by itself."""
_UNTIL = "for _ in $(busybox seq 120); do {} && break; sleep 1; done"
_ALL_ENDED = _UNTIL.format('[ -z "$(left)" ]')
_KPROBES = f"[ $({_TRACED}) -gt 0 ]"
_WATCHED = f"""left() {{ {_LEFT}; }}; cd /lab
python3 -E watch.py > out/watched & W=$!; {_UNTIL.format(_KPROBES)}
python3 holder.py seen 3 write > out/seen 2>&1; {_UNTIL.format("grep -q ' r process ' out/watched")}
cat out/seen; grep ' r process ' out/watched; echo running $({_TRACED}); kill -KILL $W; {_ALL_ENDED}
echo killed $({_TRACED}) $({_SET}) $({_INSTANCES}) $(left)"""
"""By perf: `gdr watch --trace` itself is killed, and what it started ends with it."""
_BY_FILES_WATCHED = f"""busybox unshare -m /bin/sh -c '
busybox mount -t tmpfs none /sys/bus/event_source/devices
exec python3 -E watch.py' > out/watched & W=$!; {_UNTIL.format(f"[ $({_SET}) -gt 1 ]")}; sleep 1"""
_WATCHED_FILES = f"""left() {{ {_LEFT}; }}; cd /lab; {_BY_FILES_WATCHED}
echo set $({_SET}); kill -KILL $W; {_ALL_ENDED}
echo killed $({_TRACED}) $({_SET}) $({_INSTANCES}) $(left)
{_BY_FILES_WATCHED}
T=$({_INSTANCES} | busybox cut -d_ -f2); kill -KILL $W $T; {_ALL_ENDED}
echo both $({_SET}); python3 -E watch.py --count 3 | grep ' r removed '
echo next $({_TRACED}) $({_SET}) $({_INSTANCES}) $(left)"""
"""By tracefs: the child that follows removes its probes when `gdr watch` is killed. Then both are killed,
and the next `gdr watch` removes them."""
_WATCH = """
import sys
sys.path[:0] = ["/lab/gdr", "/lab/site"]
from gdrkit.cli import main
from gdrkit.evidence import live, running
live.RUNNING_TIMEOUT_S = running.RUNNING_TIMEOUT_S = 90
sys.exit(main(["watch", "--trace", "--interval", "1", *sys.argv[1:]]))
"""
ROUNDS, FILE_ROUNDS, ROUNDS_S = 1000, 100, 2000
"""Or as many as it does in that time: here everything is emulated, and 6.1 takes a second for each."""
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
STEPS = {
    "setup": _SETUP,
    "rounds": "python3 -I /lab/rounds.py",
    "holders": _WAIT,
    "root": "python3 -I /lab/running.py",
    "nobody": _NOBODY.format("/lab/running.py"),
    "other_pid_namespace": f"busybox unshare -p -m -f /bin/sh -c '{_OTHER.format('running.py')}'",
    "other_net_namespace": "busybox unshare -n python3 -I /lab/running.py",
    "exclusive": "rdma system set netns exclusive; busybox unshare -n python3 -I /lab/running.py; "
    "rdma system set netns shared",
    "trace": "mkdir -p /lab/out; cd /lab; python3 -I trace.py 600 > out/trace & T=$!; "
    "for _ in $(busybox seq 60); do grep -q probes out/trace && break; sleep 1; done; "
    "python3 holder.py late 6 write > out/late 2>&1; sleep 3; cat out/trace out/late; "
    "echo running $(grep -c rxe_reg_user_mr /sys/kernel/debug/kprobes/list); kill -KILL $T; sleep 2; "
    "echo killed $(grep -c rxe_reg_user_mr /sys/kernel/debug/kprobes/list); "
    "cat /sys/kernel/tracing/kprobe_events",
    "trace_nobody": _NOBODY.format("/lab/trace.py 1"),
    "trace_files": _FILES,
    "apart": f"cd /lab; busybox unshare -n python3 holder.py apart {HOLD_S} > out/apart 2>&1 &\n"
    "for _ in $(busybox seq 60); do [ -s /lab/out/apart ] && break; sleep 1; done; "
    "python3 -I /lab/running.py",
    "watched": _WATCHED,
    "watched_files": _WATCHED_FILES,
    "rdma_resource": "rdma resource show mr; rdma resource show qp; rdma resource show ctx",
    "bufinfo": "cat /sys/kernel/debug/dma_buf/bufinfo",
    **{
        mode + name: line
        for mode in ("integrity", "confidentiality")
        for name, line in (
            ("", f"echo {mode} > /sys/kernel/security/lockdown; python3 -I /lab/running.py"),
            ("_trace", "python3 -I /lab/trace.py 1"),
            ("_nobody", _NOBODY.format("/lab/running.py")),
            ("_nobody_trace", _NOBODY.format("/lab/trace.py 1")),
        )
    },
    "left": _LEFT,
}
LOCKED = tuple(name for name in STEPS if name.startswith(("integrity", "confidentiality")))
_SHORT: dict[str, Any] = {"seconds": 120}
_LONG: dict[str, dict[str, Any]] = {
    "rounds": {"seconds": 2 * ROUNDS_S + 100, "expected": 2 * ROUNDS_S},
    "trace_files": {"seconds": 300, "expected": 200},
    "watched": {"seconds": 600, "expected": 600},
    "watched_files": {"seconds": 600, "expected": 600},
}
RECORDS = (
    "root", "nobody", "other_pid_namespace", "other_net_namespace", "exclusive", "apart",
    "integrity", "integrity_nobody", "confidentiality", "confidentiality_nobody",
)  # fmt: skip


def outputs(kernel: Kernel) -> dict[str, str]:
    """The output of each step. Raises LabError if one failed, or a record is not JSON."""
    scripts: list[dict[str, Any]] = [
        {"name": name, "argv": ["/bin/sh", "-c", line], **_LONG.get(name, _SHORT)}
        for name, line in STEPS.items()
    ]
    files = {
        "lab/holder.py": (_GUEST / "holder.py").read_bytes(),
        "lab/running.py": _patient(program("running_probe")).encode(),
        "lab/trace.py": program("trace_probe").encode(),
        "lab/rounds.py": _rounds(program("trace_probe")).encode(),
        "lab/gdrlab.ko": _module(kernel),
        "lab/watch.py": _WATCH.encode(),
    }
    packages, own = _gdrkit(kernel)
    session = boot(
        kernel, profile("plain"), (), seed=0, packages=packages, scripts=scripts, files=files | own
    )
    say(f"guest with running processes: {session.transcript.seconds:.1f} s")
    printed, logged = {}, []
    for event in session.transcript.of("script"):
        name, text = event["name"], event["stdout"]
        printed[name] = text
        if name in LOCKED:
            logged += [f"{name}: {line}\n" for line in event["log"]]
        try:
            if name in RECORDS:
                json.loads(text)
        except ValueError:
            raise LabError(f"{name}: {text[-500:]}\n{event['stderr']}\n{event['log']}") from None
        if event["exit_code"] != 0 and name in ("setup", "holders"):
            raise LabError(f"{name}: exit {event['exit_code']}\n{text}\n{event['stderr']}\n{event['log']}")
    return printed | {"lockdown_log": "".join(logged)}


def _gdrkit(kernel: Kernel) -> tuple[tuple[str, ...], dict[str, bytes]]:
    """The packages and files of a guest that runs gdr: its libraries are compiled, for one Python."""
    files = gdrkit_files()
    if kernel.flavour.archive is DEBIAN_13:
        own = {path: content for path, content in files.items() if path.startswith("lab/gdr/")}
        return (*RDMA, "python3-msgspec", "python3-rich"), own
    if sys.version_info[:2] != (3, 11):
        raise LabError("this guest uses this machine's compiled libraries: Python 3.11 only")
    return RDMA, files


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
