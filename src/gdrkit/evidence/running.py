"""The record of the processes that run on a target now, or ran when its evidence was collected.

A node over ssh gets only this one script, on the standard input of `python3 -I -`: no bundle is made.
"""

from __future__ import annotations

import time
from collections.abc import Collection

from gdrkit.agent.running.options import RAS_DIAGNOSTICS, RAS_DIAGNOSTICS_S
from gdrkit.evidence import Command
from gdrkit.evidence.errors import TargetError
from gdrkit.evidence.live import RUNNING_TIMEOUT_S, run_command, script_argv
from gdrkit.evidence.ssh import TARGET, failure
from gdrkit.evidence.target import open_host

SSH_TIMEOUT_S = 30
"""To connect, for which ssh has 10 s, to start Python, and for the 4 s of the script."""
TRACE_END_S = 2.0
"""How long the child that follows registrations may take to remove its probes."""
RECORD_LIMIT_BYTES = 64 << 20
PEEK_BYTES = 1 << 12
"""How much of a file is searched for the brace that a record begins with."""


def record_of(target: str | None, command: Command, options: Collection[str] = ()) -> bytes:
    """The record, as `gdr ps --record` prints it, with options of `gdrkit.agent.running.options`; a file may
    have it, too. Raises TargetError, EvidenceMissing."""
    if target is not None and target.startswith("ssh://"):
        return _over_ssh(target, options)
    if target is None and options:
        return run_command(
            command,
            (*script_argv(command, "running_probe"), *options),
            RUNNING_TIMEOUT_S + _longer_s(options),
        )
    if options:
        raise TargetError(f"not a running machine: {target}", f"omit {' '.join(options)}")
    content = None if target is None else _kept(target)
    return open_host(target).run(command) if content is None else content


def _kept(target: str) -> bytes | None:
    """The record in a file, which may be compressed; None for anything else. Raises TargetError."""
    import os

    from gdrkit.evidence.stream import open_stream, read_all

    try:
        if not os.path.isfile(target):
            return None
        with open(target, "rb") as file:
            stream = open_stream(file, os.path.basename(target))
            if stream.peek(PEEK_BYTES).lstrip()[:1] != b"{":
                return None
            content, whole = read_all(stream, RECORD_LIMIT_BYTES)
    except OSError:  # open_host says what is wrong
        return None
    if not whole:
        raise TargetError(f"not a record of processes: more than {RECORD_LIMIT_BYTES >> 20} MiB")
    return content


def _longer_s(options: Collection[str]) -> float:
    """How much longer the script takes with these options."""
    return RAS_DIAGNOSTICS_S if RAS_DIAGNOSTICS in options else 0.0


def _over_ssh(target: str, options: Collection[str]) -> bytes:
    """What the script prints on ssh://[user@]host[:port]. Raises TargetError, quoting ssh's error."""
    import subprocess

    from gdrkit.agent.launch import is_destination, program_path, ssh
    from gdrkit.agent.output_file import temporary_file
    from gdrkit.agent.pipes import output_of, send
    from gdrkit.agent.probe.program import program

    match = TARGET.fullmatch(target)
    if match is None or not is_destination(match["destination"]):
        raise TargetError(f"not a valid ssh target: {target!r}", "write it as ssh://[user@]host[:port]")
    words = ssh(match["destination"], " ".join(("python3 -I -", *options)), match["port"])
    deadline = time.monotonic() + SSH_TIMEOUT_S + _longer_s(options)
    with temporary_file() as errors:
        try:
            child = subprocess.Popen(
                [program_path(words[0]), *words[1:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=errors, start_new_session=True,
            )  # fmt: skip
        except FileNotFoundError:
            raise TargetError("ssh is not installed here", "install openssh-client") from None
        assert child.stdin
        unsent = []
        try:
            send(child.stdin, program("running_probe").encode(), deadline)
            child.stdin.close()
        except (BrokenPipeError, TimeoutError) as error:  # what ssh says of it comes first
            unsent = [f"the script could not be sent: {error.strerror or error}"]
        try:
            code, output = output_of(child, RECORD_LIMIT_BYTES, deadline)
        except (TimeoutError, OverflowError) as error:
            raise TargetError(f"no answer from {target}: {error}", "run gdr ps there") from None
        if code or not output:
            errors.seek(0)
            text = errors.read(1 << 15).decode("utf-8", "replace")
            lines = [
                "".join(letter for letter in line if letter.isprintable()) for line in text.splitlines()
            ]
            raise failure(target, code, [*unsent, *filter(None, lines)], "gdr ps")
        return output


class Trace:
    """A child process that follows registrations on this machine. It ends with `close`, or with this one.
    Raises TargetError if it cannot be started."""

    def __init__(self, command: Command) -> None:
        import subprocess

        argv = script_argv(command, "trace_probe")
        try:
            self._child = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise TargetError(f"cannot start {argv[0]}: {why}", "run it as another user") from None
        self._rest = b""

    def lines(self) -> list[bytes]:
        """The lines that it has printed since the last time; does not wait."""
        import os

        from gdrkit.agent.pipes import BLOCK_BYTES, ready

        assert self._child.stdout
        while len(self._rest) < RECORD_LIMIT_BYTES and ready([self._child.stdout], 0.0):
            block = os.read(self._child.stdout.fileno(), BLOCK_BYTES)
            if not block:
                break
            self._rest += block
        *lines, self._rest = self._rest.split(b"\n")
        return lines

    def close(self) -> None:
        from gdrkit.agent.pipes import end_group, terminate_group

        assert self._child.stdout
        terminate_group(self._child)
        end_group(self._child, TRACE_END_S)
        self._child.stdout.close()
