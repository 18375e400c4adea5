"""A pasted text as a Host: the outputs that it contains answer as the machine would."""

from __future__ import annotations

from functools import cached_property

from gdrkit.evidence import Command, EvidenceAbsent, EvidenceMissing, Missing, MissingReason, TextOrigin
from gdrkit.evidence.errors import TargetError
from gdrkit.evidence.missing import absent, denied, not_collected
from gdrkit.explain.machines import joined
from gdrkit.explain.outputs import CommandAnswer, MachineOutputs, outputs
from gdrkit.explain.transcript import TextLine, machine_names, read_with_home
from gdrkit.formats.module_name import canonical

DEVINFO = ("ibv_devinfo",)

MACHINES_LIMIT = 250
"""Most machines of a text: each is judged by every rule, which takes about 5 ms."""


class PastedHost:
    """One machine of a pasted text, the first by default. What the text does not show is not collected."""

    source = "pasted"

    def __init__(self, text: str | bytes, machine: str | None = None) -> None:
        self.text = text if isinstance(text, str) else _decoded(text)
        self.lines: tuple[TextLine, ...] = joined(*read_with_home(self.text))
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

    def origin(self, name: str) -> TextOrigin | None:
        """The lines that hold a file or the output of a command; None if the text does not have it."""
        answer = self._command(tuple(name.split())) or self.outputs.files.get(name)
        if answer is not None:
            return TextOrigin(answer.lines, answer.title, answer.numbered)
        module = name.split("/")[2:3] if name.startswith("sys/module/") else []
        line = self.outputs.modules.get(module[0]) if module else None
        return None if line is None else TextOrigin((line,))

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
        """The names in a folder of logs; any other folder is not collected: an excerpt is not a listing."""
        if path.startswith("sos_commands/"):
            names = sorted(
                file[len(path) + 1 :] for file in self.outputs.files if file.startswith(path + "/")
            )
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
            raise not_collected(path)
        return answer.missing != "absent"

    def resolve(self, path: str) -> str:
        return path

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


def _decoded(data: bytes) -> str:
    """Bytes as text: UTF-8, or UTF-16 with a byte order mark, as PowerShell writes it."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace")
    return data.decode("utf-8-sig", "replace")
