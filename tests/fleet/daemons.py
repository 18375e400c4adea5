"""Daemons that a test starts on loopback, and ends by their process ids."""

from __future__ import annotations

import os
import pwd
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.system_programs import needs, program

START_S, POLL_S, END_S = 30.0, 0.05, 5.0
ADDRESS = "127.0.0.1"


def services(*programs: str) -> list[pytest.MarkDecorator]:
    """The marks of a test that starts these programs: it is skipped where one is not installed."""
    return [pytest.mark.services, needs(*programs)]


class Daemons:
    """Running daemons by name, each with a file for what it prints. A context manager."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Daemons:
        return self

    def __exit__(self, *error: object) -> None:
        for name in reversed(list(self._running)):
            self.end(name)

    def start(self, name: str, daemon: str, *words: str | Path) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.out").open("ab") as printed:
            self._running[name] = subprocess.Popen(
                [program(daemon), *words],
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=printed,
                start_new_session=True,
            )
        return self._running[name]

    def pid(self, name: str) -> int:
        return self._running[name].pid

    def end(self, name: str, how: int = signal.SIGTERM) -> None:
        """End a daemon, also one that is stopped."""
        process = self._running.pop(name)
        for number in (how, signal.SIGCONT):
            process.send_signal(number)
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(END_S)

    def printed(self) -> str:
        """What all of them have printed, for an error message."""
        return "\n".join(f"{path.name}: {path.read_text()}" for path in sorted(self.folder.glob("*.out")))

    def until(self, ready: Callable[[], object]) -> None:
        """Wait for what daemons begin to do."""
        for _ in range(int(START_S / POLL_S)):
            if ready():
                return
            time.sleep(POLL_S)
        raise AssertionError(self.printed())


def free_port() -> int:
    """A port on loopback that nothing listens on."""
    with socket.socket() as listener:
        listener.bind((ADDRESS, 0))
        return int(listener.getsockname()[1])


def user() -> str:
    return pwd.getpwuid(os.getuid()).pw_name
