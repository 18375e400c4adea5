"""Messages about something else than the direct path, each beside one that only resembles it."""

from __future__ import annotations

import pytest

from gdrkit import catalogue


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ('  "rdma/rdma_shared_device_a": "0",', True),
        ("  rdma/rdma_shared_device_a:   0", True),
        ("  nvidia.com/mlnxnics: '0'", False),  # a value that only a person quotes so
        ('  "nvidia.com/mlnxnics": "0"', True),
        ('  "nvidia.com/gpu": "0"', False),
        ('  "rdma/rdma_shared_device_a": "10"', False),
        ("  rdma/rdma_shared_device_a  0           0", False),  # what pods requested, of `kubectl describe`
        ('2024/05/17 09:54:41 exposing "0" devices', True),
        ('2024/05/17 09:54:41 exposing "63" devices', False),
    ],
)
def test_a_network_resource_of_which_a_node_has_none_is_a_failure(line: str, meant: bool):
    """Mellanox/network-operator issue 438; Mellanox/k8s-rdma-shared-dev-plugin issues 44 and 192."""
    found = catalogue.match(line)
    assert (found is not None and found.message.meaning is not None) is meant


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/Module.symvers", True),
        ("/usr/src/ofa_kernel/default/Module.symvers", True),
        ("/lib/modules/6.8.0-90-generic/build/Module.symvers", False),
        ("/usr/src/ofa_kernel/default/Makefile", False),
    ],
)
def test_a_build_without_ofed_s_symbols_is_told_from_one_without_the_kernel_s(path: str, meant: bool):
    """Mellanox/nv_peer_memory issue 10."""
    found = catalogue.match(f"cp: cannot stat '{path}': No such file or directory")
    assert (found is not None and "OFED" in str(found.message.meaning)) is meant


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/sys/class/pci_bus/0000:01/../../0000:01:00.0", True),
        ("mlx5_0 (/sys/class/infiniband/mlx5_0)", False),
    ],
)
def test_a_gpu_without_a_place_in_sysfs_stops_nccl_and_a_nic_without_one_does_not(path: str, meant: bool):
    """NVIDIA/nccl issues 442 and 573."""
    line = f"n1:7:9 [0] graph/xml.cc:332 NCCL WARN Could not find real path of {path}"
    assert (
        (catalogue.match(line) is not None) and "WSL2" in str(catalogue.match(line).message.meaning)
    ) is meant


def test_fabric_manager_that_finds_no_switch_is_no_fault_of_a_fabric():
    """NVIDIA/gpu-operator issue 610: two cards with a bridge."""
    line = "n7 nv-fabricmanager[41]: request to query NVSwitch device information from NVSwitch driver failed with error:{}"  # noqa: E501
    nothing = catalogue.match(line.format("WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]"))
    assert nothing is not None and nothing.causes == () and nothing.message.meaning is not None
    assert catalogue.match(line.format("Object not found [NV_ERR_OBJECT_NOT_FOUND]")) is None


def test_an_error_of_a_mapping_is_read_of_torchcomms_network_alone():
    """meta-pytorch/torchcomms pull request 160."""
    line = "E0108 10:38:38.120482 9096 A.cc:796] CTRAN ERROR comms/ctran/backends/{}.cc:796 -> {} (x)"
    found = catalogue.match(line.format("ib/CtranIb", 524))
    assert found is not None and found.causes[0] == "topology-refused"
    assert catalogue.match(line.format("nvl/CtranNvl", 524)) is None
    assert catalogue.match(line.format("ib/CtranIb", 5)) is None


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("cat: /sys/kernel/mm/memory_peers/nv_mem/version: No such file or directory", True),
        ("cat: /sys/kernel/mm/memory_peers/nv_mem_nc/version: No such file or directory", True),
        ("cat: /sys/kernel/mm/memory_peers/amdkfd/version: No such file or directory", False),
        ("cat: /sys/kernel/mm/memory_peers/nv_mem/version: Permission denied", False),
    ],
)
def test_a_client_that_is_not_listed_is_no_proof_against_the_module(line: str, meant: bool):
    """NVIDIA/nccl issues 1537 and 1939."""
    found = catalogue.match(line)
    assert (found is not None and found.message.meaning is not None) is meant
    if found is not None and found.message.meaning is not None:
        assert found.message.meaning.effect == "aside"
