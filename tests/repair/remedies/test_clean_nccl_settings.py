"""Which lines of /etc/nccl.conf turn off a direct path: those that NCCL would obey."""

from __future__ import annotations

import pytest

from gdrkit.programs.environment import parse_conf
from gdrkit.repair.remedies.clean_nccl_settings import disables_direct_path


@pytest.mark.parametrize(
    "line",
    [
        "NCCL_IB_DISABLE=1", "NCCL_IB_DISABLE=2", "NCCL_IB_DISABLE=-1", "NCCL_NET=Socket", "NCCL_NET=socket",
        "NCCL_DMABUF_ENABLE=0", "NCCL_NET_GDR_READ=0", "OFI_NCCL_DISABLE_DMABUF=1", "NCCL_NET_GDR_LEVEL=LOC",
        "NCCL_NET_GDR_LEVEL=0",
    ],
)  # fmt: skip
def test_a_line_that_turns_off_a_direct_path(line: str) -> None:
    (setting,) = parse_conf(f"{line}\n", "etc/nccl.conf")

    assert disables_direct_path(setting)


@pytest.mark.parametrize(
    "line",
    [
        "NCCL_IB_DISABLE=0", "NCCL_IB_DISABLE=yes", "NCCL_NET=IB", "NCCL_DMABUF_ENABLE=1",
        "NCCL_NET_GDR_READ=1", "OFI_NCCL_DISABLE_DMABUF=0", "NCCL_IB_HCA=mlx5_0", "NCCL_IB_DISABLED=1",
        "NCCL_NET_GDR_LEVEL=PIX", "NCCL_NET_GDR_LEVEL=SYS", "NCCL_NET_GDR_LEVEL=none",
    ],
)  # fmt: skip
def test_a_line_that_leaves_it_on(line: str) -> None:
    (setting,) = parse_conf(f"{line}\n", "etc/nccl.conf")

    assert not disables_direct_path(setting)
