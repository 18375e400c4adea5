"""Files of a node with lines taken out, as what must be written."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Iterable

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.node import Node
from gdrkit.repair.platforms.action import WriteFile
from gdrkit.repair.platforms.file_contents import commented_out


def without_lines(node: Node, file: str, lines: Iterable[int], etc: str, why: str) -> WriteFile:
    """A file with those lines as comments. One outside /etc stays, and is hidden by its name in `etc`.

    modprobe.d(5) and modules-load.d(5): a file in /etc hides those of its name elsewhere. Raises
    EvidenceMissing where the file is not text, which would not survive being written.
    """
    content = node.read(file)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise EvidenceMissing(
            Missing(file, MissingReason.GARBLED, f"edit /{file} by hand: it is not UTF-8")
        ) from None
    own = file.startswith("etc/")
    return WriteFile(
        path=f"/{file}" if own else f"{etc}/{posixpath.basename(file)}",
        content=commented_out(text, lines),
        why=why if own else f"{why}; hides /{file}",
        was=hashlib.sha256(content).hexdigest() if own else "",
    )
