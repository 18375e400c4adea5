"""Other benchmarks on the same two ends: the perftest programs, and sendrecv_perf of nccl-tests.

Their output is returned as text. While perftest runs, its server listens on all addresses, without
authentication. perftest has no option against that, so it runs only when requested.
"""

from __future__ import annotations

import os
import random
import shlex
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from gdrkit.agent.launch import program_path, ssh
from gdrkit.agent.output_file import temporary_file
from gdrkit.agent.pipes import end_group, output_of
from gdrkit.transport.measure.job import MeasureEnd

PERFTEST = ("ib_write_bw", "ib_read_lat")
SENDRECV = "sendrecv_perf"
RUN_SECONDS = 120.0
_LISTEN_SECONDS = 30.0
_PORTS = (20000, 32000)  # below those that Linux gives to clients: ip(7), ip_local_port_range
_FEWEST, _MOST, _BYTES = 5, 1000, 256 << 20
"""Messages and bytes of a run: perftest requires at least five messages; more than 256 MiB add no
precision.
"""
_LARGEST = 1 << 31  # bytes of one message: InfiniBand specification 1.4, 9.7.2
_LINE_LIMIT = 300
_OUTPUT_BYTES = 8 << 20  # a run prints some kB
_LISTENING = "0A"  # TCP_LISTEN: Linux include/net/tcp_states.h


class ToolFailed(Exception):
    """A program is not installed, did not finish in time, or failed; the message is its last line."""


def cuda_flags(program: str) -> tuple[tuple[str, ...], ...]:
    """The option sets with which a perftest program uses GPU memory, best first, according to its --help;
    {} in an option is the GPU. Empty if it was built without CUDA. Raises ToolFailed.
    """
    text = _output([program, "--help"], {}, 10.0, any_exit=True)
    words = set(text.replace("=", " ").replace("<", " ").split())
    if "--use_cuda" not in words:
        return ()
    plain = ("--use_cuda={}",)
    return ((*plain, "--use_cuda_dmabuf"), plain) if "--use_cuda_dmabuf" in words else (plain,)


def perftest(
    program: str,
    here: MeasureEnd,
    there: MeasureEnd,
    size_bytes: int,
    *,
    flags: tuple[str, ...] = (),
    host: str | None = None,
    address: str | None = None,
    gid_index: int | None = None,
    seconds: float = RUN_SECONDS,
) -> str:
    """The client's output of one run. The server is a child of this process; the client runs on `host` (over
    ssh) or on this node. `address` is this node's address for the other node, by default the one that ssh
    connected from.

    Raises ToolFailed. Both programs have ended when this returns, on the other node at the latest through
    timeout(1).
    """
    port = random.randrange(*_PORTS)
    count = max(_FEWEST, min(_MOST, _BYTES // max(1, size_bytes)))
    common = ["-s", str(size_bytes), "-n", str(count), "-p", str(port), "-F"]
    if gid_index is not None:
        common += ["-x", str(gid_index)]
    if size_bytes > _LARGEST:
        raise ToolFailed(f"message too large: {size_bytes} bytes, at most {_LARGEST}")
    server = [program, *_options(here, flags), *common]
    client = [program, *_options(there, flags), *common]
    if host is None:
        client.append(address or "127.0.0.1")
    else:
        target = shlex.quote(address) if address else "${SSH_CONNECTION%% *}"
        line = f"exec timeout {int(seconds)} {shlex.join(client)} {target}"
        client = ssh(host, line)
    with _server(server) as (process, output):
        _wait_for(process, port, output)
        return _output(client, {}, seconds)


def sendrecv(gpus: tuple[int, ...], smallest: int, largest: int, *, seconds: float = RUN_SECONDS) -> str:
    """The output of nccl-tests' sendrecv_perf for these GPUs of this node, with doubling sizes. Raises
    ToolFailed.
    """
    sizes = ["-b", str(smallest), "-e", str(largest), "-f", "2"]
    command = [SENDRECV, *sizes, "-g", str(len(gpus))]
    return _output(command, {"CUDA_VISIBLE_DEVICES": _visible(gpus)}, seconds)


def _visible(gpus: tuple[int, ...]) -> str:
    """This process's CUDA ordinals as a value for CUDA_VISIBLE_DEVICES."""
    visible = [word for word in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if word]
    return ",".join(visible[gpu] if gpu < len(visible) else str(gpu) for gpu in gpus)


def _options(end: MeasureEnd, flags: tuple[str, ...]) -> list[str]:
    name, _, port = (end.device or "").partition(":")
    options = ["-d", name, *(["-i", port] if port else [])]
    return options + [flag.format(end.gpu) for flag in flags] if end.gpu is not None else options


def _installed(command: list[str]) -> list[str]:
    """A command with the path of its program. Raises ToolFailed."""
    try:
        return [program_path(command[0]), *command[1:]]
    except FileNotFoundError:
        raise ToolFailed(f"{command[0]} is not installed") from None


@contextmanager
def _server(command: list[str]) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
    """A child process and its output; it and its own children are ended with the block."""
    with temporary_file() as output:
        process = subprocess.Popen(
            _installed(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            yield process, output
        finally:
            end_group(process, 2)  # the server exits after its client


def _wait_for(process: subprocess.Popen[bytes], port: int, output: IO[bytes]) -> None:
    """Wait until the server listens. Do not connect to find out: perftest accepts one connection only."""
    deadline = time.monotonic() + _LISTEN_SECONDS
    while not _listens(port):
        if process.poll() is not None or time.monotonic() > deadline:
            output.seek(0)
            text = output.read(8000).decode("utf-8", "replace")
            raise ToolFailed(_last(text) or "the server did not start")
        time.sleep(0.05)


def _listens(port: int) -> bool:
    """Whether a TCP socket of this node listens on the port: proc_net_tcp.rst of Linux."""
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(name, encoding="ascii") as file:
                rows = [line.split()[1:4] for line in file]
        except OSError:  # IPv6 is not compiled in, or disabled
            continue
        if any(row[2] == _LISTENING and row[0].endswith(f":{port:04X}") for row in rows if len(row) == 3):
            return True
    return False


def _output(command: list[str], more: dict[str, str], seconds: float, *, any_exit: bool = False) -> str:
    """A child's standard output and standard error. Raises ToolFailed."""
    process = subprocess.Popen(
        _installed(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True, env={**os.environ, **more},
    )  # fmt: skip
    try:
        code, output = output_of(process, _OUTPUT_BYTES, time.monotonic() + seconds)
    except TimeoutError:
        raise ToolFailed(f"{os.path.basename(command[0])}: not done after {seconds:g} s") from None
    except OverflowError:
        raise ToolFailed(
            f"{os.path.basename(command[0])}: more than {_OUTPUT_BYTES >> 20} MiB of output"
        ) from None
    text = output.decode("utf-8", "replace")
    if code and not any_exit:
        raise ToolFailed(_last(text) or f"{os.path.basename(command[0])}: exit code {code}")
    return text


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip(" -\t")]
    return lines[-1][:_LINE_LIMIT] if lines else ""
