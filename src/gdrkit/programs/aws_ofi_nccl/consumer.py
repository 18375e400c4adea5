"""aws-ofi-nccl: NCCL's network plugin for libfabric, on Amazon's EFA devices.

EFA has two ways to GPU memory: dma-buf, and the pages that its own module efa pins, without nvidia-peermem.
"""

from __future__ import annotations

from gdrkit.formats.versions import numbers
from gdrkit.formats.whole_number import integer
from gdrkit.programs.aws_ofi_nccl.facts import plugin_copies
from gdrkit.programs.consumer import Consumer, PathSupport, Switch
from gdrkit.rules.capabilities import Path

DIRECT = (Path.DMABUF, Path.EFA_P2P)
FIRST_WITH_DMABUF = (1, 13)
SWITCH = "OFI_NCCL_DISABLE_DMABUF"
OFF_BY_DEFAULT = ("1.13.2", "1.14.0", "1.14.1")
"""Releases whose default for the switch is 1: include/nccl_ofi_param.h at each tag from v1.13.0 on."""
NOT_ON_OLD_DEVICES = ((1, 14, 2), (1, 19, 2))
OLD_DEVICES = ("0xefa0", "0xefa1", "0xefa2")
"""From the first release up to the second, which removed it, these generations of EFA get no dma-buf, and no
setting changes that: src/nccl_ofi_net.cpp, later src/nccl_ofi_dmabuf.cpp, at each tag; commit 0f285d56."""


def without_dmabuf(version: str, device_id: str, setting: str | None) -> str:
    """Why a release does not use dma-buf with a device of this id; "" if it does."""
    release = numbers(version)
    if release < FIRST_WITH_DMABUF:
        return "has no dma-buf"
    if setting is None and version in OFF_BY_DEFAULT:
        return f"has {SWITCH}=1 by default"
    first, removed = NOT_ON_OLD_DEVICES
    if first <= release < removed and device_id in OLD_DEVICES:
        return f"does not use dma-buf with EFA of device id {device_id}"
    return ""


def _is_on(value: str) -> bool:
    """Whether a value counts as true: from 1.17.0 on a word too; before, any number that is not 0.
    include/nccl_ofi_param_impl.h at v1.21.1."""
    return value.strip().lower() == "true" or integer(value) not in (None, 0)


AWS_OFI_NCCL = Consumer(
    name="aws-ofi-nccl",
    title="aws-ofi-nccl",
    copies=plugin_copies,
    assumed="1.19.2 or newer",
    without="stops on instances that must have it, such as p4d, p5 and p6, so that NCCL uses TCP or stops;"
    " on others it copies through host memory without a message",
    mapped=r"ofi-nccl/.*libnccl-net|/libnccl-net-ofi\.",
    uses=(PathSupport(path=Path.DMABUF, since=FIRST_WITH_DMABUF), PathSupport(path=Path.EFA_P2P)),
    switches=(
        Switch(
            name=SWITCH,
            closes=(Path.DMABUF,),
            off=_is_on,
            source="aws-ofi-nccl src/nccl_ofi_dmabuf.cpp",
        ),
    ),
)
