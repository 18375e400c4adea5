"""The commands that steps may run, word by word, in the shapes that remedies and platforms declare.

Plans contain evidence, and journals contain plans. A kernel release `--outdir=x`, or a command that
another user wrote into a journal, fits no row: it is neither planned nor run.
"""

from __future__ import annotations

import functools
import posixpath
import re
from collections.abc import Collection

from gdrkit.repair.platforms.action import (
    Action,
    EnrolKey,
    RemoveFile,
    RunCommand,
    SignModules,
    WriteFile,
)
from gdrkit.repair.platforms.families import PLATFORMS
from gdrkit.repair.remedies import every_remedy

FOLDERS = ("/usr/sbin", "/usr/bin", "/sbin", "/bin")
"""Where programs are looked for. Only root writes there: file-hierarchy(7)."""

_PCI = r"(?:[\w@:;.,=/-]+,)?(?:config_acs|disable_acs_redir)=[\w@:;./]+"
_WORDS = {
    "ADDRESS": r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]",
    # pci= without quotes: journals of older runs
    "ARGUMENT": rf"iommu=pt|iommu\.passthrough=1|pci=(?:{_PCI}|'{_PCI}'|\"{_PCI}\")",
    "DKMS": r"nvidia[\w.-]*",
    "KERNEL": r"[A-Za-z0-9._+~][A-Za-z0-9._+~-]*",
    "PACKAGE": r"(?:linux-(?:modules-nvidia|headers)|nvidia|doca-ofed|rdma-core|libibverbs|"
    r"ibverbs-providers|kernel-(?:default-)?devel|kmod-nvidia|nv_peer_mem|libnccl)(?:[\w.+:=~^-]*[A-Za-z0-9+~])?",
    "REGISTER": r"(?:ECAP_ACS\+0x6|CAP_EXP\+0x8)\.w=[0-9a-f]{4}:[0-9a-f]{4}",
    "STREAM": r"nvidia-driver:(?:latest-dkms|open-dkms|\d{3}-(?:dkms|open))",
    "VERSION": r"[0-9][\w.+~-]*",
}
"""What stands for a word of evidence. No pattern matches a word that begins with a dash."""


def _pattern(word: str) -> str:
    name, plus = word.rstrip("+"), word.endswith("+")
    option, equals, value = name.rpartition("=")
    one = re.escape(option + equals) + (f"(?:{_WORDS[value]})" if value in _WORDS else re.escape(value))
    return f"{one}(?:\0{one})*" if plus else one


@functools.cache
def _compiled(shape: str) -> re.Pattern[str]:
    return re.compile("\0".join(map(_pattern, shape.split())), re.ASCII)


@functools.cache
def every_shape() -> frozenset[str]:
    """The shapes that remedies and platforms declare, which are all that a step may run."""
    return frozenset(
        (
            *(shape for platform in PLATFORMS for shape in platform.commands),
            *(shape for remedy in every_remedy() for shape in remedy.commands),
        )
    )


def fits(argv: tuple[str, ...], shapes: Collection[str] | None = None) -> bool:
    """Whether a command has one of these shapes; None are those of every step."""
    folder, name = posixpath.split(argv[0] if argv else "")
    joined = "\0".join((name, *argv[1:]))
    allowed = every_shape() if shapes is None else shapes
    return folder in ("", *FOLDERS) and any(_compiled(shape).fullmatch(joined) for shape in allowed)


def is_release(text: str) -> bool:
    """Whether a text may be a kernel's release: a folder's name, and no option of a program."""
    return re.fullmatch(_WORDS["KERNEL"], text) is not None and text not in (".", "..")


def is_plain(path: str) -> bool:
    """Whether a path is absolute and normalized: without `..`, and without a second name for it."""
    return path.startswith("/") and posixpath.normpath(path) == path and "\0" not in path


def fault(action: Action, shapes: Collection[str] | None = None) -> str:
    """Why an action must not be carried out; "" if nothing speaks against it.

    `shapes`: those that its commands may have; None for those of every step."""
    paths: tuple[str, ...] = ()
    match action:
        case RunCommand():
            for argv in (action.argv, *action.undo, *((action.in_root,) if action.in_root else ())):
                if not fits(argv, shapes):
                    return f"not a command of any step: {' '.join(argv)}"
            paths = action.touches
        case WriteFile() | RemoveFile():
            paths = (action.path,)
        case SignModules():
            paths = action.paths
        case EnrolKey() if action.certificate.startswith("-"):
            return f"not a file: {action.certificate}"
    return next((f"not a plain path: {path}" for path in paths if not is_plain(path)), "")
