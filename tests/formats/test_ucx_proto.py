"""Tables of UCX_PROTO_INFO in each layout, whole, cut, bare and mixed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.formats.ucx_proto import ProtoRow, ProtoTable, read_tables

RECORDED = Path(__file__).parents[1] / "programs" / "ucx" / "recorded"
ROWS = [
    ((0, 1948), "short", "rc_mlx5/mlx5_0:1"),
    ((1949, 512 << 10), "eager copy-in copy-out", "rc_mlx5/mlx5_0:1/path0"),
    (
        (4 << 20, None),
        "(?) rendezvous zero-copy read from remote",
        "50% on rc_mlx5/mlx5_0:1 and 50% on tcp/eth0",
    ),
]


def size(value: int | None) -> str:
    if value is None:
        return "inf"
    for shift, unit in ((20, "M"), (10, "K")):
        if value and value % (1 << shift) == 0:
            return f"{value >> shift}{unit}"
    return str(value)


def table(
    rows: list[tuple[tuple[int, int | None], str, str]],
    *,
    layout: str = "1.15",
    counts: list[int] | None = None,
    prefix: str = "[1795880412.118204] [node1:41377:0]   ",
    title: str = "tagged message by ucp_tag_send*(multi) from cuda/GPU0",
) -> str:
    """A table as proto_debug.c writes it, from the releases that `layout` names."""
    cfg = "mpi ep_cfg[1]" if layout == "1.14" else "mpi inter-node cfg#3"
    ranges = [f"{size(low)}..{size(high)}" if high != low else size(low) for (low, high), _, _ in rows]
    if layout == "1.22":
        lines = [f"| {cfg} |", f"| {title} |", "|--|"]
        lines.append(
            "| Count | Range | Description | Config |" if counts else "| Range | Description | Config |"
        )
        lines += [
            f"| {f'{counts[n]} | ' if counts else ''}{text} | {rows[n][1]} | {rows[n][2]} |"
            for n, text in enumerate(ranges)
        ]
    else:
        lines = [f"|{cfg:>30} | {title:<90} |"]
        lines += [
            f"| {f'{counts[n]:<8}' if counts else ''}{text:>28} | {rows[n][1]:<60} | {rows[n][2]:<28} |"
            for n, text in enumerate(ranges)
        ]
    border = "+-------+-----------+"
    return "".join(f"{prefix}{line}\n" for line in (border, lines[0], border, *lines[1:], border))


def read_rows(found: ProtoTable) -> list[tuple[tuple[int, int | None], str, str]]:
    return [((row.low, row.high), row.description, row.config) for row in found.rows]


@pytest.mark.parametrize("layout", ["1.14", "1.15", "1.22"])
@pytest.mark.parametrize("counts", [None, [0, 7, 3840]])
def test_each_layout_says_the_same(layout: str, counts: list[int] | None):
    (found,) = read_tables(table(ROWS, layout=layout, counts=counts))

    assert (found.operation, found.local, found.remote) == (
        "tagged message by ucp_tag_send*",
        "cuda/GPU0",
        "",
    )
    assert (found.process, found.context, found.attributes) == ("node1:41377:0", "mpi", ("multi",))
    assert found.reach == ("" if layout == "1.14" else "inter-node")
    assert read_rows(found) == ROWS
    assert [row.count for row in found.rows] == (counts or [None, None, None])


@pytest.mark.parametrize("name", ["put-1.21.0-y", "put-1.21.0-used", "put-1.22.0-y", "put-1.22.0-used"])
def test_what_ucx_printed_is_read(name: str):
    found = read_tables((RECORDED / f"{name}.txt").read_text())

    assert {(one.context, one.reach, one.local, one.remote) for one in found} == {
        ("perftest", "intra-node", "host memory", "host")
    }
    assert {row.config for one in found for row in one.rows} == {"tcp/lo"}
    assert all((row.count is not None) == ("used" in name) for one in found for row in one.rows)


@pytest.mark.parametrize(
    ("title", "parts"),
    [
        ("remote memory write by ucp_put* from host memory to cuda/dev[5]", ("host memory", "cuda/dev[5]")),
        ("remote memory read by ucp_get*(multi) into cuda/GPU1 from host", ("cuda/GPU1", "host")),
        (
            "rendezvous data fetch(frag,multi) into cuda memory from cuda/dev[3]",
            ("cuda memory", "cuda/dev[3]"),
        ),
        ("active message by ucp_am_send* with reply flag(egr) from cuda/GPU0", ("cuda/GPU0", "")),
        ("posted atomic by ucp_atomic_op* with host memory", None),
        ("tagged message by ucp_tag_send*() from iov[3] host memory", ("iov[3] host memory", "")),
    ],
)
def test_a_title_names_the_memory_of_both_sides(title: str, parts: tuple[str, str] | None):
    found = read_tables(table(ROWS, title=title))

    assert [(one.local, one.remote) for one in found] == ([parts] if parts else [])


def test_processes_that_print_into_each_other_are_kept_apart():
    one = table(ROWS, prefix="[1.5] [node1:1:0]   ").splitlines()
    other = table(ROWS[:2], prefix="[1.5] [node2:2:0]   ").splitlines()
    mixed = [line for pair in zip(one, (*other, ""), strict=True) for line in pair]

    found = {table.process: table for table in read_tables("\n".join(mixed))}

    assert read_rows(found["node1:1:0"]) == ROWS and read_rows(found["node2:2:0"]) == ROWS[:2]


def test_a_table_that_lost_its_prefix_its_outer_bars_or_its_end_is_read():
    bare = table(ROWS, prefix="")
    without_bars = "\n".join(line.strip("| ") for line in bare.splitlines())
    cut = "\n".join(bare.splitlines()[:-2])

    assert read_rows(read_tables(bare)[0]) == read_rows(read_tables(without_bars)[0]) == ROWS
    assert read_rows(read_tables(cut)[0]) == ROWS[:2]
    assert read_tables("\n".join(bare.splitlines()[2:])) == (), "rows without a title say nothing"


@given(
    st.lists(
        st.tuples(
            st.integers(0, 1 << 45).flatmap(
                lambda low: st.tuples(st.just(low), st.none() | st.integers(low, 1 << 46))
            ),
            st.sampled_from(["short", "multi-frag zero-copy", "software emulation"]),
            st.sampled_from(["tcp/eth0", "rc_mlx5/mlx5_0:1 50% on path0 and 50% on path1"]),
        ),
        min_size=1,
        max_size=9,
    ),
    st.sampled_from(["1.14", "1.15", "1.22"]),
)
def test_any_table_is_read_as_it_was_written(rows, layout):
    assert read_rows(read_tables(table(rows, layout=layout))[0]) == rows


@given(st.text(alphabet="|+-. cfg#inter-node0123456789K[]:()*fromcuda\n", max_size=400))
def test_no_text_raises(text: str):
    for found in read_tables(text):
        assert found.rows and all(isinstance(row, ProtoRow) for row in found.rows)


def test_a_number_of_any_length_is_a_number():
    many = "9" * 5000
    for cells in (f"{many}..inf", f"{many} | 0..inf"):
        rows = f"| {cells} | zero-copy | tcp/lo |\n"
        assert read_tables(f"| a self cfg#1 | tagged message by ucp_tag_send* from host memory |\n{rows}")
