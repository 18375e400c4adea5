"""The result of a probe outranks attributes, files and product names."""

from __future__ import annotations

import json

import pytest

from gdrkit.diagnosis import diagnose
from gdrkit.evidence.target import open_host
from tests.evidence_nodes import build

NODE = "ubuntu-6.8-h100"
"""Its files and its product suggest dma-buf; no probe was run there."""

CODE = "memory-not-registrable"


@pytest.fixture
def bundle(tmp_path):
    return build(NODE, tmp_path)


def keep(bundle, name, calls):
    folder = bundle / "sos_commands" / "gdr"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"probe_{name}").write_text(json.dumps({"schema": f"gdrkit.probe.{name}/1", "calls": calls}))


def addresses(bundle):
    devices = bundle / "sys" / "bus" / "pci" / "devices"
    return sorted(
        path.name
        for path in devices.iterdir()
        if (path / "vendor").read_text().strip() == "0x10de"
        and (path / "class").read_text().startswith("0x03")
    )


def call(name, argument, address, result, value=None):
    return {"call": name, "argument": argument, "device": address, "result": result, "value": value}


def attributes(address):
    answers = {18: 0, 75: 9, 76: 0, 110: 1, 116: 1, 124: 1}
    return [call("cuDeviceGetAttribute", str(n), address, 0, value) for n, value in answers.items()]


def exports(found, result):
    return [call("cuMemGetHandleForAddressRange", "device plain", address, result) for address in found]


def pairs(bundle, path):
    """What blocks each judgement of a path, of programs that could use it at such NICs."""
    judgements = diagnose(open_host(str(bundle))).judgements.values()
    return [one for one in judgements if one.path == path and one.consumers != ("aws-ofi-nccl",)]


def test_the_attributes_make_certain_what_the_product_suggests(bundle):
    assert any("cuda-attribute-116" in pair.missing for pair in pairs(bundle, "dmabuf"))
    keep(bundle, "cuda", [c for address in addresses(bundle) for c in attributes(address)])

    assert not any("cuda-attribute-116" in pair.missing for pair in pairs(bundle, "dmabuf"))


def test_an_export_that_failed_blocks_dmabuf_whatever_the_attributes_say(bundle):
    keep(bundle, "cuda", [c for address in addresses(bundle) for c in attributes(address)])
    assert any(pair.state == "ready" for pair in pairs(bundle, "dmabuf"))
    keep(bundle, "memory", exports(addresses(bundle), 999))

    assert {pair.state for pair in pairs(bundle, "dmabuf")} == {"blocked"}
    assert all(CODE in pair.blocked_by for pair in pairs(bundle, "dmabuf"))
    assert not any(CODE in pair.blocked_by for pair in pairs(bundle, "peermem"))


def test_an_export_that_worked_blocks_nothing(bundle):
    before = [pair.state for pair in pairs(bundle, "dmabuf")]
    keep(bundle, "memory", exports(addresses(bundle), 0))

    assert [pair.state for pair in pairs(bundle, "dmabuf")] == before


def test_a_kernel_module_that_refuses_blocks_peermem_alone(bundle):
    refusals = [
        call("NV_ESC_RM_ALLOC", "NV50_THIRD_PARTY_P2P BAR1", address, 0x56) for address in addresses(bundle)
    ]
    keep(bundle, "rm", refusals)

    assert all(CODE in pair.blocked_by for pair in pairs(bundle, "peermem"))
    assert not any(CODE in pair.blocked_by for pair in pairs(bundle, "dmabuf"))


def test_a_probe_of_one_gpu_does_not_apply_to_other_gpus(bundle):
    first, *others = addresses(bundle)
    keep(bundle, "memory", exports([first], 999))

    assert others
    assert any(CODE in pair.blocked_by for pair in pairs(bundle, "dmabuf"))
    assert any(CODE not in pair.blocked_by for pair in pairs(bundle, "dmabuf"))
