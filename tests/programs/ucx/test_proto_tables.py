"""What tables of UCX_PROTO_INFO show of GPU memory's path: proven, staged, TCP, or nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from gdrkit.formats.ucx_proto import read_tables
from gdrkit.programs.ucx.proto_tables import UcxPath, UcxVerdict, path_of, verdict
from tests.formats.test_ucx_proto import table

TABLES, RECORDED = (Path(__file__).with_name(name) for name in ("tables", "recorded"))
PUT = "remote memory write by ucp_put* from cuda/GPU0 to cuda/dev[1]"
TAG = "tagged message by ucp_tag_send* from cuda/GPU0"
SEND = "rendezvous data send from cuda/GPU0 to cuda/dev[1]"
INNER = "rendezvous data send(frag) from cuda/GPU0 to host"
RC = "rc_mlx5/mlx5_0:1"
ALL = (0, None)


def judged(text: str) -> UcxVerdict:
    found = verdict(read_tables(text))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("name", "direct", "path", "words"),
    [
        ("direct", True, UcxPath.DIRECT, "52% on rc_mlx5/mlx5_4:1 and 48% on rc_mlx5/mlx5_5:1"),
        ("staged", False, UcxPath.STAGED, "frag host"),
        ("tcp", False, UcxPath.TCP, "3840 operations"),
        ("no-gpu", None, None, ""),
    ],
)
def test_composed_tables_have_the_answer_of_who_composed_them(name, direct, path, words):
    found = judged((TABLES / f"{name}.txt").read_text())

    assert (found.direct, found.worst and found.worst.path) == (direct, path)
    assert words in " ".join(found.decided_by)


@pytest.mark.parametrize("recorded", sorted(RECORDED.glob("put-*.txt")), ids=lambda path: path.stem)
def test_host_memory_over_tcp_is_no_answer_about_gpu_memory_however_it_is_sent(recorded: Path):
    found = judged(recorded.read_text())

    assert found.direct is None and "no table is about GPU memory" in found.claim


@pytest.mark.parametrize(
    ("title", "description", "config", "path"),
    [
        (PUT, "zero-copy", RC, UcxPath.DIRECT),
        (PUT, "zero-copy", "dc_mlx5/mlx5_0:1", UcxPath.DIRECT),
        (PUT, "zero-copy", "srd/efa_0:1", UcxPath.DIRECT),
        (PUT, "zero-copy", "tcp/eth0", UcxPath.TCP),
        (PUT, "zero-copy", "60% on rc_mlx5/mlx5_0:1 and 40% on tcp/eth0", UcxPath.MIXED),
        (PUT, "zero-copy", "cuda_ipc/cuda", UcxPath.NVLINK),
        (PUT, "multi-frag copy-in", RC, UcxPath.STAGED),
        (PUT, "software emulation", "srd/efa_0:1", UcxPath.STAGED),
        (PUT, "rndv using zero-copy read from remote", RC, UcxPath.DIRECT),
        (TAG, "eager zero-copy copy-out", RC, UcxPath.HALF_DIRECT),
        (TAG, "multi-frag eager copy-in copy-out", RC, UcxPath.STAGED),
        (TAG, "(?) rendezvous zero-copy read from remote", RC, UcxPath.DIRECT),
        (SEND, "zero-copy fenced write to remote", RC, UcxPath.DIRECT),
        (SEND, "zero-copy", RC, UcxPath.HALF_DIRECT),
        (SEND, "pipeline cuda_copy, fenced write to remote, frag host", RC, UcxPath.STAGED),
        (SEND, "cuda_copy, write to remote, cuda_copy", RC, UcxPath.STAGED),  # before 1.18
        (SEND, "cuda_ipc, write to remote, frag cuda", RC, UcxPath.COPIED_IN_GPU),
        (SEND, "cuda_copy, write to remote, frag cuda, cuda_copy, frag host", RC, UcxPath.STAGED),
        (INNER, "zero-copy write to remote", RC, UcxPath.HALF_DIRECT),
        (PUT, "no data fetch", "", None),
        (PUT, "stub protocol", RC, None),
    ],
)  # fmt: skip
def test_a_row_is_judged_by_its_words_and_its_transports(title, description, config, path):
    (found,) = read_tables(table([(ALL, description, config)], title=title))

    assert path_of(found, found.rows[0]) is path


def test_one_side_that_is_certain_outranks_what_it_expects_of_the_other():
    expected = table([(ALL, "(?) rendezvous zero-copy read from remote", RC)], title=TAG)
    certain = table([(ALL, "cuda_copy, write to remote, frag host", RC)], title=SEND)

    alone, both = judged(expected), judged(expected + certain)

    assert alone.direct and alone.claim.endswith("as this side expects of the other")
    assert both.direct is False and "expects" not in both.claim


def test_only_rows_that_were_used_count_where_operations_are_counted():
    rows = [((0, 1 << 20), "copy-in", RC), ((1 << 20, None), "zero-copy", RC)]
    used = judged(table(rows, layout="1.22", counts=[0, 12], title=PUT))
    not_used = judged(table(rows, layout="1.22", counts=[0, 0], title=PUT))

    assert used.direct and "in 12 operations:" in used.claim
    assert not_used.direct is None


@pytest.mark.parametrize(("last", "direct"), [(65535, True), (65536, False), (65537, False)])
def test_messages_below_64_kib_are_copied_on_purpose_and_decide_nothing(last: int, direct: bool):
    rows = [((0, last), "copy-in", RC), ((last + 1, None), "zero-copy", RC)]

    assert judged(table(rows, title=PUT)).direct is direct


@pytest.mark.parametrize("reach", ["self", "intra-node"])
def test_a_table_of_one_node_says_nothing_of_the_network(reach: str):
    found = judged(table([(ALL, "zero-copy", RC)], title=PUT).replace("inter-node", reach))

    assert found.direct is None and "about one node" in found.claim


def test_a_path_past_every_nic_is_neither_direct_nor_staged():
    assert judged(table([(ALL, "zero-copy", "cuda_ipc/cuda")], title=PUT)).direct is None


def test_a_text_without_tables_has_no_verdict():
    assert verdict(read_tables("mpi inter-node cfg#0 tag(rc_mlx5/mlx5_0:1)")) is None
