"""Query ports and GIDs of each RDMA device, register host memory, test for dma-buf support, and print the
results as JSON.

The script needs only Python 3.8 and its standard library. It registers one page of host memory and frees it.
It needs no GPU: it offers a dma-buf with the file descriptor -1, and the errno shows whether the call is
supported. EBADF (9): by kernel and provider; EOPNOTSUPP (95) or EPROTONOSUPPORT (93): not.

Sources: man ibv_reg_mr(3); NCCL src/transport/net_ib offers a dma-buf in the same way.
"""

from __future__ import annotations

import ctypes
import json
import sys
from typing import Any, Dict, List

from ..native.library import complaint
from ..native.verbs import GID_BYTES, LIBRARY, REMOTE_ACCESS, VerbsStruct, load
from .record import Calls

SCHEMA = "gdrkit.probe.verbs/1"
DEVICES_LIMIT = 1024  # with virtual functions; each takes a few milliseconds
GIDS_LIMIT = 32  # a table has up to 255 entries, of which the first few are used

PAGE_BYTES = 4096
PORT_FIELDS = ("state", "active_mtu", "gid_tbl_len", "lid", "link_layer")
"""Numbers as libibverbs gives them: state 4 is active, active_mtu 5 means 4096, link_layer 2 is Ethernet."""


class VerbsCalls(Calls):
    """The calls, in order, with the errno of those that failed."""

    def checked(self, call: str, argument: str, device: str, failed: bool, value: Any = None) -> None:
        """Record a call that sets errno if it fails."""
        self.add(call, argument, device, ctypes.get_errno() if failed else 0, value)

    def answered(self, call: str, argument: str, device: str, returned: int) -> bool:
        """Record a call that returns 0, an errno, or -1 with errno set; returns whether it succeeded."""
        errno = 0 if returned == 0 else returned if returned > 0 else ctypes.get_errno() or -1
        self.add(call, argument, device, errno)
        return errno == 0


def ask(verbs: Any) -> List[Dict[str, Any]]:
    """Every call of the probe, with its errno."""
    calls = VerbsCalls()
    count = ctypes.c_int(0)
    ctypes.set_errno(0)
    devices = verbs.ibv_get_device_list(ctypes.byref(count))
    calls.checked("ibv_get_device_list", "", "", not devices, count.value if devices else None)
    if not devices:
        return calls.made
    for index in range(min(count.value, DEVICES_LIMIT)):
        ask_device(verbs, devices[index], calls)
    verbs.ibv_free_device_list(devices)
    return calls.made


def ask_device(verbs: Any, device: Any, calls: VerbsCalls) -> None:
    """Query one device: its ports, a page of host memory, and an invalid dma-buf."""
    name = (verbs.ibv_get_device_name(device) or b"?").decode("utf-8", "replace")
    ctypes.set_errno(0)
    context = verbs.ibv_open_device(device)
    calls.checked("ibv_open_device", "", name, not context)
    if not context:
        return
    ask_ports(verbs, context, name, calls)
    ctypes.set_errno(0)
    domain = verbs.ibv_alloc_pd(context)
    calls.checked("ibv_alloc_pd", "", name, not domain)
    if domain:
        ask_host_memory(verbs, domain, name, calls)
        if hasattr(verbs, "ibv_reg_dmabuf_mr"):
            ctypes.set_errno(0)
            region = verbs.ibv_reg_dmabuf_mr(domain, 0, 0, 0, -1, 0)
            calls.checked("ibv_reg_dmabuf_mr", "fd=-1", name, not region)
        verbs.ibv_dealloc_pd(domain)
    verbs.ibv_close_device(context)


def ask_host_memory(verbs: Any, domain: Any, name: str, calls: VerbsCalls) -> None:
    """Register and free one page: shows whether the locked-memory limit and the device allow it."""
    page = ctypes.create_string_buffer(PAGE_BYTES)
    ctypes.set_errno(0)
    region = verbs.ibv_reg_mr(domain, ctypes.addressof(page), PAGE_BYTES, REMOTE_ACCESS)
    calls.checked("ibv_reg_mr", "host", name, not region)
    if region:
        verbs.ibv_dereg_mr(region)


def ask_ports(verbs: Any, context: Any, name: str, calls: VerbsCalls) -> None:
    """Query every port's attributes and GIDs. These functions return the errno, or -1 with errno set."""
    attributes = VerbsStruct("ibv_device_attr")
    if calls.answered("ibv_query_device", "", name, verbs.ibv_query_device(context, attributes.address)):
        ports = attributes["phys_port_cnt"]
        calls.made[-1]["value"] = ports
        for port in range(1, ports + 1):
            ask_port(verbs, context, name, port, calls)


def ask_port(verbs: Any, context: Any, name: str, port: int, calls: VerbsCalls) -> None:
    attributes = VerbsStruct("ibv_port_attr")
    if not calls.answered(
        "ibv_query_port", str(port), name, verbs.ibv_query_port(context, port, attributes.address)
    ):
        return
    values = {field: attributes[field] for field in PORT_FIELDS}
    calls.made[-1]["value"] = " ".join(f"{field}={value}" for field, value in values.items())
    for index in range(min(values["gid_tbl_len"], GIDS_LIMIT)):
        raw = ctypes.create_string_buffer(GID_BYTES)
        if not calls.answered(
            "ibv_query_gid", f"{port} {index}", name, verbs.ibv_query_gid(context, port, index, raw)
        ):
            return
        if any(raw.raw):
            digits = raw.raw.hex()
            calls.made[-1]["value"] = ":".join(digits[at : at + 4] for at in range(0, 32, 4))
        else:
            calls.made.pop()  # an empty entry


def main() -> int:
    """Print the results and return 0, even without libibverbs: the JSON then has an error."""
    report: Dict[str, Any] = {"schema": SCHEMA, "library": None, "error": "", "calls": []}
    try:
        verbs = load()
        report["library"] = LIBRARY
        report["calls"] = ask(verbs)
    except (OSError, AttributeError) as error:
        report["error"] = f"no libibverbs: {complaint(error)}"
    json.dump(report, sys.stdout)
    sys.stdout.write("\n")
    return 0
