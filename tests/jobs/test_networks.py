"""What lines decide before any channel exists, NVLink between hosts, rails, and releases that are newer."""

from __future__ import annotations

import pytest

from gdrkit.jobs.document import document, exit_code, summary
from gdrkit.jobs.job import JobAnalysis, Rank
from gdrkit.jobs.text import text
from tests.jobs.samples import info, warn
from tests.jobs.test_samples import analysed


def ranks(found: JobAnalysis) -> list[Rank]:
    return [rank for job in found.jobs for rank in job.ranks]


def init(rank: int, size: int, device: int = 0) -> str:
    return (
        f"ncclCommInitRank comm 0x1 rank {rank} nranks {size} cudaDev {device} nvmlDev {device} "
        f"busId {device}b000 commId 0xab - Init START"
    )


# -- lines that decide without a channel -----------------------------------------------------------------


TCP = "Using network Socket"


@pytest.mark.parametrize(
    ("lines", "path", "code"),
    [
        (["Failed to open libibverbs.so[.1]", TCP], "socket", "verbs-library-missing"),
        (["NET/IB : No device found.", TCP], "socket", "port-down"),
        (["NCCL_IB_DISABLE set by environment to 1.", TCP], "socket", "ib-disabled-by-env"),
        (["NCCL_IB_DISABLE set by environment to 1."], "socket", "ib-disabled-by-env"),
        (["NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0' (no module)"], "bounced",
         "peermem-not-loaded"),
        (["NET/OFI The device does not support RDMA, disabling GDR"], "bounced",
         "efa-p2p-unavailable"),
        (["NET/IB : GPU Direct RDMA Disabled for HCA 0 'a'",
          "NET/IB : GPU Direct RDMA Enabled for HCA 1 'b'"], None, ""),
        (["NCCL_IB_DISABLE set by environment to 0.", "Using network IB"], None, ""),
        (["NCCL_IB_DISABLE set by environment to 1.", "NET/OFI Using aws-ofi-nccl 1.9",
          "Using network AWS Libfabric"], None, ""),
    ],
)  # fmt: skip
def test_a_rank_without_a_channel_has_the_network_that_its_lines_decide(lines, path, code):
    found = analysed(info("n1:7", 0, init(0, 2), *lines))
    (rank,) = ranks(found)

    assert rank.network_path == path
    assert found.state == ("blocked" if path else "unknown")
    assert exit_code(document(found)) == (2 if path else 3)
    codes = {one for reason in rank.network_reasons for one in reason.codes}
    assert code in codes if code else not codes
    verb = {"socket": "uses TCP", "bounced": "cannot use GPUDirect RDMA", None: "?"}[path]
    assert (summary(found) == f"no channel line, but 1 rank {verb}") == bool(path)


def test_a_library_that_dlopen_does_not_find_is_no_matter_of_devices():
    found = analysed(info("n1:7", 0, init(0, 2), "Failed to open libibverbs.so[.1]", TCP))

    assert {reason.codes for reason in ranks(found)[0].network_reasons} == {("verbs-library-missing",)}


def test_lines_that_no_process_is_named_in_decide_as_well():
    """As in a pasted text."""
    found = analysed("NCCL INFO NET/IB : No device found.\nNCCL INFO Using network Socket\n")

    assert [(rank.process, rank.network_path) for rank in ranks(found)] == [("", "socket")]
    assert found.state == "blocked"


@pytest.mark.parametrize(
    "where",
    [
        [init(0, 1)],
        [init(0, 8), "comm 0x1 rank 0 nRanks 8 nNodes 1 localRanks 8 localRank 0 MNNVL 0"],
    ],
    ids=["one rank", "one node"],
)
def test_a_job_on_one_host_needs_no_network(where: list[str]):
    found = analysed(info("n1:7", 0, *where, "NET/IB : No device found.", "Using network Socket"))

    assert found.state == "unknown"
    assert ranks(found)[0].network_path == "socket"


