"""What people say of a direct path that works and is slow."""

from __future__ import annotations

import pytest

from tests.explain.explaining import explained

SLOW = (
    "ib_write_bw --use_cuda=0 reaches only 3 GB/s, host memory 24 GB/s. GPUDirect RDMA is loaded.",
    "GDR write bandwidth is half of the host memory bandwidth on our A100 servers.",
    "Poor GPUDirect RDMA performance: 2.5 GB/s to the GPU, mlx5_0 is under the same root complex.",
    "GDR gives 3 GB/s with perftest (works, no errors), low against 24 GB/s of host memory.",
)
ELSE = (
    "GPUDirect RDMA is disabled, and performance is poor.",
    "Bandwidth is low because NCCL falls back to TCP without GDR.",
    "GPUDirect RDMA does not work, so the bandwidth is only 3 GB/s.",
    "GPUDirect RDMA works with full bandwidth.",
    "Host memory reaches only 3 GB/s with ib_write_bw.",
    "Use GPUDirect RDMA if the bandwidth is low.",
    "With GPUDirect RDMA the bandwidth is never lower than that of host memory.",
    "We compare GPUDirect RDMA with sockets, whose throughput is poor.",
)


@pytest.mark.parametrize("text", SLOW)
def test_a_slow_direct_path_is_answered_with_what_slows_it_down(text: str):
    page = explained(text)
    assert "works and is slow" in page.answer.sentence
    assert {"pair-cross-socket", "acs-redirect"} <= {cause.code for cause in page.answer.others}
    assert page.exit_code == 3


@pytest.mark.parametrize("text", ELSE)
def test_a_path_that_is_not_direct_or_not_slow_is_none(text: str):
    assert "works and is slow" not in explained(text).answer.sentence


def test_a_cause_that_the_text_names_comes_first():
    page = explained("GDR bandwidth is only 3 GB/s, it turned out that ACS was enabled on the switch.")
    assert page.answer.cause == "acs-redirect"
