"""The archive that is written, and the manifest that says what became of everything that was looked for.

A sosreport-shaped .tar.gz: files at their absolute path, commands' output under sos_commands/, and
gdr_manifest.json at the top. Absent is a fact, not collected is not: the manifest keeps them apart.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import tarfile
import time
from typing import IO, Any, Dict, List, Optional, Set

from .anonymize import Anonymizer
from .redact import without_secrets
from .unpack import DecompressionFailed, unpack
from .version import SCHEMA, VERSION

_TABLE = re.compile(r"(?:^|/)lib/modules/[^/]+/modules\.|^proc/(?:modules|kallsyms)$|/Module\.symvers$")
"""Tables of modules and symbols, made by depmod, the kernel and modpost. They hold no secrets, and names in
them that end like one (`wm_key.ko: `) must stay."""
COMPRESSION = 4
"""Of gzip: 5 MB of evidence in 0.1 s. Level 9 takes three times as long and saves a tenth."""

TOTAL_LIMIT_BYTES = 512 << 20
"""The most that goes into one bundle; with the limits of the rows no real node comes near it."""


_BOOT_LINE, _BOOT_WITHIN_BYTES = (
    b"Linux version ",
    4096,
)  # init/main.c, start_kernel(): the first thing printed


class Bundle:
    """Writes the archive file by file, and the manifest last."""

    def __init__(self, stream: IO[bytes], top: str, anonymizer: Optional[Anonymizer]) -> None:
        # Not tarfile's own "w|gz": before Python 3.12 it has no other level than 9.
        self._gzip = gzip.GzipFile("", "wb", COMPRESSION, stream)
        self._tar = tarfile.open(fileobj=self._gzip, mode="w", format=tarfile.PAX_FORMAT)  # noqa: SIM115
        self._top, self.anonymizer = top, anonymizer
        self._written: Dict[str, str] = {}
        self._from_boot: Set[str] = set()
        self._left = TOTAL_LIMIT_BYTES
        self.files: Dict[str, Dict[str, Any]] = {}
        self.folders: Dict[str, Dict[str, Any]] = {}
        self.commands: List[Dict[str, Any]] = []

    # -- what was found ----------------------------------------------------------------------------

    def file(
        self,
        path: str,
        data: bytes,
        modified_s: int = 0,
        status: str = "found",
        *,
        text: bool = True,
        addresses: bool = True,
        **more: Any,
    ) -> None:
        """Keep a file. `text`: look for secrets in it. `addresses`: if False, only names are replaced."""
        clean = without_secrets(data) if text and not _TABLE.search(path) else data
        if self.anonymizer is not None:
            clean = self.anonymizer.content(_unpacked(clean), addresses, path)
        name = self._path(path)
        if name in self._written:
            return
        if len(clean) > self._left:
            self.note(path, "truncated", "the bundle is full")
            return
        self._left -= len(clean)
        member = tarfile.TarInfo(f"{self._top}/{name}")
        member.size, member.mtime, member.mode = len(clean), modified_s, 0o644
        self._tar.addfile(member, io.BytesIO(clean))
        self._written[name] = "file"
        if _BOOT_LINE in clean[:_BOOT_WITHIN_BYTES]:
            self._from_boot.add(path)
        self.files[name] = {"status": status, **{key: value for key, value in more.items() if value}}

    def link(self, path: str, target: str) -> None:
        """Keep a symbolic link, relative and inside the tree."""
        name = self._path(path)
        if name in self._written:
            return
        member = tarfile.TarInfo(f"{self._top}/{name}")
        member.type, member.linkname, member.mode = tarfile.SYMTYPE, self._target(path, target), 0o777
        self._tar.addfile(member)
        self._written[name] = "link"

    def also(self, path: str, real: str) -> None:
        """Say the same of a path as of the one that its links lead to."""
        if path != real and self._path(real) in self.files:
            self.files[self._path(path)] = self.files[self._path(real)]

    # -- what is said of it ------------------------------------------------------------------------

    def note(self, path: str, status: str, why: str = "") -> None:
        """Say what became of a file that is not kept."""
        self.files.setdefault(self._path(path), {"status": status, **({"why": why} if why else {})})

    def folder(self, path: str, status: str, names: Optional[List[str]] = None, why: str = "") -> None:
        """Say what is in a folder, or why nobody knows."""
        entry: Dict[str, Any] = {"status": status}
        if names is not None:
            entry["names"] = [self._path(f"{path}/{name}").rpartition("/")[2] for name in names]
        if why:
            entry["why"] = why
        self.folders[self._path(path)] = entry

    def command(
        self, argv: List[str], file: str, status: str, exit_code: Optional[int], complaint: str
    ) -> None:
        """Say what became of a command."""
        clean = without_secrets(complaint.encode("utf-8", "replace")).decode("utf-8", "replace")
        if self.anonymizer is not None:
            clean = self.anonymizer.words(clean)
        entry = {"argv": argv, "file": file, "exit_code": exit_code, "status": status, "stderr": clean}
        self.commands.append(entry)

    def begins_at_boot(self, file: str) -> bool:
        """Whether a kernel log that was kept has the kernel's first line: nothing of it was overwritten."""
        return file in self._from_boot

    def close(self, **facts: Any) -> None:
        """Write the manifest and end the archive."""
        manifest = {
            "schema": SCHEMA,
            "collector": VERSION,
            "collected": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "anonymized": self.anonymizer is not None,
            **facts,
            "files": self.files,
            "folders": self.folders,
            "commands": self.commands,
        }
        data = json.dumps(manifest, separators=(",", ":"), ensure_ascii=True).encode() + b"\n"
        member = tarfile.TarInfo(f"{self._top}/gdr_manifest.json")
        member.size, member.mtime, member.mode = len(data), int(time.time()), 0o644
        self._tar.addfile(member, io.BytesIO(data))
        self._tar.close()
        self._gzip.close()

    # -- names -------------------------------------------------------------------------------------

    def _path(self, path: str) -> str:
        clean = path if self.anonymizer is None else self.anonymizer.path(path)
        return clean.encode("utf-8", "surrogateescape").decode("utf-8", "replace")

    def _target(self, path: str, target: str) -> str:
        """A link's target, each part replaced as the path that it leads to is."""
        if self.anonymizer is None:
            return target
        folder = os.path.dirname(path)
        whole = os.path.normpath(os.path.join("/", folder, target))[1:]
        if not target.startswith("..") or self._path(whole) == whole:
            return self.anonymizer.path(target) if self._path(whole) != whole else target
        return os.path.relpath("/" + self._path(whole), "/" + self._path(folder))


def _unpacked(data: bytes) -> bytes:
    """The content of a compressed file: names inside could not be replaced otherwise."""
    try:
        return unpack(data, TOTAL_LIMIT_BYTES)
    except DecompressionFailed:
        return data