def test_all_ranks_on_one_host_need_no_network_and_a_missing_one_may():
    both = [
        info("n1:7", 0, init(0, 2), "Using network Socket"),
        info("n1:8", 1, init(1, 2, 1), "Using network Socket"),
    ]

    assert analysed("".join(both)).state == "unknown"
    assert analysed(both[0]).state == "blocked"


def test_a_channel_outranks_what_other_lines_decide():
    found = analysed(
        info("n1:7", 0, init(0, 1), "NET/IB : No device found.", "Using network Socket",
             "Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA")
    )  # fmt: skip

    assert found.state == "active"
    assert ranks(found)[0].network_path is None


def test_the_version_of_a_log_without_channels_is_shown():
    found = analysed("NCCL version 2.16.5+cuda11.8\n" + info("n1:7", 0, "Using network IB"))

    assert "NCCL 2.16.5, 1 rank on 1 host" in text(document(found))


def test_a_network_that_does_not_start_is_an_error_and_one_that_is_skipped_is_not():
    lines = info("n1:7", 0, "Failed to initialize NET plugin IB")
    stopped = lines + warn("n1:7", 0, "plugin/net.cc:349", "Failed to initialize any NET plugin")

    assert [error.call for error in analysed(stopped).errors] == ["network plugin"]
    assert [error.call for error in analysed(lines).errors] == []


# -- numbers whose meaning a level fixes -----------------------------------------------------------------

PAIR = "GPU Direct RDMA Disabled for GPU 18000 / HCA 0 (distance 5 > {limit})"


@pytest.mark.parametrize(
    ("level", "limit", "words"),
    [
        ("PHB", 4, "SYS, but PHB is the farthest allowed"),  # 4 is PHB in 2.6 and 2.7 alone
        ("PXB", 4, "PHB or PXN"),
        (None, 4, "PHB or PXN, if the level is NCCL's default"),
        ("PIX", 9, "depends on the version"),  # 9 was never PIX
    ],
)
def test_a_level_that_nccl_names_gives_its_number_a_meaning(level, limit, words):
    lines = [] if level is None else [f"NCCL_NET_GDR_LEVEL set by environment to {level}"]
    found = analysed(info("n1:7", 0, init(0, 2), *lines, PAIR.format(limit=limit)))

    assert words in " ".join(text(document(found)).split())


BUS = "GPU Direct RDMA {} for GPU {} / HCA {} (distance {} > 4)"


@pytest.mark.parametrize(
    ("pairs", "code"),
    [
        ([("Disabled", "ca000", 0, 7)], "pair-cross-socket"),
        ([("Disabled", "ca000", 0, 7), ("Disabled", "17000", 0, 7)], "pair-cross-socket"),
        ([("Disabled", "ca000", 0, 7), ("Enabled", "17000", 0, 3)], ""),
        ([("Disabled", "ca000", 0, 7), ("Disabled", "17000", 0, 5)], ""),
        ([("Disabled", "ca000", 1, 7)], ""),
    ],
)
def test_a_bus_id_is_of_a_rank_whose_channels_have_an_index_if_no_line_differs(
    pairs: list[tuple[str, str, int, int]], code: str
):
    lines = [
        "NCCL version 2.19.3+cuda12.2",
        "NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'",
        *(BUS.format(*pair) for pair in pairs),
        "Channel 00/0 : 1[0] -> 0[0] [receive] via NET/IB/0",
    ]
    found = analysed(info("n1:7", 0, *lines))

    assert [one.code for one in found.findings if one.status == "failed"] == ([code] if code else [])


