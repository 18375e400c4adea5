"""Trees and path tables of NCCL's logs: ids of all releases, columns, missing lines, malformed text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.formats.errors import FormatError
from gdrkit.formats.nccl_dump import DumpId, DumpNode, begins_dump, dump_id, joined, parse

TREE = """\
=== System : maxBw 48.0 totalBw 480.0 ===
CPU/0-0 (1/1/3)
+ PCI[48.0] - PCI/0-15000 (1000c03010000000)
              + PCI[48.0] - GPU/0-19000 (0)
                            + NVL[480.0] - NVS/0-0
              + PCI[48.0] - NIC/0-18000
                            + NET[50.0] - NET/0-0 (0/8ab4f1/1/50.000000)
+ SYS[40.0] - CPU/0-1
CPU/0-1 (1/1/3)
==========================================
GPU/0-19000 :GPU/0-19000 (0/5000.0/LOC) CPU/0-0 (2/48.0/PHB) NET/0-0 (3/50.0/PHB)
"""


def outline(node: DumpNode) -> object:
    return f"{node.id.kind}/{node.id.number:x}", [outline(child) for child in node.children]


def test_the_column_of_a_line_is_that_of_the_node_above():
    (dump,) = parse(TREE.splitlines())

    assert [outline(root) for root in dump.roots] == [
        ("CPU/0", [
            ("PCI/15000", [("GPU/19000", [("NVS/0", [])]), ("NIC/18000", [("NET/0", [])])]),
            ("CPU/1", []),
        ]),
        ("CPU/1", []),
    ]  # fmt: skip
    assert dump.paths[DumpId("GPU", 0, 0x19000), DumpId("NET", 0, 0)] == "PHB"
    assert (dump.nodes, dump.lost) == (8, 0)


@pytest.mark.parametrize(
    "line",
    [TREE.splitlines()[-1].replace("GPU/0-19000 :", "CPU/0-0 :"), TREE.splitlines()[-1].replace(" :", " ")],
)
def test_only_rows_of_gpus_and_nics_are_paths(line: str):
    (dump,) = parse([*TREE.splitlines()[:-1], line])

    assert dump.paths == {} != parse(TREE.splitlines())[0].paths


def test_a_branch_whose_line_above_is_missing_is_lost_and_nothing_is_attached_elsewhere():
    lines = [line for line in TREE.splitlines() if "PCI/0-15000" not in line]
    (dump,) = parse(lines)

    assert [outline(root) for root in dump.roots] == [("CPU/0", [("CPU/1", [])]), ("CPU/1", [])]
    assert dump.lost == 4


@pytest.mark.parametrize(
    ("kind", "text", "host", "number"),
    [
        ("GPU", "0-19000", 0, 0x19000),
        ("GPU", "1-19000", 1, 0x19000),
        ("GPU", "19000", 0, 0x19000),
        ("GPU", "200000000019000", 2, 0x19000),
        ("GPU", "D1000", 0, 0xD1000),
        ("CPU", "FFFFFFFFFFFFFFFF", 0, 0xFFFFFFFFFFFFFFFF),
    ],
)
def test_ids_of_all_releases(kind: str, text: str, host: int, number: int):
    assert dump_id(kind, text) == DumpId(kind, host, number)


def test_headers_of_all_releases_begin_a_tree():
    assert begins_dump("=== System : maxWidth 12.0 ===")
    assert begins_dump("=== System : maxBw 24.0 totalBw 24.0 ===")
    assert not begins_dump("==========================================")


def test_trees_of_one_host_are_joined():
    other = TREE.replace("GPU/0-19000 (0)", "GPU/0-3b000 (1)")
    (whole, *_) = joined([*parse(TREE.splitlines()), *parse(other.splitlines())]).roots

    assert [outline(child)[0] for child in whole.children[0].children] == [
        "GPU/19000",
        "NIC/18000",
        "GPU/3b000",
    ]


def test_a_tree_larger_than_any_machine_is_refused():
    lines = [
        "=== System : maxBw 1.0 ===",
        "CPU/0 (1/1/1)",
        *(f"+ PCI[12.0] - PCI/{n:x} (0)" for n in range(5000)),
    ]

    with pytest.raises(FormatError, match="larger"):
        parse(lines)


@given(
    st.lists(st.sampled_from([*TREE.splitlines(), "", "+ PCI[", "GPU/ :", " + PCI[1] - PCI/0"]), max_size=40)
)
def test_any_order_of_lines_gives_trees(lines: list[str]):
    for dump in parse(lines):
        assert dump.nodes <= len(lines)


@given(st.text(max_size=300))
def test_any_text_gives_trees(text: str):
    parse(["=== System : maxBw 1.0 ===", *text.splitlines()])
