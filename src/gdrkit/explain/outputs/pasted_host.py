"""A pasted text as a Host: the outputs that it contains answer as the machine would.

Prompts, prefixes of logs and headings name machines. Lines that name none belong to the only machine that
their author names, else to the only machine of the text, unless what they show contradicts it. The name of
an author is never the name of a machine.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from msgspec.structs import replace

from gdrkit.evidence import Command, EvidenceAbsent, EvidenceMissing, Missing, MissingReason, TextOrigin
from gdrkit.evidence.errors import TargetError
from gdrkit.evidence.missing import absent, denied, not_collected
from gdrkit.explain.lines.attribution import QUOTED_POST
from gdrkit.explain.lines.blocks import EVIDENCE
from gdrkit.explain.lines.transcript import NO_GAP, Gap, TextLine, machine_names, read_with_home
from gdrkit.explain.outputs.contents import DEVINFO, CommandAnswer, MachineOutputs, outputs
from gdrkit.formats.module_name import canonical
from gdrkit.formats.regex import regex

MOST_AUTHORS = 12
"""Authors whose lines are compared at most; in a longer thread each has a machine of their own."""


def joined(lines: tuple[TextLine, ...], home: str) -> tuple[TextLine, ...]:
    """The lines, each with its machine; "" is one that nothing names. `home` is the only machine that the
    text names, if there is only one."""
    unnamed = _by_author(line for line in lines if not line.host)
    known = tuple(line for line in lines if line.host and line.host == home)
    names: dict[str, str] = {}
    for author, own in sorted(unnamed.items(), key=lambda one: one[0] == QUOTED_POST):
        both = tuple(sorted((*known, *own), key=lambda line: line.number))
        if not author or not known or (len(unnamed) <= MOST_AUTHORS and not _contradict(known, own, both)):
            known, names[author] = both, home
        else:
            names[author] = f"{author}'s machine"
    return tuple(line if line.host else replace(line, host=names[line.author]) for line in lines)


def _by_author(lines: Iterable[TextLine]) -> dict[str, tuple[TextLine, ...]]:
    """The lines of each author, in the order of their first lines."""
    found: dict[str, list[TextLine]] = {}
    for line in lines:
        found.setdefault(line.author, []).append(line)
    return {author: tuple(own) for author, own in found.items()}


def _contradict(one: tuple[TextLine, ...], other: tuple[TextLine, ...], both: tuple[TextLine, ...]) -> bool:
    """Whether two sets of lines cannot be from one machine."""
    if not any(line.kind in EVIDENCE for line in one) or not any(line.kind in EVIDENCE for line in other):
        return False
    first, second, together = outputs(one), outputs(other), outputs(both)
    return bool(
        _contradicted(together) - _contradicted(first) - _contradicted(second)
        or first.modules.keys() & _absent_modules(second)
        or second.modules.keys() & _absent_modules(first)
        or any(argv in first.commands and argv not in together.commands for argv in second.commands)
    )


def _contradicted(found: MachineOutputs) -> set[object]:
    tables = (found.files, found.commands, found.modinfo)
    return {key for table in tables for key, answer in table.items() if answer.contradicted}


def _absent_modules(found: MachineOutputs) -> set[str]:
    return {
        path.rpartition("/")[2]
        for path, answer in found.files.items()
        if path.startswith("sys/module/") and answer.missing == "absent"
    }


_INITSTATE = regex(r"sys/module/\w{1,60}/initstate")
"""The file that tells lsmod's modules from those that are built in."""
_LISTED = regex(r"sys/class/infiniband(?:/[^/]{1,64}/ports(?:/\d{1,3}/gids)?)?")
"""Folders whose entries outputs list, each with what is in them."""

MACHINES_LIMIT = 250
"""Most machines of a text: each is judged by every rule, which takes about 5 ms."""


