"""A distribution's own compiler and kernel build tools, in a tree that commands enter with chroot.

Newer tools need a newer C library than this machine may have, and a kernel's headers expect the compiler
that built it.
"""

from __future__ import annotations

import os
from pathlib import Path

from lab.cache import command
from lab.packages import Apt, merged_tree, unpack

WORK = "/work"  # where a command in the tree sees its folder
_TOOLS = ("binutils", "make", "dash", "coreutils", "findutils", "grep", "mawk", "sed")
_ENTER = (
    'mount --rbind /proc "$0/proc" && mount --bind /dev/null "$0/dev/null" && '
    'mount --bind "$1" "$0/work" && tree=$0 && shift && '
    'exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C chroot "$tree" "$@"'
)


def unpack_tools(source: Apt, headers: str, root: Path) -> None:
    """Unpack headers, what they depend on other than the kernel itself, and what a build uses."""
    merged_tree(root)
    wanted = [row for row in source.closure(headers, *_TOOLS) if not row.startswith("linux-image-")]
    for package in source.download(*wanted):
        unpack(package, root)
    (root / "usr/bin/awk").symlink_to("mawk")
    for folder in ("dev", "proc", "work", "tmp"):
        (root / folder).mkdir(exist_ok=True)
    (root / "dev/null").touch()


def inside(tree: Path, work: Path, *argv: str) -> bytes:
    """Standard output of a command in the tree, which sees a folder of this machine as `WORK`."""
    rights = () if os.geteuid() == 0 else ("--map-root-user",)
    return command("unshare", *rights, "--mount", "--", "sh", "-c", _ENTER, tree, work, *argv)
