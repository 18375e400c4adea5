"""Labels before every line are taken off, and name the machine; what only looks like them stays."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.explain.lines.labels import without_labels
from gdrkit.explain.lines.transcript import read
from tests.explain.explaining import explained

IBSTAT = """\
CA 'mlx5_4'
\tCA type: MT4129
\tNumber of ports: 1
\tPort 1:
\t\tState: {}
\t\tPhysical state: LinkUp
\t\tRate: 400
\t\tLink layer: InfiniBand
"""
UP, INIT = IBSTAT.format("Active"), IBSTAT.format("Initializing")


def labelled(label: str, output: str) -> list[str]:
    return [f"{label}{line}\n" for line in output.splitlines()]


LABELS = [
    ("gpu07: ", "gpu07"),
    ("gpu07.cluster.example.org: ", "gpu07"),
    ("login: ", "login"),
    ("gpu[07-09]: ", "gpu[07-09]"),
    ("10.0.0.7: ", "10.0.0.7"),
    ("0: ", ""),
    (" 3: ", ""),
    ("[1,0]<stdout>:", ""),
    ("[prterun-head-77@1,0]<stdout>: ", ""),
    ("[pod/trainer-0/main] ", "trainer-0"),
    ("Dec  1 03:12:44 gpu07 nhc[4242]: ", "gpu07"),
    ("2026-12-01T03:12:44+0000 gpu07 nhc: ", "gpu07"),
]


@pytest.mark.parametrize(("label", "machine"), LABELS)
def test_a_labelled_listing_is_answered_as_without_labels(label: str, machine: str):
    answer, plain = explained("".join(labelled(label, INIT))).answer, explained(INIT).answer

    assert (answer.cause, answer.sentence) == (plain.cause, plain.sentence) == ("port-down", plain.sentence)
    assert answer.machine == machine
    assert [line.text for line in answer.lines] == ["State: Initializing"]


@pytest.mark.parametrize(
    ("good", "bad", "machine"),
    [
        ("gpu07: ", "gpu08: ", "gpu08"),
        ("0: ", "1: ", "task 1"),
        ("[1,0]<stdout>:", "[1,1]<stdout>:", "rank 1"),
    ],
)
@pytest.mark.parametrize(
    "around", ["{}", "$ srun -l -N2 ibstat\n{}$ date\n", "Two nodes:\n\n```\n{}```\nWhy?\n"]
)
def test_the_mixed_lines_of_two_machines_are_told_apart(good: str, bad: str, machine: str, around: str):
    mixed = itertools.chain.from_iterable(zip(labelled(good, UP), labelled(bad, INIT), strict=True))
    answer = explained(around.format("".join(mixed))).answer

    assert (answer.cause, answer.machine) == ("port-down", machine)


def test_a_line_keeps_its_number():
    found = read("".join(itertools.chain(*zip(labelled("a1: ", UP), labelled("a2: ", INIT), strict=True))))

    assert [line.number for line in found] == list(range(1, 17))
    assert [line.host for line in found] == ["a1", "a2"] * 8


def test_a_line_of_the_launcher_between_labelled_ones_ends_nothing():
    first, *rest = labelled("gpu07: ", INIT)

    shown = (first, rest[0], "pdsh@login: gpu09: ssh exited with exit code 255\n", *rest[1:])
    assert explained("".join(shown)).answer.cause == "port-down"


def test_ranks_of_a_log_that_names_its_hosts_are_no_machines():
    log = [f"h{at % 2}:{at}:9 [0] NCCL INFO NET/IB : No device found." for at in range(4)]
    shown = "".join(f"{at % 4}: {line}\n" for at, line in enumerate(log * 2))

    assert {line.host for line in read(shown)} == {"h0", "h1"}


@pytest.mark.parametrize(
    "text",
    [
        INIT,
        "filename:       /lib/modules/6.8.0/nvidia-peermem.ko\nlicense:        Dual BSD/GPL\n"
        "parm:           peerdirect_support:Set level\nparm:           persistent_api_support:Set level\n",
        "driver:\n  rdma:\n    enabled: true\nmanager: x\nmanager: y\n",
        "nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client\n"
        "nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -22)\n",
        "[  812.402117] nvidia_peermem: disagrees about version of symbol x\n"
        "[  812.402121] nvidia_peermem: Unknown symbol x (err -22)\n",
        "Mar 02 08:15:30 gpu01 kernel: nvidia_peermem: version magic 'a' should be 'b'\n" * 2,
        "h1:1:2 [0] NCCL INFO NET/IB : No device found.\nh1:1:2 [0] NCCL INFO Using network Socket\n",
        "0: mlx5_0: node_type ca fw 28.39.3560\n1: mlx5_1: node_type ca fw 28.39.3560\n",
        "1: lo    inet 127.0.0.1/8 scope host lo\n1: lo    inet6 ::1/128 scope host\n"
        "2: eth0    inet 10.0.0.7/24 scope global eth0\n2: eth0    inet6 fe80::1/64 scope link\n",
        "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument\n" * 2,
        "mlx5_0: CA 'mlx5_0'\nmlx5_0: \tPort 1:\n",
    ],
)  # fmt: skip
def test_what_only_looks_like_a_label_stays(text: str):
    raw = text.split("\n")

    assert without_labels(raw) == (raw, {})


@given(st.lists(st.sampled_from(["a1: CA 'mlx5_0'", "a1: \tPort 1:", "a2: x", "0: CA 'mlx5_0'", "", "x y"])))
def test_no_line_is_lost(raw: list[str]):
    lines, machines = without_labels(raw)

    assert len(lines) == len(raw)
    assert all(line.endswith(plain) for line, plain in zip(raw, lines, strict=True))
    assert all(raw[at] == line for at, line in enumerate(lines) if at not in machines)
