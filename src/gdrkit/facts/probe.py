"""Records of probes: calls to CUDA, verbs and the resource manager, made by child processes.

A record is JSON: {"schema": "gdrkit.probe.cuda/1", "calls": [{"call": "cuDeviceGetAttribute",
"argument": "116", "device": "0000:1b:00.0", "result": 0, "value": 1}, ...]}. `device` is a PCI address, or
CUDA's number of the device, whose address the attributes 33, 34 and 50 give; for verbs it is the device's
name, and `result` an errno. A live machine is probed only when the user asks for it.
"""

from __future__ import annotations

import re

from msgspec import Struct, field

from gdrkit.evidence import EvidenceMissing
from gdrkit.facts.commands import PROBE_CUDA, PROBE_MEMORY, PROBE_RM, PROBE_VERBS
from gdrkit.formats import json_text
from gdrkit.formats.errors import FormatError
from gdrkit.node import Node, fact

SCHEMAS = tuple(f"gdrkit.probe.{name}/1" for name in ("cuda", "verbs", "memory", "rm"))


class ProbeCall(Struct, frozen=True, kw_only=True):
    """One call that a probe made."""

    call: str
    argument: str
    subject: str  # PCI address of a GPU, or name of an RDMA device; empty for calls without a device
    returned: str  # empty where it returned only its result
    result: int = field(name="errno")  # CUresult, errno or NV_STATUS; 0 is success

    @property
    def value(self) -> int | None:
        """The returned value if it is a number; C has no longer ones."""
        return int(self.returned) if re.fullmatch(r"-?[0-9]{1,20}", self.returned) else None


class _Recorded(Struct):
    call: str
    result: int
    argument: str | int = ""
    device: str | int = ""
    value: int | str | None = None


class _Record(Struct):
    schema: str
    calls: list[_Recorded]
    error: str = ""


def complaint(text: str) -> str:
    """The error that stopped a probe before its first call; empty if there is none. Raises FormatError."""
    return _decoded(text).error


def _decoded(text: str) -> _Record:
    try:
        record = json_text.decode(text, _Record)
    except FormatError as error:
        raise FormatError(f"not a record of a probe: {error}") from None
    if record.schema not in SCHEMAS:
        raise FormatError(f"unsupported schema of a probe's record: {record.schema[:40]!r}")
    return record


def parse(text: str) -> tuple[ProbeCall, ...]:
    """The calls of a record, each with the PCI address of its GPU. Raises FormatError."""
    record = _decoded(text)
    addresses = _addresses(record.calls)
    return tuple(
        ProbeCall(
            call=c.call,
            argument=str(c.argument),
            subject=addresses.get(str(c.device), _address(c.device)),
            returned="" if c.value is None else str(c.value),
            result=c.result,
        )
        for c in record.calls
    )


def _addresses(calls: list[_Recorded]) -> dict[str, str]:
    """PCI addresses by CUDA's number of the device. Source: CUDA driver API, cuDeviceGetAttribute."""
    from gdrkit.agent.native.cuda_abi import DEVICE_ATTRIBUTES

    names = ("PCI_BUS_ID", "PCI_DEVICE_ID", "PCI_DOMAIN_ID")
    bus, slot, domain = (str(DEVICE_ATTRIBUTES[name]) for name in names)
    attributes: dict[str, dict[str, int]] = {}
    for c in calls:
        if c.call == "cuDeviceGetAttribute" and c.result == 0 and isinstance(c.value, int):
            attributes.setdefault(str(c.device), {})[str(c.argument)] = c.value
    addresses = {}
    for device, values in attributes.items():
        if device.isdigit() and values.keys() >= {bus, slot}:
            addresses[device] = f"{values.get(domain, 0):04x}:{values[bus]:02x}:{values[slot]:02x}.0"
    return addresses


def _address(device: str | int) -> str:
    """A PCI address in the form 0000:1b:00.0; any other name unchanged."""
    from gdrkit.facts.nvidia_smi import pci_address

    name = str(device)
    try:
        return pci_address(name) if name.count(":") == 2 else name
    except FormatError:
        return name


@fact
def cuda_calls(node: Node) -> tuple[ProbeCall, ...]:
    """Calls to libcuda. On a live machine, only where the user asked for a probe."""
    return parse(node.run(PROBE_CUDA))


@fact
def verbs_calls(node: Node) -> tuple[ProbeCall, ...]:
    """Calls to libibverbs."""
    return parse(node.run(PROBE_VERBS))


@fact
def memory_calls(node: Node) -> tuple[ProbeCall, ...]:
    """Calls that export GPU memory as a dma-buf and, where there is an RDMA device, register it there; for
    one GPU of each product."""
    return parse(node.run(PROBE_MEMORY))


@fact
def rm_calls(node: Node) -> tuple[ProbeCall, ...]:
    """Calls to NVIDIA's kernel module, without CUDA."""
    return parse(node.run(PROBE_RM))


@fact
def probe_calls(node: Node) -> tuple[ProbeCall, ...]:
    """The calls of all probes. Raises EvidenceMissing where no probe was run."""
    found: tuple[ProbeCall, ...] = ()
    reason: EvidenceMissing | None = None
    for ask in (cuda_calls, verbs_calls, memory_calls, rm_calls):
        try:
            found += ask(node)
        except EvidenceMissing as error:
            reason = reason or error.fresh()
    if reason is not None and not found:
        raise reason.fresh()
    return found
