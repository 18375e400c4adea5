"""GPUs whose own NIC does not serve: with NVLink, NCCL sends through another GPU, and every part says so."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gdrkit.diagnosis import report_on
from gdrkit.evidence.target import open_host
from gdrkit.fabric.topo_document import TopoDocument, build
from gdrkit.fabric.topology.saved import of_node
from gdrkit.facts.driver_files import DRIVER
from gdrkit.facts.modules import is_loaded
from gdrkit.facts.nvidia_smi import smi_topology
from gdrkit.facts.rdma import Pair, distance
from gdrkit.formats import topo_matrix
from gdrkit.html.pairs import pair_views
from gdrkit.node import Node
from gdrkit.programs.nccl.distance_rules import gdr_level_too_low, pair_distant
from gdrkit.programs.nccl.releases import NEWEST
from gdrkit.report.programs import program_lines
from gdrkit.rules.engine import judge
from gdrkit.rules.rule import Failed, Outcome, Passed, Unknown
from tests.evidence_nodes import laid_down
from tests.hardware import BARE_METAL, machine
from tests.programs.nccl.test_send_needs_nvlink import TOPOLOGY, nccl

TWO = """
0000:15:01.0 spr-root numa=0
  0000:16:00.0 pex89-up
    0000:17:00.0 pex89-down
      0000:18:00.0 cx7-ib rdma=mlx5_0
    0000:17:01.0 pex89-down
      0000:1b:00.0 {gpu}
0000:25:01.0 spr-root numa=1
  0000:26:00.0 pex89-up
    0000:27:00.0 pex89-down
      0000:28:00.0 cx7-ib rdma=mlx5_1
    0000:27:01.0 pex89-down
      0000:2b:00.0 {gpu}
"""
FAR = Pair("0000:2b:00.0", "mlx5_0")


def matrix(words: list[list[str]]) -> str:
    """What `nvidia-smi topo -m` prints of GPUs alone."""
    names = [f"GPU{number}" for number in range(len(words))]
    rows = ("\t".join((name, *row)) for name, row in zip(names, words, strict=True))
    return "\n".join(("\t" + "\t".join(names), *rows, ""))


def node(word: str, *, gpu: str = "h100-sxm", conf: str = "", version: str = "2.28.9") -> Node:
    """Two rails; `word` is what `nvidia-smi topo -m` shows between the GPUs, "" if it was not collected."""
    commands = {TOPOLOGY: matrix([["X", word], [word, "X"]])} if word else {}
    files = BARE_METAL | nccl(version) | {"etc/nccl.conf": conf}
    made = machine(TWO.format(gpu=gpu), files=files, commands=commands)
    return made.after("driver", [is_loaded.becomes(True, DRIVER)])


def all_to_all(word: str) -> list[list[str]]:
    """The cells of eight GPUs."""
    return [["X" if row == column else word for column in range(8)] for row in range(8)]


def rail_down(word: str) -> Node:
    """Eight GPUs, of which the last one's port is down."""
    made = Node(open_host(str(laid_down("rail-down"))))
    text = matrix(all_to_all(word))
    return made.after("matrix", [smi_topology.becomes(topo_matrix.parse(text))]) if word else made


def topo(node: Node) -> TopoDocument:
    """NCCL's view alone: these nodes lack the libraries and kernels by which gdr doctor judges."""
    return build("", replace(of_node(node), driver_asked=False), NEWEST, {})


def words(node: Node) -> str:
    return next(text for _, names, text in program_lines(report_on(node)) if "nccl" in names.split(", "))


@pytest.mark.parametrize(
    ("word", "options", "kind", "direct"),
    [
        ("NV18", {}, Passed, True),
        ("SYS", {}, Failed, False),
        ("", {}, Unknown, None),
        ("", {"gpu": "l40s"}, Failed, False),  # has none, by its id
        ("NV18", {"conf": "NCCL_PXN_DISABLE=1\n"}, Failed, False),
        ("NV18", {"conf": "NCCL_PXN_DISABLE=0\n"}, Passed, True),
        ("NV18", {"conf": "NCCL_P2P_DISABLE=1\n"}, Failed, False),
        ("NV18", {"conf": "NCCL_P2P_LEVEL=LOC\n"}, Failed, False),
        ("NV18", {"conf": "NCCL_P2P_LEVEL=NVL\n"}, Passed, True),
        ("", {"conf": "NCCL_PXN_DISABLE=1\n"}, Failed, False),  # so NVLink does not matter
        ("SYS", {"conf": "NCCL_NET_GDR_LEVEL=SYS\n"}, Passed, True),
    ],
)
def test_verdict_and_topology_agree_whether_a_far_nic_is_reached_directly(
    word: str, options: dict[str, str], kind: type[Outcome], direct: bool | None
):
    made = node(word, **options)
    (pair,) = [one for one in topo(made).pairs if (one.gpu, one.net) == (FAR.gpu, FAR.device)]

    assert isinstance(judge(made, pair_distant, FAR), kind)
    assert [one.direct if one else None for one in (pair.send, pair.receive)] == [direct, direct]


