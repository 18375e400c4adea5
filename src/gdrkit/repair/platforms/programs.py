"""Steps that a person takes for single programs: in the image, the environment or the container of a job."""

from __future__ import annotations

from collections.abc import Iterator

from gdrkit.node import Node
from gdrkit.programs.consumer import Consumer
from gdrkit.programs.mooncake.consumer import SWITCH
from gdrkit.programs.nvshmem.consumer import NVSHMEM
from gdrkit.programs.ucx.consumer import UCX
from gdrkit.repair.config.containers import container
from gdrkit.repair.config.output import ConfigOutput, rendered
from gdrkit.repair.config.request import ConfigRequest
from gdrkit.repair.platforms.action import Action, AskPerson
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.platform import Platform


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


def newer_nvshmem(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Use a newer NVSHMEM."""
    del node, platform, choices
    yield _newer(NVSHMEM)


def newer_ucx(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Use a newer UCX."""
    del node, platform, choices
    yield _newer(UCX)


def _newer(program: Consumer) -> AskPerson:
    """Most jobs load a program from their image or environment, not from the machine's package."""
    return AskPerson(what=f"use {program.modern} in the job's image or environment")


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
