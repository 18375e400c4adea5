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
from tests.evidence_nodes import laid_down
from tests.hardware import BARE_METAL, SERVER, machine


def section(given: dict[str, str] | None = None, **options) -> tuple[str, NcclSection]:
    node = machine(SERVER, **options).after("driver", [is_loaded.becomes(True, DRIVER)])
    found = build("", of_node(node), NEWEST, given or {})
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
