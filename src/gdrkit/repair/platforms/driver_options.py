"""Options of the NVIDIA driver, which a file in modprobe.d sets from the next time on that it is loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from gdrkit.facts.driver import driver_parameters
from gdrkit.facts.driver_files import DRIVER
from gdrkit.facts.modprobe_config import configuration
from gdrkit.facts.module_arguments import split_arguments
from gdrkit.node import Node, Supposition, if_missing
from gdrkit.repair.platforms import file_contents
from gdrkit.repair.platforms.action import Action, AskPerson, WriteFile
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.module_files import refresh_if_there
from gdrkit.repair.platforms.platform import Planner, Platform
from gdrkit.rules.remedy_names import RemedyName

PREFIX = "NVreg_"
DriverOptions = Callable[[Node], Mapping[str, str]]
"""The parameters that a remedy sets, without their prefix. Raises EvidenceMissing."""


def arguments(node: Node, options: DriverOptions) -> dict[str, str]:
    """The parameters as modprobe.d has them: a string with semicolons is quoted."""
    values = options(node)
    return {f"{PREFIX}{name}": f'"{value}"' if ";" in value else value for name, value in values.items()}


def loaded_with(options: DriverOptions) -> Callable[[Node], Iterable[Supposition]]:
    """The effect of a remedy that sets options: the driver is loaded with them."""

    def effect(node: Node) -> Iterable[Supposition]:
        yield driver_parameters.becomes({**driver_parameters(node), **options(node)})

    return effect


def set_options(remedy: RemedyName, options: DriverOptions, why: str) -> Planner:
    """The procedure of a remedy that sets options. Of several files the last by name decides, and the
    kernel's command line after all of them: kmod, libkmod-config.c."""

    def procedure(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
        del choices
        given = arguments(node, options)
        yield WriteFile(
            path=f"/etc/modprobe.d/zz-gdrkit-{remedy}.conf",
            content=file_contents.modprobe_options(DRIVER, given),
            why=why,
        )
        lines = if_missing((), lambda: configuration(node).options_of(DRIVER))
        for line in lines:
            names = {word.name for word in split_arguments(line.value)}
            if line.file == "proc/cmdline" and names & given.keys():
                yield AskPerson(what=f"remove {DRIVER}.{line.value} from the kernel's command line")
        yield from refresh_if_there(node, platform, "it may contain the driver and its options")

    return procedure
