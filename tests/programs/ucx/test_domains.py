"""What `ucx_info -d` shows that UCX can register."""

from __future__ import annotations

from pathlib import Path

import pytest

from gdrkit.programs.ucx.domains import can_register, memory_domains

RECORDED = Path(__file__).with_name("recorded")
NIC = """#
# Memory domain: mlx5_0
#     Component: ib
#             register: unlimited{dmabuf}, cost: 180 + 0.062 * N nsec
#         memory types: host (access,reg,cache){cuda}
"""
CUDA = """# Memory domain: cuda_cpy
#     Component: cuda_cpy
#             register: unlimited, cost: 0 nsec
#         memory types: host (access,reg), cuda (access,alloc,reg,detect{dmabuf}), cuda-managed (access)
"""


def test_a_wheel_of_pypi_lists_no_nic():
    found = memory_domains((RECORDED / "ucx_info-d-1.22.0.txt").read_text())

    assert [one.component for one in found] == ["self", "tcp", "sysv", "posix", "cma"]


@pytest.mark.parametrize(
    ("nic", "cuda", "by"),
    [
        ({"dmabuf": ", dmabuf", "cuda": ""}, ",dmabuf", "dma-buf"),
        ({"dmabuf": ", dmabuf", "cuda": ""}, "", ""),
        ({"dmabuf": "", "cuda": ""}, ",dmabuf", ""),
        ({"dmabuf": "", "cuda": ", cuda (reg,cache)"}, "", "peer memory"),
        ({"dmabuf": "", "cuda": ", cuda-managed (reg)"}, "", ""),
        ({"dmabuf": ", dmabuf", "cuda": ", cuda (reg,cache)"}, ",dmabuf", "dma-buf"),
    ],
)
def test_both_sides_are_needed_for_dmabuf_and_the_nics_alone_for_peer_memory(nic, cuda, by):
    found = memory_domains(NIC.format(**nic) + CUDA.format(dmabuf=cuda))

    assert can_register(found, found[0]) == by
    assert found[0].line == 5 and found[1].memory["host"] == ("access", "reg")
