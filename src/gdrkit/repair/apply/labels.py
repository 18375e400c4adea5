"""SELinux contexts of files that are new: those that the policy gives to their paths.

A file that is renamed into place keeps the context of where it was made: restorecon(8). Replaced files keep
their own, which is an extended attribute.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from gdrkit.repair.apply.commands import find, run_captured
from gdrkit.repair.apply.root_fs import RootFS

SELINUX = "/sys/fs/selinux"


def relabel(root: RootFS, paths: Sequence[str]) -> str:
    """Give paths their contexts. Returns a note for the journal; "" if this machine has no SELinux."""
    program = find("restorecon")
    if not paths or not root.is_machine or program is None or not os.path.isdir(SELINUX):
        return ""
    code, output = run_captured((program, *(root.real(path) for path in paths)))
    last = output.strip().splitlines()[-1:] or [""]
    return f"{program}: exit code {code}: {last[0]}" if code else f"SELinux context set by {program}"
