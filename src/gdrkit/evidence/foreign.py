"""Records of trees that `gdr collect` did not write: sosreports, hand-made copies, whole file systems.

A sosreport has the exit codes of its commands. In any other tree, only a few folders are known to be copied
completely or not at all.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import Struct

from gdrkit.evidence import EvidenceMissing
from gdrkit.evidence.manifest import MANIFEST_LIMIT_BYTES, CommandNote
from gdrkit.evidence.missing import absent, not_collected, not_mounted, truncated
from gdrkit.formats import json_text
from gdrkit.formats.errors import FormatError

SOS_MANIFEST = "sos_reports/manifest.json"

WHOLE_FOLDERS = (
    "etc/modprobe.d",  # sos report/plugins/kernel.py
    "etc/modules-load.d",  # sos report/plugins/systemd.py, *.conf
)
"""Folders that collectors copy completely: a file that is not in the copy was not on the machine."""

NEVER_WHOLE = ("sys/devices", "sys/bus", "lib/modules", "usr/lib/modules", "proc/bus")
"""Folders that a sosreport copies in part, by links and globs: a listing of one proves nothing.
Source: sos report/plugins/{kernel,networking,block}.py. From lib/modules it copies modules.dep only."""


class _SosCommand(Struct):
    filepath: str | None = None
    return_code: int | None = None


class _SosPlugin(Struct):
    commands: list[_SosCommand] = []


class _SosReport(Struct):
    plugins: dict[str, _SosPlugin] = {}


class _SosComponents(Struct):
    report: _SosReport = msgspec.field(default_factory=_SosReport)


class _SosManifest(Struct):
    components: _SosComponents = msgspec.field(default_factory=_SosComponents)


def parse_sos(data: bytes | memoryview) -> dict[str, CommandNote]:
    """Exit codes by output file, from a sosreport's manifest. Raises ValueError for anything else.

    Source: sos report/plugins/__init__.py, _collect_cmd_output(); 124 is its own exit code for a timeout."""
    if len(data) > MANIFEST_LIMIT_BYTES:
        raise ValueError(f"{SOS_MANIFEST} is larger than {MANIFEST_LIMIT_BYTES >> 20} MiB")
    try:
        manifest = json_text.decode(data, _SosManifest)
    except FormatError as error:
        raise FormatError(f"{SOS_MANIFEST} is damaged: {error}") from None
    notes = {}
    for plugin in manifest.components.report.plugins.values():
        for command in plugin.commands:
            if command.filepath:
                status = {0: "found", None: "found", 124: "timed-out"}.get(command.return_code, "failed")
                notes[command.filepath] = CommandNote((), command.filepath, status, command.return_code)
    return notes


class ForeignRecord:
    """The record of a tree that another collector or a person made.

    What is not in the tree counts as not collected, except below folders that are always copied
    completely."""

    def __init__(
        self,
        holds: Callable[[str], bool],
        read: Callable[[str], memoryview],
        outputs: Callable[[], dict[str, CommandNote]] = dict,
        *,
        sosreport: bool = False,
        cut_off: bool = False,
    ) -> None:
        self._holds, self._read, self._read_outputs = holds, read, outputs
        self._sosreport, self._cut_off = sosreport, cut_off
        self._outputs: dict[str, CommandNote] | None = None

    def missing(self, path: str, real: str) -> EvidenceMissing:
        if self._cut_off:
            return not_collected(path, "the archive is cut off before it")
        if any(self._was_not_there(asked) for asked in (path, real)):
            return absent(path)
        return not_collected(path)

    def _was_not_there(self, path: str) -> bool:
        """Whether the path is below a completely copied folder that lacks it.

        A kernel's folder of modules counts as one if its index is there; what the index lists was on the
        machine. depmod's own files are left out of copies, as it can write them again."""
        folder = _whole_folder(path)
        if not folder or folder in WHOLE_FOLDERS:
            return bool(folder) and self._holds(folder) and not self._holds(path)  # a link to elsewhere
        index = folder + "/modules.dep"
        if self._sosreport or not self._holds(index) or path.endswith(".bin"):
            return False
        line = f"\n{path.removeprefix(folder + '/')}:".encode()
        return line not in b"\n" + bytes(self._read(index))

    def there(self, path: str, real: str) -> bool | None:
        return None

    def names(self, path: str, real: str) -> tuple[str, ...] | None:
        if self._cut_off:
            raise truncated(path, "the archive is cut off")
        if self._sosreport and any(real == top or real.startswith(top + "/") for top in NEVER_WHOLE):
            raise not_collected(path, "a sosreport copies only part of it")
        return None

    def command(self, argv: tuple[str, ...]) -> CommandNote | None:
        return None

    def output(self, file: str) -> CommandNote | None:
        if self._outputs is None:
            self._outputs = self._read_outputs()
        return self._outputs.get(file)


def _whole_folder(path: str) -> str:
    """The completely copied folder that the path is below; "" if there is none."""
    for folder in WHOLE_FOLDERS:
        if path.startswith(folder + "/"):
            return folder
    parts = path.removeprefix("usr/").split("/")
    if parts[:2] == ["lib", "modules"]:
        return path[: path.index("lib/modules")] + "/".join(parts[:3])
    return ""


class CompleteRecord:
    """The record of a whole file system: what is not there is absent.

    What is below an empty mount point counts as not collected."""

    def __init__(self, unmounted: Callable[[str], bool]) -> None:
        self._unmounted = unmounted

    def missing(self, path: str, real: str) -> EvidenceMissing:
        for asked in (path, real):
            if self._unmounted(asked):
                return not_mounted(path)
        return absent(path)

    def there(self, path: str, real: str) -> bool | None:
        return None

    def names(self, path: str, real: str) -> tuple[str, ...] | None:
        if self._unmounted(real + "/"):
            raise not_mounted(path)
        return None

    def command(self, argv: tuple[str, ...]) -> CommandNote | None:
        return None

    def output(self, file: str) -> CommandNote | None:
        return None
