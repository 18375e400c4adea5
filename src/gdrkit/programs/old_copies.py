"""Copies of a program that are too old for a path, or too old to detect it."""

from __future__ import annotations

from msgspec.structs import replace

from gdrkit.evidence import EvidenceAbsent, EvidenceMissing, MissingReason
from gdrkit.facts.modules import PEERMEM, is_loaded
from gdrkit.facts.newest_read import cite_if_newer
from gdrkit.facts.peer_memory import MEMORY_PEERS, memory_peers
from gdrkit.facts.wheels import LibraryCopy, certain_of
from gdrkit.formats.versions import numbers
from gdrkit.node import Node, if_absent, if_missing
from gdrkit.programs.consumer import Consumer
from gdrkit.rules.legacy_nv_peer_mem import serving_client
from gdrkit.rules.rule import Failed, NotApplicable, Outcome, Passed


def version_too_old(node: Node, consumer: Consumer, path: str) -> Outcome:
    """Failed if copies of a program are older than the release that added a path."""
    name, since = consumer.title, consumer.use(path).since
    try:
        copies = consumer.copies(node)
    except EvidenceAbsent:
        return NotApplicable(f"no {name} was found; {consumer.assumed} is assumed")
    except EvidenceMissing as error:
        if error.missing.why is MissingReason.UNDECIDED:  # two sources differ, and one may show an old one
            raise
        return Passed(f"no old {name} is known; {consumer.assumed} is assumed", lacking=(error.missing,))
    old = certain_of(copies, tuple(copy for copy in copies if numbers(copy.version) < since))
    if not old:
        for copy in copies:
            cite_if_newer(node, name, copy.version)
        return Passed(f"{name} {_oldest(copies, since)} supports it")
    return _failed(consumer, old[0], copies, old, "", since)


_INSTEAD = (
    "No version looks for nv_peer_mem itself. Run `sudo systemctl disable --now nv_peer_mem`, `sudo rmmod "
    "nv_peer_mem` and `sudo modprobe nvidia-peermem`, or use dma-buf and neither module."
)


def does_not_detect(node: Node, consumer: Consumer) -> Outcome:
    """Failed if copies of a program look for files that do not exist, although nvidia-peermem is loaded, or
    nv_peer_mem, which fewer programs look for."""
    client = PEERMEM if is_loaded(node, PEERMEM) else serving_client(node)
    if not client:
        return NotApplicable("nvidia_peermem is not loaded")
    required = consumer.use("peermem").required_files
    if _one_exists(node, required[-1].files, client):
        return Passed(f"every {consumer.title} finds it in memory_peers")
    try:
        copies = consumer.copies(node)
    except EvidenceAbsent:
        return NotApplicable(f"{consumer.title} is not installed")
    finds = tuple(
        copy for copy in copies if _one_exists(node, consumer.files_wanted("peermem", copy.version), client)
    )
    affected = certain_of(copies, tuple(copy for copy in copies if copy not in finds))
    if not affected:
        for copy in finds:
            cite_if_newer(node, consumer.title, copy.version)
        return Passed(f"{consumer.title} {_oldest(finds)} finds it")
    oldest = min(affected, key=lambda copy: numbers(copy.version))
    files = ", ".join(consumer.files_wanted("peermem", oldest.version))
    found = _failed(consumer, oldest, copies, affected, f" finds none of {files}", required[0].since)
    if _one_exists(node, required[0].files, client):
        return found
    return replace(found, expected=f"{PEERMEM} instead of {client}", advice=_INSTEAD)


def _oldest(copies: tuple[LibraryCopy, ...], since: tuple[int, ...] = ()) -> str:
    """The oldest version from one on."""
    return min((copy.version for copy in copies if numbers(copy.version) >= since), key=numbers)


def _failed(
    consumer: Consumer,
    copy: LibraryCopy,
    copies: tuple[LibraryCopy, ...],
    affected: tuple[LibraryCopy, ...],
    detail: str,
    since: tuple[int, ...],
) -> Failed:
    """The failure. It takes the path away only if every copy is affected: a job may load any of them."""
    which = f"{consumer.title} {copy.version}"
    return Failed(
        seen=which + (f" ({copy.source})" if copy.source else "") + detail,
        expected=f"{consumer.title} {'.'.join(map(str, since))} or newer",
        subject=copy.source or which,
        takes=None if len(affected) == len(copies) else (),
    )


def _one_exists(node: Node, files: tuple[str, ...], client: str) -> bool:
    if f"sys/module/{client}/version" in files:
        return True  # it is loaded
    try:
        clients = if_absent((), memory_peers, node)
    except EvidenceMissing:  # each file itself may be known, as `cat` shows it
        if any(if_missing(True, node.exists, file) for file in files):
            raise
        return False
    return any(f"{MEMORY_PEERS}/{peer.client}/version" in files for peer in clients)
