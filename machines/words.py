"""gdrkit's words for what the truth knows: codes, names of devices and files, remedies.

With judge.py, the adapter: nothing here says what is true."""

from __future__ import annotations

import re
from collections.abc import Iterable

from machines.facts import (
    GPU_EXCLUDED,
    GPU_REFUSED,
    NEXT_WITHOUT_DRIVER,
    NIC_GIVEN_UP,
    SWITCHES_WAIT,
)
from machines.machine import Machine

CODES_OF: dict[str, tuple[str, ...]] = {
    GPU_REFUSED: ("gpu-refused-by-driver",),
    GPU_EXCLUDED: ("gpu-excluded",),
    NIC_GIVEN_UP: ("nic-failed",),
    SWITCHES_WAIT: ("nvswitch-fabric-down",),
    NEXT_WITHOUT_DRIVER: (),
}
"""gdrkit's codes for the kinds that machines/ has words of its own for; () where gdrkit has none."""
BY_NEXT_BOOT = frozenset({NEXT_WITHOUT_DRIVER})
"""Kinds that gdrkit states as its verdict after the next boot, and not as a finding of today."""
STEP_OF = {
    "load-peermem": "load nvidia-peermem",
    "load-driver": "load the driver",
    "restart-ofed": "restart OFED",
    "install-ofed": "install OFED",
    "rebuild-driver": "rebuild the driver",
    "build-driver-for-kernel": "build the driver",
    "sign-module": "sign the modules",
    "allow-module": "remove the lines of modprobe.d",
    "remove-nv-peer-mem": "remove nv_peer_mem",
    "open-kernel-modules": "install the open modules",
    "clean-nccl-settings": "remove settings",
    "upgrade-nccl": "newer NCCL",
    "upgrade-ucx": "newer UCX",
    "upgrade-nvshmem": "newer NVSHMEM",
    "upgrade-rdma-core": "newer rdma-core",
    "use-dmabuf": "do without nvidia-peermem",
    "mooncake-use-dmabuf": "Mooncake with dma-buf",
    "mooncake-use-peermem": "Mooncake with nvidia-peermem",
    "raise-memlock": "raise memlock",
    "iommu-passthrough": "iommu=pt",
    "clear-acs-redirect": "clear ACS",
    "raise-read-request": "raise read requests",
    "enlarge-bar1": "enlarge BAR1",
    "override-topology-check": "override the topology check",
    "allow-peer-mapping": "allow peer mapping",
    "persist-peermem": "load nvidia-peermem at boot",
    "give-container-devices": "give the container devices",
    "create-imex-channel": "create an IMEX channel",
    "reboot": "reboot",
    "power-cycle": "power cycle",
    "reset-gpu": "reset the GPUs",
    "reset-nic": "reset the NICs",
    "start-fabric-manager": "start Fabric Manager",
}
"""The step of remedies.py that each of gdrkit's remedies is."""

_PCI = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]")
_CALLED = (
    (re.compile(r"libnccl\.so"), "nccl"),
    (re.compile(r"libnvshmem"), "nvshmem"),
    (re.compile(r"libibverbs|^rdma-core"), "libibverbs"),
    (re.compile(r"^UCX "), "ucx"),
    (re.compile(r"[Mm]ooncake"), "mooncake"),
    (re.compile(r"^RLIMIT_MEMLOCK$"), "memlock"),
    (re.compile(r"^var/log/pods/gpu-operator"), "operator"),
    (re.compile(r"^machine\.kernel\.modules$"), "talos"),
    (re.compile(r"^dev/gdrdrv$"), "gdrdrv"),
)


def known(kinds: Iterable[str]) -> frozenset[str]:
    """gdrkit's codes for kinds of the truth."""
    return frozenset(code for kind in kinds for code in CODES_OF.get(kind, (kind,)))


def named(machine: Machine, subject: str) -> str:
    """The truth's name for a subject; the subject itself where no device, module or file has such a name."""
    addresses = {function.rdma: function.address for function in machine.functions if function.rdma}
    words = [addresses.get(word, word) for word in subject.split(" ")]
    if all(_PCI.fullmatch(word) for word in words):
        return " ".join(words)
    for pattern, name in _CALLED:
        if pattern.search(subject):
            return name
    if ".ko" in subject:
        return subject.partition(".ko")[0].replace("-", "_")
    return subject.rpartition(":")[0] if re.search(r":\d+$", subject) else " ".join(words)
