"""Where the GPU Operator's container installs the driver: its settings are changed, not the machine."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from gdrkit.facts.driver_files import DRIVER
from gdrkit.node import Node
from gdrkit.repair.config.operators import gpu_operator
from gdrkit.repair.config.output import ConfigOutput, rendered
from gdrkit.repair.config.request import ConfigRequest
from gdrkit.repair.platforms.action import AskPerson
from gdrkit.repair.platforms.driver_options import OPTIONS, arguments
from gdrkit.rules.remedy_names import RemedyName

_WHY = "change the GPU Operator's ClusterPolicy: its container rebuilds the driver at each start"
_PATHS = {
    RemedyName.OPEN_KERNEL_MODULES: "dmabuf",
    RemedyName.INSTALL_OFED: "peermem",
    RemedyName.REBUILD_DRIVER: "peermem",
}
"""The path that a step is for, where it is for one only."""


def change_policy(node: Node, remedy: str = "") -> Iterator[AskPerson]:
    """The patch that `gdr config gpu-operator` writes for this node, for the path that a step serves. The
    container reads no modprobe.d: options of the driver are in a ConfigMap, which comes first.

    Raises EvidenceMissing if the options are not known."""
    request = ConfigRequest(node=node)
    if remedy:
        request = replace(request, path=_PATHS.get(RemedyName(remedy), ""))
    if remedy in OPTIONS:
        given = arguments(node, RemedyName(remedy))
        request = replace(request, parameters=tuple((DRIVER, name, value) for name, value in given.items()))
        yield _asked(replace(request, form="configmap"), "give the driver of the container its options")
    yield _asked(request, _WHY)


def _asked(request: ConfigRequest, why: str) -> AskPerson:
    found = gpu_operator(request)
    if not isinstance(found, ConfigOutput):
        return AskPerson(what=f"{why}; gdr config gpu-operator says what it cannot do here: {found.why}")
    command, _, rest = found.use.partition("; ")  # what follows is for a reader: `then apply the patch`
    after = f"; {rest}" if rest else ""
    return AskPerson(
        what=f"{why}; write the lines below to {found.file}, as gdr config gpu-operator does{after}",
        content=rendered(found),
        commands=(command,),
    )
