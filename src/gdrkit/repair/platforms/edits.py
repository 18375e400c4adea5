"""Builds actions that comment out lines of a node's files."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.evidence.quoting import quoted
from gdrkit.node import Node
from gdrkit.repair.platforms.action import WriteFile
from gdrkit.repair.platforms.file_contents import commented_out


def without_lines(node: Node, file: str, lines: Iterable[int], etc: str, why: str) -> WriteFile:
    """Write a file with these lines commented out. For a file outside /etc, write an override into `etc`.

    modprobe.d(5) and modules-load.d(5): a file in /etc overrides files of the same name elsewhere. Raises
    EvidenceMissing if the file is not UTF-8: it could not be rewritten unchanged.
    """
    from hashlib import sha256  # loads OpenSSL, which doctor does not need

    content = node.read(file)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise EvidenceMissing(
            Missing(file, MissingReason.GARBLED, f"edit {quoted(f'/{file}')} by hand: it is not UTF-8")
        ) from None
    own = file.startswith("etc/")
    return WriteFile(
        path=f"/{file}" if own else f"{etc}/{posixpath.basename(file)}",
        content=commented_out(text, lines),
        why=why if own else f"{why}; overrides /{file}",
        was=sha256(content).hexdigest() if own else "",
    )
