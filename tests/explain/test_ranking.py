"""The order of causes that outputs leave open."""

from __future__ import annotations

import pytest

from tests.explain.explaining import explained

REFUSED = "[1.3] [n1:8:0] ib_md.c:349 UCX  ERROR ibv_reg_mr(address=0x7f72, length=4096, access=0xf) failed: Bad address\n"  # noqa: E501
BIT = (
    "[1.3] [n1:8:0] ucp_mm.c:164 UCX  ERROR failed to register address 0x7f724fa00000 mem_type bit 0x{}"
    " length 4096 on md[5]=mlx5_0: Input/output error (md reg_mem_types 0x{})\n"
)


def open_causes(text: str) -> list[str]:
    return [one.code for one in explained(text).answer.others]


def test_of_two_kinds_of_cards_the_one_that_the_text_names_comes_first():
    named = "Most nodes have V100 GPUs, this one has a GeForce RTX 3080.\n\n"
    assert open_causes(named + BIT.format(2, 3))[0] == "gpu-consumer"
    assert open_causes(BIT.format(2, 3))[0] == "gpu-integrated"


def test_a_domain_that_takes_memory_of_cuda_has_found_the_module():
    """openucx/ucx issue 8049: it registers 0x2, CUDA's, by address only with peer memory."""
    assert "peermem-not-loaded" not in open_causes(REFUSED + BIT.format(2, 3))
    assert "peermem-not-loaded" in open_causes(REFUSED + BIT.format(2, 1))


def test_the_error_of_a_loader_has_the_causes_that_the_kernel_s_message_leaves():
    error = "modprobe: ERROR: could not insert 'nv_peer_mem': Unknown symbol in module, or unknown parameter (see dmesg)\n"  # noqa: E501
    symbol = "[ 7.1] {}: Unknown symbol ib_register_peer_memory_client (err 0)\n"

    found = explained(error + symbol.format("nv_peer_mem")).answer
    assert (found.cause, [one.code for one in found.others]) == (
        "module-symbol-missing", ["module-symbol-gpl-only"],
    )  # fmt: skip
    assert not found.now[0].startswith("Often nothing"), "nv_peer_mem is of drivers without dma-buf"
    others = [one.code for one in explained(error + symbol.format("gdrdrv")).answer.others]
    assert "module-not-found" in others, "another module has its own reason"


OPENED = (
    "n1:7:9 [0] misc/ibvwrap.cc:212 NCCL WARN Call to ibv_open_device failed\n"
    "n1:7:9 [0] transport/net_ib.cc:148 NCCL WARN NET/IB : Unable to open device mlx5_0\n"
)
NONE_FOUND = "n1:7:9 [0] NCCL INFO NET/IB : No device found.\n"


def test_nccl_finds_no_device_since_it_cannot_open_one():
    """NVIDIA/nccl issue 451."""
    assert open_causes(OPENED + NONE_FOUND) == ["rdma-device-not-in-container", "verbs-provider-mismatch"]
    assert "port-down" in open_causes(NONE_FOUND)


def test_a_port_is_not_down_where_all_that_are_listed_are_up():
    ports = "$ ibdev2netdev\nmlx5_0 port 1 ==> eth2 (Up)\nmlx5_1 port 1 ==> eth3 ({})\n$ ./app\n"
    assert "port-down" not in open_causes(ports.format("Up") + NONE_FOUND)
    assert "port-down" in open_causes(ports.format("Down") + NONE_FOUND)


DMABUF_OFF = "n1:7:9 [0] NCCL INFO NET/OFI Support for DMA-BUF registrations: false\n"


def test_a_plugin_that_goes_on_without_dmabuf_to_a_network_shows_no_failure():
    """NVIDIA/nccl issue 1597: P5en registers by address there."""
    chosen = "n1:7:9 [0] NCCL INFO Using network {}\n"
    found = explained(DMABUF_OFF + chosen.format("Libfabric")).answer
    assert (found.kind, found.others) == ("nothing", ())
    assert "ofi-dmabuf-off-by-default" in open_causes(DMABUF_OFF)


@pytest.mark.parametrize(
    ("interface", "first"),
    [
        ("ibp12s0", "rdma-device-not-in-container"),
        ("ib0", "rdma-device-not-in-container"),
        ("eth0", "no-rdma-device"),
        ("bond0", "no-rdma-device"),
    ],
)
def test_a_host_with_an_interface_of_infiniband_has_a_device(interface, first):
    """NVIDIA/nccl issue 941: a container of enroot."""
    text = (
        f"gpu041:924:924 [5] NCCL INFO Bootstrap : Using {interface}:10.149.0.32<0>\n"
        "gpu041:924:1152 [5] NCCL INFO NET/IB : No device found.\n"
        f"gpu041:924:1152 [5] NCCL INFO NET/Socket : Using [0]{interface}:10.149.0.32<0>\n"
        "gpu041:924:1152 [5] NCCL INFO Using network Socket\n"
        "gpu041:919:1150 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [receive] via NET/Socket/0\n"
    )
    assert explained(text).answer.others[0].code == first
