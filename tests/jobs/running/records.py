"""Records of running processes, put together from what real machines showed.

The tables of RDMA are those of a guest (Debian 6.12.95, rdma_rxe, a module that exports dma-bufs as NVIDIA's
does); the processes are those of two H200s (driver 580.159, torch 2.11, NCCL 2.28.9). No machine has both:
how they are joined here is assumed.
"""

from __future__ import annotations

import json
from typing import Any

from gdrkit.jobs.running.judge import document
from gdrkit.jobs.running.record import decode

NET, PID = "net:[4026531840]", "pid:[4026531836]"
NIC, OTHER_NIC = "0000:b5:00.0", "0000:17:00.0"
GPU, OTHER_GPU = "0000:1b:00.0", "0000:1c:00.0"
H200, GB10, GH200 = "2335", "2e12", "2342"
RTS, INIT = 3, 1

NCCL = {"name": "libnccl.so.2", "path": "/x/libnccl.so.2", "version": "2.28.9+cuda13.0"}
UCX = {"name": "libucp.so.0.0.0", "path": "/x/libucp.so.0.0.0", "version": ""}


def process(pid: int, **changed: Any) -> dict[str, Any]:
    """A process of the NCCL job on two H200s; it has both GPUs open, and computes on the first."""
    return {
        "pid": pid, "started": 100 + pid, "uid": 0, "name": "python3",
        "cgroup": "0::/job_4711/step_0/user\n",
        "namespaces": {"pid": PID, "net": NET},
        "devices": {"/dev/nvidia0": 23, "/dev/nvidia1": 7, "/dev/nvidiactl": 2, "/dev/nvidia-uvm": 4},
        "mapped_devices": [], "buffers": [], "libraries": [NCCL], "denied": [],
        "environment": {"NCCL_P2P_DISABLE": "1"},
        "tcp": {"sockets": 20, "sent": 0, "received": 0, "sent_here": 0, "received_here": 0},
        **changed,
    }  # fmt: skip


def closed(pid: int, **changed: Any) -> dict[str, Any]:
    """The same process, as another user sees it."""
    hidden = {"devices": {}, "libraries": [], "environment": {}, "denied": ["environ", "fd", "maps"]}
    return process(pid, **{**hidden, **changed})


def tables(*rows: tuple[str, dict[str, int]]) -> dict[str, Any]:
    made: dict[str, Any] = {name: {"rows": [], "error": ""} for name in ("ctx", "pd", "cq", "mr", "qp")}
    for name, values in rows:
        made[name]["rows"].append(values)
    return made


def held(number: int, pid: int | None, *sizes: int, pairs: int = 0, state: int = RTS) -> list:
    """A context, its PD, and regions of these sizes in it. Without a pid its maker has ended."""
    owner = {} if pid is None else {"pid": pid}
    return [
        ("ctx", {"ctxn": number, **owner}),
        ("pd", {"pdn": number, "ctxn": number, **owner}),
        *(("mr", {"mrn": 100 * number + n, "bytes": size, "pdn": number, **owner})
          for n, size in enumerate(sizes)),
        *(("qp", {"lqpn": 100 * number + n, "rqpn": 7, "type": 2, "state": state, "pdn": number, **owner})
          for n in range(pairs)),
    ]  # fmt: skip


def device(*rows: tuple[str, dict[str, int]], name: str = "mlx5_0", index: int = 0) -> dict[str, Any]:
    return {"device": {"index": index, "device_name": name}, "counts": {}, "tables": tables(*rows)}


def bufinfo(*buffers: tuple[int, str, str], first: int = 1) -> str:
    """The kernel's table: size, exporter and attached device of each buffer."""
    head = "\nDma-buf Objects:\nsize    \tflags   \tmode    \tcount   \texp_name\tino     \tname\n"
    rows = [
        f"{size:08}\t00000002\t00080007\t00000001\t{exporter}\t{first + n:08}\t<none>\n\tAttached Devices:\n"
        + (f"\t{nic}\n" if nic else "") + f"Total {int(bool(nic))} devices attached\n\n"
        for n, (size, exporter, nic) in enumerate(buffers)
    ]  # fmt: skip
    return head + "".join(rows) + f"\nTotal {len(buffers)} objects, {sum(row[0] for row in buffers)} bytes\n"


SOURCES = ("processes", "rdma", "tcp", "ports", "buffers", "nvml", "node")


def record(*processes: dict[str, Any], **changed: Any) -> dict[str, Any]:
    """A record of a node with an H200 and a NIC, asked as root; nothing is attached."""
    denied = changed.pop("sources", {})
    gpu = changed.pop("gpu", H200)
    peermem = changed.pop("peermem", None)
    return {
        "schema": "gdrkit.running/1", "uid": 0, "namespaces": {"pid": PID, "net": NET},
        "sources": {
            name: {"status": "found", "why": "", "seconds": 0.01, **denied.get(name, {})} for name in SOURCES
        },
        "processes": list(processes), "denied_processes": 0, "rdma": [], "ports": [],
        "buffers": [{"text": bufinfo(), "truncated": False}],
        "nvml": computing(*(one["pid"] for one in processes)),
        "node": [
            {"gpu": GPU, "minor": 0, "model": "NVIDIA H200", "device_id": gpu},
            {"uverbs": "uverbs0", "device": "mlx5_0"},
            {"rdma_device": "mlx5_0", "address": NIC},
            {"rdma_device": "mlx5_1", "address": OTHER_NIC},
            *([] if peermem is None else [{"peermem_references": peermem}]),
        ],
        **changed,
    }  # fmt: skip


def judged(made: dict[str, Any], **chosen: Any):
    """The document for a record."""
    return document(decode(json.dumps(made).encode()), **chosen)


def moved(gpu: str = GPU, **numbers: int) -> dict[str, Any]:
    """What NVML counted on a GPU in 0.4 s, in bytes, as on an H200."""
    zero = {"nvlink_sent": 0, "nvlink_received": 0, "pcie_sent": 0, "pcie_received": 0}
    return {"gpu": gpu, "seconds": 0.4, **zero, **numbers}


def computing(*pids: int, gpu: str = GPU) -> list[dict[str, Any]]:
    """Processes that NVML lists on a GPU."""
    return [{"gpu": gpu, "pid": pid, "bytes": 1394 << 20} for pid in pids]


def verdict(made: dict[str, Any], pid: int = 701):
    """The verdict on a process of a record."""
    return next(one for one in judged(made).processes if one.pid == pid).verdict
