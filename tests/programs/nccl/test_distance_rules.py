"""The distance between GPU and NIC, and whether NCCL uses the direct path."""

import pytest

from gdrkit.evidence import Confidence
from gdrkit.facts.rdma import Pair
from gdrkit.programs.nccl.consumer import NCCL
from gdrkit.programs.nccl.distance_rules import pair_cross_socket, pair_distant
from gdrkit.rules.engine import judge
from gdrkit.rules.rule import Failed, Passed, Unknown
from gdrkit.verdict.cells import paths_closed_by
from tests.facts.test_rdma import TREE
from tests.hardware import BARE_METAL, GUEST, SPARK, machine
from tests.rules.hardware import outcomes
from tests.rules.machines import outcome, wheel

GPU = "0000:1b:00.0"


def about(node, rule, device="mlx5_0", gpu=GPU):
    return outcome(node, rule, Pair(gpu, device))


@pytest.mark.parametrize(
    ("device", "stops"),
    [("mlx5_0", False), ("mlx5_1", False), ("mlx5_2", True), ("mlx5_3", True), ("mlx5_4", True)],
)
def test_nccl_uses_the_direct_path_only_if_no_traffic_crosses_the_cpu(device, stops):
    """PIX, PXB | PHB, NODE, SYS."""
    assert isinstance(about(machine(TREE), pair_distant, device), Failed if stops else Passed)


@pytest.mark.parametrize(("device", "level"), [("mlx5_2", "PHB"), ("mlx5_3", "PHB"), ("mlx5_4", "SYS")])
def test_the_level_that_is_advised_allows_this_distance(device, level):
    """NODE of nvidia-smi is PHB for NCCL; PHB does not allow SYS."""
    found = about(machine(TREE), pair_distant, device)
    assert f"`NCCL_NET_GDR_LEVEL={level}`" in found.advice

    set_so = machine(TREE, files=BARE_METAL | {"etc/nccl.conf": f"NCCL_NET_GDR_LEVEL={level}\n"})
    assert isinstance(about(set_so, pair_distant, device), Passed)


def test_only_nccl_has_that_limit():
    assert pair_distant.takes(None) == NCCL.own("dmabuf", "peermem")
    assert paths_closed_by(pair_distant.takes(None)) == ("dmabuf", "peermem")


@pytest.mark.parametrize(
    ("setting", "device", "stops"),
    [
        ("NCCL_NET_GDR_LEVEL=PHB", "mlx5_3", False),
        ("NCCL_NET_GDR_LEVEL=PHB", "mlx5_4", True),
        ("NCCL_NET_GDR_LEVEL=SYS", "mlx5_4", False),
        ("NCCL_NET_GDR_LEVEL=4", "mlx5_4", False),
        ("NCCL_NET_GDR_LEVEL=5", "mlx5_4", False),
        ("NCCL_NET_GDR_LEVEL=ALL", "mlx5_2", True),  # no such level: NCCL keeps its default
        ("# NCCL_NET_GDR_LEVEL=SYS", "mlx5_2", True),
        ("NCCL_NET_GDR_LEVEL =SYS", "mlx5_2", True),  # another variable
        ("NCCL_NET_GDR_LEVEL= SYS", "mlx5_2", True),  # another word
        ('NCCL_NET_GDR_LEVEL="SYS"', "mlx5_2", True),
        ("NCCL_NET_GDR_LEVEL=sys", "mlx5_2", True),
        ("NCCL_NET_GDR_LEVEL=4 ", "mlx5_4", False),  # a number ends where it ends
        ("NCCL_NET_GDR_LEVEL=SYS\nNCCL_NET_GDR_LEVEL=PXB", "mlx5_4", False),  # the first counts
    ],
)
def test_a_level_set_for_the_whole_machine_is_used(setting, device, stops):
    node = machine(TREE, files=BARE_METAL | {"etc/nccl.conf": setting + "\n"})

    assert isinstance(about(node, pair_distant, device), Failed if stops else Passed)


@pytest.mark.parametrize(
    "file",
    [
        {"etc/nccl.conf": "NCCL_TOPO_FILE=/opt/topo.xml\n"},
        {"run/nvidia-topologyd/virtualTopology.xml": "<system/>"},
    ],
)
def test_far_pairs_are_unknown_if_a_topology_file_exists(file):
    node = machine(TREE, files=BARE_METAL | file)

    assert isinstance(about(node, pair_distant, "mlx5_2"), Unknown)
    assert isinstance(about(node, pair_distant, "mlx5_0"), Passed)


