"""Runs in the guest: a small verbs program. Writes memory to memory over a software RDMA device, then asks
for a dma-buf registration with a descriptor that cannot be one. Prints one line for each step.

The second part uses ctypes, like gdrkit's own probe: the errno shows whether the kernel's driver does not
support the call at all (EOPNOTSUPP) or only refused the descriptor (EBADF).
"""

import ctypes
import errno
import os
import sys

import pyverbs.enums as enums
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context, get_device_list
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, SendWR

LENGTH = 4096
ACCESS = enums.IBV_ACCESS_LOCAL_WRITE | enums.IBV_ACCESS_REMOTE_WRITE
GID_INDEX = 1  # RoCE v2 over the IPv4 address


def queue_pair(pd, cq):
    cap = QPCap(max_send_wr=4, max_recv_wr=4, max_send_sge=1, max_recv_sge=1)
    return QP(pd, QPInitAttr(qp_type=enums.IBV_QPT_RC, scq=cq, rcq=cq, cap=cap), QPAttr(port_num=1))


def connect(qp, peer, gid):
    attributes = QPAttr(port_num=1, cur_qp_state=enums.IBV_QPS_INIT)
    attributes.qp_access_flags = ACCESS
    qp.to_init(attributes)
    attributes.dest_qp_num, attributes.path_mtu, attributes.rq_psn, attributes.sq_psn = (
        peer.qp_num,
        enums.IBV_MTU_1024,
        0,
        0,
    )
    attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 1
    attributes.min_rnr_timer, attributes.timeout, attributes.retry_cnt, attributes.rnr_retry = 12, 14, 7, 7
    attributes.ah_attr = AHAttr(port_num=1, is_global=1, gr=GlobalRoute(dgid=gid, sgid_index=GID_INDEX))
    qp.to_rts(attributes)


def write_over_loopback(context):
    pd, cq = PD(context), CQ(context, 8)
    source, target = MR(pd, LENGTH, ACCESS), MR(pd, LENGTH, ACCESS)
    source.write(b"g" * LENGTH, LENGTH)
    target.write(bytes(LENGTH), LENGTH)
    near, far = queue_pair(pd, cq), queue_pair(pd, cq)
    gid = context.query_gid(port_num=1, index=GID_INDEX)
    connect(near, far, gid)
    connect(far, near, gid)
    request = SendWR(
        wr_id=7, num_sge=1, sg=[SGE(source.buf, LENGTH, source.lkey)], opcode=enums.IBV_WR_RDMA_WRITE
    )
    request.set_wr_rdma(target.rkey, target.buf)
    near.post_send(request)
    for _ in range(1_000_000):
        count, completions = cq.poll(1)
        if count:
            break
    done = completions[0]
    arrived = target.read(LENGTH, 0) == b"g" * LENGTH
    print(
        "rdma write: id %d status %d opcode %d, arrived %s" % (done.wr_id, done.status, done.opcode, arrived)
    )


def ask_for_dmabuf():
    verbs = ctypes.CDLL("libibverbs.so.1", use_errno=True)
    for name in ("ibv_get_device_list", "ibv_open_device", "ibv_alloc_pd", "ibv_reg_dmabuf_mr"):
        getattr(verbs, name).restype = ctypes.c_void_p
    devices = ctypes.cast(verbs.ibv_get_device_list(None), ctypes.POINTER(ctypes.c_void_p))
    context = verbs.ibv_open_device(ctypes.c_void_p(devices[0]))
    pd = verbs.ibv_alloc_pd(ctypes.c_void_p(context))
    for fd in (-1, os.open("/dev/null", os.O_RDWR)):
        ctypes.set_errno(0)
        region = verbs.ibv_reg_dmabuf_mr(
            ctypes.c_void_p(pd), ctypes.c_uint64(0), ctypes.c_size_t(LENGTH), ctypes.c_uint64(0), fd, 1
        )
        code = ctypes.get_errno()
        words = {**errno.errorcode, errno.EOPNOTSUPP: "EOPNOTSUPP"}  # one number, two names
        word = "none" if region else words.get(code, str(code))
        print("ibv_reg_dmabuf_mr(fd=%s): %s" % ("-1" if fd < 0 else "/dev/null", word))


def main():
    names = [device.name.decode() for device in get_device_list()]
    print("devices: %s" % " ".join(names))
    write_over_loopback(Context(name=names[0]))
    ask_for_dmabuf()


if __name__ == "__main__":
    sys.exit(main())
