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


class Verbs:
    """libibverbs, loaded. Raises VerbsNotAvailable if it cannot be loaded."""

    def __init__(self) -> None:
        try:
            self._library = load()
        except (OSError, AttributeError) as error:
            raise VerbsNotAvailable(str(error)) from None

    def function(self, name: str) -> Any:
        """A function of the library. Raises VerbsError (EOPNOTSUPP) if this library lacks it."""
        try:
            return getattr(self._library, name)
        except AttributeError:
            raise VerbsError(f"{name} (not in this libibverbs)", 95) from None

    def object(self, name: str, *arguments: Any) -> int:
        """Call a function that returns a pointer. Raises VerbsError with errno if that is NULL."""
        ctypes.set_errno(0)
        result = self.function(name)(*arguments)
        if not result:
            raise VerbsError(name, ctypes.get_errno())
        return int(result)

    def check(self, name: str, *arguments: Any) -> None:
        """Call a function that returns 0 or an errno. Raises VerbsError."""
        ctypes.set_errno(0)
        if result := self.function(name)(*arguments):
            raise VerbsError(name, ctypes.get_errno() or abs(result))

    def devices(self) -> dict[str, int]:
        """The names of this machine's RDMA devices, and the ibv_device pointer of each.

        The list is never freed, since the pointers belong to it; it is requested only once.
        """
        count = ctypes.c_int()
        found = self.function("ibv_get_device_list")(ctypes.byref(count))
        if not found:
            raise VerbsError("ibv_get_device_list", ctypes.get_errno())
        name = self.function("ibv_get_device_name")
        return {name(found[index]).decode("ascii", "replace"): found[index] for index in range(count.value)}


@cache
def verbs() -> Verbs:
    """The one libibverbs of this process. Raises VerbsNotAvailable."""
    return Verbs()


@cache
def _devices() -> dict[str, int]:
    return verbs().devices()


class VerbsDevice:
    """An open RDMA device with a protection domain. Close it after everything made from it."""

    def __init__(self, name: str) -> None:
        self._verbs = verbs()
        if name not in _devices():
            raise VerbsNotAvailable(f"no such RDMA device: {name} (of {', '.join(_devices()) or 'none'})")
        self.name = name
        self.context = self._verbs.object("ibv_open_device", _devices()[name])
        self.domain = self._verbs.object("ibv_alloc_pd", self.context)

    def port(self, number: int) -> VerbsStruct:
        """ibv_query_port."""
        attributes = VerbsStruct("ibv_port_attr")
        self._verbs.check("ibv_query_port", self.context, number, attributes.address)
        return attributes

    def gid(self, port: int, index: int) -> bytes:
        """The 16 bytes of a GID."""
        gid = ctypes.create_string_buffer(GID_BYTES)
        self._verbs.check("ibv_query_gid", self.context, port, index, ctypes.addressof(gid))
        return gid.raw

    def register(self, address: int, size_bytes: int) -> MemoryRegion:
        """ibv_reg_mr with local and remote access, for host memory, or GPU memory through peermem."""
        return MemoryRegion(
            self._verbs, self._verbs.object("ibv_reg_mr", self.domain, address, size_bytes, REMOTE_ACCESS)
        )

    def register_dmabuf(self, descriptor: int, offset: int, size_bytes: int, address: int) -> MemoryRegion:
        """ibv_reg_dmabuf_mr: `size_bytes` at `offset` into a dma-buf, with `address` as its I/O address."""
        region = self._verbs.object(
            "ibv_reg_dmabuf_mr", self.domain, offset, size_bytes, address, descriptor, REMOTE_ACCESS
        )
        return MemoryRegion(self._verbs, region)

    def close(self) -> None:
        self._verbs.check("ibv_dealloc_pd", self.domain)
        self._verbs.check("ibv_close_device", self.context)


class MemoryRegion:
    """Memory registered with the device, identified by `lkey` and `rkey`."""

    def __init__(self, library: Verbs, handle: int) -> None:
        self._verbs, self._handle = library, handle
        record = VerbsStruct("ibv_mr", handle)
        self.lkey, self.rkey = record["lkey"], record["rkey"]

    def close(self) -> None:
        self._verbs.check("ibv_dereg_mr", self._handle)


class Completion(NamedTuple):
    """A request that completed, and its error, "" if it succeeded."""

    request: int
    error: str


