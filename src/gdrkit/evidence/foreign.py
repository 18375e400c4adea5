"""What is known of trees that other collectors made, or somebody's hands, or that are a whole file system.

A sosreport tells the exit codes of its commands. Of any other tree only a few folders are known to be copied
whole, or not at all.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import Struct

from gdrkit.evidence import EvidenceAbsent, EvidenceMissing
from gdrkit.evidence.manifest import MANIFEST_LIMIT_BYTES, CommandNote
from gdrkit.evidence.missing import absent, not_collected, not_mounted, truncated

SOS_MANIFEST = "sos_reports/manifest.json"

WHOLE_FOLDERS = (
    "etc/modprobe.d",  # sos report/plugins/kernel.py
    "etc/modules-load.d",  # sos report/plugins/systemd.py, *.conf
)
"""Folders that collectors copy whole: what is not in them there was not on the machine."""

NEVER_WHOLE = ("sys/devices", "sys/bus", "lib/modules", "usr/lib/modules", "proc/bus")
"""Folders of a sosreport that hold only what some link or glob pointed to: a listing of one proves nothing.
Source: sos report/plugins/{kernel,networking,block}.py. Of lib/modules it copies modules.dep alone."""


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
    """Exit codes by output file, of a sosreport's manifest. Raises ValueError for anything else.

    Source: sos report/plugins/__init__.py, _collect_cmd_output(); 124 is its own code for a time-out."""
    if len(data) > MANIFEST_LIMIT_BYTES:
        raise ValueError(f"{SOS_MANIFEST} is larger than {MANIFEST_LIMIT_BYTES >> 20} MiB")
    try:
        manifest = msgspec.json.decode(data, type=_SosManifest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{SOS_MANIFEST} is damaged: {error}") from None
    notes = {}
    for plugin in manifest.components.report.plugins.values():
        for command in plugin.commands:
            if command.filepath:
                status = {0: "found", None: "found", 124: "timed-out"}.get(command.return_code, "failed")
                notes[command.filepath] = CommandNote((), command.filepath, status, command.return_code)
    return notes


class ForeignRecord:
    """The record of a tree that some other collector made, or somebody's hands.

    Not there means not collected, but below the folders that are copied whole."""

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
            return not_collected(path, "the archive ends before it")
        if any(self._was_not_there(asked) for asked in (path, real)):
            return absent(path)
        return not_collected(path)

    def _was_not_there(self, path: str) -> bool:
        """Whether a folder that is copied whole would have it.

        That of a kernel's modules is, if its index is there; but what the index names was on the machine."""
        folder = _whole_folder(path)
        if not folder or folder in WHOLE_FOLDERS:
            return bool(folder) and self._holds(folder)
        index = folder + "/modules.dep"
        if self._sosreport or not self._holds(index):
            return False
        line = f"\n{path.removeprefix(folder + '/')}:".encode()
        return line not in b"\n" + bytes(self._read(index))

    def there(self, path: str, real: str) -> bool | None:
        return False if isinstance(self.missing(path, real), EvidenceAbsent) else None

    def names(self, path: str, real: str) -> tuple[str, ...] | None:
        if self._cut_off:
            raise truncated(path, "the archive ends early")
        if self._sosreport and any(real == top or real.startswith(top + "/") for top in NEVER_WHOLE):
            raise not_collected(path, "a sosreport copies only parts of it")
        return None

    def command(self, argv: tuple[str, ...]) -> CommandNote | None:
        return None

    def output(self, file: str) -> CommandNote | None:
        if self._outputs is None:
            self._outputs = self._read_outputs()
        return self._outputs.get(file)


def _whole_folder(path: str) -> str:
    """The folder above a path that collectors copy whole; "" if there is none."""
    for folder in WHOLE_FOLDERS:
        if path.startswith(folder + "/"):
            return folder
    parts = path.removeprefix("usr/").split("/")
    if parts[:2] == ["lib", "modules"] and len(parts) > 3:
        return path[: path.index("lib/modules")] + "/".join(parts[:3])
    return ""


class CompleteRecord:
    """The record of a whole machine's file system: what is not there is absent.

    But for what stands below an empty mount point, of which nothing is known."""

    def __init__(self, unmounted: Callable[[str], bool]) -> None:
        self._unmounted = unmounted

    def missing(self, path: str, real: str) -> EvidenceMissing:
        for asked in (path, real):
            if self._unmounted(asked):
                return not_mounted(path)
        return absent(path)

    def there(self, path: str, real: str) -> bool | None:
        return False if isinstance(self.missing(path, real), EvidenceAbsent) else None

    def names(self, path: str, real: str) -> tuple[str, ...] | None:
        if self._unmounted(real + "/"):
            raise not_mounted(path)
        return None

    def command(self, argv: tuple[str, ...]) -> CommandNote | None:
        return None

    def output(self, file: str) -> CommandNote | None:
        return None
