"""A node's ceilings as a document and as text."""

import msgspec
import pytest

from gdrkit.fabric.ceilings.document import EstimateDocument, document
from gdrkit.fabric.ceilings.measured import readings, sniff
from gdrkit.fabric.ceilings.node_links import CommonPoint, NodeLinks
from gdrkit.fabric.ceilings.text import measured_text, text
from tests.fabric.ceilings.test_measured import NDR, perftest
from tests.fabric.ceilings.test_paths import GPU_GEN5, link, nic, pair_of, roce, spark


def test_each_pair_has_the_paths_that_the_hardware_has():
    machine, _ = pair_of(GPU_GEN5, NDR)
    (here,) = document(machine).pairs

    assert [path.path for path in here.paths] == ["direct", "host-mapped", "staged", "socket"]
    assert {path.path for pair in document(spark({"p0"})).pairs for path in pair.paths} == {
        "host-mapped",
        "socket",
    }


def test_bits_are_eight_times_bytes_and_the_tightest_is_named():
    machine, _ = pair_of(GPU_GEN5, NDR)
    direct = document(machine).pairs[0].paths[0]

    assert direct.rate.high_gbit_per_s == pytest.approx(8 * direct.rate.high_gb_per_s, abs=0.01)
    assert (direct.tightest.name, direct.tightest.subject) == ("port", "mlx5_0")
    assert [limit.name for limit in direct.limits] == ["gpu-link", "nic-link", "port"]


def test_devices_that_share_a_limit_are_listed():
    (first, *_) = document(spark({"p0", "p1"})).pairs

    assert first.paths[0].tightest.name == "nic-link"
    assert first.paths[0].tightest.shared_with == ("rocep1s0f1",)


def test_an_unknown_port_removes_the_lower_bound():
    machine, _ = pair_of(GPU_GEN5, nic("mlx5_0", [link("0000:1c:00", 32.0, 16)], None))
    direct = document(machine).pairs[0].paths[0]

    assert direct.rate.low_gb_per_s == 0
    assert direct.unknown == ("port of mlx5_0",)
    assert "? not known: port of mlx5_0" in text(document(machine))
    assert "direct      at most 57.6 GB/s" in text(document(machine))


def test_json_reads_back():
    machine, _ = pair_of(GPU_GEN5, NDR)
    made = document(machine, node="a", source="tree", readings=readings(machine, sniff(run())))

    assert msgspec.json.decode(msgspec.json.encode(made), type=EstimateDocument) == made


def run():
    return perftest("mlx5_0", 391.0)


def test_text_groups_equal_pairs():
    machine = spark({"p0", "p1"})
    shown = text(document(machine, node="spark-a"))

    assert shown.startswith("spark-a: ceilings in one direction")
    assert "4 pairs through the processor" in shown
    assert shown.count("host-mapped ") == 1
    assert "22.3 to 30.1 GB/s (178 to 241 Gb/s)" in shown


def test_text_separates_pairs_that_differ():
    fast, slow = NDR, nic("mlx5_1", [link("0000:2c:00", 32.0, 4)], roce(200))
    (_, one), (_, other) = pair_of(GPU_GEN5, fast), pair_of(GPU_GEN5, slow)

    assert text(document(NodeLinks((GPU_GEN5,), (fast, slow), (one, other)))).count("1 pair behind") == 2


def test_devices_that_are_down_are_marked_and_come_last():
    down = nic("mlx5_1", [link("0000:2c:00", 32.0, 16)], None)
    down = msgspec.structs.replace(down, active=False, down="DOWN")
    (_, one), (_, other) = pair_of(GPU_GEN5, down), pair_of(GPU_GEN5, NDR, CommonPoint.ROOT_COMPLEX)
    shown = text(document(NodeLinks((GPU_GEN5,), (down, NDR), (one, other))))

    assert "mlx5_1   nothing   bound by port: DOWN, carries nothing" in shown
    assert "not known: port of" not in shown
    assert shown.index("1 pair through the processor") < shown.index("1 pair behind one PCIe switch")


def test_a_measurement_is_shown_alone():
    machine, _ = pair_of(GPU_GEN5, NDR)
    shown = measured_text(document(machine, readings=readings(machine, sniff(run()))))

    assert shown.startswith("measured: RDMA_Write BW on mlx5_0: 48.88 GB/s (391.0 Gb/s)")
    assert "You are at 98 %" in shown


def test_text_reports_a_node_without_devices_or_gpus():
    assert "no RDMA devices found" in text(document(NodeLinks()))
    assert "no GPUs found" in text(document(NodeLinks((), (NDR,))))
