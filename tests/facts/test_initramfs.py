"""What the initramfs holds of a module: its list of files and the times of both, each alone and together."""

from __future__ import annotations

import pytest

from gdrkit.evidence import EvidenceMissing
from gdrkit.facts.commands import LSINITRAMFS, LSINITRD, WRITTEN
from gdrkit.facts.initramfs import BootCopy, Held, boot_copy
from tests.kernel_tree import FOLDER, RELEASE, KernelTree

INNER = "drivers/infiniband/core/ib_core"
OWN, OFED = f"kernel/{INNER}", f"extra/mlnx-ofa_kernel/{INNER}"
BESIDE = f"usr/lib/modules/{RELEASE}/kernel/fs/xfs/xfs.ko.zst\n"


def tree(**commands: str) -> KernelTree:
    """A machine on which depmod chose the ib_core of an OFED, beside the kernel's own."""
    found = KernelTree().module("ib_core", at=OFED.rpartition("/")[0])
    found.put(f"{FOLDER}/{OWN}.ko.xz", b"")
    known = {"lsinitramfs": LSINITRAMFS, "lsinitrd": LSINITRD, "times": WRITTEN}
    found.commands |= {known[name].argv: text for name, text in commands.items()}
    return found


def times(image: int, file: int) -> str:
    """dpkg and rpm keep the time of a file's content, which is older than when they placed it."""
    return f"{image}.5 {image + 9}.0 /boot/initrd.img-{RELEASE}\n100.0 {file}.25 /{FOLDER}/{OFED}.ko\n"


def copy(**commands: str) -> BootCopy:
    return boot_copy(tree(**commands).node(), "ib_core")


def row(path: str) -> str:
    """A row of lsinitrd, which prints files as ls(1) does."""
    return f"-rw-r--r--   1 root     root        96164 Nov  2 10:11 {path}\n"


def test_a_list_without_the_module_leaves_it_to_the_file_on_disk():
    assert copy(lsinitramfs=BESIDE) == BootCopy(Held.NOTHING)
    near = f"usr/lib/modules/{RELEASE}/kernel/{INNER}_helper.ko\n"
    assert copy(lsinitramfs=BESIDE + near) == BootCopy(Held.NOTHING)


@pytest.mark.parametrize("tool", ["lsinitramfs", "lsinitrd"])
@pytest.mark.parametrize("ending", ["ko", "ko.xz", "ko.zst"])
def test_another_file_of_the_module_is_a_former_one(tool, ending):
    text = BESIDE + row(f"usr/lib/modules/{RELEASE}/{OWN}.{ending}")
    assert copy(**{tool: text}) == BootCopy(Held.FORMER, f"{FOLDER}/{OWN}.ko.xz")


def test_times_decide_for_the_same_path():
    held = BESIDE + f"usr/lib/modules/{RELEASE}/{OFED}.ko\n"
    assert copy(lsinitramfs=held, times=times(image=500, file=400)).held is Held.INSTALLED
    assert copy(lsinitramfs=held, times=times(image=300, file=400)) == BootCopy(Held.FORMER)


def test_a_newer_initramfs_holds_no_former_one_even_without_a_list():
    assert copy(times=times(image=500, file=400)).held is Held.INSTALLED


@pytest.mark.parametrize(
    "commands",
    [
        {},
        {"times": times(image=300, file=400)},
        {"times": "no numbers here\n"},
        {"times": times(image=500, file=400).replace(RELEASE, "6.0.0")},
        {"lsinitramfs": f"usr/lib/modules/{RELEASE}/{OFED}.ko\n"},
        {"lsinitramfs": "usr/lib/modules/6.0.0/kernel/fs/xfs/xfs.ko\n"},
        {"lsinitramfs": ""},
    ],
    ids=["nothing", "older, no list", "malformed", "other kernel", "no times", "list of another", "empty"],
)
def test_it_is_unknown_where_neither_decides(commands):
    with pytest.raises(EvidenceMissing):
        copy(**commands)


def test_a_hostile_list_is_bounded():
    text = BESIDE + "usr/lib/modules/" + "a/" * 500_000 + "ib_core.ko\n"
    assert copy(lsinitramfs=text) == BootCopy(Held.NOTHING)
