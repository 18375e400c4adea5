"""The driver makes IMEX channel 0 whenever it is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.facts.driver import driver_parameters
from gdrkit.node import Node, Supposition
from gdrkit.programs.mnnvl.facts import imex_channels
from gdrkit.repair.platforms.change import Change
from gdrkit.repair.platforms.driver_options import loaded_with, set_options
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.rules.capabilities import Path
from gdrkit.rules.remedy_names import RemedyName

IMEX_CHANNEL = "CreateImexChannel0"


def _options(node: Node) -> Mapping[str, str]:
    del node
    return {IMEX_CHANNEL: "1"}


def _effect(node: Node) -> Iterable[Supposition]:
    """With a count of 0, the driver makes no channel: nv-caps-imex.c, nv_caps_imex_init()."""
    if driver_parameters(node).get("ImexChannelCount") == "0":
        ask = "grep ImexChannelCount /proc/driver/nvidia/params"
        raise EvidenceMissing(Missing("IMEX channels of the driver", MissingReason.ABSENT, ask))
    yield from loaded_with(_options)(node)
    yield imex_channels.becomes((0,))


CREATE_IMEX_CHANNEL = Remedy(
    name=RemedyName.CREATE_IMEX_CHANNEL,
    title="make IMEX channel 0 whenever the driver is loaded: NVreg_CreateImexChannel0=1",
    effect=_effect,
    changes=Change.OPTION,
    becomes="/dev/nvidia-caps-imex-channels has channel0",
    risk="every user of this host may open channel 0: jobs of several users in one IMEX domain are not "
    "separated",
    undo="remove the option from /etc/modprobe.d and reboot",
    needs_reboot=True,
    paths=(Path.NVLINK,),
    procedure=set_options(
        RemedyName.CREATE_IMEX_CHANNEL, _options, "the driver makes /dev/nvidia-caps-imex-channels/channel0"
    ),
    driver_options=_options,
)
