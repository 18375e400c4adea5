"""A tree that counts as the running machine, with programs that write down how they were called."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from gdrkit.repair.apply import commands, store
from gdrkit.repair.apply.root_fs import RootFS


class ThisMachine(RootFS):
    """Commands run, and the journal is where that of the machine is."""

    is_machine = True


class Programs:
    """The only programs that commands find."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "bin").mkdir()

    def add(self, name: str, output: str = "", code: int = 0) -> None:
        """A program that prints this, whatever its arguments are."""
        self.answer(name, "*", output, code)

    def answer(self, name: str, first: str, output: str = "", code: int = 0) -> None:
        """What a program prints if its first argument is this one."""
        cases = self.folder / f"{name}.cases"
        row = f"{first}) printf %s {shlex.quote(output)}; exit {code};;\n"
        cases.write_text((cases.read_text() if cases.exists() else "") + row)
        script = self.folder / "bin" / name
        log = shlex.quote(str(self.folder / "log"))
        script.write_text(
            f"#!/bin/sh\nprintf '%s\\n' \"{name} $*\" >> {log}\n/bin/cat >> {log}\n"
            f'case "$1" in\n{cases.read_text()}esac\n'
        )
        script.chmod(0o755)

    @property
    def called(self) -> list[str]:
        """The calls, each with its arguments, and what they read, line by line."""
        log = self.folder / "log"
        return log.read_text().splitlines() if log.exists() else []


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    monkeypatch.setattr(commands, "SEARCH_PATH", str(tmp_path / "bin"))
    return Programs(tmp_path)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ThisMachine:
    monkeypatch.setattr(store, "MACHINE", str(tmp_path / "home"))
    (tmp_path / "root").mkdir()
    return ThisMachine(str(tmp_path / "root"))
