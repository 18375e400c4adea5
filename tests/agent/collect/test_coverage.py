"""`gdr collect` collects everything that facts open on a node."""

from __future__ import annotations

import posixpath
import re

import pytest

from gdrkit.agent.collect import sources
from gdrkit.diagnosis import diagnose
from gdrkit.evidence import Command
from gdrkit.evidence.target import open_host
from gdrkit.fleet.traits import traits_of
from gdrkit.node import Node
from tests.agent.collect.commands import covers_command
from tests.evidence_nodes import laid_down, names
from tests.hiding_host import HidingHost

EXEMPT = {
    r"gdr_manifest\.json": "the collector writes it",
    r"installed-debs|installed-rpms": "sosreports hold these; a bundle has what dpkg-query and rpm print",
    r"sos_commands/networking/ip_-o_addr": "sosreports hold this; a bundle has what `ip -j addr` printed",
    r"proc/bus/pci/.+": "bug reports hold these; a bundle has sys/bus/pci",
    r"var/lib/dpkg/info(/.+)?": "the owners of files that matter are what `dpkg -S` printed",
    r"sos_commands/(kubernetes|nccl|perftest)(/.+)?": "people lay these beside a bundle: no node has them",
    r"gdr probe memory --json": "it takes memory of a GPU, which a collector beside a job does not",
    r"gdr ps": "a bundle has what `gdr ps --record` printed",
    r"modinfo \S+": "where a log is all there is; a bundle has the module itself",
}


class NotingHost(HidingHost):
    """Records names looked up in a folder, opened paths and commands separately."""

    def __init__(self, host) -> None:
        super().__init__(host)
        self.looked_for: set[str] = set()
        self.commands: set[tuple[str, ...]] = set()
        self.opened: set[str] = set()

    def exists(self, path: str) -> bool:
        self.looked_for.add(path)
        return self._host.exists(path)

    def run(self, command: Command) -> bytes:
        self.commands.add(command.argv)
        return self._host.run(command)

    def _ask(self, name: str) -> None:
        self.opened.add(name)


def exempt(name: str) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in EXEMPT)


@pytest.fixture(params=names(), scope="module")
def asked(request) -> NotingHost:
    host = NotingHost(open_host(str(laid_down(request.param))))
    traits_of(Node(host), diagnose(host))
    return host


def test_everything_that_facts_open_is_collected(asked):
    assert asked.opened
    assert [path for path in sorted(asked.opened) if not (sources.covers(path) or exempt(path))] == []


def test_every_name_that_facts_look_up_is_in_a_listed_folder(asked):
    """If a bundle lists the names in a folder, any other name is absent."""
    missed = [
        path
        for path in sorted(asked.looked_for)
        if not (sources.covers(path) or sources.covers(posixpath.dirname(path)) or exempt(path))
    ]
    assert missed == []


def test_every_command_that_facts_need_is_run(asked):
    missed = [argv for argv in sorted(asked.commands) if not covers_command(argv)]
    assert [argv for argv in missed if not exempt(" ".join(argv))] == []


def test_a_path_that_is_not_collected_is_detected():
    assert not sources.covers("etc/nvidia/never-heard-of.conf") and not exempt(
        "etc/nvidia/never-heard-of.conf"
    )
    assert not covers_command(("nvidia-smi", "never-heard-of"))
