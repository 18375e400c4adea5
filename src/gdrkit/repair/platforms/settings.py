"""NCCL settings that turn off a direct path."""

from __future__ import annotations

from gdrkit.facts.environment import Setting, integer

_OFF = {
    "NCCL_DMABUF_ENABLE": 0,
    "OFI_NCCL_DISABLE_DMABUF": 1,
    "NCCL_IB_DISABLE": 1,
    "NCCL_NET_GDR_READ": 0,
}
"""The value of each setting that turns off a path. Sources: the rules for these settings."""


def disables_direct_path(setting: Setting) -> bool:
    """Whether a line of /etc/nccl.conf keeps NCCL from RDMA, or from one direct path."""
    if setting.name == "NCCL_NET":
        return setting.value.lower() == "socket"
    return setting.name in _OFF and integer(setting.value) == _OFF[setting.name]
