"""What a setting turns off is a choice where another path is open on the node, else a warning."""

from __future__ import annotations

import pytest

from gdrkit.evidence.target import open_host
from gdrkit.node import Node
from gdrkit.programs.environment import NCCL_CONF, environment, parse_conf
from gdrkit.programs.environment import Environment as Settings
from gdrkit.repair.config.check import check
from tests.evidence_nodes import laid_down

POD = """kind: Pod
spec:
  hostNetwork: true
  containers:
  - name: a
    env: [{{name: {0}, value: "{1}"}}]
    resources: {{limits: {{nvidia.com/gpu: 1, nvidia.com/mlnxnics: 1}}}}
"""


def node(name: str) -> Node:
    return Node(open_host(str(laid_down(name))))


def severities(node: Node | None, name: str, value: str, form: str = POD) -> list[str]:
    found = check(form.format(name, value).encode(), "file", "", node).faults
    return [f"{fault.severity} {fault.code}" for fault in found if name in fault.path]


@pytest.mark.parametrize("form", [POD, "export {0}={1}\n", "#!/bin/sh\nmpirun -x {0}={1} ./train\n"])
def test_the_only_path_is_not_turned_off_without_a_warning(form: str):
    """Only dma-buf can give a direct path there: the GPU Operator's nvidia-peermem waits for ever."""
    found = severities(node("gpu-operator-waits"), "NCCL_DMABUF_ENABLE", "0", form)
    assert found == ["warning dmabuf-disabled-by-env"]
    assert severities(None, "NCCL_DMABUF_ENABLE", "0", form) == ["note dmabuf-disabled-by-env"]


def test_the_warning_names_what_closes_the_other_path():
    found = check(POD.format("NCCL_DMABUF_ENABLE", "0").encode(), "f", "", node("acs-redirect")).faults
    assert "peermem is blocked by peermem-stub, rdma-lacks-peer-api" in found[-1].seen


@pytest.mark.parametrize("name", ["ubuntu-22.04-peer-api", "dgx-a100-proprietary", "gpus-gone"])
def test_it_stays_a_note_where_peermem_is_open_or_no_path_was(name: str):
    assert severities(node(name), "NCCL_DMABUF_ENABLE", "0") == ["note dmabuf-disabled-by-env"]


def test_a_level_that_is_right_on_one_machine_closes_the_path_on_another():
    assert severities(node("gh200"), "NCCL_NET_GDR_LEVEL", "PIX") == ["warning gdr-level-pxb-on-c2c"]
    assert severities(node("gh200"), "NCCL_NET_GDR_LEVEL", "PHB") == []
    assert severities(node("debian-12-renamed"), "NCCL_NET_GDR_LEVEL", "PXB") == []


def test_what_is_a_warning_anywhere_is_said_once():
    assert severities(node("acs-redirect"), "NCCL_IB_DISABLE", "1") == ["warning ib-disabled-by-env"]


def test_the_file_of_the_node_itself_is_judged_by_what_it_sets():
    text = "NCCL_DMABUF_ENABLE=0\n"
    own = Settings(NCCL_CONF, "node", parse_conf(text, NCCL_CONF))
    here = node("acs-redirect").after("its own file", [environment.becomes(own, NCCL_CONF)])
    (fault,) = check(text.encode(), "nccl.conf", "", here).faults
    assert (fault.severity, fault.code) == ("warning", "dmabuf-disabled-by-env")


GUIDE = (
    "export NCCL_NET_GDR_LEVEL=5\nexport NCCL_NET_GDR_READ=1\nexport NCCL_DMABUF_ENABLE=1\n"
    "export NCCL_IB_GID_INDEX=3\n"
)
"""What guides for a DGX Spark set, of which the first three are about a path that it cannot have."""


def test_on_an_integrated_gpu_no_setting_of_the_direct_path_has_an_effect():
    found = check(GUIDE.encode(), "guide.env", "", node("spark-two-cables"))
    assert {fault.line: fault.code for fault in found.faults} == dict.fromkeys((1, 2, 3), "gpu-integrated")
    assert all("it can go" in fault.message for fault in found.faults)


@pytest.mark.parametrize("setting", ["NVSHMEM_DISABLE_GDRCOPY=1", "NCCL_IB_TIMEOUT=22"])
def test_other_settings_keep_their_effect_there(setting: str):
    faults = check(f"export {setting}\n".encode(), "guide.env", "", node("spark-two-cables")).faults
    assert "gpu-integrated" not in {fault.code for fault in faults}


def test_elsewhere_such_lines_are_judged_by_what_they_do():
    for other in (None, node("ubuntu-6.8-h100")):
        faults = check(GUIDE.encode(), "guide.env", "", other).faults
        assert "gdr-level-number" in {fault.code for fault in faults}
        assert "gpu-integrated" not in {fault.code for fault in faults}
