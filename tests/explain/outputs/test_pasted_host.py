"""A pasted text as a host."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.evidence import Command, EvidenceAbsent, EvidenceMissing, MissingReason, TextOrigin
from gdrkit.evidence.errors import TargetError
from gdrkit.explain.outputs.pasted_host import MACHINES_LIMIT, PastedHost
from gdrkit.facts.commands import DMESG, MOKUTIL_SB_STATE


def test_what_a_command_did_not_find_is_absent_and_what_it_was_refused_is_not():
    said = {"No such file or directory": EvidenceAbsent, "Permission denied": EvidenceMissing}
    for words, kind in said.items():
        host = PastedHost(f"$ cat /proc/sys/kernel/x\ncat: /proc/sys/kernel/x: {words}\n")
        with pytest.raises(EvidenceMissing) as error:
            host.read("proc/sys/kernel/x")
        assert type(error.value) is kind


def test_what_the_text_lacks_is_not_collected():
    host = PastedHost("modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument\n")

    for ask in (host.read, host.map, host.list, host.exists):
        with pytest.raises(EvidenceMissing) as error:
            ask("proc/modules")
        assert not isinstance(error.value, EvidenceAbsent)
    with pytest.raises(EvidenceMissing):
        host.run(Command(("dmesg",), ("pasted",)))


TWO = "root@a1:~# uname -r\n6.8.0\nroot@b1:~# uname -r\n5.15.0\nroot@b1:~# lsmod\nnvidia_peermem 16384 0\n"


def test_each_machine_answers_for_itself():
    a, b = PastedHost(TWO).machines()

    assert (a.machine, b.machine) == ("a1", "b1")
    assert a.read("proc/sys/kernel/osrelease") == b"6.8.0\n"
    assert b.read("proc/sys/kernel/osrelease") == b"5.15.0\n"


def test_a_listed_module_is_loaded_and_another_is_unknown():
    _, b = PastedHost(TWO).machines()

    assert b.exists("sys/module/nvidia_peermem/initstate")
    assert b.origin("sys/module/nvidia_peermem/initstate") == TextOrigin((6,))
    with pytest.raises(EvidenceMissing) as error:
        b.exists("sys/module/mlx5_core/initstate")
    assert not isinstance(error.value, EvidenceAbsent)


def test_the_lines_of_a_log_are_found_again_in_the_text():
    log = "sos_commands/nccl/pasted.log"
    host = PastedHost("It hangs.\n\nh1:1:2 [0] NCCL INFO A\nAnd then:\nh1:1:2 [0] NCCL INFO B\n")

    assert host.read(log).decode().splitlines() == ["h1:1:2 [0] NCCL INFO A", "h1:1:2 [0] NCCL INFO B"]
    assert host.origin(log) == TextOrigin((3, 5), "nccl log")
    assert host.origin("proc/modules") is None


def test_a_file_that_a_command_reports_as_missing_is_absent():
    host = PastedHost("ls: cannot access '/sys/kernel/mm/memory_peers': No such file or directory\n")

    assert host.exists("sys/kernel/mm/memory_peers") is False
    with pytest.raises(EvidenceAbsent):
        host.list("sys/kernel/mm/memory_peers")


def test_a_log_that_only_root_may_read_is_denied():
    with pytest.raises(EvidenceMissing) as error:
        PastedHost("$ dmesg\ndmesg: read kernel buffer failed: Operation not permitted\n").run(DMESG)
    assert error.value.missing.why is MissingReason.DENIED


def test_contradictory_outputs_are_undecided():
    host = PastedHost("SecureBoot enabled\nSecureBoot disabled\n")

    with pytest.raises(EvidenceMissing) as error:
        host.run(MOKUTIL_SB_STATE)
    assert error.value.missing.why is MissingReason.UNDECIDED
    assert host.contradicted() == (("mokutil --sb-state", (1, 2)),)


@given(st.binary(max_size=300))
def test_any_bytes_are_a_host(data):
    for machine in PastedHost(data).machines():
        with contextlib.suppress(EvidenceMissing):
            machine.run(DMESG)
        with contextlib.suppress(EvidenceMissing):
            machine.list("sos_commands/nccl")


def test_a_text_with_more_machines_than_anybody_pastes_is_refused():
    """Each machine is judged by every rule: 10,000 of them in 1 MB took minutes."""
    many = "".join(f"root@host{number}:~# dmesg\n[    1.0] x\n" for number in range(MACHINES_LIMIT + 1))
    with pytest.raises(TargetError, match="more than 250 machines"):
        PastedHost(many).machines()
    assert len(PastedHost(many.partition("root@host200:")[0]).machines()) == 200
