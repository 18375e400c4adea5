"""Device files whose number is another driver's, by `ls -l` and /proc/devices.

Sources: coreutils ls.c, which prints both numbers of a device file; Linux fs/char_dev.c, chrdev_show().
Names of drivers: NVIDIA/gdrcopy src/gdrdrv/gdrdrv.c; open-gpu-kernel-modules kernel-open/nvidia/nv.c,
nvidia-uvm/uvm_common.h; gds-nvidia-fs src/nvfs-core.c; Linux drivers/infiniband/core/uverbs_main.c,
user_mad.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from gdrkit.explain.lines.blocks import EVIDENCE, Block, blocks
from gdrkit.explain.lines.transcript import TextLine
from gdrkit.explain.outputs.readings import Reading
from gdrkit.formats.regex import regex

CODE = "device-file-stale"
DEVICES = "/proc/devices"
DRIVERS = (
    (r"gdrdrv", ("gdrdrv",)),
    (r"nvidia-uvm(?:-tools)?", ("nvidia-uvm",)),
    (r"nvidia(?:\d{1,3}|ctl|-modeset)", ("nvidia", "nvidia-frontend", "nvidiactl", "nvidia-modeset")),
    (r"nvidia-fs\d{1,3}", ("nvidia-fs",)),
    (r"nvidia-caps-imex-channels/channel\d{1,4}", ("nvidia-caps-imex-channels",)),
    (r"infiniband/uverbs\d{1,3}", ("infiniband_verbs",)),
    (r"infiniband/(?:umad|issm)\d{1,3}", ("infiniband_mad",)),
)
"""Device files below /dev, and what their driver is called in /proc/devices."""


def number_readings(lines: tuple[TextLine, ...]) -> Iterator[Reading]:
    """The first device file whose number belongs to another driver, and not to its own."""
    every = blocks(lines)
    drivers = _drivers(every)
    if not drivers:
        return
    for position, line in enumerate(lines):
        row = _PATTERNS["file"].match(line.text) if line.kind in EVIDENCE and not line.cut else None
        if row is None:
            continue
        path = _path(row["path"], line.command)
        names = next((names for pattern, names in DRIVERS if re.fullmatch(pattern, path)), ())
        has, own = drivers.get(int(row["number"]), frozenset()), _numbers_of(names, drivers)
        if not names or has & set(names) or not (has or own):
            continue
        note = f"/dev/{path} has the number {row['number']}"
        if has:
            note += f", which is that of {', '.join(sorted(has))}"
        if own:
            note += f", and {names[0]} has {', '.join(map(str, own))}"
        elif any(_would_list(block, names) for block in every):
            note += f", and no driver is called {names[0]}"
        yield Reading(line, position, (CODE,), note, decides=True)
        return


def _path(path: str, command: str) -> str:
    """The path of a listed file below /dev: a listing of a folder has names alone."""
    if "/" not in path:
        folder = next((word for word in reversed(command.split()) if word.startswith("/dev")), "")
        path = f"{folder.rstrip('/')}/{path}"
    return path.removeprefix("/dev/")


def _drivers(every: tuple[Block, ...]) -> Mapping[int, frozenset[str]]:
    """The names by number, as far as shown, in /proc/devices; block devices have numbers of their own."""
    found: dict[int, frozenset[str]] = {}
    for block in every:
        if DEVICES not in block.command:
            continue
        for line in block.lines:
            if line.text.startswith("Block devices:"):
                break
            if row := _PATTERNS["driver"].fullmatch(line.text):
                number = int(row["number"])
                found[number] = found.get(number, frozenset()) | {row["name"]}
    return found


def _numbers_of(names: tuple[str, ...], drivers: Mapping[int, frozenset[str]]) -> list[int]:
    return sorted(number for number, has in drivers.items() if has & set(names))


def _would_list(block: Block, names: tuple[str, ...]) -> bool:
    """Whether an output of /proc/devices would have the driver, if the kernel had it."""
    if DEVICES not in block.command or any(line.cut for line in block.lines):
        return False
    searched = re.search(rf"grep [^/]*(?<![\w-]){re.escape(names[0])}(?![\w-])", block.command)
    whole = block.argv == ("cat", DEVICES) and not block.filtered and block.ended
    return searched is not None or whole


_PATTERNS = {
    "file": regex(
        r"\s*c[rwxsStT-]{9}[.+@]? +\d{1,3} +\S{1,40} +\S{1,40} +(?P<number>\d{1,4}), +\d{1,7} "
        r".{5,40} (?P<path>[\w./-]{1,80})$"
    ),
    "driver": regex(r"\s*(?P<number>\d{1,3}) (?P<name>[\w./-]{1,64})\s*"),
}
