"""What loads modules at boot, besides the devices that ask for them.

Sources: modules-load.d(5), modules(5), modprobe.d(5), udev(7), systemd.unit(5),
systemd-rc-local-generator(8).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gdrkit.facts.driver_files import DRIVER
from gdrkit.facts.modprobe_config import configuration
from gdrkit.facts.modules_load import autoload
from gdrkit.formats.module_name import canonical
from gdrkit.node import Node, fact, if_absent

UNITS = ("etc/systemd/system", "usr/lib/systemd/system", "lib/systemd/system")
SCRIPTS = ("etc/rc.local", "etc/rc.d/rc.local")
ADMINISTRATOR_UNITS = "etc/systemd/system"
RULES = "etc/udev/rules.d"
_ROOT_IN_MEMORY = ("tmpfs", "ramfs", "rootfs", "overlay", "squashfs", "nfs", "nfs4")


@fact
def listed_loader(node: Node, module: str) -> str:
    """The configuration of kmod, systemd or the init scripts that loads a module at boot; "" if none does.

    systemd obeys blacklists there: src/modules-load/modules-load.c, KMOD_PROBE_APPLY_BLACKLIST."""
    entry = next((entry for entry in autoload(node) if entry.name == module), None)
    if entry and not configuration(node).blacklisted(module):
        return f"{entry.file}:{entry.line}"
    return other_loader(node, module)


def other_loader(node: Node, module: str) -> str:
    """Where a soft dependency of the driver or a service loads a module; "" if neither does."""
    softdep = configuration(node).soft_dependencies(DRIVER)
    if softdep and module in (*softdep.pre, *softdep.post):
        return f"{softdep.file}:{softdep.line}"
    short = canonical(module).removeprefix("nvidia_").replace("_", "")
    for folder in UNITS:
        for name in if_absent((), node.list, folder):
            if short in name.replace("_", "").replace("-", "") and name.endswith(".service"):
                return f"{folder}/{name}"
    return ""


@fact
def scripted_loader(node: Node, module: str) -> str:
    """The command of the driver's install line, a script, a rule or a unit of the administrator that names a
    module; "" if none does."""
    command = configuration(node).install_command(DRIVER)
    if command and _names(command.value, module):
        return f"{command.file}:{command.line}"
    for path in _written_by_hand(node):
        if _names(if_absent("", node.text, path), module):
            return path
    return ""


def _written_by_hand(node: Node) -> Iterator[str]:
    yield from SCRIPTS
    for folder, ending in ((RULES, ".rules"), (ADMINISTRATOR_UNITS, ".service")):
        for name in if_absent((), node.list, folder):
            if name.endswith(ending) and "/" not in name:
                yield f"{folder}/{name}"


def _names(text: str, module: str) -> bool:
    """Whether a line, comments aside, has the name of a module, with dashes or underscores."""
    pattern = re.compile(rf"(?m)^[ \t]*(?![#; \t]).*\b{re.escape(canonical(module))}\b")
    return pattern.search(canonical(text)) is not None


@fact
def root_is_kept(node: Node) -> bool:
    """Whether what is installed survives a reboot: the root is not in memory, nor the image of many nodes.

    Source: proc_pid_mountinfo(5). True where the kernel shows no mounts."""
    for line in if_absent("", node.text, "proc/self/mountinfo").splitlines():
        mount, _, kind = line.partition(" - ")
        if mount.split()[4:5] == ["/"] and kind.split()[:1] and kind.split()[0] in _ROOT_IN_MEMORY:
            return False
    return True
