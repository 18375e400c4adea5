"""What a document about a node takes from the node's own settings, and what it says that it did not read."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gdrkit.evidence.target import open_host
from gdrkit.fabric.topo_document import NO_SETTINGS, OF_DOCTOR, NcclSection, build
from gdrkit.fabric.topo_text import text
from gdrkit.fabric.topology.from_file import read_topology
from gdrkit.fabric.topology.saved import of_node
from gdrkit.facts.driver_files import DRIVER
from gdrkit.facts.modules import is_loaded
from gdrkit.node import Node
from gdrkit.programs.nccl.releases import NEWEST
from gdrkit.verdict import judge_node
from gdrkit.verdict.path_state import GOOD, State
from tests.evidence_nodes import laid_down, names
from tests.hardware import BARE_METAL, SERVER, machine


def section(given: dict[str, str] | None = None, **options) -> tuple[str, NcclSection]:
    node = machine(SERVER, **options).after("driver", [is_loaded.becomes(True, DRIVER)])
    found = build("", replace(of_node(node), driver_asked=False), NEWEST, given or {})
    assert found.nccl is not None
    return str(found.pairs[0].receive), found.nccl


@pytest.mark.parametrize(
    ("files", "given", "receives"),
    [
        ({}, {}, "yes"),
        ({"etc/nccl.conf": "NCCL_IB_DISABLE=1\n"}, {}, "no"),
        ({"etc/nccl.conf": "NCCL_NET_GDR_LEVEL=LOC\n"}, {}, "no"),
        ({"etc/nccl.conf": "#NCCL_IB_DISABLE=1\nNCCL_DEBUG=INFO\n"}, {}, "yes"),
        ({"etc/nccl.conf": "NCCL_IB_DISABLE=1\n"}, {"NCCL_IB_DISABLE": "0"}, "yes"),  # a job's own
        ({"etc/environment": "export NCCL_IB_DISABLE=1\n"}, {}, "no"),
        ({"etc/environment": "NCCL_IB_DISABLE=0\n", "etc/nccl.conf": "NCCL_IB_DISABLE=1\n"}, {}, "yes"),
    ],
)
def test_settings_for_all_jobs_of_the_node_apply_unless_others_are_given(
    files: dict[str, str], given: dict[str, str], receives: str
):
    shown, nccl = section(given, files=BARE_METAL | files)

    assert shown == receives
    assert "NCCL_DEBUG" not in nccl.environment
    assert NO_SETTINGS not in nccl.assumed and OF_DOCTOR in nccl.assumed


def test_settings_that_were_not_collected_are_assumed_to_be_none():
    shown, nccl = section(without=("etc",))

    assert shown == "yes" and NO_SETTINGS in nccl.assumed


@pytest.mark.parametrize(
    ("name", "asked", "version", "whose"),
    [
        ("a100-nccl-2.20", "", "2.20.5", "node"),
        ("a100-nccl-2.20", "2.27.5", "2.27.5", "option"),
        ("spark-two-cables", "", "2.28.3", "node"),
    ],
)
def test_the_nccl_of_the_node_is_modelled_unless_another_is_asked_for(name, asked, version, whose):
    found = build("", of_node(Node(open_host(str(laid_down(name))))), asked, {})

    assert found.nccl is not None and (found.nccl.version, found.nccl.version_of) == (version, whose)
    words = {"node": f"{version} (the node's): ", "option": f"{version}: "}[whose]
    assert f"GPUDirect RDMA with NCCL {words}" in text(found)


@pytest.mark.parametrize("version", ["2.4.8", ""])
def test_a_node_without_an_nccl_that_is_modelled_has_the_newest(version):
    found = build("", replace(of_node(machine(SERVER)), version=version), "", {})

    assert found.nccl is not None and (found.nccl.version, found.nccl.version_of) == (NEWEST, "newest")
    assert f"NCCL {NEWEST} (the newest known)" in text(found)


def test_of_a_file_nothing_is_said_that_holds_for_a_node():
    matrix = b"\tGPU0\tmlx5_0\nGPU0\t X \tPIX\nmlx5_0\tPIX\t X \n"
    found = build("", read_topology(matrix), NEWEST, {})

    assert found.nccl is not None and OF_DOCTOR not in found.nccl.assumed


@pytest.mark.parametrize(
    ("without", "count", "pairs"),
    [
        (("sys/class/infiniband",), "1 GPU, NICs not known", "no GPU-NIC pairs: the NICs are not known"),
        ((), "1 GPU, 0 NICs", "no GPU-NIC pairs"),
    ],
)
def test_devices_that_were_not_collected_are_not_said_to_be_absent(without, count: str, pairs: str):
    node = machine("0000:15:01.0 spr-root\n  0000:1b:00.0 rtx-4090\n", without=without)
    lines = text(build("x", of_node(node), NEWEST, {})).splitlines()

    assert lines[0] == f"x: {count}" and pairs in lines


def test_ports_that_nccl_adds_up_are_said_to_share_a_link_if_it_carries_less():
    """A Spark: two functions of one card on four lanes."""
    spark, rail = (
        of_node(Node(open_host(str(laid_down(name))))) for name in ("spark-two-cables", "rail-down")
    )
    of_spark, of_rail = (build("", saved, NEWEST, {}).nccl for saved in (spark, rail))

    assert of_spark is not None and of_rail is not None and not of_rail.fused
    assert of_spark.fused and {one.partition(", ")[2] for one in of_spark.fused} == {
        "400 Gb/s to NCCL; their one PCIe link carries 126"
    }


OF_SETTINGS = {"iommu-translating"}
"""Of this node /etc/nccl.conf was not collected, which topo states as assumed empty."""
DISTANT = {"nic-gone"}
"""Here the GPU has no NIC of its own, and NVLink to one that has was not collected."""


@pytest.mark.parametrize("name", names())
def test_topology_says_of_each_gpu_at_its_own_nic_what_doctor_says(name: str):
    node = Node(open_host(str(laid_down(name))))
    found = build("", of_node(node), "", {})
    views = {(pair.gpu, pair.net): (pair.send, pair.receive) for pair in found.pairs}
    state = judge_node(node).of("nccl")
    for pair, judgement in zip(state.pairs, state.judgements, strict=False):
        if (shown := views.get((pair.gpu, pair.device))) is None or name in OF_SETTINGS | DISTANT:
            continue
        direct = {view.direct if view else None for view in shown}
        if judgement.state in GOOD:
            assert direct == {True}
        else:
            assert direct & ({None} if judgement.state is State.UNKNOWN else {False})


def test_the_reason_for_a_word_of_the_node_is_the_finding_of_doctor():
    """Blocked by the driver, and open for want of a library; a near miss is ready."""
    shown = {
        name: text(build("", of_node(Node(open_host(str(laid_down(name))))), "", {}))
        for name in ("ofed-removed", "talos", "ubuntu-6.8-h100")
    }
    assert "no: gdr doctor finds driver-proprietary (2 directions)" in shown["ofed-removed"]
    assert "?: not known to gdr doctor either: verbs-lacks-dmabuf" in shown["talos"]
    assert "gdr doctor" not in shown["ubuntu-6.8-h100"]


def test_without_the_driver_asked_the_node_is_assumed_to_allow_it():
    saved = of_node(Node(open_host(str(laid_down("talos")))), ask_driver=False)
    found = build("", saved, "", {})
    assert found.nccl is not None and OF_DOCTOR in found.nccl.assumed and not found.pairs[0].undecided


def test_a_product_with_nvlink_lets_nccl_2_18_send_to_the_nic_beside_it_alone():
    found = build("", of_node(Node(open_host(str(laid_down("dgx-a100-proprietary"))))), "", {})
    words = {(str(pair.send) if pair.send else "?", pair.nvidia_smi == ("PIX",)) for pair in found.pairs}
    assert words == {("yes", True), ("?", False)}
