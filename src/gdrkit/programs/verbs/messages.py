"""Messages of libibverbs and its tools, and those of any program about a failed call or completion."""

from __future__ import annotations

from gdrkit.messages.errors import (
    EFAULT,
    EINVAL,
    ENOMEM,
    EOPNOTSUPP,
    EPROTONOSUPPORT,
    UNSUPPORTED,
    strerror,
)
from gdrkit.messages.message import MessageTemplate
from gdrkit.messages.verbs_failures import NO_DMABUF, RAIL_FIRST, causes_of

NAMES = {
    ENOMEM: "ENOMEM", EFAULT: "EFAULT", EINVAL: "EINVAL", EPROTONOSUPPORT: "EPROTONOSUPPORT",
    EOPNOTSUPP: "EOPNOTSUPP",
}  # fmt: skip
"""The names of Linux's errors, which programs and people print instead of their texts."""


def _failed(call: str, *numbers: int) -> str:
    """A template for messages that name a call and, shortly after, an error by text, name or number."""
    texts = "|".join(rf"{strerror(number)}|{NAMES[number]}\b" for number in numbers)
    digits = "|".join(map(str, numbers))
    answer = rf"{{answer:{texts}|err\w{{0,9}}[ =:]{{1,9}}(?:{digits})\b}}"
    return rf"{{:\b\w{{0,32}}?}}{call}{{how:\w{{0,32}}+(?:\(\))?\W.{{0,80}}?}}{answer}"


def _failure(call: str, number: int, *, source: str, sample: str, decides: bool = True) -> MessageTemplate:
    """A call that failed with one errno, and what that means for it."""
    return MessageTemplate(
        "verbs", _failed(call, number), causes_of(call, number), source=source, open_end=True,
        decides=decides, sample=sample,
    )  # fmt: skip


_WITHOUT_ERROR = r"{:(?:\(\))?} failed{:[\s.!:]*$}"
"""The end of a message about a call that does not say with which error it failed."""

