"""How a remedy is carried out on a system that boots an image: by its configuration, and never by files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gdrkit.evidence.quoting import quoted
from gdrkit.facts.driver_files import DRIVER
from gdrkit.facts.kernel import hostname
from gdrkit.formats.json_text import encode
from gdrkit.node import Node, if_missing
from gdrkit.repair.config import generate
from gdrkit.repair.config.request import ConfigRequest
from gdrkit.repair.platforms.action import Action, AskPerson, RunCommand
from gdrkit.repair.platforms.boot_quoting import for_kernel
from gdrkit.repair.platforms.change import Change
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.declared import asked
from gdrkit.repair.platforms.driver_options import arguments
from gdrkit.repair.platforms.immutable_systems import ImmutableSystem, Way
from gdrkit.repair.platforms.platform import Platform, without_packages
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.rules.driver_not_loaded import other_holder
from gdrkit.rules.remedy_names import RemedyName

_PARTS = {Change.LIMIT: "memlock"}
"""What of a whole configuration a step is about."""
_OF_A_DEVICE = (RemedyName.POWER_CYCLE, RemedyName.RESET_GPU, RemedyName.RESET_NIC)


def carry_out(
    node: Node, system: ImmutableSystem, remedy: Remedy, choices: ProcedureChoices
) -> Iterator[AskPerson]:
    """What a person changes, in the words of the system. Raises EvidenceMissing."""
    if remedy.name == RemedyName.RELEASE_GPU:
        if holder := other_holder(node):
            yield _argument(node, system, f"module_blacklist={holder}", "blacklist")
    elif remedy.changes is Change.REGISTER:
        yield from _registers(node, system, remedy)
    elif remedy.changes in (Change.ARGUMENT, Change.FIRMWARE):
        made: list[Action] = []
        for action in remedy.procedure(node, _stand_in(node, system, made), choices):
            if isinstance(action, AskPerson):  # other commands need a shell of the host
                yield action if action in made else AskPerson(what=action.what)
    elif remedy.driver_options is not None:
        if remedy.changes is Change.DRIVER:
            yield _by(node, system.ways[Change.DRIVER], [])
        given = arguments(node, remedy.driver_options)
        dot = "" if system.name == "talos" else f"{DRIVER}."
        yield _by(
            node, system.ways[Change.OPTION], [f"{dot}{name}={value}" for name, value in given.items()]
        )
    else:
        way = system.ways[remedy.changes]
        yield _by(node, way, [])
        for kind, form in way.config:
            part = _PARTS.get(remedy.changes, "")
            yield asked(
                generate(kind, ConfigRequest(node=node, form=form, part=part)), f"with gdr config {kind}"
            )
    if remedy.name in _OF_A_DEVICE:
        yield AskPerson(
            what="if the device still fails, ask the owner of the machine to remove its power for a minute, "
            "and then to replace the card: attach the file that gdr collect writes"
        )


def _by(node: Node, way: Way, words: list[str]) -> AskPerson:
    """A way with what it is about. A command takes each word as one; a setting of Bottlerocket is JSON."""
    name = if_missing("", hostname, node)
    pairs: Mapping[str, list[str]] = {
        key: [value] for key, _, value in (one.partition("=") for one in words)
    }

    def command(line: str) -> str:
        line = line.replace("PARAMETERS", encode(pairs).decode().replace("'", ""))
        line = line.replace("NODE", quoted(name) if name else "NODE")
        line = line.replace("=ARGUMENT", f"={quoted(' '.join(words))}")
        return line.replace("OPTIONS", " ".join(f"--append-if-missing={quoted(one)}" for one in words))

    said = ", ".join(for_kernel(one) if '"' not in one else one for one in words)
    return AskPerson(
        what=way.what.replace("ARGUMENT", said).replace("OPTIONS", said),
        commands=tuple(map(command, way.commands)),
    )


def _argument(node: Node, system: ImmutableSystem, argument: str, name: str) -> AskPerson:
    """A kernel argument: an object of its own, of this name, where the system takes objects."""
    way = system.ways[Change.ARGUMENT]
    if not way.config:
        return _by(node, way, [argument])
    ((kind, form),) = way.config
    part = f"argument-{name}"  # each step has an object of its own, which it does not take from another
    found = generate(kind, ConfigRequest(node=node, form=form, part=part, argument=argument))
    return asked(found, _by(node, way, [argument]).what)


def _registers(node: Node, system: ImmutableSystem, remedy: Remedy) -> Iterator[AskPerson]:
    """setpci is in no image: a privileged container brings it, and a boot sets the registers anew."""
    choices = ProcedureChoices(acs="volatile")
    lines = [
        " ".join(action.argv)
        for action in remedy.procedure(node, _stand_in(node, system, []), choices)
        if isinstance(action, RunCommand)
    ]
    if system.name == "rhcos" and remedy.name == RemedyName.CLEAR_ACS_REDIRECT and lines:
        found = generate("machineconfig", ConfigRequest(node=node, part="acs"))
        yield asked(found, "clear the bits at each boot")
    elif lines:
        before = _by(node, Way("", (system.container,)), []).commands[0]
        yield AskPerson(
            what="after each boot, set the registers from a privileged container whose image has pciutils",
            commands=tuple(f"{before} {line}" for line in lines),
        )


def _stand_in(node: Node, system: ImmutableSystem, made: list[Action]) -> Platform:
    """What the procedures of remedies ask of a platform, whose only means is a kernel argument. What it
    makes of one is added to `made`."""

    def boot_argument(argument: str, name: str) -> tuple[Action, ...]:
        made.append(_argument(node, system, argument, name))
        return (made[-1],)

    return without_packages(system.name, boot_argument)
