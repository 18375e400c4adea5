"""Small read requests, and one NIC that appears as several RDMA devices."""

from gdrkit.evidence import MissingReason
from gdrkit.rules.read_request_small import read_request_small
from gdrkit.rules.shared_nic import shared_nic
from gdrkit.verdict.cells import paths_closed_by
from tests.hardware import SERVER, SPARK, machine
from tests.rules.hardware import failed, missing, not_applicable, passed

DUAL_PORT = """
0000:15:01.0 spr-root
  0000:18:00.0 cx7-eth rdma=mlx5_0 net=eth0 port_name=p0 guid=a088c203
  0000:18:00.1 cx7-eth rdma=mlx5_1 net=eth1 port_name=p1 guid=a088c203
"""
TWO_CARDS = """
0000:15:01.0 spr-root
  0000:18:00.0 cx7-eth rdma=mlx5_0 net=eth0 port_name=p0 guid=a088c203
0000:25:01.0 spr-root
  0000:28:00.0 cx7-eth rdma=mlx5_1 net=eth1 port_name=p0 guid=a088c299
"""


class TestReadRequest:
    def test_512_bytes_are_too_small_but_block_no_path(self):
        found = failed(machine(SERVER.replace("cx7-ib", "cx7-ib mrrs=512")), read_request_small)

        assert (found.seen, found.subject) == ("512 bytes", "mlx5_0")
        assert (paths_closed_by(read_request_small.takes(None)), read_request_small.slows) == ((), ())
        assert read_request_small.direction == "send"

    def test_4096_bytes_pass(self):
        passed(machine(SERVER.replace("cx7-ib", "cx7-ib mrrs=4096")), read_request_small)

    def test_an_unreadable_register_is_unknown(self):
        assert missing(machine(root=False), read_request_small).why is MissingReason.DENIED


class TestSharedNic:
    def test_a_spark_has_one_nic_with_four_rdma_devices(self):
        found = failed(machine(SPARK), shared_nic)

        assert found.seen == "4 RDMA devices on 2 PCIe links, one NIC with ports p0, p1"
        assert len(found.subject.split()) == 4

    def test_a_spark_has_one_nic_even_if_the_guids_differ(self):
        outline = SPARK
        for number in range(4):
            outline = outline.replace("guid=3c6d6603 ", f"guid=3c6d66{number}0 ", 1)
            outline = outline.replace("guid=3c6d6603\n", f"guid=3c6d66{number}0\n", 1)

        failed(machine(outline), shared_nic)

    def test_a_socket_direct_card_is_one_nic_on_two_links(self):
        failed(machine(TWO_CARDS.replace("a088c299", "a088c203")), shared_nic)

    def test_two_ports_of_one_card_on_one_link_pass(self):
        passed(machine(DUAL_PORT), shared_nic)

    def test_two_cards_of_the_same_model_are_two_nics(self):
        passed(machine(TWO_CARDS), shared_nic)

    def test_a_virtual_function_is_not_a_second_nic(self):
        outline = SERVER + "      0000:19:00.1 cx5-vf rdma=mlx5_1\n"
        node = machine(outline)
        base = "sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:19:00.1"
        node.host.links[f"{base}/physfn"] = "../0000:18:00.0"  # type: ignore[attr-defined]

        not_applicable(node, shared_nic)

    def test_without_a_list_of_devices_it_is_unknown(self):
        missing(machine(without=("sys/class/infiniband",)), shared_nic)
