"""Ask each RDMA device whether its driver takes a dma-buf, and print the answers as JSON. Runs alone.

Standard library only, Python 3.8 and later. Nothing is registered and no GPU is needed: the file descriptor
that is offered is -1, and the errno tells how far the call came. EBADF (9): kernel and provider have the
call; EOPNOTSUPP (95) or EPROTONOSUPPORT (93): they have not. Never run on a machine with an RDMA device so
far.

Sources: rdma-core libibverbs/verbs.h and man ibv_reg_mr(3); NCCL src/transport/net_ib asks in the same way.
"""

from __future__ import annotations

import ctypes
import json
import sys
from typing import Any, Dict, List, Optional

SCHEMA = "gdrkit.probe.verbs/1"
LIBRARY = "libibverbs.so.1"
DEVICES_LIMIT = 1024  # with virtual functions; a look at each takes a few milliseconds


class Calls:
    """The calls made, in order, with the errno of those that failed."""

    def __init__(self) -> None:
        self.made: List[Dict[str, Any]] = []

    def add(self, call: str, argument: str, device: str, failed: bool, value: Any = None) -> None:
        result = ctypes.get_errno() if failed else 0
        self.made.append(
            {"call": call, "argument": argument, "device": device, "result": result, "value": value}
        )


def load() -> Any:
    """libibverbs with the types of the functions that are called. Raises OSError, AttributeError."""
    verbs = ctypes.CDLL(LIBRARY, use_errno=True)
    pointer = ctypes.c_void_p
    for name, result, arguments in (
        ("ibv_get_device_list", ctypes.POINTER(pointer), [ctypes.POINTER(ctypes.c_int)]),
        ("ibv_free_device_list", None, [ctypes.POINTER(pointer)]),
        ("ibv_get_device_name", ctypes.c_char_p, [pointer]),
        ("ibv_open_device", pointer, [pointer]),
        ("ibv_close_device", ctypes.c_int, [pointer]),
        ("ibv_alloc_pd", pointer, [pointer]),
        ("ibv_dealloc_pd", ctypes.c_int, [pointer]),
    ):
        function = getattr(verbs, name)
        function.restype, function.argtypes = result, arguments
    if hasattr(verbs, "ibv_reg_dmabuf_mr"):
        number = ctypes.c_uint64
        verbs.ibv_reg_dmabuf_mr.restype = pointer
        verbs.ibv_reg_dmabuf_mr.argtypes = [
            pointer, number, ctypes.c_size_t, number, ctypes.c_int, ctypes.c_int,
        ]  # fmt: skip
    return verbs


def ask(verbs: Any) -> List[Dict[str, Any]]:
    """Every call of the probe, with the errno that came back."""
    calls = Calls()
    count = ctypes.c_int(0)
    ctypes.set_errno(0)
    devices = verbs.ibv_get_device_list(ctypes.byref(count))
    calls.add("ibv_get_device_list", "", "", not devices, count.value if devices else None)
    if not devices:
        return calls.made
    for index in range(min(count.value, DEVICES_LIMIT)):
        ask_device(verbs, devices[index], calls)
    verbs.ibv_free_device_list(devices)
    return calls.made


def ask_device(verbs: Any, device: Any, calls: Calls) -> None:
    """One device: open it, and offer it a dma-buf that is none."""
    name = (verbs.ibv_get_device_name(device) or b"?").decode("utf-8", "replace")
    ctypes.set_errno(0)
    context = verbs.ibv_open_device(device)
    calls.add("ibv_open_device", "", name, not context)
    if not context:
        return
    domain = verbs.ibv_alloc_pd(context)
    calls.add("ibv_alloc_pd", "", name, not domain)
    if domain:
        if hasattr(verbs, "ibv_reg_dmabuf_mr"):
            ctypes.set_errno(0)
            region = verbs.ibv_reg_dmabuf_mr(domain, 0, 0, 0, -1, 0)
            calls.add("ibv_reg_dmabuf_mr", "fd=-1", name, not region)
        verbs.ibv_dealloc_pd(domain)
    verbs.ibv_close_device(context)


def main() -> int:
    """Print the answers; 0 even where there is no libibverbs, which the JSON then says."""
    report: Dict[str, Any] = {"schema": SCHEMA, "library": None, "error": "", "calls": []}
    error: Optional[Exception] = None
    try:
        verbs = load()
        report["library"] = LIBRARY
        report["calls"] = ask(verbs)
    except (OSError, AttributeError) as problem:
        error = problem
    if error is not None:
        # The linker's words for "not there" are what bundles take for a failed command; so in ours.
        words = str(error).replace("No such file or directory", "not installed")
        report["error"] = f"no libibverbs: {words}"
    json.dump(report, sys.stdout)
    sys.stdout.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
