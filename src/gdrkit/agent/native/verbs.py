"""libibverbs: its functions, and its structures with the field names of the header.

`verbs_abi` has their layout, which a compiler printed. Source: rdma-core, libibverbs/verbs.h.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from functools import partial
from typing import Any, Callable, Dict, Optional, Tuple

from .library import load as _load
from .verbs_abi import NUMBERS, STRUCTURES

LIBRARY = "libibverbs.so.1"
REMOTE_ACCESS = (
    NUMBERS["IBV_ACCESS_LOCAL_WRITE"]
    | NUMBERS["IBV_ACCESS_REMOTE_WRITE"]
    | NUMBERS["IBV_ACCESS_REMOTE_READ"]
)
"""Access flags for memory that both sides read and write."""
GID_BYTES = STRUCTURES["ibv_gid"][0]
_SPARE = 64  # spare bytes: newer libraries may write fields that they added at the end
_UNSIGNED = {4: struct.Struct("=I"), 8: struct.Struct("=Q")}
_POINTER, _INT, _SIZE, _BYTE = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t, ctypes.c_uint8

PROTOTYPES: Dict[str, Tuple[Any, Tuple[Any, ...]]] = {
    "ibv_get_device_list": (ctypes.POINTER(_POINTER), (_POINTER,)),
    "ibv_free_device_list": (None, (_POINTER,)),
    "ibv_get_device_name": (ctypes.c_char_p, (_POINTER,)),
    "ibv_open_device": (_POINTER, (_POINTER,)),
    "ibv_close_device": (_INT, (_POINTER,)),
    "ibv_query_device": (_INT, (_POINTER, _POINTER)),
    "ibv_query_port": (_INT, (_POINTER, _BYTE, _POINTER)),
    "ibv_query_gid": (_INT, (_POINTER, _BYTE, _INT, _POINTER)),
    "ibv_alloc_pd": (_POINTER, (_POINTER,)),
    "ibv_dealloc_pd": (_INT, (_POINTER,)),
    "ibv_reg_mr": (_POINTER, (_POINTER, _POINTER, _SIZE, _INT)),
    "ibv_reg_dmabuf_mr": (_POINTER, (_POINTER, ctypes.c_uint64, _SIZE, ctypes.c_uint64, _INT, _INT)),
    "ibv_dereg_mr": (_INT, (_POINTER,)),
    "ibv_create_cq": (_POINTER, (_POINTER, _INT, _POINTER, _POINTER, _INT)),
    "ibv_destroy_cq": (_INT, (_POINTER,)),
    "ibv_create_qp": (_POINTER, (_POINTER, _POINTER)),
    "ibv_modify_qp": (_INT, (_POINTER, _POINTER, _INT)),
    "ibv_destroy_qp": (_INT, (_POINTER,)),
    "ibv_wc_status_str": (ctypes.c_char_p, (_INT,)),
}
LATER = ("ibv_reg_dmabuf_mr",)
"""Functions since rdma-core 34, which older libraries do not have. All others are IBVERBS_1.1
(libibverbs.map.in)."""

POLL = ctypes.CFUNCTYPE(_INT, _POINTER, _INT, _POINTER)
POST = ctypes.CFUNCTYPE(_INT, _POINTER, _POINTER, _POINTER)
"""Types of ibv_poll_cq, ibv_post_send and ibv_post_recv. They are inline functions in the header, which call
through the table in the context."""


def load() -> Any:
    """libibverbs, with errno. Raises OSError if it is not installed, AttributeError if it does not have a
    required function."""
    library, _ = _load((LIBRARY,), PROTOTYPES, partial(ctypes.CDLL, use_errno=True))
    for name in PROTOTYPES:
        if name not in LATER:
            getattr(library, name)
    return library


class VerbsStruct:
    """A structure of the header: its fields are read and written by name. New ones are zeroed."""

    def __init__(self, kind: str, address: Optional[int] = None) -> None:
        size, self._fields = STRUCTURES[kind]
        self._memory = ctypes.create_string_buffer(size + _SPARE) if address is None else None
        self.address = ctypes.addressof(self._memory) if self._memory is not None else int(address or 0)

    def __getitem__(self, field: str) -> int:
        offset, size = self._fields[field]
        return int.from_bytes(ctypes.string_at(self.address + offset, size), sys.byteorder)

    def __setitem__(self, field: str, value: int) -> None:
        offset, size = self._fields[field]
        ctypes.memmove(self.address + offset, value.to_bytes(size, sys.byteorder), size)

    def writer(self, field: str) -> Callable[[int], None]:
        """A function that writes one field, faster than by name: for use on every message."""
        offset, size = self._fields[field]
        assert self._memory is not None
        return partial(_UNSIGNED[size].pack_into, self._memory, offset)

    def put(self, field: str, value: bytes) -> None:
        """Write a field that has bytes, such as a GID."""
        offset, size = self._fields[field]
        ctypes.memmove(self.address + offset, value[:size], size)
