"""What to do first about packets of UCX that the peer did not acknowledge.

UCX prints the LID of the peer on InfiniBand, and its GID on RoCE: src/uct/ib/mlx5/ib_mlx5_log.c,
uct_ib_mlx5_completion_with_err(), and uct_ib_mlx5_av_dump(), which prints the LID in decimal.
"""

from __future__ import annotations

from collections.abc import Iterable

from gdrkit.formats.regex import regex

_LINE = regex(
    r".*Transport retry count exceeded on (?P<hca>[\w.-]{1,60}):(?P<port>\d{1,3})/(?P<link>IB|RoCE) \(synd"
)
_LID = regex(r".*\bQP 0x[\da-f]{1,8}\b.{0,80}\[rqpn 0x[\da-f]{1,8}.{0,20}\brlid (?P<lid>\d{1,5})\b")
MOST_LIDS = 4
"""Peers that are named: more hint at this end, or at the fabric."""


def ucx_steps(line: str, others: Iterable[str]) -> tuple[str, ...]:
    """What to do about it; () for a line of another program. `others`: the lines beside it, which name the
    peers."""
    found = _LINE.match(line)
    if found is None:
        return ()
    hca, port, infiniband = found["hca"], found["port"], found["link"] == "IB"
    lids = list(dict.fromkeys(one["lid"] for text in others if (one := _LID.match(text)))) * infiniband
    named = f" with LID {', '.join(lids[:MOST_LIDS])}" if lids else ""
    find = (
        f"find that node by `smpquery -C {hca} -P {port} nodedesc {lids[0]}`, or by its LID in the output of"
        " `iblinkinfo`, and read"
        if lids
        else "read"
    )
    fabric = (
        "`ibqueryerrors` and the log of the subnet manager show bad links"
        if infiniband
        else "RoCE also needs flow control on all switches, and a routed GID (`show_gids`)"
    )
    return (
        f"{hca} got no answer from the peer{named}:",
        f"1. To see whether the peer died first, {find} the output of its ranks and its `dmesg`.",
        f"2. Look for errors that grow on both nodes: `rdma statistic show link {hca}/{port}`; {fabric}.",
        f"3. Test the path without the job: `ib_write_bw -d {hca}` on the peer, then `ib_write_bw -d {hca}"
        " PEER` here. UCX_NET_DEVICES takes another NIC; UCX_TLS=rc,sm,self does without DC.",
    )
