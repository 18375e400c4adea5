"""What excludes a cause, and about which proofs the analysis of a log decides."""

from __future__ import annotations

import pytest

from gdrkit.explain.causes import only_of_log
from gdrkit.explain.explanation import QuotedLine
from tests.explain.explaining import explained

OF_LOG = QuotedLine(1, "n1:1:2 [0] NCCL INFO NET/IB : No device found.")
BESIDE = QuotedLine(2, "No IB devices found")


@pytest.mark.parametrize(
    ("proofs", "only"),
    [((OF_LOG,), True), ((OF_LOG, OF_LOG), True), ((OF_LOG, BESIDE), False), ((BESIDE, OF_LOG), False),
     ((BESIDE,), False)],
)  # fmt: skip
def test_one_line_of_another_program_is_a_proof_beside_the_log(proofs: tuple[QuotedLine, ...], only: bool):
    assert only_of_log(proofs) is only


USES = "[rank0]: ws1:5100:5190 [0] NCCL INFO NET/IB : GPU Direct RDMA (DMABUF) enabled for HCA 0 '{}'\n"
LACKS = "[rank1]: ws1:5101:5191 [1] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'\n"
OF_HOST = {"driver-proprietary", "peermem-not-loaded", "dmabuf-mr-refused"}


def _left(text: str) -> set[str]:
    return {one.code for one in explained(text).answer.others}


def test_what_ranks_of_a_host_share_is_no_reason_that_one_of_them_lacks_the_path():
    left = _left(USES.format("mlx5_0") + LACKS)
    assert left.isdisjoint(OF_HOST) and {"gpu-consumer", "gpu-unsupported"} <= left
    assert _left(LACKS) >= OF_HOST


@pytest.mark.parametrize(
    "other",
    [
        USES.format("mlx5_7"),  # of another NIC, perhaps of another maker
        USES.format("mlx5_0").replace("ws1", "ws2"),
        USES.format("mlx5_0").replace("(DMABUF) enabled", "Enabled"),  # by nvidia-peermem
    ],
)
def test_a_rank_of_another_host_or_nic_or_by_the_module_excludes_nothing(other: str):
    assert _left(other + LACKS) >= OF_HOST


def test_a_gpu_with_an_xid_is_the_driver_s_own():
    empty = "$ nvidia-smi\nNo devices were found\n"
    xid = "[ 2011.2] NVRM: Xid (PCI:0000:01:00): 79, pid=7, name=x, GPU has fallen off the bus.\n"
    assert {"gpu-passed-through", "gpu-excluded"} <= _left(empty)
    found = explained(empty + xid).answer
    assert (found.cause, found.besides) == ("gpu-needs-reset", ())
    assert {"gpu-passed-through", "gpu-excluded"}.isdisjoint(one.code for one in found.others)


WSL = "5.15.167.4-microsoft-standard-WSL2"
SEARCHED = (
    "$ sudo modprobe nvidia-peermem\nmodprobe: FATAL: Module nvidia-peermem not found in directory {}\n"
)


def test_modprobe_names_the_kernel_that_runs():
    assert explained(SEARCHED.format(f"/lib/modules/{WSL}")).answer.cause == "wsl"
    other = SEARCHED.format("/lib/modules/6.8.0-90-generic")
    assert explained(other).answer.cause == "module-not-found"
    later = f"{SEARCHED.format('/lib/modules/6.8.0-90-generic')}$ uname -r\n6.8.0-94-generic\n"
    (machine,) = explained(later).machines
    assert [fact.value for fact in machine.known if fact.name == "kernel"] == ["6.8.0-94-generic"]
    assert not machine.contradictions
