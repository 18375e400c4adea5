"""What RoCE connections of a job show of its ports: small packets, and addresses without IPv4."""

from __future__ import annotations

from gdrkit.jobs.gather import GatheredRanks
from gdrkit.jobs.job import ConnectionRemark
from gdrkit.programs.nccl import log_records as nccl_records

MOST = 8
"""As many as are printed: each device has its own."""
LARGEST = 4096
"""The largest packet of RDMA: InfiniBand specification, 9.7; enum ibv_mtu."""
SMALL = (
    "RoCE sends packets of {0} bytes, where 4096 are possible: its interfaces have a smaller Ethernet MTU;"
    " `gdr codes MTU` prints how to raise it at both ends"
)
LINK_LOCAL = (
    "{0} is reached by a link-local GID: give its interface an IPv4 address, in a network of its own, unless"
    " NCCL_IB_GID_INDEX chooses that GID"
)


def connection_remarks(gathered: GatheredRanks) -> tuple[ConnectionRemark, ...]:
    """What is unusual about connections, once for each size and each device, with a line that shows it."""
    found: dict[str, int] = {}
    for name, process in gathered.processes.items():
        names = gathered.names(name)
        for one, entry in process.all(nccl_records.Connection).items():
            texts = [SMALL.format(one.packet_bytes)] if one.packet_bytes < LARGEST else []
            if one.link_local and (device := names.get(one.index, "")):
                texts.append(LINK_LOCAL.format(device))
            for text in texts:
                found[text] = min(entry.position, found.get(text, entry.position))
    ordered = sorted(found.items(), key=lambda item: item[1])[:MOST]
    return tuple(ConnectionRemark(text=text, line=gathered.where(at)) for text, at in ordered)
