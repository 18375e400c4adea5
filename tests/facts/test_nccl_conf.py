"""/etc/nccl.conf."""

import pytest

from gdrkit.evidence import Lacks
from gdrkit.facts.nccl_conf import nccl_conf
from gdrkit.node import Node
from tests.memory_host import MemoryHost


def test_settings_are_read_line_by_line():
    text = "# for everybody\nNCCL_NET_GDR_LEVEL=SYS\nNCCL_IB_HCA=mlx5_0\nnot a setting\n"

    assert nccl_conf(Node(MemoryHost({"etc/nccl.conf": text}))) == {
        "NCCL_NET_GDR_LEVEL": "SYS",
        "NCCL_IB_HCA": "mlx5_0",
    }


def test_no_file_sets_nothing_and_an_unseen_file_is_unknown():
    assert nccl_conf(Node(MemoryHost(complete=True))) == {}
    with pytest.raises(Lacks):
        nccl_conf(Node(MemoryHost()))
