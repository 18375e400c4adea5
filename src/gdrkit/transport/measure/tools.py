"""Other people's benchmarks on the same two ends: perftest's programs, and nccl-tests' sendrecv_perf.

What they print is returned as text. While perftest runs its server listens on a port without a key, and on
all addresses: that is how it is made, so it is started only where somebody asks for it.
"""

from __future__ import annotations

import os
import random
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, NamedTuple

PERFTEST = ("ib_write_bw", "ib_read_lat")
SENDRECV = "sendrecv_perf"
RUN_SECONDS = 120.0
_LISTEN_SECONDS = 30.0
_PORTS = (20000, 32000)  # below those that Linux gives to clients: ip(7), ip_local_port_range
_FEWEST, _MOST, _BYTES = 5, 1000, 256 << 20
"""Messages of a run: perftest takes no fewer than five; more than a quarter of a GiB tells no more."""
_LARGEST = 1 << 31  # bytes of one message: InfiniBand specification 1.4, 9.7.2
_LISTENING = "0A"  # TCP_LISTEN: Linux include/net/tcp_states.h


class ToolFailed(Exception):
    """A program is not there, did not come to an end, or failed: its last words."""


class ToolEnd(NamedTuple):
    """One end of a run: an RDMA device as "mlx5_0" or "mlx5_0:1", and a CUDA ordinal or None."""

    device: str
    gpu: int | None = None


def cuda_flags(program: str) -> tuple[tuple[str, ...], ...]:
    """The ways in which a perftest program takes GPU memory, best first, as its --help tells: options in
    which {} is the GPU. Empty where it was built without CUDA. Raises ToolFailed.
    """
    text = _output([_found(program), "--help"], {}, 10.0, any_exit=True)
    words = set(text.replace("=", " ").replace("<", " ").split())
    if "--use_cuda" not in words:
        return ()
    plain = ("--use_cuda={}",)
    return ((*plain, "--use_cuda_dmabuf"), plain) if "--use_cuda_dmabuf" in words else (plain,)


def perftest(
    program: str,
    here: ToolEnd,
    there: ToolEnd,
    size_bytes: int,
    *,
    flags: tuple[str, ...] = (),
    host: str | None = None,
    address: str | None = None,
    gid_index: int | None = None,
    seconds: float = RUN_SECONDS,
) -> str:
    """What the client of one run prints; the server is this process's child, the client runs on `host` (by
    ssh) or here. `address` is this node's, for the other; else the one that ssh came from.

    Raises ToolFailed. Both are ended when this returns: on the other node by timeout(1) at the latest.
    """
    port = random.randrange(*_PORTS)
    count = max(_FEWEST, min(_MOST, _BYTES // max(1, size_bytes)))
    common = ["-s", str(size_bytes), "-n", str(count), "-p", str(port), "-F"]
    if gid_index is not None:
        common += ["-x", str(gid_index)]
    if size_bytes > _LARGEST:
        raise ToolFailed(f"{size_bytes} bytes are more than one message can be")
    server = [_found(program), *_end(here, flags), *common]
    client = [program, *_end(there, flags), *common]
    if host is None:
        client.append(address or "127.0.0.1")
    else:
        whom = shlex.quote(address) if address else "${SSH_CONNECTION%% *}"
        line = f"exec timeout {int(seconds)} {shlex.join(client)} {whom}"
        client = ["ssh", "-oBatchMode=yes", host, line]
    with _server(server) as (process, said):
        _wait_for(process, port, said)
        return _output(client, {}, seconds)


def sendrecv(gpus: tuple[int, ...], smallest: int, largest: int, *, seconds: float = RUN_SECONDS) -> str:
    """What nccl-tests' sendrecv_perf prints for these GPUs of this node, sizes doubling. Raises
    ToolFailed.
    """
    command = [_found(SENDRECV), "-b", str(smallest), "-e", str(largest), "-f", "2", "-g", str(len(gpus))]
    return _output(command, {"CUDA_VISIBLE_DEVICES": _visible(gpus)}, seconds)


def _visible(gpus: tuple[int, ...]) -> str:
    """The GPUs, as CUDA counts them in this process, in the words of CUDA_VISIBLE_DEVICES."""
    seen = [word for word in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if word]
    return ",".join(seen[gpu] if gpu < len(seen) else str(gpu) for gpu in gpus)


def _end(end: ToolEnd, flags: tuple[str, ...]) -> list[str]:
    name, _, port = end.device.partition(":")
    options = ["-d", name, *(["-i", port] if port else [])]
    return options + [flag.format(end.gpu) for flag in flags] if end.gpu is not None else options


def _found(program: str) -> str:
    if path := shutil.which(program):
        return path
    raise ToolFailed(f"{program} is not installed")


@contextmanager
def _server(command: list[str]) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
    """A child and what it says; it and its own are ended with the block."""
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
        )
        try:
            yield process, said
        finally:
            try:
                process.wait(2)  # it ends by itself when the client has
            except subprocess.TimeoutExpired:
                _end_all(process)


def _wait_for(process: subprocess.Popen[bytes], port: int, said: IO[bytes]) -> None:
    """Until the server listens. A connection would tell, too, but perftest takes one and no more."""
    deadline = time.monotonic() + _LISTEN_SECONDS
    while not _listens(port):
        if process.poll() is not None or time.monotonic() > deadline:
            said.seek(0)
            raise ToolFailed(_last(said.read(8000).decode("utf-8", "replace")) or "the server did not start")
        time.sleep(0.05)


def _listens(port: int) -> bool:
    """Whether a TCP socket of this node listens there: proc_net_tcp.rst of Linux."""
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(name, encoding="ascii") as file:
                rows = [line.split()[1:4] for line in file]
        except OSError:  # IPv6 is not compiled in, or switched off
            continue
        if any(row[2] == _LISTENING and row[0].endswith(f":{port:04X}") for row in rows if len(row) == 3):
            return True
    return False


def _output(command: list[str], more: dict[str, str], seconds: float, *, any_exit: bool = False) -> str:
    """All that a child prints, standard error too. Raises ToolFailed."""
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True, env={**os.environ, **more},
    )  # fmt: skip
    try:
        text = process.communicate(timeout=seconds)[0].decode("utf-8", "replace")
    except subprocess.TimeoutExpired:
        raise ToolFailed(f"{os.path.basename(command[0])}: not done after {seconds:g} s") from None
    finally:
        _end_all(process)
    if process.returncode and not any_exit:
        raise ToolFailed(_last(text) or f"{os.path.basename(command[0])}: exit code {process.returncode}")
    return text


def _end_all(process: subprocess.Popen[bytes]) -> None:
    """A child and those that it started: its session is its own."""
    with suppress(ProcessLookupError):  # all of them have ended
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip(" -\t")]
    return lines[-1] if lines else ""
