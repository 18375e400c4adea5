"""Trials on this machine: known bytes over real paths with host memory, and their readings."""

import os
import subprocess
import sys

import pytest

from gdrkit.transport.measure import prove
from gdrkit.transport.measure.counters import Counters
from gdrkit.transport.measure.counters_process import NvmlProcess
from gdrkit.transport.measure.job import MeasureEnd
from gdrkit.transport.measure.prove import search
from gdrkit.transport.proof.proof import judge

SIZE, REPEATS = 8 << 20, 2


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(prove, "IDLE_SECONDS", 0.05)
    monkeypatch.setattr(prove, "SETTLE_SECONDS", 0.01)


@pytest.mark.parametrize("path, way", [("shared", "host"), ("tcp", "tcp")])
def test_paths_of_host_memory_are_distinguished(path, way):
    """Other tests use loopback, too: what they send can leave a trial undecided, never decided wrongly."""
    found = []
    while way not in found and len(found) < 10:
        trial = prove.trial(path, MeasureEnd(), MeasureEnd(), SIZE, REPEATS)
        assert trial.path == path and trial.bytes_right
        assert [window.bytes_moved for window in trial.windows] == [0, 2 * SIZE, 0, 4 * SIZE]
        proof = judge(trial)
        assert proof.direct is None
        found.append(proof.path)
    assert set(found) <= {"", way} and found[-1] == way


def test_wrong_bytes_at_the_receiver_are_detected(monkeypatch):
    compare = prove._compare

    def tampered(connection, what):
        prove.fill_pattern(what)
        return compare(connection, what)

    monkeypatch.setattr(prove, "_compare", tampered)
    trial = prove.trial("tcp", MeasureEnd(), MeasureEnd(), SIZE, 1)
    assert trial.bytes_right is False and not judge(trial).proven


HOLDER = """
import sys
kept = bytearray(bytes.fromhex(sys.stdin.readline())[::-1] + bytes(100))
print("ready", flush=True)
sys.stdin.readline()
"""


def test_bytes_in_another_process_are_found_and_others_are_not():
    wanted = os.urandom(64)
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        process.stdin.write(wanted[::-1].hex().encode() + b"\n")
        process.stdin.flush()
        process.stdout.readline()
        found = search(process.pid, wanted)
        absent = search(process.pid, os.urandom(64))
        process.stdin.close()
    assert found.found > 0 and found.searched_bytes > 1 << 20
    assert absent.found == 0 and absent.unread_bytes == 0


def test_a_process_that_is_gone_cannot_be_searched():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert "No such" in search(process.pid, b"x" * 64).unreadable


DEV = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls
    lo: 700 1 0 0 0 0 0 0 700 1 0 0 0 0 0 0
  eth0: 100 1 0 0 0 0 0 0 200 1 0 0 0 0 0 0
  eth1: 100 1 0 0 0 0 0 0 30 1 0 0 0 0 0 0
"""
BUFINFO = """
Dma-buf Objects:
size    \tflags   \tmode    \tcount   \texp_name\tino     \tname
02097152\t00000002\t00080007\t00000002\tnv_dmabuf\t00000004\t<none>
\tAttached Devices:
\t0000:17:00.0
\t0000:18:00.0
Total 2 devices attached

02097152\t00000002\t00080007\t00000002\ti915\t00000005\t<none>
\tAttached Devices:
\t0000:00:02.0
Total 1 devices attached
"""


@pytest.fixture
def root(tmp_path):
    for path, text in {
        "proc/net/dev": DEV,
        "sys/class/infiniband/mlx5_0/ports/2/counters/port_xmit_data": "1000\n",
        "sys/module/nvidia_peermem/refcnt": "4\n",
        "sys/kernel/mm/memory_peers/nv_mem/num_alloc_mrs": "11\n",
        "sys/kernel/mm/memory_peers/nv_mem/version": "1.3\n",
        "sys/kernel/debug/dma_buf/bufinfo": BUFINFO,
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def test_counters_from_files_are_read_in_bytes_and_objects(root):
    counters = Counters(None, None, "mlx5_0:2", str(root))
    values = {name: value.value for name, value in counters.read().items()}
    assert values == {
        "loopback": 700,
        "network": 230,
        "nic": 4000,  # the file counts 32-bit words
        "peermem-references": 4,
        "memory-peer-registrations": 11,
        "dmabuf-attachments": 2,  # only NVIDIA's
        "nvlink-out": None,
        "nvlink-in": None,
        "pcie-out": None,
        "pcie-in": None,
    }


def test_buffers_of_an_unknown_exporter_count_only_if_the_nic_holds_them(root):
    bufinfo = root / "sys/kernel/debug/dma_buf/bufinfo"
    nic = root / "sys/devices/pci0000:16/0000:17:00.0"
    nic.mkdir(parents=True)
    (root / "sys/class/infiniband/mlx5_0/device").symlink_to(nic)
    bufinfo.write_text(BUFINFO.replace("nv_dmabuf", "nv_next"))
    held = Counters(None, None, "mlx5_0:2", str(root)).held()["dmabuf-attachments"]
    assert held.value is None and held.unreadable.endswith("mlx5_0:2 holds buffers of nv_next")
    bufinfo.write_text(BUFINFO.replace("nv_dmabuf", "nv_next").replace("0000:17:00.0", "0000:02:00.0"))
    assert Counters(None, None, "mlx5_0:2", str(root)).held()["dmabuf-attachments"].value == 0


def test_a_counter_that_cannot_be_read_has_a_reason(tmp_path, root):
    empty = Counters(None, None, None, str(tmp_path / "empty")).read()
    assert all(value.value is None and value.unreadable for value in empty.values())
    (root / "sys/kernel/debug/dma_buf/bufinfo").write_text("garbage")
    (root / "sys/module/nvidia_peermem/refcnt").write_text("many\n")
    held = Counters(None, None, None, str(root)).held()
    assert held["dmabuf-attachments"].value is None and held["peermem-references"].value is None


def test_without_nvml_a_gpus_counters_have_a_reason():
    process = NvmlProcess()
    value, why = process.ask("0000:ff:1f.7", 138, 0)
    process.close()
    assert value is None and why
