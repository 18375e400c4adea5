"""GDRCopy: its library libgdrapi, its module gdrdrv and the module's device file."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gdrkit.evidence import EvidenceAbsent, EvidenceMissing, Missing, MissingReason
from gdrkit.facts import kernel_log
from gdrkit.facts.commands import NVIDIA_SMI
from gdrkit.facts.libraries import libraries
from gdrkit.facts.modules import is_loaded, running
from gdrkit.facts.wheels import LibraryCopy
from gdrkit.formats.regex import regex
from gdrkit.formats.versions import numbers
from gdrkit.node import Node, fact, if_absent, if_missing

MODULE = "gdrdrv"
DEVICE = "dev/gdrdrv"
PARAMETERS = "proc/driver/gdrdrv/params"
LIBRARY = "libgdrapi.so.2"
WITHOUT_MODULE = (2, 6)
CUDA_WITHOUT_MODULE = (13, 3)
"""The releases of GDRCopy and CUDA that map GPU memory without gdrdrv: NVIDIA/gdrcopy v2.6 CHANGELOG.md."""
_BUILT_FOR = regex(
    r"Built for NVIDIA driver flavor: (opensource|proprietary)"
    r"|loading gdrdrv version \S{1,20} built for (opensource|proprietary) "
)


@fact
def gdrapi_copies(node: Node) -> tuple[LibraryCopy, ...]:
    """Every known libgdrapi. Raises EvidenceAbsent if there is none; container images bring their own."""
    return libraries(node, LIBRARY)


@fact
def gdrcopy_copies(node: Node) -> tuple[LibraryCopy, ...]:
    """Every known libgdrapi, else the module if it is loaded. Raises EvidenceAbsent if there is neither."""
    try:
        return gdrapi_copies(node)
    except EvidenceMissing:
        if not if_missing(False, is_loaded, node, MODULE):
            raise
        return (LibraryCopy(if_missing("", gdrdrv_version, node), MODULE),)


@fact
def gdrdrv_version(node: Node) -> str:
    """The version of the loaded gdrdrv. Raises EvidenceAbsent if it is not loaded."""
    return running(node, MODULE).version


@fact
def needs_no_module(node: Node) -> bool:
    """Whether every known libgdrapi can do without gdrdrv here: by its version and CUDA's. Raises
    EvidenceAbsent if none is installed."""
    if any(numbers(copy.version) < WITHOUT_MODULE for copy in gdrapi_copies(node)):
        return False
    found = re.search(r"^CUDA Version\s*: (\d{1,3}\.\d{1,3})$", node.run(NVIDIA_SMI), re.MULTILINE)
    if found is None:
        raise EvidenceMissing(Missing("CUDA Version", MissingReason.UNDECIDED, NVIDIA_SMI.line))
    node.cite(NVIDIA_SMI.line, text=found[0])
    return numbers(found[1]) >= CUDA_WITHOUT_MODULE


@fact
def gdrdrv_flavour(node: Node) -> str:
    """The flavour of NVIDIA's driver that the loaded gdrdrv was built for: "open" or "proprietary".

        Built for NVIDIA driver flavor: opensource

    in its own file from 2.5 on, before that a word of the line that it logs when it is loaded, from 2.4 on.
    Source: NVIDIA/gdrcopy src/gdrdrv/gdrdrv.c. Raises EvidenceAbsent if it is not loaded.
    """
    if not is_loaded(node, MODULE):
        raise EvidenceAbsent(Missing(MODULE, MissingReason.ABSENT, f"lsmod | grep {MODULE}"))

    own = if_absent("", node.text, PARAMETERS)
    if _BUILT_FOR.search(own):
        return _flavour(node, PARAMETERS, own.splitlines())
    log = kernel_log.lines(node)
    return _flavour(node, log.source, [line.text for line in log.lines])


def _flavour(node: Node, source: str, texts: Sequence[str]) -> str:
    """The flavour in the last text that names it. Raises EvidenceMissing."""
    for number, text in reversed(tuple(enumerate(texts, 1))):
        if found := _BUILT_FOR.search(text):
            node.cite(source, text=text, line=number)
            return "open" if (found[1] or found[2]) == "opensource" else "proprietary"
    ask = f"cat /{PARAMETERS}; journalctl -k -b | grep 'loading gdrdrv'"
    raise EvidenceMissing(Missing("flavour of gdrdrv", MissingReason.UNDECIDED, ask))
