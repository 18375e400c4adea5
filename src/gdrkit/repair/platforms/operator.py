"""Where the GPU Operator's container installs the driver: its settings are changed, not the machine."""

from __future__ import annotations

from gdrkit.node import Node
from gdrkit.repair.config.operators import gpu_operator
from gdrkit.repair.config.output import ConfigOutput, rendered
from gdrkit.repair.config.request import ConfigRequest
from gdrkit.repair.platforms.action import AskPerson
from gdrkit.rules.remedy_names import RemedyName

_WHY = "change the GPU Operator's ClusterPolicy: its container rebuilds the driver at each start"
_PATHS = {
    RemedyName.OPEN_KERNEL_MODULES: "dmabuf",
    RemedyName.INSTALL_OFED: "peermem",
    RemedyName.REBUILD_DRIVER: "peermem",
}
"""The path that a step is for, where it is for one only."""


def change_policy(node: Node, remedy: str = "") -> AskPerson:
    """The patch that `gdr config gpu-operator` writes for this node, for the path that a step serves."""
    found = gpu_operator(ConfigRequest(node=node, path=_PATHS.get(RemedyName(remedy), "") if remedy else ""))
    if not isinstance(found, ConfigOutput):
        return AskPerson(what=f"{_WHY}; gdr config gpu-operator says what it cannot do here: {found.why}")
    return AskPerson(
        what=f"{_WHY}; write the lines below to {found.file}, as gdr config gpu-operator does",
        content=rendered(found),
        commands=(found.use,),
    )