def test_settings_that_were_not_collected_are_likely_the_default():
    node = machine(TREE, without=("etc",))

    assert isinstance(about(node, pair_distant, "mlx5_2"), Failed)
    assert node.trail(judge, pair_distant, Pair(GPU, "mlx5_2")).confidence is Confidence.LIKELY


@pytest.mark.parametrize(
    ("version", "setting", "stops"),
    [
        ("2.25.1", "", True),
        ("2.26.2", "", True),
        ("2.27.3", "", False),
        ("2.28.9", "NCCL_NET_GDR_LEVEL=PXB", False),
        ("2.28.9", "NCCL_NET_GDR_C2C=0", True),
        ("2.28.9", "NCCL_NET_GDR_C2C=0 ", True),
        ("2.28.9", "NCCL_NET_GDR_C2C =0", False),
        ("2.29.2", "", False),
        ("2.29.2", "NCCL_NET_GDR_LEVEL=PXB", False),  # gdr-level-pxb-on-c2c reports it
        ("2.29.2", "NCCL_NET_GDR_LEVEL=PHB", False),
    ],
)
def test_for_a_coherent_gpu_the_version_of_nccl_decides(version, setting, stops):
    nccl = wheel(f"nvidia_nccl_cu12-{version}", "nvidia/nccl")
    node = machine(
        TREE.replace("h100-sxm", "gh200"), files=BARE_METAL | nccl | {"etc/nccl.conf": setting + "\n"}
    )

    assert isinstance(about(node, pair_distant, "mlx5_3"), Failed if stops else Passed)
    assert isinstance(about(node, pair_distant, "mlx5_4"), Failed)  # another socket is never near


def test_for_a_coherent_gpu_the_newest_nccl_is_assumed_where_none_is_known():
    """As for dma-buf: jobs bring their own. What would make it sure is named."""
    found = about(machine(TREE.replace("h100-sxm", "gh200")), pair_distant, "mlx5_3")

    assert isinstance(found, Passed)
    assert [one.source for one in found.lacking] == ["libnccl"]


def test_different_host_bridges_are_far_even_without_numa_nodes():
    """A Spark names no NUMA nodes. NODE and SYS are both beyond NCCL's level."""
    node = machine(SPARK)

    found = about(node, pair_distant, "rocep1s0f1", "000f:01:00.0")
    assert isinstance(found, Failed)
    assert found.seen == "NODE or SYS"
    assert found.advice.startswith("Nothing: ") and "NCCL_NET_GDR_LEVEL" not in found.advice
    assert isinstance(about(node, pair_cross_socket, "rocep1s0f1", "000f:01:00.0"), Unknown)


def test_without_the_pcie_path_it_is_unknown():
    node = machine(TREE, without=("sys/bus/pci/devices/0000:30:00.0",))

    assert isinstance(about(node, pair_distant, "mlx5_2"), Unknown)


@pytest.mark.parametrize(("device", "crosses"), [("mlx5_4", True), ("mlx5_3", False), ("mlx5_0", False)])
def test_only_another_numa_node_is_another_socket(device, crosses):
    assert isinstance(about(machine(TREE), pair_cross_socket, device), Failed if crosses else Passed)
    assert paths_closed_by(pair_cross_socket.takes(None)) == ()


@pytest.mark.parametrize(("device", "kind"), [("mlx5_0", Passed), ("mlx5_4", Unknown)])
def test_in_a_virtual_machine_a_job_may_give_nccl_another_topology(device, kind):
    outcome = about(machine(TREE, files=GUEST), pair_distant, device)
    assert isinstance(outcome, kind)
    assert kind is Passed or "NCCL_TOPO_FILE" in outcome.missing.source


def test_on_efa_the_plugin_gives_nccl_the_topology():
    far = """
0000:15:01.0 spr-root numa=0
  0000:1b:00.0 h100-sxm
0000:97:01.0 spr-root numa=1
  0000:9a:00.0 {nic}
"""
    (efa,) = outcomes(machine(far.format(nic="efa rdma=rdmap0s0")), pair_distant)
    (connectx,) = outcomes(machine(far.format(nic="cx7-ib rdma=mlx5_0")), pair_distant)

    assert isinstance(efa, Unknown) and "aws-ofi-nccl" in efa.missing.source
    assert isinstance(connectx, Failed)
