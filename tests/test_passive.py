"""Without --probe, `gdr doctor` only looks: it loads no module, sends nothing, and keeps a deadline."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from gdrkit.agent.collect import subprocesses
from gdrkit.agent.collect.sources import COMMANDS
from gdrkit.evidence import Command, EvidenceMissing, MissingReason
from gdrkit.evidence.live import MAPPED, PROBE, RUNNING, LiveHost
from gdrkit.facts import commands
from tests.cli.test_streams import GDR

LOADS_NONE = {
    "dcb": "asks the kernel by rtnetlink, which is built in",
    "systemctl": "list-units asks systemd for the state of a unit: systemctl(1)",
    "dkms": "reads /var/lib/dkms: dkms(8), status",
    "dmesg": "reads /dev/kmsg",
    "dpkg": "reads its database",
    "dpkg-query": "reads its database",
    "ethtool": "asks the kernel by netlink or ioctl, both built in",
    "find": "lists folders; neither -exec nor -delete is given",
    "ibv_devinfo": "reads sysfs and opens /dev/infiniband, which exists only once ib_uverbs is loaded",
    "ip": "asks the kernel by rtnetlink, which is built in",
    "journalctl": "reads the journal",
    "ldconfig": "reads the cache; -N and -X write nothing",
    "lscpu": "reads sysfs",
    "lsinitramfs": "unpacks the initramfs into a pipe: lsinitramfs(8)",
    "lsinitrd": "unpacks the initramfs into a pipe: lsinitrd(1)",
    "lsmod": "reads /proc/modules",
    "lspci": "reads sysfs",
    "mokutil": "reads efivars",
    "nvidia-imex-ctl": "asks the nvidia-imex service by a socket: NVIDIA IMEX guide, Command Service",
    "ofed_info": "prints a version",
    "rdma": "asks ib_core by netlink, which answers only where it is loaded",
    "rpm": "reads its database",
    "systemd-detect-virt": "reads files and CPUID",
    "ucx_info": "-v prints a version",
    "uname": "one system call",
}
"""Every program that is started for evidence, and why it loads no kernel module."""

WATCHED = """
import json, os, sys
seen = []
def watch(event, given):
    if event.startswith(("socket.", "os.remove", "os.rename", "os.mkdir", "os.system", "os.kill")):
        seen.append([event, str(given)])
    if event == "subprocess.Popen":
        seen.append([event, os.path.basename(given[0])])
    if event == "open" and isinstance(given[2], int) and given[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        seen.append([event, str(given)])
out, sys.stdout = sys.stdout, open("/dev/null", "w")
sys.dont_write_bytecode = True
sys.addaudithook(watch)
from gdrkit.cli import main
main(sys.argv[1:])
print(json.dumps(seen), file=out)
"""


def started_for_evidence() -> set[str]:
    """The programs of gdr doctor and of gdr collect, without the probes."""
    facts = {found.argv for found in vars(commands).values() if isinstance(found, Command)}
    every = {*facts, *(row.argv for row in COMMANDS)} - {RUNNING, MAPPED}  # a script of ours
    return {argv[0] for argv in every if argv[: len(PROBE)] != PROBE}


def test_every_program_that_is_started_loads_no_module():
    assert started_for_evidence() == {*LOADS_NONE, *subprocesses.LOADING}


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """An nvidia-smi that leaves a trace, and the file that shows that the module is loaded."""
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\necho answered\n")
    program.chmod(0o755)
    monkeypatch.setattr(subprocesses, "_SEARCH", (str(tmp_path), "/usr/bin", "/bin"))
    monkeypatch.setattr(subprocesses, "LOADING", {"nvidia-smi": (str(tmp_path / "version"),)})
    return tmp_path


def test_nvidia_smi_is_not_started_where_it_would_load_the_driver(stand_in):
    with pytest.raises(EvidenceMissing) as error:
        LiveHost().run(commands.NVIDIA_SMI)
    assert error.value.missing.ask == f"nvidia-smi -q ({subprocesses.WOULD_LOAD})"
    assert error.value.missing.why is MissingReason.NOT_COLLECTED
    assert not (stand_in / "ran").exists()


def test_nvidia_smi_is_started_where_the_driver_is_loaded(stand_in):
    (stand_in / "version").touch()
    assert LiveHost().run(commands.NVIDIA_SMI) == b"answered\n"
    assert (stand_in / "ran").exists()


@pytest.mark.parametrize("options", [[], ["--json"], ["--line", "--exit-style", "npd", "--deadline", "60"]])
def test_nothing_is_written_or_sent_or_started_beyond_the_listed_programs(options):
    """On this machine, by the events of Python's audit hooks: PEP 578."""
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, "doctor", *options], capture_output=True, text=True, check=True
    )
    allowed = {("subprocess.Popen", program) for program in started_for_evidence()}
    assert {(event, given) for event, given in json.loads(done.stdout)} <= allowed


# -- the deadline -----------------------------------------------------------------------------------------


def test_commands_get_half_of_the_time_together():
    with pytest.raises(EvidenceMissing) as error:
        LiveHost(deadline_s=0.4).run(Command(("sleep", "60"), ()))
    assert error.value.missing.why is MissingReason.TIMED_OUT


def test_a_command_does_not_start_when_the_time_is_up():
    with pytest.raises(EvidenceMissing) as error:
        LiveHost(deadline_s=0).run(Command(("true",), ()))
    assert error.value.missing.ask == "true (timed out before it started)"
    assert LiveHost(deadline_s=60).run(Command(("true",), ())) == b""


@pytest.mark.parametrize(("style", "code"), [("gdr", 3), ("npd", 2), ("slurm", 0)])
def test_a_node_that_never_answers_is_unknown_at_the_deadline(tmp_path, style, code):
    """What was started for it is ended, and the caller has its line and its exit code."""
    ssh = tmp_path / "ssh"
    ssh.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 600\n")
    ssh.chmod(0o755)
    done = subprocess.run(
        [*GDR, "doctor", "ssh://node", "--line", "--deadline", "2", "--exit-style", style],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )
    assert (done.returncode, done.stdout) == (code, "unknown: no verdict within 2 s\n")
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_a_verdict_before_the_deadline_is_as_without_one(capsys):
    from gdrkit.cli import main
    from tests.evidence_nodes import laid_down

    node = str(laid_down("rail-down"))
    assert main(["doctor", node, "--line", "--deadline", "60"]) == main(["doctor", node, "--line"]) == 2
    first, second = capsys.readouterr().out.splitlines()
    assert first == second


def test_a_deadline_has_no_effect_with_two_nodes(capsys):
    from gdrkit.cli import main

    assert main(["doctor", "a", "b", "--deadline", "4"]) == 64
    assert "--deadline has no effect with two nodes" in capsys.readouterr().err
