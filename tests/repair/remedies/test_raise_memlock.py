"""The steps that raise the limit on locked memory, and what must start anew to have it."""

from __future__ import annotations

from gdrkit.node import Node
from gdrkit.repair.platforms.action import AskPerson, RunCommand, WriteFile
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.file_contents import LIMITS
from gdrkit.repair.platforms.procedures import procedure_for
from gdrkit.repair.remedies.raise_memlock import RAISE_MEMLOCK
from tests.memory_host import MemoryHost

UBUNTU = {"etc/os-release": "ID=ubuntu\nVERSION_ID=24.04\n"}
UNITS = "usr/lib/systemd/system"


def actions(files: dict[str, str], *, complete: bool = True) -> tuple[object, ...]:
    host = MemoryHost({**UBUNTU, **files}, complete=complete)
    return procedure_for(Node(host), RAISE_MEMLOCK, ProcedureChoices()).actions


def written(files: dict[str, str]) -> dict[str, str]:
    return {one.path: one.content for one in actions(files) if isinstance(one, WriteFile)}


def last_request(files: dict[str, str], *, complete: bool = True) -> AskPerson:
    found = actions(files, complete=complete)
    assert isinstance(found[-2], RunCommand) and isinstance(found[-1], AskPerson)
    return found[-1]


def test_the_units_that_start_jobs_are_restarted_after_their_limit_was_raised():
    files = {f"{UNITS}/slurmd.service": "", f"{UNITS}/containerd.service": "", f"{UNITS}/sshd.service": ""}

    assert sum("service.d" in path for path in written(files)) == 2
    assert last_request(files).commands == (
        "sudo systemctl restart slurmd",
        "sudo systemctl restart containerd",
    )


def test_where_the_units_are_not_known_a_person_is_asked_to_restart_them():
    found = last_request({}, complete=False)

    assert "log in again" in found.what and "such as slurmd" in found.what and not found.commands


def test_only_the_lines_that_lack_are_written():
    all_users = {"etc/security/limits.conf": "* - memlock unlimited\n"}
    root = {"etc/security/limits.d/root.conf": "root - memlock unlimited\n"}

    assert written({})[LIMITS].count("unlimited") == 4
    lines = written(all_users)[LIMITS].splitlines()[1:]
    assert lines == ["root soft memlock unlimited", "root hard memlock unlimited"]
    assert LIMITS not in written({**all_users, **root})
