"""A child that is stopped holds no command: whoever starts one ends it at a limit, and says so.

SIGSTOP is the hang that no child survives by itself: it reads, writes and ends nothing, and SIGTERM waits.
"""

from __future__ import annotations

import ast
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gdrkit.agent.collect import subprocesses, unpack
from gdrkit.agent.fleet import ray_driver
from gdrkit.agent.running import children
from gdrkit.cli import main
from gdrkit.evidence import Command, running, ssh
from gdrkit.evidence.errors import TargetError
from gdrkit.fleet import client, pool
from gdrkit.fleet.worker import task_of
from gdrkit.jobs import workers
from gdrkit.repair.apply import commands
from gdrkit.repair.platforms import command_shapes
from gdrkit.transport.errors import TimedOut
from gdrkit.transport.measure import counters_process, remote, tools
from tests.repair.apply.scratch import machine, needs_depmod
from tests.system_programs import has_ended, program

SOURCE = Path(__file__).parent.parent / "src/gdrkit"
LIMIT_S = 0.3
SLOWEST_S = 10.0
"""Far above the limits of these tests, and far below those that they replace."""


class Stopped(NamedTuple):
    """A program that stops itself as soon as it runs, and the means to put it where another is started."""

    program: str
    set: Callable[[Any, str, Any], None]

    @property
    def folder(self) -> str:
        return str(Path(self.program).parent)

    def limit(self, module: Any, *names: str) -> None:
        for name in names:
            self.set(module, name, LIMIT_S)


@pytest.fixture
def stopped(tmp_path, monkeypatch):
    for name in ("stopped", "ssh", "depmod"):
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\necho $$ >>{tmp_path}/pids\nkill -STOP $$\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return Stopped(str(tmp_path / "bin/stopped"), monkeypatch.setattr)


def command(stopped: Stopped) -> str:
    return subprocesses.run(["stopped"], LIMIT_S, 100, f"{stopped.folder}:/bin").status


def zstd(stopped: Stopped) -> str:
    stopped.limit(unpack, "ZSTD_LIMIT_S")
    with pytest.raises(ValueError, match="zstd") as raised:
        unpack._zstd_program(stopped.program, b"x", 100)
    return str(raised.value)


def task_of_ray(stopped: Stopped) -> str:
    return ray_driver.collect([stopped.program], b"", LIMIT_S, 100)[2]


def source_of_ps(stopped: Stopped) -> str:
    def hangs(emit: children.Emit) -> None:
        emit({"row": 1})
        os.kill(os.getpid(), signal.SIGSTOP)

    # longer than the other limits: on a busy machine a child takes its time to write its row
    found = children.gather({"a": hangs, "b": lambda emit: None}, time.monotonic() + 2)
    assert found["a"].rows == [{"row": 1}] and found["b"].status == "found"
    return found["a"].status


def tool_of_an_agent(stopped: Stopped) -> str:
    mcp_server = pytest.importorskip("gdrkit.cli.mcp_server")
    stopped.limit(mcp_server, "SECONDS", "ENDING_S")
    stopped.set(sys, "executable", stopped.program)
    with pytest.raises(mcp_server.ToolError) as raised:
        mcp_server._answer("doctor")
    return str(raised.value)


def processes_over_ssh(stopped: Stopped) -> str:
    stopped.limit(running, "SSH_TIMEOUT_S")
    with pytest.raises(TargetError) as raised:
        running.record_of("ssh://node", Command("gdr", "ps"))
    return str(raised.value)


def trace(stopped: Stopped) -> str:
    stopped.limit(running, "TRACE_END_S")
    stopped.set(running, "script_argv", lambda *_: (stopped.program,))
    found = running.Trace(Command("gdr", "watch"))
    assert found.lines() == []
    found.close()
    return ""


