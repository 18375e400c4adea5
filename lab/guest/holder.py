"""Runs in a guest: holds RDMA objects and lives on, as a job does. Arguments: NAME SECONDS WORD...

`write` moves bytes over loopback all the time; `fork` leaves the objects to a child and ends; `dmabuf`
registers 8 MiB of a dma-buf, and `close` closes its descriptor; `thread` registers 3 MiB in a thread that
ends and 5 MiB in one that lives; `flush` has a queue pair that is connected to itself, as NCCL's for
flushing, and `moves` uses it.
"""

import ctypes
import fcntl
import os
import sys
import threading
import time

import pyverbs.enums as enums
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context, get_device_list
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, SendWR

ACCESS = enums.IBV_ACCESS_LOCAL_WRITE | enums.IBV_ACCESS_REMOTE_WRITE
MIB = 1 << 20
EXPORT = 0x4701  # gdrlab.c
PR_SET_NAME = 15


def pair(pd, cq):
    cap = QPCap(max_send_wr=8, max_recv_wr=4, max_send_sge=1, max_recv_sge=1)
    return QP(pd, QPInitAttr(qp_type=enums.IBV_QPT_RC, scq=cq, rcq=cq, cap=cap), QPAttr(port_num=1))


def connect(qp, peer, gid):
    a = QPAttr(port_num=1, cur_qp_state=enums.IBV_QPS_INIT)
    a.qp_access_flags = ACCESS
    qp.to_init(a)
    a.dest_qp_num, a.path_mtu, a.rq_psn, a.sq_psn = peer.qp_num, enums.IBV_MTU_1024, 0, 0
    a.max_rd_atomic = a.max_dest_rd_atomic = 1
    a.min_rnr_timer, a.timeout, a.retry_cnt, a.rnr_retry = 12, 14, 7, 7
    a.ah_attr = AHAttr(port_num=1, is_global=1, gr=GlobalRoute(dgid=gid, sgid_index=1))
    qp.to_rts(a)


def register(buffer):
    """A region of a dma-buf, by the kernel's own call: librxe has no ibv_reg_dmabuf_mr. Its last argument is
    of libibverbs 56, which Debian 13 has (rdma-core libibverbs/cmd_mr.c); older ones do not look at it."""
    verbs = ctypes.CDLL("libibverbs.so.1", use_errno=True)
    for function in ("ibv_get_device_list", "ibv_open_device", "ibv_alloc_pd"):
        getattr(verbs, function).restype = ctypes.c_void_p
    devices = ctypes.cast(verbs.ibv_get_device_list(None), ctypes.POINTER(ctypes.c_void_p))
    pd = verbs.ibv_alloc_pd(ctypes.c_void_p(verbs.ibv_open_device(ctypes.c_void_p(devices[0]))))
    region = ctypes.create_string_buffer(512)
    size, address = ctypes.c_size_t(8 * MIB), ctypes.c_uint64(0x7F5500000000)
    code = verbs.ibv_cmd_reg_dmabuf_mr(
        ctypes.c_void_p(pd), ctypes.c_uint64(0), size, address, buffer, 1, region, None
    )
    if code:
        sys.exit("ibv_cmd_reg_dmabuf_mr: %d" % code)
    return verbs, region


def in_threads(pd, regions, seconds):
    maker = threading.Thread(target=lambda: regions.append(MR(pd, 3 * MIB, ACCESS)))
    maker.start()
    maker.join()
    made = threading.Event()

    def live():
        regions.append(MR(pd, 5 * MIB, ACCESS))
        made.set()
        time.sleep(seconds)

    threading.Thread(target=live, daemon=True).start()
    made.wait()


def write(qp, cq, source, target, size):
    wr = SendWR(wr_id=7, num_sge=1, sg=[SGE(source.buf, size, source.lkey)], opcode=enums.IBV_WR_RDMA_WRITE)
    wr.set_wr_rdma(target.rkey, target.buf)
    qp.post_send(wr)
    while not cq.poll(1)[0]:
        time.sleep(0.001)


def main():
    name, seconds, words = sys.argv[1], float(sys.argv[2]), sys.argv[3:]
    ctypes.CDLL(None).prctl(PR_SET_NAME, name.encode(), 0, 0, 0)
    context = Context(name=get_device_list()[0].name.decode())
    pd, cq = PD(context), CQ(context, 64)
    sizes = (65536, MIB, 4 * MIB) if "write" in words else (2 * MIB,)
    regions, kept = [MR(pd, size, ACCESS) for size in sizes], []
    if "dmabuf" in words:
        exporter = os.open("/dev/gdrlab", os.O_RDWR)
        buffer = fcntl.ioctl(exporter, EXPORT, 8 * MIB)
        kept.append((exporter, register(buffer)))
        if "close" in words:
            os.close(buffer)
    near, far = pair(pd, cq), pair(pd, cq)
    gid = context.query_gid(port_num=1, index=1)
    if "thread" in words:
        in_threads(pd, regions, seconds)
    alone = pair(pd, cq) if "flush" in words else None
    if alone is not None:
        connect(alone, alone, gid)
        regions.append(MR(pd, 4, ACCESS))
    if "write" in words or "fork" in words:
        connect(near, far, gid)
        connect(far, near, gid)
    print(name, os.getpid(), flush=True)
    if "fork" in words and os.fork():
        time.sleep(2)
        os._exit(0)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if "write" in words:
            write(near, cq, regions[0], regions[1], 65536)
        if "moves" in words:
            write(alone, cq, regions[-1], regions[-1], 4)
        time.sleep(0.05)
    os._exit(0)


main()
