"""Reads the counters that a proof uses: NVML for GPUs, TCP, the NIC, and memory registrations."""

from __future__ import annotations

import os
from typing import NamedTuple

from gdrkit.agent.native.nvml import (
    ALL_LINKS,
    NVLINK_DATA_RX,
    NVLINK_DATA_TX,
    PCIE_RX_BYTES,
    PCIE_TX_BYTES,
    PCIE_WRAPS_AT,
)
from gdrkit.transport.measure.counters_process import NvmlProcess

KIB = 1024
WORD_BYTES = 4
"""port_xmit_data counts 32-bit words: Linux Documentation/ABI/stable/sysfs-class-infiniband."""
_PEERMEM = "sys/module/nvidia_peermem/refcnt"
_PEERS = "sys/kernel/mm/memory_peers"
_BUFINFO = "sys/kernel/debug/dma_buf/bufinfo"
_DEVICES = "sys/class/infiniband"
_REGISTRATIONS = ("num_alloc_mrs", "num_reg_mrs")


class CounterValue(NamedTuple):
    """A counter's current value, or None and the reason. `wraps_at` 0: it does not wrap."""

    value: int | None
    unreadable: str = ""
    wraps_at: int = 0


class Counters:
    """The counters around a transfer between two GPUs; a GPU is None for host memory or a GPU of another
    node.

    GPUs are PCI addresses, the RDMA device is a name (mlx5_0, or mlx5_0:2 for its second port). `root`
    contains sys and proc. Close it: it has a separate process for NVML.
    """

    def __init__(
        self, source: str | None, destination: str | None, device: str | None, root: str = "/"
    ) -> None:
        self._source, self._destination, self._device, self._root = source, destination, device, root
        self._nvml = NvmlProcess() if source or destination else None

    def read(self) -> dict[str, CounterValue]:
        """Every counter by its name in gdrkit.transport.proof.evidence."""
        return {**self._gpus(), **self._interfaces(), "nic": self._nic(), **self.held()}

    def held(self) -> dict[str, CounterValue]:
        """The current number of registrations. Also read it before memory is registered."""
        return {
            "peermem-references": self._number(_PEERMEM, "nvidia-peermem is not loaded"),
            "memory-peer-registrations": self._registrations(),
            "dmabuf-attachments": self._attachments(),
        }

    def close(self) -> None:
        if self._nvml:
            self._nvml.close()

    def _gpus(self) -> dict[str, CounterValue]:
        fields = {
            "nvlink-out": (self._source, NVLINK_DATA_TX, ALL_LINKS),
            "nvlink-in": (self._destination, NVLINK_DATA_RX, ALL_LINKS),
            "pcie-out": (self._source, PCIE_TX_BYTES, 0),
            "pcie-in": (self._destination, PCIE_RX_BYTES, 0),
        }
        found = {}
        for name, (gpu, field, scope) in fields.items():
            if gpu is None or self._nvml is None:
                found[name] = CounterValue(None, "no GPU of this node at this end")
                continue
            value, why = self._nvml.ask(gpu, field, scope)
            if value is None:
                found[name] = CounterValue(None, why)
            elif name.startswith("nvlink"):
                found[name] = CounterValue(value * KIB)
            else:
                found[name] = CounterValue(value, "", PCIE_WRAPS_AT)
        return found

    def _interfaces(self) -> dict[str, CounterValue]:
        """Bytes sent, on loopback and on all other interfaces together (proc_pid_net(5), /proc/net/dev)."""
        try:
            with open(os.path.join(self._root, "proc/net/dev"), encoding="ascii") as file:
                rows = [line.split(":", 1) for line in file if ":" in line]
        except OSError as error:
            unread = CounterValue(None, f"/proc/net/dev: {error.strerror}")
            return {"loopback": unread, "network": unread}
        sent = {row[0].strip(): int(row[1].split()[8]) for row in rows}
        loopback = sent.pop("lo", None)
        return {
            "loopback": CounterValue(loopback, "" if loopback is not None else "no interface lo"),
            "network": CounterValue(sum(sent.values())),
        }

    def _nic(self) -> CounterValue:
        if self._device is None:
            return CounterValue(None, "no RDMA device")
        name, _, port = self._device.partition(":")
        path = f"{_DEVICES}/{name}/ports/{port or '1'}/counters/port_xmit_data"
        found = self._number(path, f"{name} has no byte counter")
        return found if found.value is None else CounterValue(found.value * WORD_BYTES)

    def _nic_address(self) -> str:
        """The NIC's PCI address; another word for a device without one."""
        name = (self._device or "").partition(":")[0]
        return os.path.basename(os.path.realpath(os.path.join(self._root, f"{_DEVICES}/{name}/device")))

    def _registrations(self) -> CounterValue:
        """The number of registrations made so far with clients of the peer-memory API."""
        try:
            clients = sorted(os.listdir(os.path.join(self._root, _PEERS)))
        except OSError as error:
            return CounterValue(None, f"/{_PEERS}: {error.strerror}")
        total, seen = 0, False
        for client in clients:
            for name in _REGISTRATIONS:
                found = self._number(f"{_PEERS}/{client}/{name}", "")
                if found.value is not None:
                    total, seen = total + found.value, True
                    break
        return CounterValue(total) if seen else CounterValue(None, f"/{_PEERS}: no registration counter")

    def _attachments(self) -> CounterValue:
        """Attachments to buffers of NVIDIA's module. Unknown if the NIC holds only buffers of others: its
        exporter may have a new name."""
        from gdrkit.facts.usage import EXPORTERS, parse_attachments
        from gdrkit.formats.errors import FormatError

        try:
            with open(os.path.join(self._root, _BUFINFO), encoding="utf-8", errors="replace") as file:
                attached = parse_attachments(file.read())
        except OSError as error:
            return CounterValue(None, f"/{_BUFINFO}: {error.strerror}")
        except FormatError as error:
            return CounterValue(None, f"/{_BUFINFO}: {error}")
        ours = sum(attached[name].total() for name in EXPORTERS if name in attached)
        others = [name for name, nics in attached.items() if self._nic_address() in nics]
        if others and not ours:
            return CounterValue(None, f"/{_BUFINFO}: {self._device} holds buffers of {', '.join(others)}")
        return CounterValue(ours)

    def _number(self, path: str, absent: str) -> CounterValue:
        try:
            with open(os.path.join(self._root, path), encoding="ascii") as file:
                return CounterValue(int(file.read()))
        except FileNotFoundError:
            return CounterValue(None, absent or f"/{path}: no such file")
        except (OSError, ValueError) as error:
            return CounterValue(None, f"/{path}: {error}")
