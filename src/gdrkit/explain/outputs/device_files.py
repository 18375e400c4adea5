"""RDMA devices of a machine that a container or NCCL does not have: the files of /dev/infiniband beside the
devices that sysfs lists, and NCCL's own list beside both.

Sources: Linux drivers/infiniband/core/uverbs_main.c, user_mad.c, ucma.c (the files); coreutils src/ls.c (a
heading for each of several folders); NCCL src/transport/net_ib/init.cc.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from gdrkit.explain.explanation import KnownFact
from gdrkit.explain.lines.blocks import EVIDENCE, blocks
from gdrkit.explain.lines.forms import LISTED_FOLDER
from gdrkit.explain.lines.transcript import TextLine
from gdrkit.explain.outputs.readings import Reading
from gdrkit.formats.regex import regex
from gdrkit.programs.nccl.settings import selects

DEVICES, FILES = "/sys/class/infiniband", "/dev/infiniband"
LACKING = "device files"
_DEVICE = regex(r"(?:mlx\d_|bnxt_re|irdma|efa_|rdmap|hns_|(?:roce|ib|iw)[Pposx][0-9a-f])\w{0,30}")
"""Names of the kernel's drivers, and those by place: rdma-core kernel-boot/rdma_rename.c, by_pci()."""
_UVERBS = regex(r"\buverbs\d{1,3}\b")
_LISTED = regex(r"NCCL INFO NET/IB : Using (?P<devices>\[0\].{1,2000}?)(?:; OOB|$)")
_USED = regex(r"\[\d{1,3}\](?P<name>[a-z][\w.-]{1,40}):\d")
_OTHER = {"umad or issm": regex(r"\b(?:umad|issm)\d"), "rdma_cm": regex(r"\brdma_cm\b")}
"""Files beside uverbs, which only some programs need: those of management, and of librdmacm."""
UNUSED = ("port-down", "rdma-device-not-in-container", "hca-not-selected")
"""Why NCCL does not list a device: it has no active port, cannot be opened, or NCCL_IB_HCA leaves it out."""


def device_file_readings(lines: tuple[TextLine, ...], chosen: Iterable[str] = ()) -> Iterator[Reading]:
    """Devices that sysfs lists and that have no file here, or that NCCL does not list. `chosen`: the values
    of NCCL_IB_HCA, which leave others out on purpose."""
    listed = _listings(lines)
    shown = listed.get(DEVICES, [])
    names = {word for line in shown for word in line.text.split() if _DEVICE.fullmatch(word)}
    if not names:
        return
    if FILES in listed:
        uverbs = sorted({word for line in listed[FILES] for word in _UVERBS.findall(line.text)})
        if len(uverbs) < len(names):
            have = [line for line in listed[FILES] if _UVERBS.search(line.text)]
            line = (have or listed[FILES])[0]
            are = f", {', '.join(uverbs)}" if uverbs else ""
            note = f"{len(names)} devices, but {len(uverbs)} of their uverbs files{are}"
            yield Reading(line, lines.index(line), UNUSED[1:2], note)
            return
    names = {name for name in names if all(selects(value, name) for value in chosen)}
    for position, line in enumerate(lines):
        found = _LISTED.search(line.text) if line.kind == "machine" else None
        used = {one["name"] for one in _USED.finditer(found["devices"])} if found else set()
        if used and used < names:
            absent = sorted(names - used)
            more = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
            note = f"NCCL lists {len(used)} of {len(names)} devices, and not {absent[0]}{more}"
            yield Reading(line, position, UNUSED, note)
            return


def device_file_facts(lines: tuple[TextLine, ...]) -> Iterator[KnownFact]:
    """The files that a whole listing has not: what it lacks is a fault only for a program that needs it."""
    shown = _listings(lines).get(FILES, [])
    uverbs = [line for line in shown if _UVERBS.search(line.text)]
    lacking = [name for name, form in _OTHER.items() if not any(form.search(line.text) for line in shown)]
    if uverbs and lacking:
        names = ", ".join(dict.fromkeys(word for line in uverbs for word in _UVERBS.findall(line.text)))
        value = f"{names}; no {', no '.join(lacking)}; NCCL needs uverbs alone"
        yield KnownFact(LACKING, value, uverbs[0].number, uverbs[0].text.strip())


def _listings(lines: tuple[TextLine, ...]) -> Mapping[str, list[TextLine]]:
    """The output of ls by folder, as far as no pipe has changed it: of one folder, or below its heading."""
    found: dict[str, list[TextLine]] = {}
    for block in blocks(lines):
        if block.argv[:1] in (("ls",), ("ll",)) and not block.filtered:
            folders = [word.rstrip("/") for word in block.argv[1:] if word.startswith("/")]
            if len(folders) == 1 and block.lines:
                found[folders[0]] = list(block.lines)
    folder = ""
    for line in lines:
        if line.kind not in EVIDENCE:
            folder = ""
        elif heading := LISTED_FOLDER.match(line.text):
            folder = heading["folder"]
            found[folder] = []
        elif folder:
            found[folder].append(line)
    return found
