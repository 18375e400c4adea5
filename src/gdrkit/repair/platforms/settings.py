"""Settings that turn a direct path off."""

from __future__ import annotations

from gdrkit.facts.environment import Setting, integer

_OFF = {
    "NCCL_DMABUF_ENABLE": 0,
    "OFI_NCCL_DISABLE_DMABUF": 1,
    "NCCL_IB_DISABLE": 1,
    "NCCL_NET_GDR_READ": 0,
}
"""Settings and the value that turns a path off; the rules of their codes name the sources."""


def turns_off(setting: Setting) -> bool:
    """Whether a line of /etc/nccl.conf keeps NCCL from RDMA, or from one direct path."""
    if setting.name == "NCCL_NET":
        return setting.value.lower() == "socket"
    return setting.name in _OFF and integer(setting.value) == _OFF[setting.name]
