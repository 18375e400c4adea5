"""The NIC's side of GPUDirect RDMA, from a node's files and probes."""

import json

import pytest

from gdrkit.fabric.nccl.nic import GpuEvidence
from gdrkit.fabric.nccl.settings import settings
from gdrkit.fabric.nccl.view import gpu_evidence, nic_evidence, with_nic_side
from gdrkit.fabric.topology.graph import Net, Topology, TopologySource
from gdrkit.node import Node
from gdrkit.programs.nccl.releases import release
from tests.memory_host import MemoryHost

MODULE = {"sys/module/nvidia_peermem/version": "595.45.04\n"}
GPU = {
    "sys/devices/pci0000:00/0000:00:06.0/uevent": "PCI_CLASS=30200\nPCI_ID=10DE:2335\n",
}
LINKS = {"sys/bus/pci/devices/0000:00:06.0": "../../../devices/pci0000:00/0000:00:06.0"}


def probe(schema, *calls):
    return json.dumps({"schema": schema, "calls": list(calls)})


def verbs(result):
    call = {"call": "ibv_reg_dmabuf_mr", "device": "mlx5_0", "argument": "", "result": result}
    return {("gdr", "probe", "verbs", "--json"): probe("gdrkit.probe.verbs/1", call)}


def cuda(dmabuf):
    calls = [
        {
            "call": "cuDeviceGetAttribute",
            "argument": argument,
            "device": address,
            "result": 0,
            "value": value,
        }
        for address, argument, value in (("0000:00:06.0", 116, 1), ("0000:00:06.0", 124, dmabuf))
    ]
    return {("gdr", "probe", "cuda", "--json"): probe("gdrkit.probe.cuda/1", *calls)}


def gdr(host, version="2.27.5", environment=None):
    rules = release(version)
    graph = Topology(origin=TopologySource.SYSFS, nets=(Net(id="mlx5_0", device="mlx5_0"),))
    (net,) = with_nic_side(graph, Node(host), rules, settings(rules, environment or {})).nets
    return net.nccl.gdr if net.nccl else ""


def test_a_loaded_module_counts_in_versions_that_test_for_it():
    host = MemoryHost(MODULE, complete=True)
    assert gdr(host, "2.23.4") == "1"
    assert gdr(host, "2.21.5") == "", "it looks elsewhere, and dma-buf was not probed"


def test_without_collected_files_support_is_unknown():
    assert nic_evidence(Node(MemoryHost()), release("2.27.5")).files is None
    assert gdr(MemoryHost()) == ""


@pytest.mark.parametrize("result, dmabuf, answer", [(9, 1, "1"), (95, 1, "0"), (93, 1, "0"), (9, 0, "0")])
def test_dmabuf_needs_the_nic_and_the_gpu(result, dmabuf, answer):
    host = MemoryHost(GPU, links=LINKS, commands=verbs(result) | cuda(dmabuf), complete=True)
    assert gpu_evidence(Node(host)) == GpuEvidence(True, dmabuf == 1)
    assert gdr(host) == answer


def test_dmabuf_that_is_switched_off_does_not_count():
    host = MemoryHost(GPU, links=LINKS, commands=verbs(9) | cuda(1), complete=True)
    assert gdr(host, environment={"NCCL_DMABUF_ENABLE": "0"}) == "0"


def test_without_a_probe_the_gpu_is_unknown():
    assert gpu_evidence(Node(MemoryHost(GPU, links=LINKS, complete=True))) == GpuEvidence()
