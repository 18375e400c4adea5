"""How the running kernel gets the driver that a machine has for other kernels."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gdrkit.facts.kernel import release
from gdrkit.facts.other_kernels import driver_elsewhere
from gdrkit.node import Node
from gdrkit.repair.platforms.action import Action, AskPerson, RunCommand
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.platform import Platform
from gdrkit.repair.platforms.software import load_driver


def for_kernel(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Install or build the modules for the running kernel, then load them.

    Sources: dkms(8), autoinstall; Ubuntu's packages linux-modules-nvidia-BRANCH-RELEASE, which Canonical
    signs; NVIDIA driver installation guide, pre-installation actions: headers of the running kernel."""
    found, kernel = driver_elsewhere(node), release(node)
    if found is None:
        yield AskPerson(what=f"install the driver's modules for {kernel}")
        return
    if found.dkms is None:
        name = f"{found.prebuilt}-{kernel}"
        yield platform.packages(
            name, why="the same modules for the running kernel", undo=((*platform.remove, name),)
        )
        flavour = re.sub(r"^[\d.]+-\d+-", "", kernel)
        yield AskPerson(
            what="for the kernels to come, install the metapackage too, such as "
            f"{found.prebuilt}-{flavour}: it follows that of the kernel"
        )
    else:
        headers = platform.headers.format(kernel=kernel)
        yield platform.packages(
            headers, why="without headers, DKMS skips the build", undo=((*platform.remove, headers),)
        )
        yield RunCommand(
            argv=("dkms", "autoinstall", "-k", kernel),
            why=f"build {found.dkms.name} {found.dkms.version} for the running kernel",
            undo=(("dkms", "uninstall", "-m", found.dkms.name, "-v", found.dkms.version, "-k", kernel),),
            never_executed=True,
        )
    yield from load_driver(node, platform, choices)
