"""Names that a stranger chose, planted wherever evidence names something: no printed command runs them."""

from __future__ import annotations

import functools
import random
import re
import shlex
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gdrkit.diagnosis import diagnose
from gdrkit.evidence import Command, EvidenceMissing, Host
from gdrkit.evidence.missing import not_collected
from gdrkit.evidence.quoting import quoted
from gdrkit.evidence.target import open_host
from gdrkit.explain.explain import explain
from gdrkit.explain.outputs.pasted_host import PastedHost
from gdrkit.facts.kernel import release
from gdrkit.node import Node
from gdrkit.repair.config import KINDS, ConfigRefused, ConfigRequest, generate
from gdrkit.repair.config.output import explained, rendered
from gdrkit.repair.remedies import every_remedy
from gdrkit.report.fix import FixOptions, fix_report
from tests.evidence_nodes import laid_down
from tests.seed import SEED

HOSTILE = ("x';touch PWNED;'", "$(touch PWNED)", "`touch PWNED`", "x\ntouch PWNED\n", "-otouch PWNED",
           "x;touch PWNED;#", '"; touch PWNED; "')  # fmt: skip
NODES = ("ofed-rebuilt", "rhel-9-mofed", "acs-redirect", "mixed-signers", "nv-peer-mem-conflict")
NAMES = re.compile(
    rb"\bmlx5_\w+|\b(?:enp|eth|ibp|ens)\w+|\bnvidia[-_]peermem\b|\bnv_peer_mem\b|\bupdates/dkms\b|"
    rb"\b[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\b|\bib_\w+|\bnvidia-(?:dkms|driver)-\w+"
)
"""Devices, interfaces, modules, folders, PCI addresses and packages."""


class Renamed:
    """A host on which one name is another, in paths, listings, files and outputs."""

    def __init__(self, host: Host, name: str, hostile: str, hidden: str = "") -> None:
        self._host, self._name, self._hostile, self._hidden = host, name, hostile, hidden
        self.source = host.source

    def _old(self, path: str) -> str:
        if self._hidden and self._hidden in path:
            raise not_collected(path)
        return path.replace(self._hostile, self._name)

    def _new(self, text: str) -> str:
        return text.replace(self._name, self._hostile)

    def _content(self, content: bytes) -> bytes:
        if b"\0" in content:
            return content
        return content.replace(self._name.encode(), self._hostile.encode())

    def read(self, path: str) -> bytes:
        return self._content(self._host.read(self._old(path)))

    def map(self, path: str) -> memoryview:
        return memoryview(self._content(bytes(self._host.map(self._old(path)))))

    def list(self, path: str) -> tuple[str, ...]:
        return tuple(self._new(name) for name in self._host.list(self._old(path)))

    def exists(self, path: str) -> bool:
        return self._host.exists(self._old(path))

    def resolve(self, path: str) -> str:
        return self._new(self._host.resolve(self._old(path)))

    def run(self, command: Command) -> bytes:
        return self._content(self._host.run(command))

    def origin(self, name: str) -> Any:
        return self._host.origin(name)


class Recording(Renamed):
    """A host that notes the names in what is read."""

    def __init__(self, host: Host) -> None:
        super().__init__(host, "\0", "\0")
        self.names: set[str] = set()

    def _content(self, content: bytes) -> bytes:
        if b"\0" not in content and len(content) < 1 << 16:
            self.names |= {found.decode() for found in NAMES.findall(content)}
        return content

    def _new(self, text: str) -> str:
        self.names |= {found.decode() for found in NAMES.findall(text.encode())}
        return text


@functools.cache
def names_of(node: str) -> tuple[str, ...]:
    host = Recording(open_host(str(laid_down(node))))
    diagnose(host)
    kinds: dict[str, str] = {}
    for name in sorted(host.names):  # one of each kind: its letters, without numbers
        kinds.setdefault(re.sub(r"[0-9a-f]*\d[0-9a-f]*", "#", name), name)
    return (*kinds.values(), release(Node(host)))


def commands_of(document: Any, key: str = "") -> Iterator[str]:
    """The texts of a document that are commands to run."""
    if isinstance(document, dict):
        for name, value in document.items():
            yield from commands_of(value, name)
    elif isinstance(document, list):
        for value in document:
            yield from commands_of(value, key)
    elif isinstance(document, str) and key in ("ask", "line", "undo", "instead", "use", "to_find_out"):
        yield document


def asked(node: Node) -> Iterator[str]:
    for answer in node._answers.values():
        if isinstance(answer.error, EvidenceMissing):
            yield answer.error.missing.ask


