"""Open the target that a user names. The reader is chosen by content, not by file name."""

from __future__ import annotations

import os
from errno import EACCES, EPERM
from stat import S_ISDIR, S_ISREG

from gdrkit.evidence import Host
from gdrkit.evidence.errors import TargetError
from gdrkit.evidence.live import LiveHost
from gdrkit.formats.regex import regex

PEEK_BYTES = 1 << 16
"""How much of a file is searched for a bug report's first line: text of a forum post may precede it."""

_LIST_OF_OBJECTS = regex(rb"\s*\[\s*[{\]]")
"""How a dump of rdma_topo begins. A kernel log begins with a time stamp in brackets: `[    0.000000]`."""


def open_host(target: str | None, *, probe: bool = False, deadline_s: float | None = None) -> Host:
    """The host that a user names: None for this machine, else a path or ssh://host. Raises TargetError.

    `probe`: query the drivers in a separate process; only for this machine and ssh://. `deadline_s`: when
    the caller needs the answer, which limits commands on this machine."""
    if target is None:
        host = LiveHost(probe, deadline_s)
        if probe:
            host.start_probes()
        return host
    if target.startswith("ssh://"):
        from gdrkit.evidence.ssh import open_ssh

        return open_ssh(target, probe)
    if probe:
        raise TargetError(f"cannot probe a file: {target}", "run gdr doctor --probe on the machine itself")
    if "\0" in target:
        raise TargetError(f"not a valid file name: {target!r}", "name a file, a directory or ssh://host")
    try:
        mode = os.stat(target).st_mode
        if S_ISDIR(mode):
            from gdrkit.evidence.tree import open_tree

            return open_tree(target)
        if not S_ISREG(mode):
            raise TargetError(f"not a file or directory: {target}", "name a file, a directory or ssh://host")
        return _open_file(target)
    except OSError as error:
        hint = "run as root" if error.errno in (EACCES, EPERM) else ""
        raise TargetError(f"{target}: {(error.strerror or str(error)).lower()}", hint) from None


def _open_file(target: str) -> Host:
    from gdrkit.evidence.archive import BLOCK, is_header
    from gdrkit.evidence.bug_report import START, open_bug_report
    from gdrkit.evidence.rdma_topo import open_rdma_topo
    from gdrkit.evidence.stream import open_stream
    from gdrkit.evidence.tarball import open_tarball

    name = os.path.basename(target)
    with open(target, "rb") as file:
        stream = open_stream(file, name)
        head = stream.peek(PEEK_BYTES)
        if is_header(head[:BLOCK]):
            return open_tarball(stream, name)
        if START in head:
            return open_bug_report(stream, name)
        if _LIST_OF_OBJECTS.match(head):
            return open_rdma_topo(stream, name)
    if not head:
        raise TargetError(f"{name} is empty, or cut off in its header", "copy it again")
    if head.lstrip().startswith(b"<"):
        raise TargetError(f"not a bundle or sosreport: {name}", f"for a topology in XML: gdr topo {target}")
    if b"\0" not in head:
        raise TargetError(f"not a bundle or sosreport: {name}", f"for text: gdr explain {target}")
    raise TargetError(
        f"unsupported format: {name}",
        "name a directory, a sosreport, a bundle from gdr collect, nvidia-bug-report.log.gz or ssh://host",
    )
