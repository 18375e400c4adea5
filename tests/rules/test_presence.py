"""No GPU, no RDMA device, ports that are down, software RDMA devices, WSL."""

import pytest

from gdrkit.consumers.table import paths_closed_by
from gdrkit.node import Node
from gdrkit.rules.no_gpu import no_gpu
from gdrkit.rules.no_rdma_device import no_rdma_device
from gdrkit.rules.rdma_ports import port_down, rdma_device_software
from gdrkit.rules.rule import Failed, Passed
from gdrkit.rules.wsl import wsl
from tests.hardware import BARE_METAL, SERVER, SPARK, machine
from tests.memory_host import MemoryHost
from tests.rules.hardware import failed, missing, not_applicable, outcomes, passed

EMPTY = "0000:15:01.0 spr-root\n"
WSL = {"proc/sys/kernel/osrelease": "5.15.167.4-microsoft-standard-WSL2\n"}


class TestNoGpu:
    def test_a_machine_without_a_gpu_is_impossible_for_good(self):
        assert failed(machine(EMPTY), no_gpu)
        assert no_gpu.permanent

    def test_one_gpu_passes(self):
        assert passed(machine(), no_gpu).why == "1 GPU"

    def test_a_jetson_is_unknown_because_its_gpu_is_not_a_pci_device(self):
        missing(machine(EMPTY, files=BARE_METAL | {"etc/nv_tegra_release": "# R36\n"}), no_gpu)

    def test_it_does_not_apply_to_wsl(self):
        not_applicable(machine(EMPTY, files=BARE_METAL | WSL), no_gpu)

    def test_without_a_list_of_devices_it_is_unknown(self):
        missing(Node(MemoryHost()), no_gpu)


class TestNoRdmaDevice:
    def test_a_machine_without_a_suitable_nic_has_only_sockets(self):
        found = failed(
            machine(EMPTY, files=BARE_METAL | {"proc/1/cgroup": "0::/init.scope\n"}), no_rdma_device
        )

        assert found.permanent
        assert "socket" not in paths_closed_by(no_rdma_device.takes(None))

    def test_a_connectx_without_its_driver_can_be_fixed(self):
        found = failed(machine(SERVER.replace(" rdma=mlx5_0", "")), no_rdma_device)

        assert (found.subject, found.permanent) == ("0000:18:00.0", frozenset())
        assert "mlx5_ib" in found.expected

    def test_in_a_container_the_device_may_be_elsewhere(self):
        node = machine(EMPTY, files=BARE_METAL | {".dockerenv": ""})

        assert failed(node, no_rdma_device).permanent == frozenset()

    def test_a_device_passes(self):
        assert passed(machine(), no_rdma_device).why == "mlx5_0"

    def test_a_folder_that_was_not_collected_is_unknown(self):
        missing(machine(EMPTY, without=("sys/class/infiniband",)), no_rdma_device)


class TestPortDown:
    @pytest.mark.parametrize("state", ["DOWN", "INIT", "ARMED"])
    def test_a_device_without_an_active_port_blocks_all_paths_except_sockets(self, state):
        found = failed(machine(SERVER.replace("mlx5_0", f"mlx5_0 state={state}")), port_down)

        assert (found.seen, found.subject) == (f"port 1 is {state}", "mlx5_0")

    def test_a_spark_with_one_cable_has_two_devices_up_and_two_down(self):
        found = outcomes(machine(SPARK), port_down)

        assert [type(o) for o in found].count(Failed) == 2
        assert [type(o) for o in found].count(Passed) == 2

    def test_a_second_port_without_a_cable_passes_and_is_named(self):
        place = (
            "sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:18:00.0/infiniband/mlx5_0"
        )
        second = {
            f"{place}/ports/2/state": "1: DOWN\n",
            f"{place}/ports/2/phys_state": "3: Disabled\n",
            f"{place}/ports/2/rate": "10 Gb/sec (4X SDR)\n",
            f"{place}/ports/2/link_layer": "InfiniBand\n",
        }

        assert (
            passed(machine(files=BARE_METAL | second), port_down).why == "port 1 is ACTIVE; port 2 is DOWN"
        )

    def test_ports_that_were_not_collected_are_unknown(self):
        place = (
            "sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:18:00.0/infiniband/mlx5_0"
        )
        missing(machine(without=(f"{place}/ports",)), port_down)


class TestSoftware:
    def rxe(self):
        place = "sys/devices/virtual/infiniband/rxe0"
        links = {"sys/class/infiniband/rxe0": "../../devices/virtual/infiniband/rxe0"}
        return Node(MemoryHost({f"{place}/node_guid": "0200:00ff:fe00:0001\n"}, links=links, complete=True))

    def test_a_soft_roce_device_is_found(self):
        assert failed(self.rxe(), rdma_device_software).subject == "rxe0"
        assert rdma_device_software.permanent

    def test_a_nic_passes(self):
        passed(machine(), rdma_device_software)

    def test_without_a_list_of_devices_it_is_unknown(self):
        missing(Node(MemoryHost()), rdma_device_software)


class TestWsl:
    def test_wsl_is_recognized_by_its_kernel(self):
        failed(machine(files=BARE_METAL | WSL), wsl)

    def test_linux_in_a_hyper_v_machine_is_not_wsl(self):
        about = {"sys/class/dmi/id/sys_vendor": "Microsoft Corporation\n"}
        passed(machine(files=BARE_METAL | about), wsl)

    def test_without_a_kernel_release_it_is_unknown(self):
        missing(Node(MemoryHost()), wsl)
