"""Options of the NVIDIA driver, which a file in modprobe.d sets from the next time on that it is loaded."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.facts.driver import DRIVER, PEER_MAPPING, driver_parameters
from gdrkit.facts.modprobe_config import configuration
from gdrkit.facts.module_arguments import split_arguments
from gdrkit.node import Node, if_missing
from gdrkit.rules.remedy_names import RemedyName

PREFIX = "NVreg_"
DWORDS = "RegistryDwords"
TOPOLOGY_CHECK = "GrdmaPciTopoCheckOverride"
IMEX_CHANNEL = "CreateImexChannel0"
_KEY = r"\w{1,80}=(?:0[xX])?[0-9a-fA-F]{1,10}"  # compiled where it is needed: `gdr doctor` imports this


def dwords_with_peer_mapping(node: Node) -> str:
    """The value of RegistryDwords with PeerMappingOverride=1: the parameter is one string, so that another
    line which sets it would take the keys away that are set already.

    Raises EvidenceMissing for a value that is not `Name=number;` and so on."""
    given = _configured(node).get(DWORDS, if_missing({}, driver_parameters, node).get(DWORDS, ""))
    keys = [key for key in given.replace(" ", "").split(";") if key]
    if not all(re.fullmatch(_KEY, key, re.ASCII) for key in keys):
        ask = f"grep {DWORDS} /proc/driver/nvidia/params"
        raise EvidenceMissing(Missing(DWORDS, MissingReason.GARBLED, ask))
    kept = (key for key in keys if key.partition("=")[0] != PEER_MAPPING)
    return "".join(f"{key};" for key in (*kept, f"{PEER_MAPPING}=1"))


def _configured(node: Node) -> dict[str, str]:
    """The driver's parameters that modprobe.d and the kernel's command line set, without their prefix."""
    text = if_missing("", lambda: configuration(node).arguments_of(DRIVER))
    return {word.name.removeprefix(PREFIX): word.shown for word in split_arguments(text)}


OPTIONS: Mapping[RemedyName, Callable[[Node], Mapping[str, str]]] = {
    RemedyName.OVERRIDE_TOPOLOGY_CHECK: lambda node: {TOPOLOGY_CHECK: "1"},
    RemedyName.ALLOW_PEER_MAPPING: lambda node: {
        "EnableStreamMemOPs": "1",
        DWORDS: dwords_with_peer_mapping(node),
    },
    RemedyName.CREATE_IMEX_CHANNEL: lambda node: {IMEX_CHANNEL: "1"},
}
"""The parameters that a remedy sets, without their prefix."""


def arguments(node: Node, remedy: RemedyName) -> dict[str, str]:
    """The parameters of a remedy as modprobe.d has them: a string with semicolons is quoted."""
    values = OPTIONS[remedy](node)
    return {f"{PREFIX}{name}": f'"{value}"' if ";" in value else value for name, value in values.items()}
