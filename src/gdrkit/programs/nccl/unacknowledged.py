"""What to do first about a completion with status 12, whose line names both ends.

NCCL adds GIDs to the line where the link layer is Ethernet, and only there, so that they are of RoCE: the
prefix fe80 says nothing on InfiniBand. Since 2.21 it takes the GID of RoCE v2 with an IPv4 address itself,
unless NCCL_IB_GID_INDEX is set or the interface has no such address.

Source: NCCL src/transport/net_ib.cc, ncclIbTest() and ncclIbGetGidIndex(), in net_ib/p2p.cc since 2.29.2.
"""

from __future__ import annotations

from collections.abc import Iterable

from gdrkit.formats.regex import regex

_LINE = regex(
    r".*Got completion from peer (?P<peer>[\w.:-]{2,60}?)<\d{1,5}> .{0,400}?(?:status=(?:\w+\()?12\b)"
    r"(?:.{0,400}? localGid (?P<gid>[\da-fA-F.:]{2,50}))?(?:.{0,400}? hca (?P<hca>[\w.-]{1,60}))?"
)
_INFINIBAND = regex(r"\[\d{1,4}\](?P<hca>[\w.-]{1,60}):\d{1,3}/IB\b")


def steps(line: str, host: str, others: Iterable[str] = ()) -> tuple[str, ...]:
    """What to do about it on both hosts; () where the line does not name them. `others`: the lines beside
    it, of which NCCL's list of devices may say that this one is on InfiniBand."""
    found = _LINE.match(line)
    if found is None or not found["hca"]:
        return ()
    hca, peer, here = found["hca"], found["peer"], host or "this host"
    test = f"ib_write_bw -d {hca}"
    on_infiniband = any(one["hca"] == hca for text in others for one in _INFINIBAND.finditer(text))
    if on_infiniband or not (found["gid"] or "").lower().startswith("fe80"):
        return (
            f"{hca} on {here} got no answer from the NIC of {peer}:",
            f"1. Read the log of the ranks on {peer}, and `dmesg` there: a process or a port that died comes"
            " first.",
            f"2. Look for errors that grow on both hosts: `rdma statistic show link {hca}/1`.",
            f"3. Test the path without NCCL: `{test}` on {peer}, then `{test} {peer}` on {here}.",
        )
    return (
        f"{hca} on {here} and the NIC of {peer} use link-local GIDs (fe80), which no router forwards: on"
        " RoCE the GID index may be wrong, or the interface lacks an IPv4 address.",
        f"1. `show_gids` on both hosts: find the INDEX of {hca} with type v2 and an IPv4 address. If there"
        " is none, give its interface an address.",
        f"2. Test it without NCCL: `{test} -x INDEX` on {peer}, then `{test} -x INDEX {peer}` on {here}.",
        "3. If that works, set NCCL_IB_GID_INDEX to that INDEX on all hosts. NCCL 2.21 and newer choose it"
        " themselves where the variable is not set.",
        "4. If it fails as well, the port counters at both ends show lost packets.",
    )
