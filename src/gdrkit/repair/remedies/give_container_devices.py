"""The container has the RDMA devices of its host."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.facts.rdma import character_device, has_device_file, rdma_devices
from gdrkit.facts.virtual import scope
from gdrkit.node import Node, Supposition, each_known
from gdrkit.repair.config.containers import container
from gdrkit.repair.config.output import ConfigOutput, rendered
from gdrkit.repair.config.request import ConfigRequest
from gdrkit.repair.platforms.action import Action, AskPerson
from gdrkit.repair.platforms.change import Change
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.platform import Platform
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.rules.remedy_names import RemedyName


def _effect(node: Node) -> Iterable[Supposition]:
    """Only a container lacks them, and only those that the kernel has."""
    if scope(node) != "container":
        raise EvidenceMissing(Missing("a container", MissingReason.ABSENT, "cat /proc/1/cgroup"))
    known = each_known(lambda device: (device, character_device(node, device.name)), rdma_devices(node))
    for device, _ in known:
        yield has_device_file.becomes(True, device.name)


def _procedure(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Start the container anew: what it lacks cannot be added from inside."""
    del platform, choices
    found = container(ConfigRequest(node=node))
    if isinstance(found, ConfigOutput):
        yield AskPerson(
            what="on the host, start the container with these options; in Kubernetes, change the pod as gdr "
            "config container --form kubernetes shows",
            content=rendered(found),
        )


GIVE_CONTAINER_DEVICES = Remedy(
    name=RemedyName.GIVE_CONTAINER_DEVICES,
    title="start the container with the RDMA devices of its host",
    effect=_effect,
    changes=Change.JOB,
    becomes="programs in the container can open the RDMA devices",
    risk="the container can use the network past the host's firewall",
    undo="start the container without them",
    needs_root=False,
    procedure=_procedure,
)
