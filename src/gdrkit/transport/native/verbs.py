"""libibverbs: devices, protection domains, memory regions and reliable connections.

Source: rdma-core, libibverbs/verbs.h and the man pages of section 3.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import Any, NamedTuple

from gdrkit.agent.native.verbs import GID_BYTES, POLL, POST, REMOTE_ACCESS, VerbsStruct, load
from gdrkit.agent.native.verbs_abi import NUMBERS


class VerbsNotAvailable(Exception):
    """No usable libibverbs, or no such device; the message gives the reason."""


class VerbsError(Exception):
    """A call that failed: `call`, and `errno` as the library gave it."""

    def __init__(self, call: str, errno: int) -> None:
        super().__init__(f"{call}: {os.strerror(errno)} ({errno})" if errno else f"{call} failed")
        self.call, self.errno = call, errno


@cache
def _library() -> Any:
    """The one libibverbs of this process. Raises VerbsNotAvailable."""
    try:
        return load()
    except (OSError, AttributeError) as error:
        raise VerbsNotAvailable(str(error)) from None


def _function(name: str) -> Any:
    """A function of the library. Raises VerbsError (EOPNOTSUPP) if this library lacks it."""
    try:
        return getattr(_library(), name)
    except AttributeError:
        raise VerbsError(f"{name} (not in this libibverbs)", 95) from None


def _object(name: str, *arguments: Any) -> int:
    """Call a function that returns a pointer. Raises VerbsError with errno if that is NULL."""
    ctypes.set_errno(0)
    result = _function(name)(*arguments)
    if not result:
        raise VerbsError(name, ctypes.get_errno())
    return int(result)


def _check(name: str, *arguments: Any) -> None:
    """Call a function that returns 0 or an errno. Raises VerbsError."""
    ctypes.set_errno(0)
    if result := _function(name)(*arguments):
        raise VerbsError(name, ctypes.get_errno() or abs(result))


@cache
def _devices() -> dict[str, int]:
    """The names of this machine's RDMA devices, and the ibv_device pointer of each. The list is never freed,
    since the pointers belong to it.
    """
    count = ctypes.c_int()
    found = _function("ibv_get_device_list")(ctypes.byref(count))
    if not found:
        raise VerbsError("ibv_get_device_list", ctypes.get_errno())
    name = _function("ibv_get_device_name")
    return {name(found[index]).decode("ascii", "replace"): found[index] for index in range(count.value)}


class VerbsDevice:
    """An open RDMA device with a protection domain. Close it after everything made from it."""

    def __init__(self, name: str) -> None:
        if name not in _devices():
            raise VerbsNotAvailable(f"no such RDMA device: {name} (of {', '.join(_devices()) or 'none'})")
        self.name = name
        self.context = _object("ibv_open_device", _devices()[name])
        self.domain = _object("ibv_alloc_pd", self.context)

    def port(self, number: int) -> VerbsStruct:
        """ibv_query_port."""
        attributes = VerbsStruct("ibv_port_attr")
        _check("ibv_query_port", self.context, number, attributes.address)
        return attributes

    def gid(self, port: int, index: int) -> bytes:
        """The 16 bytes of a GID."""
        gid = ctypes.create_string_buffer(GID_BYTES)
        _check("ibv_query_gid", self.context, port, index, ctypes.addressof(gid))
        return gid.raw

    def register(self, address: int, size_bytes: int) -> MemoryRegion:
        """ibv_reg_mr with local and remote access, for host memory, or GPU memory through peermem."""
        return MemoryRegion(_object("ibv_reg_mr", self.domain, address, size_bytes, REMOTE_ACCESS))

    def register_dmabuf(self, descriptor: int, offset: int, size_bytes: int, address: int) -> MemoryRegion:
        """ibv_reg_dmabuf_mr: `size_bytes` at `offset` into a dma-buf, with `address` as its I/O address."""
        region = _object(
            "ibv_reg_dmabuf_mr", self.domain, offset, size_bytes, address, descriptor, REMOTE_ACCESS
        )
        return MemoryRegion(region)

    def close(self) -> None:
        _check("ibv_dealloc_pd", self.domain)
        _check("ibv_close_device", self.context)


class MemoryRegion:
    """Memory registered with the device, identified by `lkey` and `rkey`."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        record = VerbsStruct("ibv_mr", handle)
        self.lkey, self.rkey = record["lkey"], record["rkey"]

    def close(self) -> None:
        _check("ibv_dereg_mr", self._handle)