def test_a_bus_id_that_a_communicator_names_is_compared():
    ours = "ncclCommInitRank comm 0x5 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId {} commId 0x9 - Init START"
    lines = [
        "NCCL version 2.19.3+cuda12.2",
        BUS.format("Disabled", "ca000", 0, 7),
        "Channel 00/0 : 1[0] -> 0[0] [receive] via NET/IB/0",
    ]
    for bus, code in (("ca000", ["pair-cross-socket"]), ("41000", [])):
        found = analysed(info("n1:7", 0, ours.format(bus), *lines))
        assert [one.code for one in found.findings if one.status == "failed"] == code


# -- NVLink between hosts --------------------------------------------------------------------------------


def tray(host: str, rank: int, clique: str = "7ffe", state: int = 3) -> str:
    return info(
        f"{host}:7", 0,
        f"MNNVL busId 0x801000 fabric UUID a4.7d cliqueId 0x{clique} state {state} healthMask 0xaa",
        f"MNNVL 1 cliqueId {clique} cliqueSize 2 cliqueRank {rank}",
        f"comm 0x1 rank {rank} nRanks 2 nNodes 1 localRanks 2 localRank {rank} MNNVL 1",
        "Using network Socket",
        f"Channel 00/0 : {rank}[0] -> {1 - rank}[0] via P2P/MNNVL",
    )  # fmt: skip


def test_traffic_between_hosts_over_nvlink_is_a_leg_of_its_own():
    found = analysed(tray("a", 0), tray("b", 1))
    counts = found.counts

    assert (counts.nvlink, counts.direct, counts.bounced, counts.socket) == (2, 0, 0, 0)
    assert (counts.ranks, counts.expected, found.damaged) == (2, 2, 0)
    assert (found.state, exit_code(document(found)), found.errors) == ("active", 0, [])
    assert summary(found) == "2 ranks: 2 legs over NVLink (MNNVL), none over a NIC"
    assert any("another domain" in line.truth for line in found.misleading)


def test_bounced_legs_between_domains_stay_bounced():
    found = analysed(tray("a", 0), info("b:7", 0, "Channel 00/0 : 1[0] -> 2[0] [send] via NET/IB/0"))

    assert (found.state, found.counts.nvlink, found.counts.bounced) == ("blocked", 1, 1)


def test_two_cliques_and_a_gpu_outside_its_fabric_are_named():
    cliques = analysed(tray("a", 0), tray("b", 1, clique="e52"))
    outside = analysed(tray("a", 0), tray("b", 1, state=2))

    assert [error.call for error in cliques.errors] == ["NVLink cliques"]
    assert "7ffe, e52" in cliques.errors[0].meaning
    assert [error.call for error in outside.errors] == ["NVLink fabric"]


def test_the_fabric_line_of_a_single_hgx_host_says_nothing():
    lines = info("n1:7", 0, "MNNVL busId 0x1801000 fabric UUID 0.0 cliqueId 0x0 state 2 healthMask 0x0")

    assert analysed(lines).errors == []


def test_a_cuda_failure_counts_only_where_nvlink_between_hosts_is_used():
    failure = warn("a:7", 0, "transport/p2p.cc:281", "Cuda failure 801 'operation not supported'")
    words = "MNNVL (cliqueSize 8) is available but not working on this system. Check the IMEX channel"
    channel = warn("a:7", 0, "mnnvl.cc:67", f"{words} configuration (/dev/nvidia-caps-imex-channels).")

    assert analysed(failure).errors == []
    assert [error.call for error in analysed(tray("a", 0) + failure).errors] == ["fabric memory"]
    assert [error.call for error in analysed(failure + channel).errors] == ["IMEX channel"]


# -- rails -----------------------------------------------------------------------------------------------


def leg(rank: int, peer: int, direction: str, nic: int, channel: int = 0) -> str:
    ends = f"{rank}[0] -> {peer}[0]" if direction == "send" else f"{peer}[0] -> {rank}[0]"
    return f"Channel {channel:02}/0 : {ends} [{direction}] via NET/IB/{nic}/GDRDMA"


