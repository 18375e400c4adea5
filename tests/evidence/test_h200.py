"""The answers of a real H200, compared with earlier measurements on such machines."""

import tempfile
from pathlib import Path

import pytest

from gdrkit.evidence import Confidence
from gdrkit.evidence.target import open_host
from gdrkit.facts.cuda_attributes import cuda_attributes
from gdrkit.facts.gpu import gpu_support
from gdrkit.facts.pci import gpus
from gdrkit.facts.probe import cuda_calls
from gdrkit.node import Node
from tests.evidence_nodes import build

MEASURED = {16: 132, 18: 0, 100: 0, 110: 1, 116: 1, 117: 1, 118: 100, 124: 1}
"""Attribute and value on two H200s of one virtual machine, driver 580.159.04, CUDA 13.0, November 2026."""


@pytest.fixture(scope="module")
def node():
    with tempfile.TemporaryDirectory() as folder:
        yield Node(open_host(str(build("h200-collected", Path(folder)))))


def test_the_attributes_equal_earlier_measurements(node):
    (gpu,) = gpus(node)
    answered = cuda_attributes(node, gpu.address)
    assert {number: answered[number] for number in MEASURED} == MEASURED


def test_an_attribute_unknown_to_the_driver_is_unknown_not_zero(node):
    unknown = {
        call.argument for call in cuda_calls(node) if call.call == "cuDeviceGetAttribute" and call.result
    }
    assert unknown == {"152", "161"}
    (gpu,) = gpus(node)
    assert not {152, 161} & set(cuda_attributes(node, gpu.address))


@pytest.mark.parametrize("path", ["dmabuf", "peermem"])
def test_a_probe_makes_a_capability_certain(node, path):
    (gpu,) = gpus(node)
    assert gpu_support(node, gpu, path).state == "yes"
    assert node.trail(gpu_support, gpu, path).confidence is Confidence.CERTAIN
