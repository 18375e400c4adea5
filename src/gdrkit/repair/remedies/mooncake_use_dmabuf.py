"""Mooncake registers GPU memory as a dma-buf."""

from __future__ import annotations

from gdrkit.programs.mooncake.consumer import SWITCH
from gdrkit.repair.platforms.change import Change
from gdrkit.repair.platforms.mooncake_switch import registers_by, set_switch
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.rules.capabilities import Path
from gdrkit.rules.remedy_names import RemedyName

MOONCAKE_USE_DMABUF = Remedy(
    name=RemedyName.MOONCAKE_USE_DMABUF,
    title=f"set {SWITCH}=0 for the jobs of Mooncake",
    effect=registers_by(Path.DMABUF),
    changes=Change.JOB,
    becomes="Mooncake registers GPU memory as a dma-buf",
    risk="it does not use nvidia-peermem any more; memory of several physical handles, as of PyTorch's "
    "expandable segments, may be refused",
    undo="remove the variable",
    needs_root=False,
    paths=(Path.DMABUF,),
    procedure=set_switch(Path.DMABUF),
)
