"""The node as a whole, from trees that stand for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gdrkit.agent.running import system

BUFINFO = """
Dma-buf Objects:
size    	flags   	mode    	count   	exp_name	ino     	name
08388608	00000002	00080007	00000001	nv_dmabuf	00000002	<none>
	Attached Devices:
	0000:b5:00.0
Total 1 devices attached


Total 1 objects, 8388608 bytes
"""


def tree(root: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return f"{root}/"


def node(root: str) -> list[dict]:
    found: list[dict] = []
    system.read_node(found.append, root)
    return found


def test_the_table_of_buffers_is_given_as_it_is(tmp_path):
    found: list[dict] = []
    system.read_buffers(found.append, tree(tmp_path, {system.BUFINFO: BUFINFO}))

    assert found == [{"text": BUFINFO, "truncated": False}]


def test_a_table_of_buffers_that_is_too_long_is_said_to_be_cut_off(tmp_path, monkeypatch):
    monkeypatch.setattr(system, "BUFINFO_BYTES", 50)
    found: list[dict] = []
    system.read_buffers(found.append, tree(tmp_path, {system.BUFINFO: BUFINFO}))

    assert found == [{"text": BUFINFO[:50], "truncated": True}]


def test_no_table_of_buffers_is_absent(tmp_path):
    with pytest.raises(FileNotFoundError):
        system.read_buffers(lambda row: None, f"{tmp_path}/")


def test_peermem_that_is_not_loaded_has_no_count(tmp_path):
    assert node(f"{tmp_path}/") == []


def test_peermem_gpus_and_devices_are_told(tmp_path):
    root = tree(tmp_path, {
        "sys/module/nvidia_peermem/refcnt": "7\n",
        "sys/kernel/mm/memory_peers/nv_mem/num_alloc_mrs": "9\n",
        "sys/kernel/mm/memory_peers/nv_mem/version": "2\n",  # of the client, not a count
        "proc/driver/nvidia/gpus/0000:1B:00.0/information": "Model: \t\t NVIDIA H200\nDevice Minor: \t 3\n",
        "sys/bus/pci/devices/0000:1b:00.0/device": "0x2335\n",
        "sys/class/infiniband_verbs/uverbs0/ibdev": "mlx5_0\n",
        "sys/class/infiniband_verbs/abi_version": "6\n",
        "sys/devices/pci0000:17/0000:17:00.0/vendor": "0x15b3\n",
    })  # fmt: skip
    (tmp_path / "sys/class/infiniband/mlx5_0").mkdir(parents=True)
    (tmp_path / "sys/class/infiniband/mlx5_0/device").symlink_to(
        tmp_path / "sys/devices/pci0000:17/0000:17:00.0"
    )

    assert node(root) == [
        {"peer_module": "nvidia_peermem", "peermem_references": 7},
        {"peer_client": "nv_mem", "counts": {"num_alloc_mrs": 9}},
        {"gpu": "0000:1b:00.0", "minor": 3, "model": "NVIDIA H200", "device_id": "2335"},
        {"uverbs": "uverbs0", "device": "mlx5_0"},
        {"rdma_device": "mlx5_0", "address": "0000:17:00.0"},
    ]


def test_a_device_without_a_pci_address_has_none(tmp_path):
    (tmp_path / "sys/class/infiniband/rxe0").mkdir(parents=True)

    assert node(f"{tmp_path}/")[-1] == {"rdma_device": "rxe0", "address": ""}


@pytest.mark.parametrize(("after", "sent"), [("1500\n", 2000), ("900\n", 0)])
def test_a_port_tells_bytes_and_never_fewer_than_none(tmp_path, monkeypatch, after, sent):
    """port_xmit_data counts 32-bit words. A counter may be reset meanwhile."""
    counters = "sys/class/infiniband/mlx5_0/ports/1/counters"
    root = tree(tmp_path, {f"{counters}/port_xmit_data": "1000\n", f"{counters}/port_rcv_data": "5\n"})
    monkeypatch.setattr(
        system.time, "sleep", lambda seconds: (tmp_path / counters / "port_xmit_data").write_text(after)
    )
    found: list[dict] = []
    system.read_ports(found.append, 0.0, root)

    assert [(one["device"], one["port"], one["sent"], one["received"]) for one in found] == [
        ("mlx5_0", "1", sent, 0)
    ]


def test_a_port_tells_what_it_receives_too(tmp_path, monkeypatch):
    counters = "sys/class/infiniband/mlx5_0/ports/1/counters"
    root = tree(tmp_path, {f"{counters}/port_xmit_data": "9\n", f"{counters}/port_rcv_data": "5\n"})
    monkeypatch.setattr(
        system.time, "sleep", lambda seconds: (tmp_path / counters / "port_rcv_data").write_text("105\n")
    )
    found: list[dict] = []
    system.read_ports(found.append, 0.0, root)

    assert [(one["sent"], one["received"]) for one in found] == [(0, 400)]


def test_a_port_without_counters_is_not_told(tmp_path):
    found: list[dict] = []
    system.read_ports(found.append, 0.0, tree(tmp_path, {"sys/class/infiniband/rxe0/ports/1/state": "4"}))

    assert found == []
