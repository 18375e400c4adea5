"""NCCL with its own network code: src/transport/net_ib."""

from __future__ import annotations

from gdrkit.evidence import EvidenceAbsent, EvidenceMissing, Missing, MissingReason
from gdrkit.facts.kubernetes import has_gpu_operator
from gdrkit.facts.libraries import nccl_copies, nccl_is_installed, nccl_version
from gdrkit.facts.wheels import LibraryCopy
from gdrkit.formats.versions import numbers
from gdrkit.formats.whole_number import integer
from gdrkit.node import Node
from gdrkit.programs.consumer import Consumer, PathSupport, RequiredFiles, Switch
from gdrkit.programs.nccl.log import nccl_logs
from gdrkit.programs.nccl.releases import NEWEST, changing, first_release_with, release
from gdrkit.rules.capabilities import DIRECT, Path


def copies(node: Node) -> tuple[LibraryCopy, ...]:
    """Every copy of NCCL on disk or in a log."""
    found = {copy.source: copy for copy in nccl_copies(node)}
    for log in nccl_logs(node):
        from gdrkit.programs.nccl.log_records import Version

        for logged in log.all(Version)[:1]:
            where = node.describe_line(log.path, logged.line)
            found[where] = LibraryCopy(logged.record.text, where)
    if found:
        return tuple(found.values())
    missing = Missing(
        "version of libnccl", MissingReason.UNDECIDED, "strings libnccl.so.2 | grep 'NCCL version'"
    )
    # If none is installed, or the GPU Operator manages the driver, container images bring the newest.
    raise (EvidenceAbsent if has_gpu_operator(node) or not nccl_is_installed(node) else EvidenceMissing)(
        missing
    )


def installed_or_newest(node: Node) -> tuple[str, tuple[Missing, ...]]:
    """The installed NCCL; where none was collected, the newest, and the evidence that would make it sure."""
    try:
        return nccl_version(node), ()
    except EvidenceMissing as error:
        return NEWEST, (error.missing,)


NCCL = Consumer(
    name="nccl",
    title="NCCL",
    copies=copies,
    assumed=NEWEST,
    version=nccl_version,
    common=True,
    without="copies through host memory, and only its log says so",
    elsewhere="sends over NVLink through another GPU and its NIC (PXN), which both then share",
    uses=(
        PathSupport(path=Path.DMABUF, since=numbers(first_release_with("has_dmabuf"))),
        PathSupport(
            path=Path.PEERMEM,
            required_files=tuple(
                RequiredFiles(numbers(row.since), release(row.since).peermem_files, row.source)
                for row in changing("peermem_files")
            ),
        ),
        PathSupport(path=Path.STAGED),
        PathSupport(path=Path.SOCKET),
    ),
    switches=(
        Switch(
            name="NCCL_DMABUF_ENABLE",
            closes=(Path.DMABUF,),
            off=lambda value: integer(value) == 0,
            source="src/init.cc, NCCL_PARAM(DmaBufEnable)",
        ),
        Switch(
            name="NCCL_IB_DISABLE",
            closes=(*DIRECT, Path.STAGED),
            off=lambda value: integer(value) not in (None, 0),
            network=True,
            source="src/transport/net_ib/init.cc, NCCL_PARAM(IbDisable)",
        ),
        Switch(
            name="NCCL_NET",
            closes=(*DIRECT, Path.STAGED),
            off=lambda value: value.lower() == "socket",
            network=True,
            source="src/plugin/net.cc",
        ),
        Switch(
            name="NCCL_NET_GDR_READ",
            closes=DIRECT,
            off=lambda value: integer(value) == 0,
            direction="send",
            source="src/graph/paths.cc, NCCL_PARAM(NetGdrRead)",
        ),
    ),
)
