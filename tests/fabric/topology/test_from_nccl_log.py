"""A tree in an NCCL log as a graph: the same devices as in NCCL's own file of the same job."""

from __future__ import annotations

from pathlib import Path

import pytest

from gdrkit.cli import main
from gdrkit.fabric.topology import from_nccl_log, from_nccl_xml
from gdrkit.fabric.topology.from_file import kind_of, read_topology
from gdrkit.fabric.topology.graph import Role, Topology, TopologySource
from gdrkit.fabric.topology.saved import TopologyFileKind
from gdrkit.formats import nccl_xml
from gdrkit.formats.errors import FormatError
from tests.formats.test_nccl_dump import TREE
from tests.jobs.samples import info
from tests.shared_data import shared_files

LOG = "NCCL version 2.27.5+cuda12.9\n" + info(
    "n1:7", 0,
    "NET/IB : Using [0]mlx5_4:1/IB [RO]; OOB eth0:10.0.0.1<0>",
    "NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_4'",
    "NCCL_NET_GDR_LEVEL set by environment to PHB",
    *TREE.splitlines(),
)  # fmt: skip
OLD = """\
=== System : maxWidth 12.0 totalWidth 42.0 ===
CPU/0 (1/2/-1)
+ PCI[12.0] - PCI/C0000 (0)
              + PCI[12.0] - GPU/C1000 (4)
                            + NVL[42.0] - GPU/C2000
              + PCI[12.0] - GPU/C2000 (5)
                            + NVL[42.0] - GPU/C1000
+ PCI[6.0] - NIC/C5000
             + NET[12.5] - NET/1 (98039b0003d1c2a4/2/12.500000)
==========================================
"""
NEW = """\
=== System : maxBw 48.0 totalBw 721.8 ===
CPU/0-0 (3/4/-1)
+ PCI[48.0] - DEV/0-19000 (10de290110de1999)
              + LOC[5000.0] - GPU/0-19000
              + NVL[721.8] - NVS/0-0
              + C2C[345.0] - CPU/0-0
+ PCI[5000.0] - NIC/0-0
                + NET[1.2] - NET/0-3 (0/1/0/1.250000)
==========================================
"""


def graph(text: str) -> Topology:
    return from_nccl_log.topology(text).topology


@pytest.mark.parametrize(
    "before, after",
    [("10de290110de1999", "10de\x002901"), ("10de290110de1999", "1" * 80), ("0/1/0/1.250000", "0/1/0/25.%s"),
     ("0/1/0/1.250000", "0/1/0/nan"), ("0/1/0/1.250000", "0/1/0/" + "9" * 70), ("0/1/0/1.250000", "//")],
)  # fmt: skip
def test_what_is_odd_between_parentheses_is_not_known(before, after):
    assert before in NEW
    found, odd = graph(NEW), graph(NEW.replace(before, after))
    assert [gpu.address for gpu in odd.gpus] == [gpu.address for gpu in found.gpus]
    assert (odd.devices[0].vendor, odd.nets[0].rate_gbit_per_s) in (("", 10.0), ("10de", None))
    assert (found.devices[0].vendor, found.nets[0].rate_gbit_per_s) == ("10de", 10.0)


def test_devices_names_and_refusals_are_read():
    found = graph(LOG)
    (gpu,), (net,) = found.gpus, found.nets

    assert found.origin is TopologySource.NCCL_LOG
    assert [(d.address, d.role, d.parent, d.vendor) for d in found.devices] == [
        ("0000:15:00.0", Role.BRIDGE, "", "1000"),
        ("0000:19:00.0", Role.GPU, "0000:15:00.0", ""),
        ("0000:18:00.0", Role.NIC, "0000:15:00.0", ""),
    ]
    assert (gpu.rank, [(link.target, link.count) for link in gpu.nvlinks or ()]) == (0, [("", 12)])
    assert (net.device, net.rate_gbit_per_s, net.guid, net.nccl and net.nccl.gdr) == (
        "mlx5_4",
        400,
        "0x8ab4f1",
        "0",
    )
    assert [cpu.numa_node for cpu in found.cpus] == [0, 1]
    assert any("refused GPUDirect RDMA to near pairs" in note and "mlx5_4" in note for note in found.notes)


def test_the_version_and_the_settings_of_the_job_come_with_the_graph():
    logged = from_nccl_log.topology(LOG)

    assert (logged.version, logged.environment) == ("2.27.5", {"NCCL_NET_GDR_LEVEL": "PHB"})


