"""Steps that a person takes for single programs: in the image, the environment or the container of a job."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gdrkit.consumers.consumer import Consumer
from gdrkit.consumers.mooncake import SWITCH
from gdrkit.node import Node
from gdrkit.repair.config.containers import container
from gdrkit.repair.config.output import ConfigOutput, rendered
from gdrkit.repair.config.request import ConfigRequest
from gdrkit.repair.platforms.action import Action, AskPerson
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.platform import Platform

Planner = Callable[[Node, Platform, ProcedureChoices], Iterator[Action]]


def mooncake_dmabuf(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Have Mooncake use dma-buf."""
    del node, platform, choices
    yield _set("0")


def mooncake_peermem(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Have Mooncake use nvidia-peermem."""
    del node, platform, choices
    yield _set("1")


def _set(value: str) -> AskPerson:
    """A variable of jobs: /etc/environment does not reach services and containers."""
    return AskPerson(
        what="set the variable where the job starts: in its script, its unit, or the env of its container",
        commands=(f"export {SWITCH}={value}",),
    )


def newer(program: Consumer) -> Planner:
    """Use a newer version of a program, which most jobs load from their image or environment."""

    def procedure(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
        del node, platform, choices
        yield AskPerson(what=f"use {program.modern} in the job's image or environment")

    return procedure


def give_devices(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Start the container anew: what it lacks cannot be added from inside."""
    del platform, choices
    found = container(ConfigRequest(node=node))
    if isinstance(found, ConfigOutput):
        yield AskPerson(
            what="on the host, start the container with these options; in Kubernetes, change the pod as gdr "
            "config container --form kubernetes shows",
            content=rendered(found),
        )
