"""Compile libibverbs' structures and write the offsets and numbers that `native/verbs.py` needs.

    python tools/verbs_abi.py [INCLUDE_FOLDER] > src/gdrkit/agent/native/verbs_abi.py
    python tools/verbs_abi.py --tags path/to/rdma-core [TAG...]     list versions that differ

Versions 28 to 64 agree in every number and offset (compared on 2026-11-20); in 49, ibv_port_attr grew by 4
bytes at its end.

The header is libibverbs-dev's infiniband/verbs.h. Functions such as ibv_post_send are inline in it: they
call through a table in the context, whose offsets are part of the ABI and are listed here too.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from tests.unpacked import unpack

FIELDS = {
    "ibv_device_attr": ("max_qp_wr", "max_mr_size", "phys_port_cnt"),
    "ibv_port_attr": ("state", "max_mtu", "active_mtu", "gid_tbl_len", "lid", "link_layer", "flags"),
    "ibv_gid": ("raw",),
    "ibv_mr": ("lkey", "rkey"),
    "ibv_cq": (),
    "ibv_qp": ("qp_num",),
    "ibv_qp_cap": (),
    "ibv_qp_init_attr": (
        "send_cq", "recv_cq", "cap.max_send_wr", "cap.max_recv_wr", "cap.max_send_sge", "cap.max_recv_sge",
        "cap.max_inline_data", "qp_type", "sq_sig_all",
    ),
    "ibv_qp_attr": (
        "qp_state", "path_mtu", "rq_psn", "sq_psn", "dest_qp_num", "qp_access_flags", "pkey_index",
        "max_rd_atomic", "max_dest_rd_atomic", "min_rnr_timer", "port_num", "timeout", "retry_cnt",
        "rnr_retry",
        "ah_attr.grh.dgid", "ah_attr.grh.sgid_index", "ah_attr.grh.hop_limit", "ah_attr.grh.traffic_class",
        "ah_attr.dlid", "ah_attr.sl", "ah_attr.src_path_bits", "ah_attr.is_global", "ah_attr.port_num",
    ),
    "ibv_sge": ("addr", "length", "lkey"),
    "ibv_send_wr": (
        "wr_id", "next", "sg_list", "num_sge", "opcode", "send_flags", "wr.rdma.remote_addr", "wr.rdma.rkey",
    ),
    "ibv_recv_wr": ("wr_id", "next", "sg_list", "num_sge"),
    "ibv_wc": ("wr_id", "status", "opcode", "vendor_err", "byte_len", "qp_num"),
    "ibv_context": ("ops.poll_cq", "ops.post_send", "ops.post_recv", "async_fd"),
}  # fmt: skip
NUMBERS = (
    "IBV_QPT_RC", "IBV_QPS_RESET", "IBV_QPS_INIT", "IBV_QPS_RTR", "IBV_QPS_RTS", "IBV_QPS_ERR",
    "IBV_QP_STATE", "IBV_QP_ACCESS_FLAGS", "IBV_QP_PKEY_INDEX", "IBV_QP_PORT", "IBV_QP_AV",
    "IBV_QP_PATH_MTU",
    "IBV_QP_TIMEOUT", "IBV_QP_RETRY_CNT", "IBV_QP_RNR_RETRY", "IBV_QP_RQ_PSN", "IBV_QP_MAX_QP_RD_ATOMIC",
    "IBV_QP_MIN_RNR_TIMER", "IBV_QP_SQ_PSN", "IBV_QP_MAX_DEST_RD_ATOMIC", "IBV_QP_DEST_QPN",
    "IBV_ACCESS_LOCAL_WRITE", "IBV_ACCESS_REMOTE_WRITE", "IBV_ACCESS_REMOTE_READ",
    "IBV_ACCESS_RELAXED_ORDERING",
    "IBV_WR_RDMA_WRITE", "IBV_WR_RDMA_WRITE_WITH_IMM", "IBV_WR_SEND", "IBV_WR_RDMA_READ",
    "IBV_SEND_SIGNALED",
    "IBV_WC_SUCCESS",
    "IBV_WC_WR_FLUSH_ERR",
    "IBV_PORT_ACTIVE", "IBV_LINK_LAYER_INFINIBAND", "IBV_LINK_LAYER_ETHERNET",
)  # fmt: skip


def layout(includes: Path) -> tuple[dict[str, int], dict[str, tuple[int, dict[str, tuple[int, int]]]]]:
    """Numbers by name, and (bytes, field -> (offset, bytes)) by structure, as the compiler computes them."""
    lines = [f'printf("N {name} %lld\\n", (long long){name});' for name in NUMBERS]
    for name, fields in FIELDS.items():
        kind = f"union {name}" if name == "ibv_gid" else f"struct {name}"
        lines.append(f'printf("S {name} %zu\\n", sizeof({kind}));')
        lines += [
            f'printf("F {name} {field} %zu %zu\\n", offsetof({kind}, {field}), '
            f"sizeof((({kind} *)0)->{field}));"
            for field in fields
        ]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "layout.c")
        source.write_text(
            "#include <stddef.h>\n#include <stdio.h>\n#include <infiniband/verbs.h>\nint main(void) {\n"
            + "\n".join(lines)
            + "\nreturn 0; }\n"
        )
        program = Path(folder, "layout")
        subprocess.run(["cc", "-w", "-I", str(includes), "-o", program, source], check=True)
        printed = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    numbers: dict[str, int] = {}
    structures: dict[str, tuple[int, dict[str, tuple[int, int]]]] = {}
    for kind_, name, *rest in (line.split() for line in printed.splitlines()):
        if kind_ == "N":
            numbers[name] = int(rest[0])
        elif kind_ == "S":
            structures[name] = (int(rest[0]), {})
        else:
            structures[name][1][rest[0]] = (int(rest[1]), int(rest[2]))
    return numbers, structures


def module(includes: Path) -> str:
    """The text of native/verbs_abi.py."""
    numbers, structures = layout(includes)
    lines = [
        '"""What libibverbs\' header lays out; made by tools/verbs_abi.py, not to be edited."""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import Dict, Tuple",
        "",
        "# fmt: off",
        "NUMBERS: Dict[str, int] = {",
        *(f'    "{name}": {value},' for name, value in numbers.items()),
        "}",
        "STRUCTURES: Dict[str, Tuple[int, Dict[str, Tuple[int, int]]]] = {",
    ]
    for name, (size, fields) in structures.items():
        lines.append(f'    "{name}": ({size}, {{')
        lines += [f'        "{field}": {where},' for field, where in fields.items()]
        lines.append("    }),")
    lines += ["}", '"""By structure: its bytes, and the offset and bytes of each field."""', ""]
    return "\n".join(lines)