def printed_by(host: Host) -> Iterator[str]:
    """Every command that a command of gdr prints about a host."""
    node = Node(host)
    try:
        report = diagnose(host)
        fixes = [
            fix_report(node, FixOptions(goal="verdict")),
            fix_report(node, FixOptions(goal="module")),
            fix_report(
                node, FixOptions(goal="steps", steps=tuple(remedy.name for remedy in every_remedy()))
            ),
        ]
    except EvidenceMissing as error:
        yield error.missing.ask
        return
    for document in (report, *fixes):
        for line in commands_of(msgspec.json.decode(msgspec.json.encode(document))):
            if not line.startswith(("write ", "sign ", "create ", "make sure")):
                yield line
    yield from asked(node)


def runs(command: str) -> bool:
    """Whether a shell that runs the command, where only `touch` is found, runs the name in it too."""
    without_note = re.sub(r" \([^()]*\)$", "", command)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "touch").symlink_to("/usr/bin/touch")
        subprocess.run(
            ["/bin/bash", "--norc", "-c", without_note], cwd=folder, env={"PATH": folder},
            stdin=subprocess.DEVNULL, capture_output=True, timeout=20,
        )  # fmt: skip
        return Path(folder, "PWNED").exists()


def is_option(command: str, hostile: str) -> bool:
    try:
        words = shlex.split(command)
    except ValueError:
        return False
    return hostile.startswith("-") and any(word.startswith("-otouch") for word in words)


def test_the_shell_of_these_tests_notices_a_name_that_runs():
    for name in HOSTILE:
        assert name[0] == "-" or any(
            runs(line) for line in (f"cat {name}", f"cat '{name}'", f'cat "{name}"')
        )
    assert is_option("modinfo '-otouch PWNED'", "-otouch PWNED")


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_quoted_word_is_one_word_and_no_option(hostile):
    words = shlex.split(f"cat {quoted(hostile)}")
    assert len(words) == 2 and not words[1].startswith("-") and "\n" not in words[1]
    assert not runs(f"cat {quoted(hostile)}")


@pytest.mark.parametrize("node", NODES)
def test_no_command_of_doctor_or_fix_runs_a_name_of_the_evidence(node):
    """For half of the names of each node, every day others."""
    host = open_host(str(laid_down(node)))
    seen: set[str] = set()
    names = list(enumerate(names_of(node)))
    for number, name in random.Random(f"{SEED} {node}").sample(names, len(names) // 2):
        hostile, hidden = HOSTILE[number % len(HOSTILE)], ("", "lib/modules", "sys/bus/pci")[number % 3]
        printed = printed_by(Renamed(host, name, hostile, hidden))
        seen |= {line for line in printed if "touch PWNED" in line}
        assert not [line for line in seen if line[:8] != "look at " and is_option(line, hostile)], name
    assert not [line for line in seen if runs(line)]


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("name", ["mlx5_0", "0000:17:00.0", "6.8.0-"])
def test_no_configuration_holds_a_name_that_no_kernel_gives(hostile, name):
    host = open_host(str(laid_down("acs-redirect")))
    node = Node(Renamed(host, name, hostile))
    for kind in KINDS.values():
        for form in kind.forms or ("",):
            found = generate(kind.name, ConfigRequest(node=node, form=form))
            if isinstance(found, ConfigRefused):
                assert not runs(found.instead)
                continue
            for text in (rendered(found, explain=True), explained(found)):
                live = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
                assert not [line for line in live if "PWNED" in line], (kind.name, form)


@pytest.mark.parametrize("hostile", HOSTILE)
def test_no_question_of_explain_runs_a_name_of_the_text(hostile):
    for text in (
        "modprobe: ERROR: could not insert '{}': Unknown symbol in module\n",
        "modprobe: FATAL: Module {} not found in directory /lib/modules/{}\n",
        "nvidia_peermem: disagrees about version of symbol {}\n{}: Unknown symbol {} (err -22)\n",
        "node1:1:2 [0] NCCL INFO NET/IB : Using [0]{}:1/RoCE [RO]; OOB {}:10.0.0.1<0>\n",
        "filename:       /lib/modules/{}/updates/dkms/{}.ko\nversion:        {}\n",
        "hca_id: {}\n\ttransport: InfiniBand (0)\nLinux node1 {} #1 SMP x86_64 GNU/Linux\n",
    ):
        explanation = explain(PastedHost(text.replace("{}", hostile).encode()))
        document = msgspec.json.decode(msgspec.json.encode(explanation))
        for line in commands_of(document):
            assert "touch PWNED" not in line or not (runs(line) or is_option(line, hostile)), line
