"""The collector as one file: `python3 gdr-collect.pyz` needs only Python on a node."""

from __future__ import annotations

import io
import os
import zipfile
from typing import Iterator, Tuple

SHEBANG = b"#!/usr/bin/env python3\n"

_MAIN = b"""import sys

if sys.version_info < (3, 8):
    sys.stderr.write("gdr-collect needs Python 3.8 or later; this is %d.%d\\n" % sys.version_info[:2])
    sys.exit(69)

from gdrkit.agent.collect import main

sys.exit(main())
"""


def archive() -> bytes:
    """The bytes of gdr-collect.pyz: this package and the probes. The same sources give the same bytes.

    Raises OSError if run from such an archive. Source: PEP 441."""
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    members = {"__main__.py": _MAIN}
    members["gdrkit/__init__.py"] = b""
    for folder in ("agent", "agent/collect", "agent/native", "agent/probe", "agent/running"):
        members.update(_sources(package, folder))
    buffer = io.BytesIO()
    buffer.write(SHEBANG)
    # Stored, not deflated: the output of zlib differs between versions, and the file has only 200 KB.
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_STORED) as pyz:
        for name in sorted(members):
            entry = zipfile.ZipInfo(name)  # of 1980, whenever it is written
            entry.create_system, entry.external_attr = 3, 0o644 << 16
            pyz.writestr(entry, members[name])
    return buffer.getvalue()


def _sources(package: str, folder: str) -> Iterator[Tuple[str, bytes]]:
    for name in sorted(os.listdir(os.path.join(package, folder))):
        if name.endswith(".py"):
            with open(os.path.join(package, folder, name), "rb") as stream:
                yield f"gdrkit/{folder}/{name}", stream.read()