class PastedHost:
    """One machine of a pasted text, the first by default. What the text does not show is not collected."""

    source = "pasted"

    def __init__(self, text: str | bytes, machine: str | None = None, gap: Gap = NO_GAP) -> None:
        self.text = text if isinstance(text, str) else text.decode("utf-8-sig", "replace")
        self.lines: tuple[TextLine, ...] = joined(*read_with_home(self.text, gap))
        self.machine = machine_names(self.lines)[0] if machine is None else machine
        self._outputs: MachineOutputs | None = None

    def machines(self) -> tuple[PastedHost, ...]:
        """A host for each machine in the text. Raises TargetError for more than anybody pastes."""
        names = machine_names(self.lines)
        if len(names) > MACHINES_LIMIT:
            raise TargetError(
                f"a text with more than {MACHINES_LIMIT} machines", "cut it down to what matters"
            )
        found = []
        for machine in names:
            host = object.__new__(PastedHost)
            host.text, host.lines, host.machine, host._outputs = self.text, self.lines, machine, None
            found.append(host)
        return tuple(found)

    @cached_property
    def own_lines(self) -> tuple[TextLine, ...]:
        """The lines of this machine."""
        return tuple(line for line in self.lines if line.host == self.machine)

    @property
    def outputs(self) -> MachineOutputs:
        if self._outputs is None:
            self._outputs = outputs(self.own_lines)
        return self._outputs

    @property
    def whole(self) -> bool:
        """Whether the text lists every PCI function and every RDMA device of this machine, so that what is
        not listed is not there."""
        return self.outputs.whole

    def origin(self, name: str) -> TextOrigin | None:
        """The lines that hold a file or the output of a command; None if the text does not have it."""
        answer = self._command(tuple(name.split())) or self.outputs.files.get(name)
        answer = answer or self.outputs.links.get(name)
        if answer is not None:
            return TextOrigin(answer.lines, answer.title, answer.numbered)
        module = name.split("/")[2:3] if name.startswith("sys/module/") else []
        line = self.outputs.modules.get(module[0], self.outputs.lsmod) if module else 0
        return TextOrigin((line,)) if line else None

    def contradicted(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Each file or command that the text shows with different contents, and the lines that do."""
        found = self.outputs
        named = {
            **found.files,
            **{" ".join(argv): answer for argv, answer in found.commands.items()},
            **{f"modinfo {name}": answer for name, answer in found.modinfo.items()},
        }
        return tuple((name, answer.lines) for name, answer in named.items() if answer.contradicted)

    # -- what a host answers ---------------------------------------------------------------------------

    def read(self, path: str) -> bytes:
        answer = self.outputs.files.get(path)
        if answer is None:
            raise not_collected(path)
        return _text(answer, path, f"cat /{path}").encode()

    def map(self, path: str) -> memoryview:
        return memoryview(self.read(path))

    def list(self, path: str) -> tuple[str, ...]:
        """The names in a folder of logs, and the RDMA devices, ports and GIDs that are shown; any other
        folder is not collected: an excerpt is not a listing."""
        if path.startswith("sos_commands/") or _LISTED.fullmatch(path):
            shown = (*self.outputs.files, *self.outputs.links)
            below = (file[len(path) + 1 :] for file in shown if file.startswith(path + "/"))
            names = sorted({file.partition("/")[0] for file in below})
            if names:
                return tuple(names)
        answer = self.outputs.files.get(path)
        if answer is not None and answer.missing == "absent":
            raise absent(path)
        raise not_collected(path)

    def exists(self, path: str) -> bool:
        if self._is_loaded_module(path):
            return True
        answer = self.outputs.files.get(path)
        if answer is None:
            if self.outputs.lsmod and _INITSTATE.fullmatch(path):
                return False
            raise not_collected(path)
        return answer.missing != "absent"

    def resolve(self, path: str) -> str:
        answer = self.outputs.links.get(path)
        return path if answer is None or answer.contradicted else answer.text

    def run(self, command: Command) -> bytes:
        answer = self._command(command.argv)
        if answer is None:
            raise EvidenceMissing(Missing(command.line, MissingReason.NOT_COLLECTED, command.line))
        return _text(answer, command.line, command.line).encode()

    def _is_loaded_module(self, path: str) -> bool:
        """Whether a path is a folder or file that sysfs has for a module that lsmod lists."""
        sys, module, name, *file = (*path.split("/"), "", "", "")[:4]
        return (
            (sys, module) == ("sys", "module")
            and name in self.outputs.modules
            and file[0] in ("", "initstate")
        )

    # -- where the answers are -------------------------------------------------------------------------

    def _command(self, argv: tuple[str, ...]) -> CommandAnswer | None:
        found = self.outputs
        match argv:
            case ("dmesg", *_):
                return found.commands.get(("dmesg",))
            case ("modinfo", name):
                return found.modinfo.get(canonical(name))
            case ("lspci", *_):
                return found.commands.get(("lspci",))
            case ("nvidia-smi", "-q", *_):
                return found.commands.get(("nvidia-smi", "-q"))
            case ("ibv_devinfo", *_):
                return found.commands.get(DEVINFO)
            case _:
                return found.commands.get(argv)


def _text(answer: CommandAnswer, source: str, ask: str) -> str:
    """The content of an answer. Raises EvidenceMissing if it is absent, denied or contradicted."""
    if answer.missing == "absent":
        raise EvidenceAbsent(Missing(source, MissingReason.ABSENT, ask))
    if answer.missing == "denied":
        raise (
            denied(source)
            if "/" in source
            else EvidenceMissing(Missing(source, MissingReason.DENIED, f"sudo {ask}"))
        )
    if answer.contradicted:
        numbers = ", ".join(map(str, answer.lines[:4]))
        raise EvidenceMissing(
            Missing(f"{source} (different contents in lines {numbers})", MissingReason.UNDECIDED, ask)
        )
    return answer.text
