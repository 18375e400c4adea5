"""Undoing the runs of older versions, which wrote a kernel argument with a bare `;`."""

from __future__ import annotations

from pathlib import Path

from gdrkit.node import Node
from gdrkit.repair.platforms.action import RunCommand, WriteFile
from gdrkit.repair.platforms.file_contents import grub_argument
from gdrkit.rules.engine import judge
from gdrkit.rules.kernel_arguments_cut import kernel_arguments_cut
from gdrkit.rules.rule import Failed, Passed
from tests.memory_host import MemoryHost
from tests.repair.apply.test_reverter import run_of, undo
from tests.repair.apply.this_machine import programs, root

__all__ = ["programs", "root"]

BARE = "pci=disable_acs_redir=0000:17:01.0;0000:17:02.0"
OWN = "/etc/default/grub.d/90-gdrkit-acs.cfg"


def outcome(folder: str):
    """What doctor says of a machine that has these files and no others."""
    there = (path for path in Path(folder).rglob("*") if path.is_file())
    files = {str(path.relative_to(folder)): path.read_bytes() for path in there}
    return judge(Node(MemoryHost(files, complete=True)), kernel_arguments_cut, "node")


def lay(folder: str, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_what_an_older_run_wrote_is_found_and_its_undo_restores_the_arguments(programs, root):
    programs.add("update-grub")
    lay(root.path, {"etc/os-release": "ID=debian\n", "etc/default/grub": 'GRUB_CMDLINE_LINUX="quiet"\n'})
    written = WriteFile(path=OWN, content=grub_argument(BARE), why="x")
    journal = run_of(root, written, RunCommand(argv=("update-grub",), why="x", again=True))

    found = outcome(root.path)
    assert isinstance(found, Failed) and found.subject == OWN
    assert undo(journal) == ((), [])
    assert isinstance(outcome(root.path), Passed)
    assert [call.strip() for call in programs.called] == ["update-grub", "update-grub"]


def test_the_inverse_command_of_an_older_journal_still_runs(programs, root):
    programs.add("grubby")
    grubby = ("grubby", "--update-kernel=ALL")
    inverse = (*grubby, f"--remove-args={BARE}")
    journal = run_of(root, RunCommand(argv=(*grubby, f"--args={BARE}"), why="x", undo=(inverse,)))

    assert undo(journal) == ((), [])
    assert programs.called[-1] == f"grubby --update-kernel=ALL --remove-args={BARE}"
