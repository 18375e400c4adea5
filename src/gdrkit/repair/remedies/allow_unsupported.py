"""modprobe of SUSE loads modules that are not marked as supported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.facts.modprobe_config import configuration
from gdrkit.facts.suse_modules import refusing_unsupported
from gdrkit.node import Node, Supposition
from gdrkit.repair.platforms import file_contents
from gdrkit.repair.platforms.action import Action, WriteFile
from gdrkit.repair.platforms.change import Change
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.platform import Platform
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.rules.remedy_names import RemedyName

FILE = "/etc/modprobe.d/10-unsupported-modules.conf"
"""SUSE's own name: a file in /etc hides the one in /lib/modprobe.d that has the setting."""


def _effect(node: Node) -> Iterable[Supposition]:
    if refusing_unsupported(node) is None:
        ask = "modprobe -c | grep allow_unsupported_modules"
        raise EvidenceMissing(Missing("allow_unsupported_modules 0", MissingReason.ABSENT, ask))
    yield configuration.becomes(replace(configuration(node), allow_unsupported_modules=()))


def _procedure(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    del node, platform, choices
    yield WriteFile(
        path=FILE,
        content=f"{file_contents.HEAD}\nallow_unsupported_modules 1\n",
        why="modprobe loads modules without the mark of support",
    )


ALLOW_UNSUPPORTED = Remedy(
    name=RemedyName.ALLOW_UNSUPPORTED,
    title="let modprobe load modules that SUSE does not support",
    effect=_effect,
    becomes="modprobe loads modules that are not marked as supported",
    risk="SUSE may refuse support for a kernel with such modules",
    undo=f"restore {FILE}",
    changes=Change.LOADING,
    procedure=_procedure,
)