def test_each_connection_of_a_ring_is_checked_once():
    """Both ends print it: one that it sends, one that it receives."""
    crossing = analysed(
        info("a:7", 0, init(0, 2), leg(0, 1, "send", 0), leg(0, 1, "receive", 0))
        + info("b:7", 0, init(1, 2), leg(1, 0, "send", 1), leg(1, 0, "receive", 0))
    ).crossing

    assert crossing is not None and (crossing.count, crossing.checked) == (1, 2)


def test_a_connection_between_different_nics_crosses_rails():
    found = analysed(
        info("a:7", 0, init(0, 2), leg(0, 1, "send", 0), leg(0, 1, "send", 1, 1)),
        info("b:7", 0, init(1, 2), leg(1, 0, "receive", 0), leg(1, 0, "receive", 3, 1)),
    )
    crossing = found.crossing

    assert crossing is not None
    assert (crossing.count, crossing.checked, crossing.channel) == (1, 2, 1)
    assert (crossing.sending_device, crossing.receiving_device) == ("IB/1", "IB/3")
    assert "NCCL_CROSS_NIC=0" in text(document(found))


@pytest.mark.parametrize(
    "other",
    [
        info("b:7", 0, init(1, 2), leg(1, 0, "receive", 0)),  # the same rail
        info("b:7", 0, init(1, 2), leg(1, 0, "receive", 3, channel=5)),  # another channel
        info("b:7", 0, init(1, 2), leg(1, 0, "send", 3)),  # the other direction
        "",
    ],
)
def test_equal_nics_and_unknown_ends_cross_nothing(other: str):
    assert analysed(info("a:7", 0, init(0, 2), leg(0, 1, "send", 0)), other).crossing is None


def test_names_outrank_indexes_where_the_order_of_nics_differs():
    using = "NET/IB : Using [0]{0}:1/IB [1]{1}:1/IB [RO]; OOB eth0:10.0.0.1<0>"
    found = analysed(
        info("a:7", 0, init(0, 2), using.format("mlx5_0", "mlx5_1"), leg(0, 1, "send", 0)),
        info("b:7", 0, init(1, 2), using.format("mlx5_1", "mlx5_0"), leg(1, 0, "receive", 1)),
    )

    assert found.crossing is None


FUSED = "NET/IB : Made virtual device [2] name=mlx5_0+mlx5_1 speed=400000 ndevs=2"


@pytest.mark.parametrize(
    ("lines", "nic", "crossed"),
    [
        ([FUSED], 2, False),
        ([], 0, False),  # one of the two ports alone
        ([], 1, False),
        ([], 3, True),
    ],
)
def test_fused_nics_are_on_the_rails_of_both_of_their_parts(lines: list[str], nic: int, crossed: bool):
    using = "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [3]mlx5_3:1/IB [RO]; OOB eth0:10.0.0.1<0>"
    found = analysed(
        info("a:7", 0, init(0, 2), using, FUSED, leg(0, 1, "send", 2)),
        info("b:7", 0, init(1, 2), using, *lines, leg(1, 0, "receive", nic)),
    )

    assert (found.crossing is not None) is crossed


def test_a_channel_that_arrives_over_two_nics_crosses_no_rail_if_one_of_them_is_on_it():
    found = analysed(
        info("a:7", 0, init(0, 2), leg(0, 1, "send", 0)),
        info("b:7", 0, init(1, 2), leg(1, 0, "receive", 0), leg(1, 0, "receive", 3)),
    )

    assert found.crossing is None


@pytest.mark.parametrize(
    ("ranks", "expected"),
    [(1, []), (2, [("warning", "mlx5_1")]), (3, [("warning", "mlx5_1")])],
    ids=["fewer", "as many", "more"],
)
def test_an_idle_nic_is_a_fault_on_a_host_with_as_many_ranks_as_nics(ranks: int, expected: list[object]):
    """With fewer ranks NCCL leaves a NIC out, because each uses its nearest."""
    using = "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>"
    host = [info(f"a:{9 - rank}", rank, using, leg(rank, 8, "send", 0)) for rank in range(ranks)]
    found = [finding for finding in analysed(*host).findings if finding.code == "hca-not-selected"]

    assert [(finding.status, finding.subject) for finding in found] == expected