def across(checkout: str, tags: list[str]) -> int:
    """Print for each tag how it differs from the newest; return 1 if any number or offset differs."""
    if not tags:
        named = subprocess.run(
            ["git", "-C", checkout, "tag", "--list", "v*.0"], check=True, capture_output=True, text=True
        ).stdout.split()
        tags = sorted((tag for tag in named if int(tag[1:-2]) >= 28), key=lambda tag: int(tag[1:-2]))
    reference, differs = None, False
    for tag in reversed(tags):
        with tempfile.TemporaryDirectory() as folder:
            packed = subprocess.run(
                ["git", "-C", checkout, "archive", tag, "libibverbs", "kernel-headers/rdma"],
                capture_output=True, check=True,
            ).stdout  # fmt: skip
            with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
                unpack(archive, Path(folder))
            Path(folder, "rdma").symlink_to("kernel-headers/rdma")
            Path(folder, "infiniband").symlink_to("libibverbs")
            for name in ("ib_user_ioctl_verbs.h", "rdma_user_ioctl_cmds.h"):
                Path(folder, "libibverbs", name).symlink_to(f"../kernel-headers/rdma/{name}")
            found = layout(Path(folder))
        reference = reference or found
        same = found[0] == reference[0] and all(
            fields == reference[1][name][1] for name, (_, fields) in found[1].items()
        )
        grew = [name for name, (size, _) in found[1].items() if size != reference[1][name][0]]
        differs = differs or not same
        print(
            f"{tag}: {'the same' if same else 'DIFFERS'}{'; other size: ' + ', '.join(grew) if grew else ''}"
        )
    return int(differs)


def main(words: list[str]) -> int:
    if words[:1] == ["--tags"]:
        return across(words[1], words[2:])
    sys.stdout.write(module(Path(words[0] if words else "/usr/include")))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