def bundle_over_ssh(stopped: Stopped) -> str:
    stopped.limit(ssh, "COLLECT_TIMEOUT_S", "GRACE_S")
    with pytest.raises(TargetError) as raised:
        ssh.open_ssh("ssh://node")
    return str(raised.value)


def program_of_a_cluster(stopped: Stopped) -> str:
    with pytest.raises(TargetError) as raised:
        client.call([stopped.program], "sinfo", LIMIT_S)
    return str(raised.value)


def judging(stopped: Stopped) -> str:
    stopped.set(pool, "isolated", lambda module: [stopped.program])
    rows: list[Any] = []
    pool.judge_all([task_of("x")], rows.append, processes=1, limit_s=LIMIT_S)
    return rows[0].summary


def second_process_of_a_log(stopped: Stopped) -> str:
    """The parent counts everything itself, so nothing is lost."""
    folder = Path(stopped.folder).parent
    for name in "ab":
        (folder / name).write_text("node1:7:7 [0] NCCL INFO NCCL version 2.28.9+cuda13.0\n" * 9)
    files = [str(folder / name) for name in "ab"]
    whole = workers.count(files).tally.lines
    stopped.limit(workers, "STALLED_S")
    stopped.set(workers, "WORTH_TWO_BYTES", 1)
    stopped.set(os, "sched_getaffinity", lambda pid: {0, 1})
    fork = os.fork

    def stopping() -> int:
        child = fork()
        if not child:
            os.kill(os.getpid(), signal.SIGSTOP)
        return child

    stopped.set(os, "fork", stopping)
    assert workers.count(files).tally.lines == whole == {0: 9, 1: 9}
    return ""


def step_of_fix(stopped: Stopped) -> str:
    stopped.limit(commands, "LIMIT_S", "ENDING_S")
    stopped.set(commands, "SEARCH_PATH", stopped.folder)
    code, output = commands.run_captured(("stopped",), b"password\n" * 100_000)
    assert code == commands.TIMED_OUT
    return output


def reader_of_nvml(stopped: Stopped) -> str:
    stopped.limit(counters_process, "ANSWER_S")
    stopped.set(counters_process, "isolated", lambda module: [stopped.program])
    process = counters_process.NvmlProcess()
    first, second = process.ask("0000:1b:00.0", 138, 0), process.ask("0000:1b:00.0", 139, 0)
    process.close()
    assert first == second and first[0] is None
    return first[1]


def other_node(stopped: Stopped) -> str:
    with remote.process([stopped.program], LIMIT_S) as child, pytest.raises(TimedOut) as raised:
        remote.introduce(child, LIMIT_S)
    return str(raised.value)


def benchmark(stopped: Stopped) -> str:
    with pytest.raises(tools.ToolFailed) as raised:
        tools._output([stopped.program], {}, LIMIT_S)
    return str(raised.value)


def server_of_a_benchmark(stopped: Stopped) -> str:
    stopped.limit(tools, "_LISTEN_SECONDS")
    with (
        tools._server([stopped.program]) as (process, output),
        pytest.raises(tools.ToolFailed) as raised,
    ):
        tools._wait_for(process, 1, output)
    return str(raised.value)


STARTED = {
    "agent/collect/subprocesses.py": {command: "timed-out"},
    "agent/collect/unpack.py": {zstd: "zstd timed out"},
    "agent/fleet/ray_driver.py": {task_of_ray: "timed out: no bundle within 0.3 s"},
    "agent/running/children.py": {source_of_ps: "timed-out"},
    "cli/mcp_server.py": {tool_of_an_agent: "gdr doctor had no answer within 0 s"},
    "evidence/running.py": {processes_over_ssh: "no answer from ssh://node", trace: ""},
    "evidence/ssh.py": {bundle_over_ssh: "timed out: no bundle within 0.3 s"},
    "fleet/client.py": {program_of_a_cluster: "sinfo did not end within 0.3 s"},
    "fleet/pool.py": {judging: "judging it took more than 0.3 s"},
    "jobs/workers.py": {second_process_of_a_log: ""},
    "repair/apply/commands.py": {step_of_fix: "stopped: ended, since it had taken 0.005 minutes"},
    "transport/measure/counters_process.py": {
        reader_of_nvml: "the process that reads NVML did not answer within 0.3 s"
    },
    "transport/measure/remote.py": {other_node: "the other node"},
    "transport/measure/tools.py": {
        benchmark: "stopped: not done after 0.3 s",
        server_of_a_benchmark: "the server did not start",
    },
}
"""Every file that starts a child, as often as it does: what stops that child, and what is then said."""