def test_near_pairs_whose_path_stays_near_are_not_refused():
    assert not any("refused" in note for note in graph(LOG.replace("(3/50.0/PHB)", "(3/50.0/PIX)")).notes)


def test_a_tree_of_an_old_release_has_joint_ids_and_links_between_gpus():
    found = graph(OLD)

    assert [(gpu.address, gpu.rank) for gpu in found.gpus] == [("0000:c1:00.0", 4), ("0000:c2:00.0", 5)]
    assert [(link.target, link.count) for link in found.gpus[0].nvlinks or ()] == [("0000:c2:00.0", 2)]
    assert (found.nets[0].device, found.nets[0].number, found.nets[0].address) == ("net1", 2, "0000:c5:00.0")
    link = found.by_address["0000:c5:00.0"].link
    assert (link.max_gt_per_s, link.max_width) == (5.0, 16)  # 6.0: or 8 GT/s with 8 lanes


def test_a_tree_of_a_new_release_has_devices_above_gpus_and_a_nic_without_a_pci_function():
    found = graph(NEW)
    (gpu,), (net,) = found.gpus, found.nets

    assert (gpu.address, found.by_address[gpu.address].device) == ("0000:19:00.0", "2901")
    assert [(link.target, link.count) for link in gpu.nvlinks or ()] == [("", 18)]
    assert gpu.c2c is not None and gpu.c2c.mbyte_per_s == 345_000
    assert (net.address, net.numa_node, net.rate_gbit_per_s) == ("", 0, 10)


def test_each_rank_prints_its_own_part_and_the_host_has_all():
    other = TREE.replace("GPU/0-19000 (0)", "GPU/0-3b000 (1)")
    text = info("n1:7", 0, *TREE.splitlines()) + info("n1:8", 1, *other.splitlines())

    assert [gpu.address for gpu in graph(text).gpus] == ["0000:19:00.0", "0000:3b:00.0"]


def test_another_host_is_named_and_not_mixed_in():
    text = info("n1:7", 0, *TREE.splitlines()) + info("n2:8", 1, *OLD.splitlines()[:3])
    found = graph(text)

    assert len(found.gpus) == 1
    assert any("1 more hosts; this is n1" in note for note in found.notes)


@pytest.mark.parametrize(
    "text", ["", "=== System : maxBw 1.0 ===\n", TREE.splitlines()[0] + "\nCPU/0 (1/1/1)\n"]
)
def test_a_log_without_a_gpu_in_a_tree_is_refused(text: str):
    with pytest.raises(FormatError):
        from_nccl_log.topology(text)


def test_the_format_is_recognised_and_a_log_without_a_tree_is_not():
    assert kind_of(LOG.encode()) is TopologyFileKind.LOG
    assert kind_of(info("n1:7", 0, "Using network IB").encode()) is None
    assert read_topology(LOG.encode()).version == "2.27.5"


def test_gdr_topo_uses_version_and_settings_of_the_log(tmp_path: Path, capsys):
    path = tmp_path / "job.log"
    path.write_text("hello\n" * 20_000 + LOG)  # the tree comes late
    main(["topo", str(path)])
    shown = capsys.readouterr().out

    assert "job.log, tree in an NCCL log: 1 GPU, 1 NIC" in shown
    assert "GPUDirect RDMA with NCCL 2.27.5 (the job's), NCCL_NET_GDR_LEVEL=PHB" in shown
    assert "the NIC's side does not support it" in shown


@pytest.mark.parametrize("path", shared_files("data/h200x2/forced_p*.log.txt"))
def test_the_log_of_a_real_job_has_the_devices_of_its_topology_file(path: Path):
    logged = graph(path.read_text())
    file = path.with_name(path.name.replace(".log.txt", ".dump.xml.txt"))
    dumped = from_nccl_xml.topology(nccl_xml.parse(file.read_bytes()))

    def devices(found: Topology) -> set[object]:
        return {(d.address, d.role, d.parent, d.link.max_gt_per_s, d.link.max_width) for d in found.devices}

    assert devices(logged) == devices(dumped)
    assert {(g.address, g.rank) for g in logged.gpus} == {(g.address, g.rank) for g in dumped.gpus}
    assert {g.nvlinks[0].count for g in logged.gpus if g.nvlinks} == {
        g.nvlinks[0].count for g in dumped.gpus if g.nvlinks
    }
    assert [(n.device, n.rate_gbit_per_s) for n in logged.nets] == [
        (n.device, n.rate_gbit_per_s) for n in dumped.nets
    ]
