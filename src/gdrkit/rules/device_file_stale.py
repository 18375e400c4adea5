"""A device file that leads to another driver than the one it is named for."""

from __future__ import annotations

from gdrkit.node import Node
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.rule import SHOWN_BY_MESSAGES, Layer, Outcome, rule, the_node


@rule(
    "device-file-stale",
    Layer.DRIVER,
    per=the_node,
    reported_by=(
        DecidingCommand(
            "ls -l /dev/gdrdrv; cat /proc/devices", "another driver, or none, with the file's first number"
        ),
    ),
    cost="Programs that open the file reach another driver, or none, and fail.",
    references=("https://github.com/NVIDIA/gdrcopy/issues/115",),
)
def device_file_stale(node: Node, _: str) -> Outcome:
    """A device file has the number of another driver than its own.

    Cost: What needs the file fails, although its module is loaded and the file is there: for /dev/gdrdrv,
    GDRCopy; for /dev/infiniband/uverbs<n>, verbs.

    How to tell: `ls -l` prints two numbers for the file. /proc/devices lists the first one under another
    name, or the driver under another number. A program prints `Inappropriate ioctl for device` or `Invalid
    argument`, and libgdrapi that gdrdrv might be too old.

    What to do: Remove the file and load the module again; then let what makes the file make it anew: udev,
    `sudo nvidia-modprobe`, or for GDRCopy the service of its package (`insmod.sh` in its source). In a
    container, start it anew: it keeps the numbers of its start. If the module is loaded but /proc/devices
    does not list it, it lost its number: load it again, and update it.

    Why: Most drivers get a number when they are loaded, and another one the next time. A file that a script
    made once, or that an image or a container brought along, keeps the old number.

    Source: Linux fs/char_dev.c, __register_chrdev(); NVIDIA/gdrcopy insmod.sh.
    """
    return SHOWN_BY_MESSAGES
