"""Reading the output of `rdma_topo dump`."""

from __future__ import annotations

import base64
import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.evidence import EvidenceMissing, MissingReason, rdma_topo
from gdrkit.evidence.errors import TargetError
from gdrkit.evidence.rdma_topo import parse
from gdrkit.evidence.target import open_host
from tests.evidence.readers.tars import PACK, write

ROOT = "/sys/devices/pci0000:1a/0000:1a:01.0"


def packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data)).decode()


def header(vendor: int, device: int, class_code: int, kind: int = 0) -> bytes:
    """The start of a configuration space: PCI Local Bus 3.0, figure 6-1."""
    config = bytearray(4096)
    config[0:4] = vendor.to_bytes(2, "little") + device.to_bytes(2, "little")
    config[9:12] = class_code.to_bytes(3, "little")
    config[14] = kind
    config[0x2C:0x30] = bytes.fromhex("de10c116")
    return bytes(config)


DUMP = [
    {"realpath": ROOT, "config": packed(header(0x15B3, 0x197C, 0x060400, 1)), "modalias": "pci:v000015B3",
     "iommu_group": 3, "numa_node": 0, "subsystems": {}},
    {"realpath": f"{ROOT}/0000:1b:00.0", "config": packed(header(0x10DE, 0x2330, 0x030200)),
     "modalias": "pci:v000010DEd00002330", "iommu_group": 4, "numa_node": 0, "subsystems": {}},
    {"realpath": f"{ROOT}/0000:1c:00.0", "config": packed(header(0x15B3, 0x1021, 0x020700)),
     "vpd": packed(b"\x82\0"), "modalias": "pci:v000015B3d00001021", "iommu_group": None, "numa_node": None,
     "subsystems": {"infiniband": ["mlx5_0"], "net": ["ib0"]}},
]  # fmt: skip


@pytest.fixture(params=["plain", "gzip"])
def host(tmp_path, request):
    return open_host(write(tmp_path, PACK[request.param](json.dumps(DUMP).encode())))


def test_devices_are_at_their_sysfs_paths(host):
    gpu = "sys/bus/pci/devices/0000:1b:00.0"

    assert host.source == "rdma-topo"
    assert host.list("sys/bus/pci/devices") == ("0000:1a:01.0", "0000:1b:00.0", "0000:1c:00.0")
    assert host.resolve(gpu) == ROOT.lstrip("/") + "/0000:1b:00.0"
    assert len(host.read(f"{gpu}/config")) == 4096
    assert host.read(f"{gpu}/vendor") == b"0x10de\n"
    assert host.read(f"{gpu}/device") == b"0x2330\n"
    assert host.read(f"{gpu}/class") == b"0x030200\n"
    assert host.read(f"{gpu}/subsystem_device") == b"0x16c1\n"
    assert host.read(f"{gpu}/numa_node") == b"0\n"
    assert host.resolve(f"{gpu}/iommu_group") == "sys/kernel/iommu_groups/4"
    assert host.list("sys/kernel/iommu_groups/4/devices") == ("0000:1b:00.0",)


def test_bridges_have_no_subsystem(host):
    with pytest.raises(EvidenceMissing):
        host.read("sys/bus/pci/devices/0000:1a:01.0/subsystem_device")


def test_rdma_devices_are_found_by_their_class(host):
    assert host.list("sys/class/infiniband") == ("mlx5_0",)
    assert host.resolve("sys/class/infiniband/mlx5_0/device").endswith("/0000:1c:00.0")
    assert host.read("sys/class/infiniband/mlx5_0/device/vpd") == b"\x82\0"


def test_files_that_a_dump_does_not_have_are_not_collected(host):
    for path in (
        "sys/bus/pci/devices/0000:1c:00.0/numa_node",
        "sys/bus/pci/devices/0000:1b:00.0/driver",
        "proc/x",
    ):
        with pytest.raises(EvidenceMissing) as error:
            host.read(path)
        assert error.value.missing.why is MissingReason.NOT_COLLECTED


def test_a_dump_of_a_sysfs_in_another_folder_is_read(tmp_path):
    dump = [{**DUMP[1], "realpath": f"/tmp/copy{ROOT}/0000:1b:00.0"}]
    host = open_host(write(tmp_path, json.dumps(dump).encode()))

    assert host.resolve("sys/bus/pci/devices/0000:1b:00.0") == ROOT.lstrip("/") + "/0000:1b:00.0"


@pytest.mark.parametrize(
    "change",
    [
        {"realpath": "/sys/devices/../../etc/passwd"},
        {"realpath": "/sys/devices/pci0000:00/not-an-address"},
        {"realpath": 7},
        {"config": "!!!"},
        {"config": packed(b"x")[:-8]},
        {"config": packed(bytes(1 << 24))},
        {"subsystems": {"infiniband": ["../../../../etc"]}},
        {"subsystems": {"..": [".."]}},
        {"numa_node": "none"},
        {"iommu_group": "../x"},
    ],
)
def test_a_dump_with_invalid_fields_is_refused_with_a_one_line_error(tmp_path, change):
    with pytest.raises(TargetError) as error:
        open_host(write(tmp_path, json.dumps([{**DUMP[1], **change}]).encode()))
    assert "\n" not in str(error.value)


def test_what_is_wrong_is_said_in_a_bounded_line(tmp_path):
    with pytest.raises(TargetError) as error:
        open_host(write(tmp_path, json.dumps([{**DUMP[1], "iommu_group": "x" * 5000}]).encode()))
    assert len(str(error.value)) < 250


@pytest.mark.parametrize("data", [b"[]", b"[1, 2]", b"[" * 100_000, b'[{"a": 1}]'], ids=str.__len__ and None)
def test_other_json_is_refused(tmp_path, data):
    with pytest.raises(TargetError):
        open_host(write(tmp_path, data))


@given(st.binary())
def test_any_bytes_are_a_dump_or_an_error(data):
    try:
        parse(data)
    except ValueError as error:
        assert str(error)


def test_a_dump_may_be_as_large_as_the_limit(tmp_path, monkeypatch):
    data = json.dumps(DUMP).encode()
    monkeypatch.setattr(rdma_topo, "DUMP_LIMIT_BYTES", len(data))
    assert open_host(write(tmp_path, data)).source == "rdma-topo"
    monkeypatch.setattr(rdma_topo, "DUMP_LIMIT_BYTES", len(data) - 1)
    with pytest.raises(TargetError, match=r"^not an rdma_topo dump: evidence is too large$") as error:
        open_host(write(tmp_path, data))
    assert error.value.hint == "create one: rdma_topo dump"


def test_a_dump_has_so_many_functions_and_devices(tmp_path, monkeypatch):
    data = json.dumps(DUMP).encode()
    for name, most, what in (
        ("FUNCTIONS_LIMIT", 3, "PCI functions"),
        ("DEVICES_LIMIT", 2, "devices of PCI"),
    ):
        with monkeypatch.context() as limited:
            limited.setattr(rdma_topo, name, most)
            assert open_host(write(tmp_path, data)).source == "rdma-topo"
            limited.setattr(rdma_topo, name, most - 1)
            with pytest.raises(TargetError, match=f"more than {most - 1} {what}"):
                open_host(write(tmp_path, data))


def test_the_limits():
    assert (rdma_topo.FUNCTIONS_LIMIT, rdma_topo.DEVICES_LIMIT) == (10_000, 40_000)
    assert (rdma_topo.DUMP_LIMIT_BYTES, rdma_topo.PART_LIMIT_BYTES) == (64 << 20, 1 << 16)