ROWS = (
    _failure(
        "ibv_reg_mr",
        EFAULT,
        source="ibv_reg_mr(3)",
        sample="h1:1:2 [0] NCCL WARN Call to ibv_reg_mr failed with error Bad address",
    ),
    _failure(
        "ibv_reg_mr",
        ENOMEM,
        source="ibv_reg_mr(3)",
        sample="Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory",
    ),
    MessageTemplate(
        "verbs",
        _failed("ibv_create_{:cq|qp|srq}", ENOMEM),
        ("memlock-limit",),
        source="ibv_create_cq(3): the queue's memory is locked; openucx/ucx src/uct/ib/base/ib_iface.c",
        open_end=True,
        decides=False,  # a NIC has a limit of queues, too
        sample="ERROR mlx5_0: ibv_create_cq() failed: Cannot allocate memory.",
    ),
    MessageTemplate(
        "verbs",
        rf"ibv_create_{{call:cq|qp|srq}}{_WITHOUT_ERROR}",
        ("memlock-limit",),
        source="NCCL before 2.10 src/misc/ibvwrap.cc; the queue's memory is locked: ibv_create_cq(3)",
        decides=False,
        hides_error=True,
        sample="NCCL WARN Call to ibv_create_qp failed",
    ),
    MessageTemplate(
        "verbs",
        rf"ibv_reg_mr{{:(?:_iova2?)?}}{_WITHOUT_ERROR}",
        ("memlock-limit", *causes_of("ibv_reg_mr", EFAULT)),
        source="NCCL before 2.10 src/misc/ibvwrap.cc; ibv_reg_mr(3)",
        decides=False,
        hides_error=True,
        sample="NCCL WARN Call to ibv_reg_mr failed",
    ),
    MessageTemplate(
        "verbs",
        _failed("ibv_reg_dmabuf_mr", *UNSUPPORTED),
        NO_DMABUF,
        source="rdma-core libibverbs/verbs.c; Linux drivers/infiniband/hw/mlx5/mr.c",
        leads=True,
        open_end=True,
        sample="Call to ibv_reg_dmabuf_mr failed with error Operation not supported",
    ),
    _failure(
        "ibv_reg_dmabuf_mr",
        EINVAL,
        source="Linux drivers/infiniband/hw/mlx5/mr.c",
        sample="ibv_reg_dmabuf_mr failed: Invalid argument",
    ),
    _failure(
        "ibv_reg_dmabuf_mr",
        EFAULT,
        source="Linux drivers/infiniband/core/umem_dmabuf.c, ib_umem_dmabuf_map_pages()",
        sample="ibv_reg_dmabuf_mr failed: Bad address",
        decides=False,
    ),
    _failure(
        "ibv_reg_dmabuf_mr",
        ENOMEM,
        source="ibv_reg_mr(3)",
        sample="ibv_reg_dmabuf_mr(fd=31) failed: Cannot allocate memory",
    ),
    _failure(
        "ibv_reg_mr",
        EINVAL,
        source="ibv_reg_mr(3)",
        sample="Call to ibv_reg_mr failed with error Invalid argument",
        decides=False,
    ),
    MessageTemplate(
        "verbs",
        r"{what:(?<!Call to )\b(?:(?:ibv_)?[Mm]odify[ _](?:the )?(?:QP|qp)|ibv_create_ah)\b(?!.*retrying"
        r" \d).{0,240}?}"
        r"{answer:Connection timed out|ETIMEDOUT|Network is unreachable|ENETUNREACH|No route to host"
        r"|EHOSTUNREACH|err\w{0,9}[ =:]{1,9}(?:110|101|113)\b}",
        RAIL_FIRST,
        source="Linux drivers/infiniband/core/addr.c, rdma_addr_find_l2_eth_by_grh()",
        leads=True,
        open_end=True,
        sample="Failed to modify QP 2120 to RTR: Connection timed out",
    ),
    MessageTemplate(
        "libibverbs",
        r"libibverbs: Warning: RLIMIT_MEMLOCK is {bytes:\d+} bytes",
        ("memlock-limit",),
        source="rdma-core libibverbs/init.c, check_memlock_limit()",
        decides=False,
        open_end=True,
        sample="libibverbs: Warning: RLIMIT_MEMLOCK is 65536 bytes.",
    ),
    MessageTemplate(
        "Open MPI",
        "OpenFabrics subsystem is configured to only allow registering part of your physical memory",
        ("memlock-limit",),
        source="open-mpi/ompi opal/mca/btl/openib/help-mpi-btl-openib.txt",
        decides=False,
        open_end=True,
    ),
    MessageTemplate(
        "verbs",
        r"{status:[Tt]ransport retry count(?:er)? exceeded|IBV_WC_RETRY_EXC_ERR|"
        r"(?:work item failed: status|Failed status|CQ state error:) 12\b}",
        causes_of("completion", 12),
        source="ibv_wc_status_str(3); openucx/ucx src/uct/ib/mlx5/ib_mlx5_log.c; microsoft/mscclpp "
        "src/connection.cc up to 0.6.0; perftest src/perftest_resources.h; uccl-project/uccl "
        "rdma_io.cc",
        open_end=True,
        decides=False,  # a consequence, if the peer stopped first
        sample="an IB work item failed: transport retry counter exceeded",
    ),
    MessageTemplate(  # the provider of most NICs
        "libibverbs",
        "libibverbs: Warning: couldn't load driver '{path:[^']*libmlx5[^']*}'{:(?!.*IBVERBS_PRIVATE)}",
        ("verbs-provider-mismatch", "verbs-library-missing"),
        source="rdma-core libibverbs/dynamic_driver.c",
        open_end=True,
        decides=False,
        leads=True,
        sample="libibverbs: Warning: couldn't load driver 'libmlx5-rdmav34.so': cannot open shared object",
    ),
    MessageTemplate(
        "libibverbs",
        "libibverbs: Warning: couldn't load driver '{path:(?![^']*libmlx5)[^']+}'{:(?!.*IBVERBS_PRIVATE)}",
        ("verbs-provider-mismatch", "verbs-library-missing"),
        source="rdma-core libibverbs/dynamic_driver.c",
        open_end=True,
        decides=False,  # harmless for a NIC that is not in the machine
        sample="libibverbs: Warning: couldn't load driver 'libefa-rdmav34.so': cannot open shared object",
    ),
    MessageTemplate(
        "libibverbs",
        "Warning: no userspace device-specific driver found for",
        ("verbs-provider-mismatch", "verbs-library-missing"),
        source="rdma-core libibverbs/init.c, try_all_drivers(); the prefix is lost in some posts",
        open_end=True,
        decides=False,
        leads=True,
    ),
    MessageTemplate(
        "libibverbs",
        "libibverbs: Warning: couldn't open config directory",
        ("verbs-provider-mismatch", "verbs-library-missing"),
        source="rdma-core libibverbs/init.c, read_config(): no provider is installed",
        open_end=True,
        decides=False,
        leads=True,
    ),
    MessageTemplate(
        "libibverbs",
        r"libibverbs: Warning: Driver {driver:\w+} does not support the kernel ABI of {abi:\d+}",
        ("verbs-provider-mismatch",),
        source="rdma-core libibverbs/init.c, match_device(): the library and the kernel's driver do not fit",
        open_end=True,
        sample="libibverbs: Warning: Driver bnxt_re does not support the kernel ABI of 6 (supports 1 to 1)",
    ),
    MessageTemplate(
        "verbs",
        r"{what:Call to ibv_open_device failed|ibv_open_device\(?[^)]{0,60}\)? failed}",
        ("rdma-device-not-in-container", "verbs-provider-mismatch"),
        source="NCCL src/misc/ibvwrap.cc; openucx/ucx src/uct/ib/base/ib_md.c",
        open_end=True,
        decides=False,
        sample="ibv_open_device(mlx5_0) failed",
    ),
    MessageTemplate(
        "lspci",
        r"ACSCtl:{:\s*}SrcValid"
        r"{rest:[+-] TransBlk[+-] (?:ReqRedir\+ CmpltRedir[+-]|ReqRedir- CmpltRedir\+)}",
        ("acs-redirect",),
        source="pciutils ls-ecaps.c, cap_acs(): of one port, which may not be between a GPU and a NIC",
        open_end=True,
        decides=False,
        sample="ACSCtl: SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-",
    ),
    MessageTemplate(
        "ld.so",
        r"{what:(?:symbol lookup error: \S+ )?undefined symbol: \S{1,80} version IBVERBS_PRIVATE_\d+"
        r"|(?:symbol \S{1,80} )?version `?IBVERBS_PRIVATE_\d+'? not (?:defined|found)}",
        ("verbs-provider-mismatch",),
        source="GNU C Library elf/dl-version.c; rdma-core libibverbs/libibverbs.map.in",
        open_end=True,
        sample="/lib64/libmlx5.so.1: symbol ibv_x, version `IBVERBS_PRIVATE_34' not defined in file "
        "libibverbs.so.1 with link time reference",
    ),
    MessageTemplate(
        "ld.so",
        "libibverbs.so.1: cannot open shared object file",
        ("verbs-library-missing",),
        source="GNU C Library elf/dl-load.c",
        open_end=True,
    ),
    MessageTemplate(
        "mlx5_core",
        r"CREATE_MKEY({opcode:0x[0-9a-f]+}) op_mod(0x0) failed, status"
        r" {:limits exceeded\(0x8\)|no resources\(0xf\)}",
        ("mkeys-exhausted",),
        source="Linux drivers/net/ethernet/mellanox/mlx5/core/cmd.c, mlx5_cmd_out_err()",
        open_end=True,
        sample="mlx5_core 0000:1b:00.0: CREATE_MKEY(0x200) op_mod(0x0) failed, status limits exceeded(0x8)",
    ),
    MessageTemplate(
        "ibv_devinfo",
        "No IB devices found",
        ("no-rdma-device", "rdma-device-not-in-container"),
        source="rdma-core libibverbs/examples/devinfo.c, main(); the pingpong examples print it as well",
        decides=False,
        open_end=True,
    ),
)
