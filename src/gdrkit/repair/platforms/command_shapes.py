"""The commands that steps may run, word by word.

Plans contain evidence, and journals contain plans. A kernel release `--outdir=x`, or a command that
another user wrote into a journal, fits no row: it is neither planned nor run.
"""

from __future__ import annotations

import posixpath
import re

from gdrkit.repair.platforms.action import (
    Action,
    EnrolKey,
    RemoveFile,
    RunCommand,
    SignModules,
    WriteFile,
)

FOLDERS = ("/usr/sbin", "/usr/bin", "/sbin", "/bin")
"""Where programs are looked for. Only root writes there: file-hierarchy(7)."""

_PCI = r"(?:[\w@:;.,=/-]+,)?(?:config_acs|disable_acs_redir)=[\w@:;./]+"
_WORDS = {
    "ADDRESS": r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]",
    "ARGUMENT": rf"iommu=pt|pci=(?:{_PCI}|'{_PCI}'|\"{_PCI}\")",  # bare: journals of older runs
    "DKMS": r"nvidia[\w.-]*",
    "KERNEL": r"[A-Za-z0-9._+~][A-Za-z0-9._+~-]*",
    "PACKAGE": r"(?:linux-(?:modules-nvidia|headers)|nvidia|doca-ofed|rdma-core|libibverbs|"
    r"ibverbs-providers|kernel-(?:default-)?devel|kmod-nvidia|nv_peer_mem|libnccl)(?:[\w.+:=~^-]*[A-Za-z0-9+~])?",
    "REGISTER": r"(?:ECAP_ACS\+0x6|CAP_EXP\+0x8)\.w=[0-9a-f]{4}:[0-9a-f]{4}",
    "VERSION": r"[0-9][\w.+~-]*",
}
"""What stands for a word of evidence. No pattern matches a word that begins with a dash."""

_ROWS = """
apt-get install -y PACKAGE+
apt-get install -y --only-upgrade PACKAGE+
apt-get remove -y PACKAGE+
depmod -a KERNEL
depmod -b {root} KERNEL
dkms autoinstall -k KERNEL
dkms build -m DKMS -v VERSION -k KERNEL --force
dkms install -m DKMS -v VERSION -k KERNEL --force
dkms uninstall -m DKMS -v VERSION -k KERNEL
dnf install -y PACKAGE+
dnf remove -y PACKAGE+
dnf swap -y PACKAGE PACKAGE
dnf upgrade -y PACKAGE+
dracut --force --kver KERNEL
grubby --update-kernel=ALL --args=ARGUMENT
grubby --update-kernel=ALL --remove-args=ARGUMENT
modprobe -r nvidia
modprobe -r nvidia_uvm
modprobe nv_peer_mem
modprobe nvidia
modprobe nvidia-peermem
modprobe nvidia_uvm
pbl --add-option ARGUMENT
pbl --config
pbl --del-option ARGUMENT
rdma_topo write-grub-acs
rmmod nv_peer_mem
rmmod nvidia_peermem
setpci -s ADDRESS REGISTER
systemctl daemon-reexec
systemctl daemon-reload
systemctl disable --now nv_peer_mem
systemctl disable gdrkit-acs.service
systemctl enable gdrkit-acs.service
systemctl enable nv_peer_mem
update-grub
update-initramfs -u -k KERNEL
zypper --non-interactive install --force-resolution PACKAGE
zypper --non-interactive install PACKAGE+
zypper --non-interactive remove PACKAGE+
zypper --non-interactive update PACKAGE+
"""


def _pattern(word: str) -> str:
    name, plus = word.rstrip("+"), word.endswith("+")
    option, equals, value = name.rpartition("=")
    one = re.escape(option + equals) + (f"(?:{_WORDS[value]})" if value in _WORDS else re.escape(value))
    return f"{one}(?:\0{one})*" if plus else one


_SHAPES = tuple(
    re.compile("\0".join(map(_pattern, row.split())), re.ASCII) for row in _ROWS.split("\n") if row
)


def fits(argv: tuple[str, ...]) -> bool:
    """Whether a command is one that a step may run."""
    folder, name = posixpath.split(argv[0] if argv else "")
    joined = "\0".join((name, *argv[1:]))
    return folder in ("", *FOLDERS) and any(shape.fullmatch(joined) for shape in _SHAPES)


def is_release(text: str) -> bool:
    """Whether a text may be a kernel's release: a folder's name, and no option of a program."""
    return re.fullmatch(_WORDS["KERNEL"], text) is not None and text not in (".", "..")


def is_plain(path: str) -> bool:
    """Whether a path is absolute and normalized: without `..`, and without a second name for it."""
    return path.startswith("/") and posixpath.normpath(path) == path and "\0" not in path


def fault(action: Action) -> str:
    """Why an action must not be carried out; "" if nothing speaks against it."""
    paths: tuple[str, ...] = ()
    match action:
        case RunCommand():
            for argv in (action.argv, *action.undo, *((action.in_root,) if action.in_root else ())):
                if not fits(argv):
                    return f"not a command of any step: {' '.join(argv)}"
            paths = action.touches
        case WriteFile() | RemoveFile():
            paths = (action.path,)
        case SignModules():
            paths = action.paths
        case EnrolKey() if action.certificate.startswith("-"):
            return f"not a file: {action.certificate}"
    return next((f"not a plain path: {path}" for path in paths if not is_plain(path)), "")
