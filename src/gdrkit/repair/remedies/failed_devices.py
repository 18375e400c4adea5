"""Devices that failed, after a step: whether they work again is known only after a step, so none of the
remedies for them promises it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gdrkit.evidence import Missing, MissingReason
from gdrkit.evidence.quoting import quoted
from gdrkit.facts.gpu_recovery import recovery
from gdrkit.facts.nic_health import nic_fault
from gdrkit.facts.nvswitch import fabric_fault
from gdrkit.facts.pci import PciGpu, gpus
from gdrkit.facts.unused_nics import judged_addresses
from gdrkit.node import Node, Supposition, if_missing


def stale(what: str, ask: str) -> Missing:
    """An answer that a step made uncertain."""
    return Missing(what, MissingReason.STALE, ask)


def fabrics(node: Node) -> Iterator[Supposition]:
    """Of the GPUs whose NVLink fabric is not complete."""
    for gpu in gpus(node):
        if if_missing("", fabric_fault, node, gpu):
            ask = f"nvidia-smi -q -i {quoted(gpu.address)}"
            yield fabric_fault.becomes(stale(f"NVLink fabric of {gpu.address}", ask), gpu)


def recovered(node: Node, some: Iterable[PciGpu]) -> Iterator[Supposition]:
    """Of some GPUs that need a recovery."""
    for gpu in some:
        ask = f"nvidia-smi -q -i {quoted(gpu.address)}"
        yield recovery.becomes(stale(f"whether {gpu.address} works again", ask), gpu.address)


def failed_nics(node: Node) -> Iterator[Supposition]:
    """Of the NICs whose firmware failed."""
    for address in judged_addresses(node):
        if if_missing("", nic_fault, node, address):
            yield nic_fault.becomes(stale(f"whether {address} works again", "sudo dmesg"), address)