def test_one_full_host_is_enough_beside_others_with_fewer_ranks():
    using = "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>"
    places = (("a:7", 0), ("a:8", 1), ("b:7", 2))
    found = analysed(*(info(name, rank % 2, using, leg(rank, 8, "send", 0)) for name, rank in places))

    (unused,) = (finding for finding in found.findings if finding.code == "hca-not-selected")
    assert unused.status == "warning" and "NCCL_DEBUG_SUBSYS=INIT,GRAPH" in unused.todo


# -- forms of newer releases -----------------------------------------------------------------------------


def test_a_newer_release_is_read_as_far_as_it_is_known_and_said_to_be_newer():
    found = analysed(
        info("a:7", 0, "NCCL version 2.40.1+cuda14.0", leg(0, 1, "send", 0) + "/rail=0",
             "Channel 01/0 : 0[0] -> 1[0] [send] via WARP/3")
    )  # fmt: skip
    page = text(document(found))

    assert (found.counts.direct, found.damaged, found.newer) == (1, 1, ("2.40.1",))
    assert "NCCL 2.40.1 is newer than this gdrkit" in page and "of an unknown form" in page
    assert analysed(info("a:7", 0, "NCCL version 2.32.6+cuda14.0", leg(0, 1, "send", 0))).newer == ()


def test_lines_without_a_frame_count_for_each_rank_that_they_name():
    lines = [leg(0, 2, "send", 0), leg(1, 3, "send", 0), leg(0, 2, "send", 0, 1)]
    for form in ("{}", "NCCL INFO {}", "# {}", "[0] NCCL INFO {}"):
        counts = analysed("".join(form.format(line) + "\n" for line in lines)).counts
        assert (counts.ranks, counts.direct) == (2, 3), form


def test_a_retry_is_not_the_failure():
    words = "Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_1:1, curr state INIT"
    retries = info("a:7", 0, f"{words}, retrying 3/35 after 300 msec of sleep")
    ended = warn("a:7", 0, "misc/ibvwrap.cc:9", words)

    assert analysed(retries).errors == []
    assert [error.number for error in analysed(retries + ended).errors] == [110]


def test_a_name_is_not_compared_with_an_index():
    using = "NET/IB : Using [0]mlx5_4:1/IB [RO]; OOB eth0:10.0.0.1<0>"
    found = analysed(
        info("a:7", 0, init(0, 2), using, leg(0, 1, "send", 0)),
        info("b:7", 0, init(1, 2), leg(1, 0, "receive", 0)),
    )

    assert found.crossing is None


def test_no_module_is_printed_only_by_releases_without_dmabuf():
    line = "NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'"
    old, new = (analysed(info("n1:7", 0, init(0, 2), line + more)) for more in (" (no module)", ""))

    assert "verbs-lacks-dmabuf" not in ranks(old)[0].network_reasons[0].codes
    assert "verbs-lacks-dmabuf" in ranks(new)[0].network_reasons[0].codes


def test_the_setting_that_turns_rdma_off_is_a_finding_and_only_a_note_on_one_host():
    line = "NCCL_IB_DISABLE set by environment to 1."
    two = analysed(info("n1:7", 0, init(0, 2), line))
    one = analysed(info("n1:7", 0, init(0, 1), line))

    assert [(found.code, found.status) for found in two.findings] == [("ib-disabled-by-env", "failed")]
    assert [(found.code, found.status) for found in one.findings] == [("ib-disabled-by-env", "note")]