@pytest.mark.parametrize(
    ("word", "conf", "kind", "direct"),
    [
        ("NV18", "NCCL_NET_GDR_LEVEL=PIX\n", Passed, True),
        ("SYS", "NCCL_NET_GDR_LEVEL=PIX\n", Failed, False),
        ("", "NCCL_NET_GDR_LEVEL=PIX\n", Unknown, None),
        ("NV18", "NCCL_NET_GDR_LEVEL=PIX\nNCCL_PXN_DISABLE=1\n", Failed, False),
        ("NV18", "NCCL_NET_GDR_LEVEL=LOC\n", Failed, False),  # too low for the GPU near the NIC, too
    ],
)
def test_a_level_below_the_distance_costs_nothing_where_another_gpu_sends(
    word: str, conf: str, kind: type[Outcome], direct: bool | None
):
    made = node(word, conf=conf).after("NUMA", [distance.becomes("SYS", FAR)])
    (pair,) = [one for one in topo(made).pairs if (one.gpu, one.net) == (FAR.gpu, FAR.device)]

    assert isinstance(judge(made, gdr_level_too_low, FAR), kind)
    assert [one.direct if one else None for one in (pair.send, pair.receive)] == [direct, direct]


def test_a_gpu_that_does_not_answer_sends_for_none():
    made = Node(open_host(str(laid_down("gpu-off-the-bus"))))
    made = made.after("matrix", [smi_topology.becomes(topo_matrix.parse(matrix(all_to_all("NV18"))))])
    dead = {gpu.id for gpu in topo(made).topology.gpus if gpu.unusable}
    near = {one.net for one in topo(made).pairs if one.gpu in dead and one.nvidia_smi == ("PIX",)}
    far = [one for one in topo(made).pairs if one.gpu not in dead and one.nvidia_smi != ("PIX",)]

    assert dead and near
    for one in far:
        outcome = judge(made, pair_distant, Pair(one.gpu, one.net))
        assert isinstance(outcome, Failed if one.net in near else Passed)
        assert one.receive is not None and one.receive.direct is (one.net not in near)


def test_releases_before_2_12_do_not_send_through_another_gpu():
    assert isinstance(judge(node("NV18", version="2.11.4"), pair_distant, FAR), Failed)
    assert isinstance(judge(node("NV18", version="2.12.12"), pair_distant, FAR), Passed)


@pytest.mark.parametrize(
    ("word", "copies", "through"), [("NV18", False, True), ("SYS", True, False), ("", True, True)]
)
def test_a_gpu_whose_port_is_down_copies_only_without_nvlink(word: str, copies: bool, through: bool):
    said = words(rail_down(word))

    assert said.startswith("blocked; it ")
    assert ("copies through host memory" in said) is copies
    assert ("another GPU and its NIC (PXN)" in said) is through
    assert (", unless it sends over NVLink" in said) is (copies and through)


@pytest.mark.parametrize(("word", "kind"), [("NV18", {"detour"}), ("SYS", {"staged"}), ("", {"unknown"})])
def test_a_report_draws_far_pairs_as_the_verdict_says(word: str, kind: set[str]):
    made = rail_down(word)
    views = list(pair_views(report_on(made), topo(made), None))

    far = [view for view in views if view.distance != "PIX" and view.kind != "dead"]
    assert len(far) == 49 and {view.kind for view in far} == kind
    assert {view.kind for view in views if view.distance == "PIX"} == {"direct", "dead"}


def test_what_stops_all_gpus_leaves_no_other_nic():
    """The near miss: NVLink does not help where no GPU of the node has a direct path."""
    made = rail_down("NV18").after("driver", [is_loaded.becomes(False, DRIVER)])
    assert "PXN" not in words(made)


@pytest.mark.parametrize(("word", "through"), [("NV18", True), ("SYS", False)])
def test_a_gpu_without_a_nic_of_its_own_uses_that_of_another_one(word: str, through: bool):
    """nic-missing takes the wire of the GPU, not of the other GPUs' NICs."""
    made = Node(open_host(str(laid_down("nic-gone"))))
    text = matrix(all_to_all(word))
    said = words(made.after("matrix", [smi_topology.becomes(topo_matrix.parse(text))]))
    assert ("another GPU and its NIC (PXN)" in said) is through
