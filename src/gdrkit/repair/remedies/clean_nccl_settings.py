"""/etc/nccl.conf does not turn a direct path off."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.node import Node, Supposition
from gdrkit.programs.aws_ofi_nccl.consumer import AWS_OFI_NCCL
from gdrkit.programs.environment import NCCL_CONF, ProgramSetting, environment
from gdrkit.programs.mnnvl.consumer import MNNVL
from gdrkit.programs.nccl.consumer import NCCL
from gdrkit.programs.nccl.settings import gdr_level
from gdrkit.repair.platforms.action import Action, AskPerson
from gdrkit.repair.platforms.change import Change
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.edits import without_lines
from gdrkit.repair.platforms.platform import Platform
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.rules.capabilities import OF_ITS_OWN
from gdrkit.rules.remedy_names import RemedyName

_SWITCHES = {switch.name: switch for switch in (*NCCL.switches, *MNNVL.switches, *AWS_OFI_NCCL.switches)}


def disables_direct_path(setting: ProgramSetting) -> bool:
    """Whether a line of /etc/nccl.conf keeps NCCL from RDMA, from one direct path, or from MNNVL. A level is
    one if it allows no distance; any other may be right for pairs that are far apart.

    NCCL puts each line into its environment, where its plugin reads it: NVIDIA/nccl src/misc/param.cc."""
    if setting.name == "NCCL_NET_GDR_LEVEL":
        return gdr_level(setting.value, "") == "LOC"
    switch = _SWITCHES.get(setting.name)
    return switch is not None and switch.off(setting.value)


def _effect(node: Node) -> Iterable[Supposition]:
    """Only /etc/nccl.conf changes; settings of users and jobs are not touched."""
    found = environment(node, NCCL_CONF)
    kept = tuple(setting for setting in found.settings if not disables_direct_path(setting))
    if kept == found.settings:
        raise EvidenceMissing(Missing(NCCL_CONF, MissingReason.UNDECIDED, f"cat /{NCCL_CONF}"))
    yield environment.becomes(replace(found, settings=kept), NCCL_CONF)


def _procedure(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Comment out lines of /etc/nccl.conf that turn off a direct path. Jobs' settings stay."""
    del platform, choices
    lines = [
        setting.line for setting in environment(node, NCCL_CONF).settings if disables_direct_path(setting)
    ]
    if lines:
        yield without_lines(node, NCCL_CONF, lines, "/etc", "comment out what turns off the direct path")
    else:
        yield AskPerson(what="remove the setting that the finding names from the job's environment")


CLEAN_NCCL_SETTINGS = Remedy(
    name=RemedyName.CLEAN_NCCL_SETTINGS,
    title="remove the settings from /etc/nccl.conf that turn the direct path off",
    effect=_effect,
    changes=Change.JOB,
    becomes="/etc/nccl.conf does not turn a direct path off",
    risk="the settings may be intentional; the finding names the lines",
    undo="restore the lines",
    paths=OF_ITS_OWN,
    procedure=_procedure,
)
