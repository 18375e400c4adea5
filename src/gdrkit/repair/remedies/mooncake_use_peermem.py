"""Mooncake registers GPU memory by its address, through nvidia-peermem."""

from __future__ import annotations

from gdrkit.programs.mooncake.consumer import SWITCH
from gdrkit.repair.platforms.change import Change
from gdrkit.repair.platforms.mooncake_switch import registers_by, set_switch
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.rules.capabilities import Path
from gdrkit.rules.remedy_names import RemedyName

MOONCAKE_USE_PEERMEM = Remedy(
    name=RemedyName.MOONCAKE_USE_PEERMEM,
    title=f"set {SWITCH}=1 for the jobs of Mooncake",
    effect=registers_by(Path.PEERMEM),
    changes=Change.JOB,
    becomes="Mooncake registers GPU memory by its address, through nvidia-peermem",
    risk="it does not use dma-buf any more",
    undo="remove the variable",
    needs_root=False,
    paths=(Path.PEERMEM,),
    procedure=set_switch(Path.PEERMEM),
)
