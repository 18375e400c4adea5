"""What the kernel says of devices for which it found no PCI address space: virtual functions, BARs, windows.

Sources: Linux drivers/pci/iov.c, sriov_enable(); drivers/pci/setup-res.c, pci_assign_resource(), whose lines
name a region by its number before 6.9; include/linux/pci.h: 0 to 5 are BARs, PCI_IOV_RESOURCES is 7.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from gdrkit.facts.verbs_kernel import VERBS_MODULES
from gdrkit.formats.regex import regex
from gdrkit.messages.message import DECIDES_NOTHING, Meaning

MOST_LINES = 100_000
_ADDRESS = r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
_NO_VFS = regex(rf"\b\w{{2,31}} (?P<address>{_ADDRESS}): not enough MMIO resources for SR-IOV")
_REGION = regex(
    rf"\b\w{{2,31}} (?P<address>{_ADDRESS}): (?P<name>(?:VF )?BAR \d{{1,2}}|bridge window|ROM)\b"
    r"(?P<rest>.{0,100})"
)
_FAILED = regex(r"no space for|failed to assign|can't assign")
_BAR = regex(r"BAR [0-5]$")
_DEVICE = regex(
    rf"\bpci (?P<address>{_ADDRESS}): \[(?P<vendor>[0-9a-f]{{4}}):[0-9a-f]{{4}}\] type \w+ class"
    r" 0x(?P<class>[0-9a-f]{4})"
    rf"|\b(?P<driver>[a-z]\w{{1,30}}) (?P<driven>{_ADDRESS}): |\(PCI:(?P<gpu>{_ADDRESS})\)"
)
"""What tells what a device is: its ids as the kernel finds it, its driver, or a line of NVIDIA's."""
_ROOM = (
    "Above 4G Decoding in the firmware setup, with the largest MMIO window that it offers; where it has"
    " none, boot with pci=realloc"
)
_FOR_BAR, _FOR_VFS = f"Turn on {_ROOM}", f"Turn on SR-IOV and {_ROOM}"


def region_meanings(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, Meaning]]:
    """What lines of a kernel log mean by which a device has no address space, if none was found later."""
    searched = tuple(islice(lines, MOST_LINES))
    missing: dict[tuple[str, str], tuple[int, str]] = {}
    refused: dict[str, int] = {}
    for number, text in searched:
        if "SR-IOV" in text and (found := _NO_VFS.search(text)):
            refused.setdefault(found["address"], number)
        elif ("BAR " in text or "window" in text) and (found := _REGION.search(text)):
            region = found["address"], found["name"]
            if _FAILED.search(found["rest"]):
                missing.setdefault(region, (number, found["rest"]))
            elif "assigned" in found["rest"]:
                missing.pop(region, None)
    kinds = dict(_kinds(searched)) if missing or refused else {}
    yield from ((number, _without_vfs(at, kinds.get(at, ""))) for at, number in refused.items())
    for (at, name), (number, rest) in missing.items():
        yield number, _of_region(at, name, rest, kinds.get(at, ""))


def _kinds(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[str, str]]:
    """The kind of each device that a text tells: "NIC", "GPU" of NVIDIA, or the name of another driver."""
    for _, text in lines:
        found = _DEVICE.search(text)
        if found is None:
            continue
        if found["gpu"]:
            yield found["gpu"], "GPU"
        elif found["class"]:
            of_network = found["class"].startswith(("02", "0c06"))
            of_nvidia = found["vendor"] == "10de" and found["class"].startswith("03")
            yield found["address"], "NIC" if of_network else "GPU" if of_nvidia else ""
        elif found["driver"] not in ("pci", "pcieport"):
            driver = found["driver"]
            yield (
                found["driven"],
                "NIC" if driver in VERBS_MODULES else "GPU" if driver == "nvidia" else driver,
            )


def _without_vfs(address: str, kind: str) -> Meaning:
    """That a driver asked for virtual functions, and got none."""
    if kind == "NIC":
        words = (
            f"The NIC {address} has no virtual functions (VFs): the firmware gave its slot too little PCI"
            " address space. The line is not about the NIC itself: what needs a VF, as pods and virtual"
            " machines do, finds none"
        )
        return Meaning(words, f"{_FOR_VFS}, or ask for fewer VFs. Then set sriov_numvfs again")
    of = f"{address} ({kind})" if kind else address
    words = f"The virtual functions of {of} have no PCI address space; that {DECIDES_NOTHING}"
    return Meaning(words, _FOR_VFS, "aside")


def _of_region(address: str, name: str, rest: str, kind: str) -> Meaning:
    """That a region of a device has no address space. Those from 6 on are, of a GPU or a NIC, of its virtual
    functions, and else the windows of a bridge."""
    if "[io" in rest:
        words = f"The kernel found no I/O ports for {address}: GPUs and NICs need none"
        return Meaning(words, "Nothing has to be done for them", "aside")
    if name.startswith("VF ") or (kind in ("NIC", "GPU") and not _BAR.match(name)):
        words = f"The virtual functions of {address}{f' ({kind})' if kind else ''} have no PCI address space"
        return Meaning(
            f"{words}; a job that needs none of them is not concerned",
            f"Where VFs are wanted: {_FOR_VFS}",
            "aside",
        )
    if kind in ("NIC", "GPU"):
        what = "GPU, whose memory a NIC reaches through BAR 1" if kind == "GPU" else "NIC"
        words = f"{name} of {address} has no PCI address space: its driver cannot use this {what}"
        return Meaning(words, f"{_FOR_BAR}. Then run `gdr doctor`", after=("bar1-small",))
    words = f"The kernel found no PCI address space for {name} of {address}{f' ({kind})' if kind else ''}"
    todo = f"`lspci -tv` shows what {address} is, and what is below it. For one of them: {_FOR_BAR}"
    words += f"; if that concerns neither a GPU nor a NIC, that {DECIDES_NOTHING}"
    return Meaning(words, todo, "aside")
