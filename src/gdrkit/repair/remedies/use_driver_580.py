"""The driver of the branch R580 replaces a newer one that does not serve an EFA."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.facts.driver import disk_driver_version, driver_parameters, driver_version
from gdrkit.formats.versions import numbers
from gdrkit.node import Node, Supposition, if_missing
from gdrkit.repair.platforms.action import Action, AskPerson
from gdrkit.repair.platforms.change import Change
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.driver_options import set_options
from gdrkit.repair.platforms.platform import Platform
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.rules.efa_mapping_refused import WITHOUT_OPTION
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.topology_refused import PARAMETER

MEASURED = "580.173.02"
"""With the option, it moved GPU memory over EFA on P6e-GB300 at 43 GB/s: NVIDIA/aicr issue 2383."""


def _options(node: Node) -> Mapping[str, str]:
    del node
    return {PARAMETER: "1"}


def _effect(node: Node) -> Iterable[Supposition]:
    if numbers(driver_version(node))[:1] < WITHOUT_OPTION:
        raise EvidenceMissing(
            Missing("a driver of R580", MissingReason.ABSENT, "the driver is older than R595")
        )
    yield driver_version.becomes(MEASURED)
    yield disk_driver_version.becomes(MEASURED)
    yield driver_parameters.becomes({**if_missing({}, driver_parameters, node), **_options(node)})


def _procedure(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Each cloud image and operator has its own way to another branch of the driver."""
    yield AskPerson(
        what=f"install the open kernel modules of the branch R580, such as {MEASURED}, with its libraries, "
        "and keep them from being upgraded"
    )
    yield from set_options(RemedyName.USE_DRIVER_580, _options, "R580 maps GPU memory for an EFA")(
        node, platform, choices
    )


USE_DRIVER_580 = Remedy(
    name=RemedyName.USE_DRIVER_580,
    title=f"go back to the driver branch R580, with NVreg_{PARAMETER}=1",
    effect=_effect,
    changes=Change.DRIVER,
    becomes="R580 maps GPU memory for the EFA; R595 has no way to do so",
    risk="jobs need a CUDA version that R580 supports; they must stop during the change",
    undo="install the former driver, remove the option, and reboot",
    needs_reboot=True,
    procedure=_procedure,
    driver_options=_options,
    drops_signatures=True,
)