class Completion(NamedTuple):
    """A request that completed, and its error, "" if it succeeded."""

    request: int
    error: str


class CompletionQueue:
    """A completion queue that is polled."""

    def __init__(self, device: VerbsDevice, depth: int) -> None:
        self.handle = _object("ibv_create_cq", device.context, depth, None, None, 0)
        self._poll = POLL(VerbsStruct("ibv_context", device.context)["ops.poll_cq"])
        self._record = VerbsStruct("ibv_wc")

    def poll(self) -> Completion | None:
        """The next completion, or None. Raises VerbsError if the device has failed."""
        count = self._poll(self.handle, 1, self._record.address)
        if count < 0:
            raise VerbsError("ibv_poll_cq", ctypes.get_errno() or -count)
        if not count:
            return None
        status, error = self._record["status"], ""
        if status != NUMBERS["IBV_WC_SUCCESS"]:
            text = (_function("ibv_wc_status_str")(status) or b"").decode("ascii", "replace")
            error = f"{text} (status {status}, vendor {self._record['vendor_err']})"
        return Completion(self._record["wr_id"], error)

    def close(self) -> None:
        _check("ibv_destroy_cq", self.handle)


class QueuePair:
    """A queue pair of a reliable connection (RC), with its completion queues. `connect` takes the other
    side's number, GID and LID.
    """

    def __init__(self, device: VerbsDevice, depth: int) -> None:
        self.sends, self.receives = (CompletionQueue(device, 2 * depth) for _ in range(2))
        wanted = VerbsStruct("ibv_qp_init_attr")
        for field, value in (
            ("send_cq", self.sends.handle),
            ("recv_cq", self.receives.handle),
            ("cap.max_send_wr", depth),
            ("cap.max_recv_wr", depth),
            ("cap.max_send_sge", 1),
            ("cap.max_recv_sge", 1),
            ("qp_type", NUMBERS["IBV_QPT_RC"]),
        ):
            wanted[field] = value
        self.handle = _object("ibv_create_qp", device.domain, wanted.address)
        self.number = VerbsStruct("ibv_qp", self.handle)["qp_num"]
        context = VerbsStruct("ibv_context", device.context)
        self._post_send = POST(context["ops.post_send"])
        self._post_recv = POST(context["ops.post_recv"])
        self._request = _WorkRequest()
        self._receive = VerbsStruct("ibv_recv_wr")  # all zero: a request without memory
        self._bad = ctypes.c_void_p()
        self._bad_address = ctypes.addressof(self._bad)

    def connect(
        self, port: int, gid_index: int, mtu: int, remote_number: int, remote_gid: bytes, remote_lid: int
    ) -> None:
        """Change the state to INIT, RTR, RTS: man ibv_modify_qp(3). Seven retries of 1 s each, since the
        other side may be slow.
        """
        self._modify(
            {
                "qp_state": NUMBERS["IBV_QPS_INIT"],
                "port_num": port,
                "qp_access_flags": NUMBERS["IBV_ACCESS_REMOTE_WRITE"] | NUMBERS["IBV_ACCESS_REMOTE_READ"],
            },
            "IBV_QP_STATE", "IBV_QP_PKEY_INDEX", "IBV_QP_PORT", "IBV_QP_ACCESS_FLAGS",
        )  # fmt: skip
        self._modify(
            {
                "qp_state": NUMBERS["IBV_QPS_RTR"],
                "path_mtu": mtu,
                "dest_qp_num": remote_number,
                "max_dest_rd_atomic": 1,
                "min_rnr_timer": 12,  # 0.64 ms: InfiniBand specification 1.4, table 45
                "ah_attr.is_global": 1,
                "ah_attr.grh.sgid_index": gid_index,
                "ah_attr.grh.hop_limit": 64,
                "ah_attr.dlid": remote_lid,
                "ah_attr.port_num": port,
            },
            "IBV_QP_STATE", "IBV_QP_AV", "IBV_QP_PATH_MTU", "IBV_QP_DEST_QPN", "IBV_QP_RQ_PSN",
            "IBV_QP_MAX_DEST_RD_ATOMIC", "IBV_QP_MIN_RNR_TIMER",
            remote_gid=remote_gid,
        )  # fmt: skip
        self._modify(
            {
                "qp_state": NUMBERS["IBV_QPS_RTS"],
                "timeout": 18,  # 4.096 us x 2**18 = 1.07 s: specification, 9.7.6.1.3
                "retry_cnt": 7,
                "rnr_retry": 7,  # 7 means unlimited
                "max_rd_atomic": 1,
            },
            "IBV_QP_STATE", "IBV_QP_TIMEOUT", "IBV_QP_RETRY_CNT", "IBV_QP_RNR_RETRY", "IBV_QP_SQ_PSN",
            "IBV_QP_MAX_QP_RD_ATOMIC",
        )  # fmt: skip

    def _modify(self, fields: dict[str, int], *mask: str, remote_gid: bytes = b"") -> None:
        attributes = VerbsStruct("ibv_qp_attr")
        for field, value in fields.items():
            attributes[field] = value
        if remote_gid:
            attributes.put("ah_attr.grh.dgid", remote_gid)
        _check("ibv_modify_qp", self.handle, attributes.address, sum(NUMBERS[name] for name in mask))

    def post(
        self, opcode: str, request: int, address: int, size_bytes: int, lkey: int,
        remote_address: int, rkey: int,
    ) -> None:  # fmt: skip
        """Post a signalled request: IBV_WR_RDMA_WRITE, ..._WITH_IMM or IBV_WR_RDMA_READ."""
        self._request.fill(NUMBERS[opcode], request, address, size_bytes, lkey, remote_address, rkey)
        if result := self._post_send(self.handle, self._request.address, self._bad_address):
            raise VerbsError("ibv_post_send", abs(result))

    def post_receive(self) -> None:
        """Post a receive for the immediate data of an RDMA write."""
        if result := self._post_recv(self.handle, self._receive.address, self._bad_address):
            raise VerbsError("ibv_post_recv", abs(result))

    def close(self) -> None:
        _check("ibv_destroy_qp", self.handle)
        self.sends.close()
        self.receives.close()


class _WorkRequest:
    """A signalled read or write with one scatter/gather element, created once and filled in for each
    request, since ibv_post_send copies it. Not thread-safe.
    """

    def __init__(self) -> None:
        record, piece = VerbsStruct("ibv_send_wr"), VerbsStruct("ibv_sge")
        record["sg_list"], record["send_flags"] = piece.address, NUMBERS["IBV_SEND_SIGNALED"]
        self.address, self._records = record.address, (record, piece)
        self._writers = [
            *map(record.writer, ("opcode", "wr_id", "num_sge", "wr.rdma.remote_addr", "wr.rdma.rkey")),
            *map(piece.writer, ("addr", "length", "lkey")),
        ]

    def fill(
        self, opcode: int, request: int, address: int, size_bytes: int, lkey: int, remote: int, rkey: int
    ) -> None:
        values = opcode, request, 1 if size_bytes else 0, remote, rkey, address, size_bytes, lkey
        for write, value in zip(self._writers, values):  # noqa: B905 (Python 3.9)
            write(value)
