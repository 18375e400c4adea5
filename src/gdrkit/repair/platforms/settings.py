"""Settings of NCCL and its plugin that turn off a direct path."""

from __future__ import annotations

from gdrkit.programs.aws_ofi_nccl.consumer import AWS_OFI_NCCL
from gdrkit.programs.environment import ProgramSetting
from gdrkit.programs.mnnvl.consumer import MNNVL
from gdrkit.programs.nccl.consumer import NCCL

_SWITCHES = {switch.name: switch for switch in (*NCCL.switches, *MNNVL.switches, *AWS_OFI_NCCL.switches)}


def disables_direct_path(setting: ProgramSetting) -> bool:
    """Whether a line of /etc/nccl.conf keeps NCCL from RDMA, from one direct path, or from MNNVL.

    NCCL puts each line into its environment, where its plugin reads it: NVIDIA/nccl src/misc/param.cc."""
    switch = _SWITCHES.get(setting.name)
    return switch is not None and switch.off(setting.value)