STARTS = ("os.fork", "os.posix_spawn", "os.spawn", "os.exec", "os.system", "os.popen", "pty.")
CLASSES = ("create_subprocess_exec", "create_subprocess_shell", "Process", "ProcessPoolExecutor")


def starts(path: Path) -> int:
    """How often a file starts a child."""
    calls = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
    return sum(
        name.startswith(STARTS)
        or name in {f"subprocess.{word}" for word in ("Popen", "run", "call", "check_call", "check_output")}
        or name.rpartition(".")[2] in CLASSES
        for name in (ast.unparse(call.func) for call in calls)
    )


def test_the_table_has_every_place_that_starts_a_child():
    found = {str(path.relative_to(SOURCE)): starts(path) for path in SOURCE.rglob("*.py")}
    assert {name: count for name, count in found.items() if count} == {
        name: len(attacks) for name, attacks in STARTED.items()
    }


ATTACKS = {attack: said for attacks in STARTED.values() for attack, said in attacks.items()}


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_a_child_that_is_stopped_is_ended_and_named(attack, stopped, tmp_path):
    before = own_children()
    began = time.monotonic()

    said = attack(stopped)

    assert time.monotonic() - began < SLOWEST_S
    assert said.startswith(ATTACKS[attack]) and "\n" not in said
    pids = tmp_path / "pids"
    started = map(int, pids.read_text().split()) if pids.exists() else ()
    assert all(ends(pid) for pid in {*started, *(own_children() - before)})


@pytest.fixture
def installed(tmp_path):
    """A tree that gdr repairs. Ask for it before `stopped`: it is made with the real depmod."""
    return machine(tmp_path / "root")


@needs_depmod
def test_a_step_of_fix_that_is_stopped_is_one_line_and_can_be_undone(installed, stopped, tmp_path, capsys):
    before = contents(installed)
    place = ["--yes", "--root", str(installed)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commands, "SEARCH_PATH", stopped.folder)
        patch.setattr(command_shapes, "FOLDERS", (stopped.folder,))
        with pytest.MonkeyPatch.context() as limits:
            limits.setattr(commands, "LIMIT_S", LIMIT_S)
            limits.setattr(commands, "ENDING_S", LIMIT_S)
            assert main(["fix", "--apply", "--steps", "remove-nv-peer-mem", *place]) == 2
        error = capsys.readouterr().err
        assert "depmod" in error and "exit code 124" in error and "--undo" in error
        assert all(ends(int(pid)) for pid in (tmp_path / "pids").read_text().split())

        Path(stopped.folder, "depmod").unlink()
        Path(stopped.folder, "depmod").symlink_to(program("depmod"))
        assert main(["fix", "--undo", *place]) == 0
    assert contents(installed) == before


def own_children() -> set[int]:
    """The children of this process: proc_pid_stat(5)."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = stat.read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue
        if int(parent) == os.getpid():
            found.add(int(stat.parent.name))
    return found


def ends(pid: int) -> bool:
    """Whether a process has ended, or does soon: SIGKILL takes a moment."""
    deadline = time.monotonic() + SLOWEST_S
    while not has_ended(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def contents(root: Path) -> dict[str, bytes]:
    files = (path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    return {str(path): path.read_bytes() for path in files}