@pytest.mark.parametrize("comment", ["  # <- here", "   <-- no GDRDMA", "  \u2190 look"])
def test_what_people_write_behind_a_line_is_not_part_of_it(comment: str):
    found = analysed(info("a:7", 0, leg(0, 1, "send", 0) + comment))

    assert (found.counts.direct, found.damaged) == (1, 0)


def test_an_error_beside_direct_legs_is_no_exit_0():
    """The job stops, although every leg is direct."""
    leg = "Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA"
    other = info("n2:7", 0, leg.replace("send", "receive"))
    failed = "NET/IB : Got completion with error 4, opcode 0, len 0, vendor err 81"

    assert exit_code(document(analysed(info("n1:7", 0, leg) + other))) == 0
    assert exit_code(document(analysed(info("n1:7", 0, leg, failed) + other))) == 1


def test_the_summary_counts_ranks_that_cannot_beside_those_that_do():
    leg = "Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA"
    found = analysed(info("n1:7", 0, leg) + info("n2:7", 0, TCP))

    assert summary(found).startswith("2 ranks x 1 channel: 1 direct, 1 rank without a direct path")


@pytest.mark.parametrize(
    ("remote", "codes"),
    [
        ("::ffff:10.7.2.4", ("rail-unreachable",)),
        ("fe80::9a03:9bff:fe1c:2d3e", ("rail-unreachable", "gid-index-wrong")),
    ],
)
def test_two_routable_gids_leave_only_the_rail(remote: str, codes: tuple[str, ...]):
    """NVIDIA/nccl issue 769: a link-local GID does not resolve either."""
    line = (
        "Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_2:1, curr state INIT, next "
        f"state RTR, local GID index 3, local GID ::ffff:10.7.1.4, remote GID {remote}"
    )
    (error,) = analysed(warn("n1:7", 0, "misc/ibvwrap.cc:339", line)).errors

    assert error.codes == codes
    assert ("wrong GID" in error.meaning) == (len(codes) > 1)


# -- networks that need no reason, or give it -------------------------------------------------------------


def test_sockets_of_the_loopback_interface_alone_reach_no_other_host():
    """Project-HAMi/HAMi-core issue 261."""
    lines = ("NET/IB : No device found.", "NET/Socket : Using [0]{}", TCP, init(1, 2))

    def state(name: str) -> str:
        return analysed(info("p1:9", 1, *(line.format(name) for line in lines))).state

    assert state("lo:127.0.0.1<0>") == "unknown"
    assert state("eth0:10.0.0.1<0>") == "blocked"
    assert state("lo:127.0.0.1<0> [1]eth0:10.0.0.1<0>") == "blocked"


def test_the_plugin_that_sends_over_tcp_is_why_a_path_is_not_direct():
    """NVIDIA/nccl issue 1519: Google's FastSocket."""
    disabled = "NET/{} : GPU Direct RDMA Disabled for HCA 0 'eth0'"
    (rank,) = ranks(analysed(info("n1:7", 0, disabled.format("FastSocket"))))
    assert [one.codes for one in rank.network_reasons] == [("net-plugin-replaced",)]
    (rank,) = ranks(analysed(info("n1:7", 0, "NET/Socket : Using [0]eth0:10.0.0.1<0>", TCP)))
    assert "net-plugin-replaced" not in [code for one in rank.network_reasons for code in one.codes]


def test_a_device_that_cannot_be_opened_is_why_none_is_found():
    """NVIDIA/nccl issue 451."""
    opened = warn("n1:7", 0, "transport/net_ib.cc:148", "NET/IB : Unable to open device mlx5_0")
    found = info("n1:7", 0, "NET/IB : No device found.", TCP)
    (rank,) = ranks(analysed(opened + found))
    assert [one.codes for one in rank.network_reasons] == [
        ("rdma-device-not-in-container", "verbs-provider-mismatch")
    ]
    (rank,) = ranks(analysed(found))
    assert "port-down" in rank.network_reasons[0].codes
