"""Faults of job scripts: what keeps ranks from reaching other hosts, or from locking memory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from gdrkit.formats.regex import regex
from gdrkit.repair.config.fault import ConfigFault, fault_at
from gdrkit.rules.memlock_limit import KERNEL_DEFAULT_BYTES

HCA, GID_INDEX = "NCCL_IB_HCA", "NCCL_IB_GID_INDEX"


def address_faults(
    line: int, name: str, value: str, where: str, shown: Mapping[str, str]
) -> Iterator[ConfigFault]:
    """The fault of an interface or a GID by which no other host can be reached.

    The first GID of a RoCE port is RoCE v1 at its link-local address: Linux
    drivers/infiniband/core/roce_gid_mgmt.c and cache.c, ib_cache_gid_set_default_gid(). rdma-core names
    devices roce* that are RoCE: kernel-boot/rdma_rename.c."""
    if name == "NCCL_SOCKET_IFNAME" and value.lstrip("=") == "lo":
        seen = "lo is this host alone: no rank on another one can connect"
        expected = "an interface that all hosts of the job reach, unless it has one host"
        yield fault_at(line, "wrong-value", where, seen, expected, "warning")
    if name == GID_INDEX and value == "0" and shown.get(HCA, "").lstrip("=").startswith("roce"):
        seen = "0 is the link-local address, by RoCE v1, of the RoCE devices that NCCL_IB_HCA names"
        expected = "no setting: NCCL 2.21 and newer choose a RoCE v2 address"
        yield fault_at(line, "gid-index-wrong", where, seen, expected, "warning")


_LIMIT = regex(r"^[ \t]{0,40}ulimit (?:-[HS] )?-[HS]?l (\d{1,12})\b", re.MULTILINE)


def limit_faults(text: str) -> Iterator[ConfigFault]:
    """The fault of the limit on locked memory that a script sets, in KiB: bash(1), ulimit."""
    if (found := _LIMIT.search(text)) is not None:
        low = int(found[1]) << 10 <= KERNEL_DEFAULT_BYTES
        seen = f"{found[1]} KiB of locked memory {'are' if low else 'may be'} too little for RDMA"
        line = text.count("\n", 0, found.start()) + 1
        yield fault_at(line, "memlock-limit", "", seen, "ulimit -l unlimited", "warning" if low else "note")
