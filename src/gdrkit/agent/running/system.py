"""What the node as a whole tells: dma-bufs, nvidia-peermem, GPUs, RDMA devices and the bytes of their ports.

Sources: Linux drivers/dma-buf/dma-buf.c, dma_buf_debug_show(); drivers/infiniband/core/uverbs_main.c,
ibdev_show(); Documentation/ABI/stable/sysfs-class-infiniband: port_xmit_data counts 32-bit words.
"""

from __future__ import annotations

import errno
import os
import re
import time
from typing import Dict, List

from .children import Emit
from .files import names_in, text_of

BUFINFO = "sys/kernel/debug/dma_buf/bufinfo"
BUFINFO_BYTES = 8 << 20
"""A buffer takes 150 bytes; NCCL on 8 GPUs makes some thousands."""
_PEERMEM = ("nvidia_peermem", "nv_peer_mem")
"""Each region is a reference on its module: nvidia-peermem.c and its predecessor's nv_peer_mem.c,
nv_mem_acquire()."""
_PEERS = "sys/kernel/mm/memory_peers"
_DEVICES = "sys/class/infiniband"
_VERBS = "sys/class/infiniband_verbs"
_WORD_BYTES = 4
_NAMES = 256
"""Most devices, GPUs and ports that are looked at."""


def read_buffers(emit: Emit, root: str = "/") -> None:
    """Emit the kernel's table of dma-bufs. It takes the lock of each buffer, so it is a separate source.
    Raises OSError."""
    with open(root + BUFINFO, "rb") as stream:
        text = stream.read(BUFINFO_BYTES)
    emit({"text": text.decode("utf-8", "replace"), "truncated": len(text) == BUFINFO_BYTES})


def read_node(emit: Emit, root: str = "/") -> None:
    """Emit nvidia-peermem, the GPUs and the RDMA devices of a node."""
    for module in _PEERMEM:
        folder = "%ssys/module/%s" % (root, module)
        if _names(folder):
            emit({"peer_module": module, "peermem_references": _number(text_of(folder + "/refcnt"))})
    for client in _names(root + _PEERS):
        counts = {
            name: _number(text_of("%s%s/%s/%s" % (root, _PEERS, client, name)))
            for name in _names("%s%s/%s" % (root, _PEERS, client))
            if name.startswith("num_")
        }
        emit({"peer_client": client, "counts": {name: n for name, n in counts.items() if n is not None}})
    for address in _names(root + "proc/driver/nvidia/gpus"):
        text = text_of("%sproc/driver/nvidia/gpus/%s/information" % (root, address))
        found = re.search(r"^Device Minor:[ \t]*(\d{1,4})$", text, re.MULTILINE)
        model = re.search(r"^Model:[ \t]*(.{1,80})$", text, re.MULTILINE)
        emit({
            "gpu": address.lower(), "minor": int(found[1]) if found else None,
            "model": model[1].strip() if model else "",
            "device_id": text_of("%ssys/bus/pci/devices/%s/device" % (root, address.lower()))[2:6],
        })  # fmt: skip
    for name in _names(root + _VERBS):
        if name.startswith("uverbs"):
            emit({"uverbs": name, "device": text_of("%s%s/%s/ibdev" % (root, _VERBS, name))})
    for device in _names(root + _DEVICES):
        emit({"rdma_device": device, "address": _address("%s%s/%s/device" % (root, _DEVICES, device))})


def lockdown() -> str:
    """The modes of lockdown, with the one in force in brackets; empty if the kernel has none."""
    return text_of("/sys/kernel/security/lockdown")


def refuse_confidential() -> None:
    """Raise PermissionError where the kernel is locked down to confidentiality: a try would be a line in its
    log."""
    if "[confidentiality]" in lockdown():
        raise PermissionError(errno.EPERM, "the kernel is locked down to confidentiality")


def read_ports(emit: Emit, interval_s: float, root: str = "/") -> None:
    """Emit what each port moved in the interval, in bytes; a port without counters is left out."""
    before = _ports(root)
    if not before:
        return
    began = time.monotonic()
    time.sleep(interval_s)
    after = _ports(root)
    seconds = round(time.monotonic() - began, 4)
    for (device, port), (sent, received) in sorted(after.items()):
        old = before.get((device, port))
        if old is not None:
            emit({
                "device": device, "port": port, "sent": max(0, sent - old[0]) * _WORD_BYTES,
                "received": max(0, received - old[1]) * _WORD_BYTES, "seconds": seconds,
            })  # fmt: skip


def _ports(root: str) -> "Dict[tuple[str, str], tuple[int, int]]":
    found = {}
    for device in _names(root + _DEVICES):
        for port in _names("%s%s/%s/ports" % (root, _DEVICES, device)):
            folder = "%s%s/%s/ports/%s/counters/" % (root, _DEVICES, device, port)
            sent, received = (
                _number(text_of(folder + name)) for name in ("port_xmit_data", "port_rcv_data")
            )
            if sent is not None and received is not None:
                found[device, port] = (sent, received)
    return found


def _address(link: str) -> str:
    """The PCI address of a device; empty if it is not on a PCI bus."""
    name = os.path.basename(os.path.realpath(link))
    return name if re.fullmatch(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", name) else ""


def _names(folder: str) -> List[str]:
    return names_in(folder)[:_NAMES]


def _number(text: str) -> "int | None":
    return int(text) if text.isascii() and text.isdigit() and len(text) < 21 else None
