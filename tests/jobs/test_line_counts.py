"""Counting lines: launchers and runtimes, truncated lines, interleaved ranks, hostile bytes."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gdrkit.jobs import workers as job_workers
from gdrkit.jobs.analyse import analyse
from gdrkit.jobs.document import summary
from gdrkit.jobs.job import JobAnalysis, LogPosition
from gdrkit.jobs.line_counts import QUOTED, Tally
from gdrkit.jobs.runtime_prefixes import Unwrapper
from gdrkit.programs.nccl.log_records import Carrier
from tests.jobs.samples import SAMPLES, info
from tests.jobs.test_samples import analysed

LINES = [
    "NCCL_IB_HCA set by environment to =mlx5_0,mlx5_1",
    "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>",
    "Using network IB",
    "ncclCommInitRank comm 0x1 rank {rank} nranks 4 cudaDev {gpu} nvmlDev {gpu} busId {gpu}b000 "
    "commId 0xab - Init START",
    "Channel 00/0 : {rank}[{gpu}] -> {peer}[{gpu}] [send] via NET/IB/{gpu}/GDRDMA",
    "Channel 01/0 : {rank}[{gpu}] -> {peer}[{gpu}] [send] via NET/IB/{gpu}/GDRDMA",
    "Channel 00/0 : {peer}[{gpu}] -> {rank}[{gpu}] [receive] via NET/IB/{gpu}/GDRDMA",
    "Channel 01/0 : {peer}[{gpu}] -> {rank}[{gpu}] [receive] via NET/IB/{gpu}/GDRDMA/Shared",
]


def rank_lines(rank: int) -> list[str]:
    """The lines of one of four ranks on two nodes."""
    gpu, process = rank % 2, f"node{rank // 2}:{400 + rank}"
    lines = [line.format(rank=rank, gpu=gpu, peer=(rank + 2) % 4) for line in LINES]
    return info(process, gpu, *lines).splitlines()


JOB = [rank_lines(rank) for rank in range(4)]


def answers(found: JobAnalysis) -> object:
    """The legs of each rank, without positions."""
    return [
        (
            rank.rank, rank.process, rank.gpu,
            sorted((r.direction, r.carried, r.device, r.channels, r.shared_buffers) for r in rank.legs),
        )
        for job in found.jobs
        for rank in job.ranks
    ]  # fmt: skip


WHOLE = answers(analysed("\n".join(line for lines in JOB for line in lines) + "\n"))


@settings(deadline=None)
@given(st.randoms(use_true_random=False))
def test_any_interleaving_of_ranks_gives_the_same_answer(chance: random.Random):
    left = [list(lines) for lines in JOB]
    mixed = []
    while any(left):
        mixed.append(chance.choice([lines for lines in left if lines]).pop(0))

    assert answers(analysed("\n".join(mixed) + "\n")) == WHOLE


@settings(deadline=None)
@given(st.permutations(range(4)))
def test_one_file_per_rank_in_any_order_gives_the_same_answer(order: list[int]):
    assert answers(analysed(*("\n".join(JOB[rank]) + "\n" for rank in order))) == WHOLE


@settings(deadline=None)
@given(st.integers(min_value=0, max_value=31), st.randoms(use_true_random=False))
def test_tallies_of_two_halves_equal_one_of_the_whole(cut: int, chance: random.Random):
    lines = [line for lines in JOB for line in lines]
    chance.shuffle(lines)
    first, second = Tally(), Tally()
    second.feed(("\n".join(lines[cut:]) + "\n").encode(), 1)
    if cut:
        first.feed(("\n".join(lines[:cut]) + "\n").encode(), 0)
    first.add(second)

    assert answers(analyse(first, lambda position: LogPosition("log", position))) == WHOLE


@settings(deadline=None)
@given(st.integers(min_value=0, max_value=len("\n".join(JOB[0]))))
def test_a_truncated_log_never_turns_direct_into_bounced(at: int):
    tally = Tally()
    tally.feed("\n".join(JOB[0]).encode()[:at], 0, ends_whole=False)
    found = analyse(tally, lambda position: LogPosition("log", position))

    assert found.counts.bounced == found.counts.socket == 0
    assert found.state in ("active", "unknown")


@settings(deadline=None)
@given(st.integers(min_value=1, max_value=len("\n".join(JOB[0]))), st.integers(0, 7))
def test_a_line_that_begins_inside_another_does_not_count_as_bounced(at: int, which: int):
    text = "\n".join(JOB[0]) + "\n"
    found = analysed(text[:at] + JOB[3][which] + "\n" + text[at:] + "\n".join(JOB[3]) + "\n")

    legs = [leg for job in found.jobs for rank in job.ranks for leg in rank.legs]
    assert all(leg.carried is not Carrier.BOUNCED for leg in legs)
    assert {rank.process for job in found.jobs for rank in job.ranks} == {"node0:400", "node1:403"}


@settings(deadline=None)
@given(st.binary(max_size=3000))
def test_any_bytes_give_an_analysis(data: bytes):
    assert analysed(data).state in ("active", "blocked", "unknown")


TEXT = "\n".join(sample.text for sample in SAMPLES)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, len(TEXT)), st.binary(max_size=40), st.integers(0, 200))
def test_damage_anywhere_in_many_logs_gives_an_analysis(at: int, noise: bytes, taken: int):
    data = TEXT.encode()

    assert analysed(data[:at] + noise + data[at + taken :]).state in ("active", "blocked", "unknown")


# -- prefixes of launchers and runtimes ------------------------------------------------------------------

STAMP = "2026-01-02T03:04:05.678901234Z"
WRAPPED = {
    "mpirun --tag-output": lambda line, n: f"[1,{n}]<stdout>:{line}",
    "srun -l": lambda line, n: f"{n}: {line}",
    "torchrun": lambda line, n: f"[default{n}]:{line}",
    "torchrun, ranks": lambda line, n: f"[rank{n}]: {line}",
    "Ray": lambda line, n: f"\x1b[36m(Worker pid={n}, ip=10.0.0.{n})\x1b[0m {line}",
    "kubectl --prefix": lambda line, n: f"[pod/train-{n}/main] {line}",
    "kubectl --timestamps": lambda line, n: f"{STAMP} {line}",
    "containerd": lambda line, n: f"{STAMP} stdout F {line}",
    "Docker": lambda line, n: json.dumps({"log": line + "\n", "stream": "stdout", "time": STAMP}),
    "Docker, escaped as Go does": lambda line, n: (
        '{"log":' + json.dumps(line + "\n").replace(">", "\\u003e") + ',"stream":"stdout"}'
    ),
    "Loki": lambda line, n: json.dumps({"labels": {"pod": f"t-{n}"}, "line": line, "timestamp": STAMP}),
    "a collector that drops the newline": lambda line, n: json.dumps({"log": line, "stream": "stderr"}),
    "JSON in what containerd stores": lambda line, n: f"{STAMP} stderr F {json.dumps({'msg': line})}",
    "a quotation in a form of nobody": lambda line, n: f'at={STAMP} text="{line}", rank={n}',
    "a quotation of YAML": lambda line, n: f"textPayload: '{line}'",
    "Windows ends of lines": lambda line, n: f"{line}\r",
}


@pytest.mark.parametrize("launcher", WRAPPED)
def test_launchers_do_not_change_the_answer(launcher: str):
    text = "\n".join(WRAPPED[launcher](line, n) for n, lines in enumerate(JOB) for line in lines) + "\n"
    found = analysed(text)

    assert answers(found) == WHOLE
    assert found.damaged == 0
    position = min(leg.line for rank in found.jobs[0].ranks for leg in rank.legs)
    assert position.line == 5


def test_a_document_of_a_log_store_on_one_line_gives_the_same_answer(tmp_path):
    lines = [line for lines in JOB for line in lines]
    padding = [{"message": "x" * 1000}] * 3000  # longer than the longest line that is read at once
    path = tmp_path / "export.json"
    path.write_text(json.dumps({"events": [*({"message": line} for line in lines), *padding]}))
    counted = job_workers.count([str(path)])

    assert answers(analyse(counted.tally, counted.position)) == WHOLE


def test_a_log_of_which_no_line_can_be_read_is_not_called_cut_short():
    text = "\n".join(f"{line} x" for lines in JOB for line in lines if "Channel" in line)

    assert summary(analysed(text)) == (
        "no channel line can be read: 16 lines are cut, or in a form that gdr does not know"
    )


def test_a_long_line_split_by_a_runtime_is_joined_and_keeps_its_number():
    line = JOB[0][4]
    text = f"{STAMP} stdout P {line[:50]}\n{STAMP} stderr F other\n{STAMP} stdout F {line[50:]}\n"
    (leg,) = analysed(text).jobs[0].ranks[0].legs

    assert (leg.carried, leg.line.line) == ("direct", 3)


def test_a_line_split_by_docker_is_joined():
    line = JOB[0][4]
    parts = [{"log": line[:60], "stream": "stdout"}, {"log": line[60:] + "\n", "stream": "stdout"}]
    (leg,) = analysed("\n".join(map(json.dumps, parts))).jobs[0].ranks[0].legs

    assert (leg.carried, leg.line.line) == ("direct", 2)


@settings(deadline=None)
@given(
    st.binary(max_size=300), st.sampled_from([f"{STAMP} stdout F x", '{"log":"x\\n"}', f"{STAMP} x", "x"])
)
def test_an_unwrapper_keeps_the_lines_of_any_bytes(data: bytes, first: str):
    head = first.encode() + b"\n"

    assert Unwrapper(head).feed(head + data).count(b"\n") == head.count(b"\n") + data.count(b"\n")


# -- ranks without names ---------------------------------------------------------------------------------


def test_processes_without_a_host_are_separated_by_the_launcher():
    lines = [
        "Channel 00/0 : 0[0] -> 2[0] [send] via NET/IB/0",
        "Channel 00/0 : 1[0] -> 3[0] [send] via NET/IB/0/GDRDMA",
    ]
    text = "".join(f"{n}: :500:501 [0] NCCL INFO {line}\n" for n, line in enumerate(lines))
    (job,) = analysed(text).jobs

    assert [(rank.process, rank.legs[0].carried) for rank in job.ranks] == [
        ("srun 0:500", "bounced"),
        ("srun 1:500", "direct"),
    ]


@pytest.mark.parametrize("length", [QUOTED - 1, QUOTED, QUOTED + 1])
def test_of_a_long_line_the_beginning_is_kept(length: int):
    tally = Tally()
    words = "NET/IB : Got completion from peer 10.0.0.1<2> with status=12 opcode=0 len=0 vendor err 129 "
    words += "x" * (length - len(words))
    tally.feed(f"n1:7:8 [0] transport/net_ib.cc:1 NCCL WARN {words}\n".encode(), 0)
    (entry,) = tally.entries.values()
    assert entry.words == words[:QUOTED]


def test_a_warning_repeated_ten_thousand_times_takes_no_memory():
    tally = Tally()
    for start in range(0, 10_000, 100):
        lines = (
            "n1:7:8 [0] transport/net_ib.cc:1 NCCL WARN NET/IB : Got completion from peer "
            f"10.0.{n % 250}.1<{n}> with status=12 opcode=0 len={n} vendor err 129\n"
            for n in range(start, start + 100)
        )
        tally.feed("".join(lines).encode(), 0)

    assert len(tally.entries) == 1
    (error,) = analyse(tally, lambda position: LogPosition("log", position)).errors
    assert (error.count, error.number, error.vendor_error, error.line.line) == (10_000, 12, 129, 1)
