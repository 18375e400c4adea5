"""Write the archive and its manifest, which has the result for every path and command.

The .tar.gz is laid out like a sosreport: files at their absolute path, output of commands under
sos_commands/, and gdr_manifest.json at the top. The manifest distinguishes absent, which is a fact, from not
collected.
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

_QUOTED = re.compile(r"([`'\"])[^`'\"\n]+([`'\"])")
"""What a command that complains quotes of its input: any line of a file may be a secret."""

_TABLE = re.compile(r"(?:^|/)lib/modules/[^/]+/modules\.|^proc/(?:modules|kallsyms)$|/Module\.symvers$")
"""Tables of modules and symbols by depmod, the kernel and modpost. They have no secrets, and names in them
that look like the name of one (`wm_key.ko: `) must not be changed."""
COMPRESSION = 4
"""Level of gzip: it compresses 5 MB of evidence in 0.1 s. Level 9 takes three times as long and saves 10
%."""

TOTAL_LIMIT_BYTES = 512 << 20
"""The largest bundle, uncompressed. The limits of the single sources keep bundles far below it."""


# The first line that the kernel prints: init/main.c, start_kernel().
_BOOT_LINE, _BOOT_WITHIN_BYTES = b"Linux version ", 4096


class Bundle:
    """Writes the archive file by file, and the manifest last."""

    def __init__(self, stream: IO[bytes], top: str, anonymizer: Optional[Anonymizer]) -> None:
        # Not tarfile's own "w|gz", which always uses level 9 before Python 3.12.
        self._gzip = gzip.GzipFile("", "wb", COMPRESSION, stream, mtime=0)  # its field ends in 2106
        self._tar = tarfile.open(fileobj=self._gzip, mode="w", format=tarfile.PAX_FORMAT)  # noqa: SIM115
        self._top, self.anonymizer = top, anonymizer
        self._written: Dict[str, str] = {}
        self._from_boot: Set[str] = set()
        self._left = TOTAL_LIMIT_BYTES
        self.files: Dict[str, Dict[str, Any]] = {}
        self.folders: Dict[str, Dict[str, Any]] = {}
        self.commands: List[Dict[str, Any]] = []

    # -- content ----------------------------------------------------------------------------

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
        """Add a file. `text`: remove secrets. `addresses`: if False, --anonymize replaces only names."""
        clean = without_secrets(data, path) if text and not _TABLE.search(path) else data
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
        """Add a symbolic link."""
        name = self._path(path)
        if name in self._written:
            return
        member = tarfile.TarInfo(f"{self._top}/{name}")
        member.type, member.linkname, member.mode = tarfile.SYMTYPE, self._target(path, target), 0o777
        self._tar.addfile(member)
        self._written[name] = "link"

    def also(self, path: str, real: str) -> None:
        """Record for a path the result of the path that its links lead to."""
        if self._path(real) in self.files:
            self.files[self._path(path)] = self.files[self._path(real)]

    # -- the manifest ------------------------------------------------------------------------

    def note(self, path: str, status: str, why: str = "") -> None:
        """Record why a file is not in the bundle."""
        self.files.setdefault(self._path(path), {"status": status, **({"why": why} if why else {})})

    def folder(self, path: str, status: str, names: Optional[List[str]] = None, why: str = "") -> None:
        """Record the names in a folder, or why they are not known."""
        entry: Dict[str, Any] = {"status": status}
        if names is not None:
            entry["names"] = [self._path(f"{path}/{name}").rpartition("/")[2] for name in names]
        if why:
            entry["why"] = why
        self.folders[self._path(path)] = entry

    def command(
        self, argv: List[str], file: str, status: str, exit_code: Optional[int], complaint: str
    ) -> None:
        """Record the result of a command."""
        quoted = _QUOTED.sub(r"\1(dropped)\2", complaint)
        clean = without_secrets(quoted.encode("utf-8", "replace")).decode("utf-8", "replace")
        if self.anonymizer is not None:
            clean = self.anonymizer.words(clean)
        entry = {"argv": argv, "file": file, "exit_code": exit_code, "status": status, "stderr": clean}
        self.commands.append(entry)

    def begins_at_boot(self, file: str) -> bool:
        """Whether the kernel log in this file starts at boot, so that nothing was overwritten."""
        return file in self._from_boot

    def close(self, **facts: Any) -> None:
        """Write the manifest and close the archive."""
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
        """A link's target, anonymized like the path that it leads to."""
        if self.anonymizer is None:
            return target
        folder = os.path.dirname(path)
        whole = os.path.normpath(os.path.join("/", folder, target))[1:]
        if self._path(whole) == whole:
            return target
        if not target.startswith(".."):
            return self.anonymizer.path(target)
        return os.path.relpath("/" + self._path(whole), "/" + self._path(folder))


def _unpacked(data: bytes) -> bytes:
    """The content of a compressed file, so that names in it can be replaced."""
    try:
        return unpack(data, TOTAL_LIMIT_BYTES)
    except DecompressionFailed:
        return data
