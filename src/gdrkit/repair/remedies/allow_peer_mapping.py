"""Programs of any user may map the doorbells of NICs into a GPU."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.facts.driver import PEER_MAPPING, driver_parameters
from gdrkit.facts.driver_files import DRIVER
from gdrkit.facts.modprobe_config import configuration
from gdrkit.facts.module_arguments import split_arguments
from gdrkit.node import Node, if_missing
from gdrkit.repair.platforms.change import Change
from gdrkit.repair.platforms.driver_options import PREFIX, loaded_with, set_options
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.rules.capabilities import Path
from gdrkit.rules.remedy_names import RemedyName

DWORDS = "RegistryDwords"
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


def _options(node: Node) -> Mapping[str, str]:
    return {"EnableStreamMemOPs": "1", DWORDS: dwords_with_peer_mapping(node)}


ALLOW_PEER_MAPPING = Remedy(
    name=RemedyName.ALLOW_PEER_MAPPING,
    title="let GPUs ring the doorbells of NICs: PeerMappingOverride=1",
    effect=loaded_with(_options),
    changes=Change.OPTION,
    becomes="programs of any user may map a NIC's doorbell page into the GPU",
    risk="programs without CAP_SYS_ADMIN may then map memory of other devices into the GPU; not for hosts "
    "with users that are not trusted",
    undo="remove the option from /etc/modprobe.d and reboot",
    needs_reboot=True,
    paths=(Path.GPU_INITIATED,),
    procedure=set_options(
        RemedyName.ALLOW_PEER_MAPPING, _options, "the driver lets a GPU map the NIC's doorbell for any user"
    ),
    driver_options=_options,
)