class CompletionQueue:
    """A completion queue that is polled."""

    def __init__(self, device: VerbsDevice, depth: int) -> None:
        self._verbs = verbs()
        self.handle = self._verbs.object("ibv_create_cq", device.context, depth, None, None, 0)
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
            text = (self._verbs.function("ibv_wc_status_str")(status) or b"").decode("ascii", "replace")
            error = f"{text} (status {status}, vendor {self._record['vendor_err']})"
        return Completion(self._record["wr_id"], error)

    def close(self) -> None:
        self._verbs.check("ibv_destroy_cq", self.handle)


class QueuePair:
    """A queue pair of a reliable connection (RC), with its completion queues. `connect` takes the other
    side's number, GID and LID.
    """

    def __init__(self, device: VerbsDevice, depth: int) -> None:
        self._verbs = verbs()
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
        self.handle = self._verbs.object("ibv_create_qp", device.domain, wanted.address)
        self.number = VerbsStruct("ibv_qp", self.handle)["qp_num"]
        context = VerbsStruct("ibv_context", device.context)
        self._post_send = POST(context["ops.post_send"])
        self._post_recv = POST(context["ops.post_recv"])
        self._sent, self._received = _Sent(), _Work("ibv_recv_wr")
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

    def fail(self) -> None:
        """Change to the error state: all outstanding requests complete with a flush error."""
        self._modify({"qp_state": NUMBERS["IBV_QPS_ERR"]}, "IBV_QP_STATE")

    def _modify(self, fields: dict[str, int], *mask: str, remote_gid: bytes = b"") -> None:
        attributes = VerbsStruct("ibv_qp_attr")
        for field, value in fields.items():
            attributes[field] = value
        if remote_gid:
            attributes.put("ah_attr.grh.dgid", remote_gid)
        self._verbs.check(
            "ibv_modify_qp", self.handle, attributes.address, sum(NUMBERS[name] for name in mask)
        )

    def post(
        self, opcode: str, request: int, address: int, size_bytes: int, lkey: int,
        remote_address: int = 0, rkey: int = 0,
    ) -> None:  # fmt: skip
        """Post a signalled request: IBV_WR_SEND, IBV_WR_RDMA_WRITE, ..._WITH_IMM or IBV_WR_RDMA_READ."""
        self._sent.fill(request, address, size_bytes, lkey)
        self._sent.opcode(NUMBERS[opcode])
        self._sent.remote_address(remote_address)
        self._sent.rkey(rkey)
        if result := self._post_send(self.handle, self._sent.address, self._bad_address):
            raise VerbsError("ibv_post_send", abs(result))

    def post_receive(self, request: int, address: int = 0, size_bytes: int = 0, lkey: int = 0) -> None:
        """Post a receive; one of 0 bytes receives the immediate data of an RDMA write."""
        self._received.fill(request, address, size_bytes, lkey)
        if result := self._post_recv(self.handle, self._received.address, self._bad_address):
            raise VerbsError("ibv_post_recv", abs(result))

    def close(self) -> None:
        self._verbs.check("ibv_destroy_qp", self.handle)
        self.sends.close()
        self.receives.close()


class _Work:
    """A work request with one scatter/gather element, created once and filled in for each request, since
    ibv_post_send and ibv_post_recv copy it. Not thread-safe.
    """

    def __init__(self, kind: str) -> None:
        self._record, self._piece = VerbsStruct(kind), VerbsStruct("ibv_sge")
        self.address = self._record.address
        self._record["sg_list"] = self._piece.address
        self._request, self._count = self._record.writer("wr_id"), self._record.writer("num_sge")
        self._address, self._lkey = self._piece.writer("addr"), self._piece.writer("lkey")
        self._length = self._piece.writer("length")

    def fill(self, request: int, address: int, size_bytes: int, lkey: int) -> None:
        self._request(request)
        self._count(1 if size_bytes else 0)
        self._address(address)
        self._length(size_bytes)
        self._lkey(lkey)


class _Sent(_Work):
    """A signalled work request: send, read or write."""

    def __init__(self) -> None:
        super().__init__("ibv_send_wr")
        self._record["send_flags"] = NUMBERS["IBV_SEND_SIGNALED"]
        self.opcode = self._record.writer("opcode")
        self.remote_address = self._record.writer("wr.rdma.remote_addr")
        self.rkey = self._record.writer("wr.rdma.rkey")
