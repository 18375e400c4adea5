"""No GPU, no RDMA device, ports that are down, software RDMA devices, WSL."""

import pytest

from gdrkit.diagnosis import report_on
from gdrkit.facts.rdma import RdmaDevice, RdmaPort, ports, rdma_devices
from gdrkit.node import Node
from gdrkit.rules.no_gpu import no_gpu
from gdrkit.rules.no_rdma_device import no_rdma_device
from gdrkit.rules.rdma_ports import (
    port_down,
    port_on_one_lane,
    port_slower_than_others,
    rdma_device_software,
)
from gdrkit.rules.rule import Failed, Passed, Unknown
from gdrkit.rules.wsl import wsl
from gdrkit.verdict.cells import paths_closed_by
from gdrkit.verdict.path_state import State
from tests.hardware import BARE_METAL, GUEST, SERVER, SPARK, machine
from tests.index_builder import with_indexes
from tests.known_answers import judged
from tests.memory_host import MemoryHost
from tests.rules.hardware import failed, missing, not_applicable, outcomes, passed

EMPTY = "0000:15:01.0 spr-root\n"
LOADED = "nvidia 1000 0 - Live 0x0 (O)\n"
GPU_ALONE = "0000:15:01.0 spr-root\n  0000:1b:00.0 {}\n"
ON_HOST = BARE_METAL | {"proc/1/cgroup": "0::/init.scope\n"}
POLICY = (
    "apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nmetadata: {name: p}\nspec: {driver: {enabled: true}}\n"
)
MODULES = "lib/modules/6.8.0-45-generic"
SIGNS = {
    "loaded driver": {"proc/modules": LOADED},
    "driver file": with_indexes(
        {
            f"{MODULES}/modules.dep": "updates/dkms/nvidia.ko:\n",
            f"{MODULES}/updates/dkms/nvidia.ko": b"\x7fELF",
        }
    ),
    "toolkit": {"etc/nvidia-container-runtime/config.toml": ""},
    "CDI of nvidia-ctk": {"etc/cdi/nvidia.yaml": ""},
    "CDI of the operator": {"run/cdi/management.nvidia.com-gpu.yaml": ""},
    "driver container": {"run/nvidia/driver/etc/os-release": ""},
    "cluster policy": {"sos_commands/kubernetes/policy.yaml": POLICY},
    "DKMS, not built for this kernel": {
        "var/lib/dkms/nvidia/580.95.05/6.8.0-44-generic/x86_64/module/nvidia.ko": b"\x7fELF"
    },
}  # fmt: skip
NO_SIGNS = {
    "CDI of a NIC's plugin": {"etc/cdi/sriov-dp_nvidia.com_mlnxnics.yaml": ""},
    "empty CDI folder": {"etc/cdi/README": ""},
    "policy for NICs": {
        "sos_commands/kubernetes/nic.yaml": POLICY.replace("ClusterPolicy", "NicClusterPolicy")
    },
    "nouveau": {"proc/modules": "nouveau 1000 0 - Live 0x0\n"},
    "DKMS of GPUDirect Storage": {
        "var/lib/dkms/nvidia-fs/2.26.6/6.8.0-44-generic/x86_64/module/nvidia-fs.ko": b"\x7fELF"
    },
}
PACKAGES = {
    "nvidia-dkms-580-open": True,
    "nvidia-dkms-550-server": True,
    "nvidia-open-kernel-dkms": True,
    "linux-modules-nvidia-580-server-open-generic": True,
    "kmod-nvidia-open-dkms": True,
    "akmod-nvidia": True,
    "nvidia-open-driver-G06-signed-cuda-kmp-default": True,
    "nvidia-utils-580": False,
    "libnvidia-compute-580": False,
    "cuda-toolkit-13-0": False,
    "nvidia-fs-dkms": False,
    "linux-modules-nvidia-fs-generic": False,
    "nvidia-peer-memory-dkms": False,
    "nvidia-driver-libs": False,
}
"""Names of packages, and whether they are the driver's kernel modules."""
LISTED = ("lspci", "-nnvvv")
ROOT_BRIDGE = "00:00.0 Host bridge [0600]: Intel Corporation Device [8086:3ec4] (rev 07)\n"
LAPTOP_GPU = (
    "1b:00.0 VGA compatible controller [0300]: NVIDIA Corporation GA102GLM [RTX A6000 Mobile] [10de:2230]\n"
)
WIRED = "00:1f.6 Ethernet controller [0200]: Intel Corporation Ethernet Connection (7) I219-LM [8086:15bb]\n"
RADIO = "6f:00.0 Network controller [0280]: Intel Corporation Wireless-AC 9260 [8086:2526] (rev 29)\n"
MAY_BE_RDMA = {
    "ConnectX": "18:00.0 Infiniband controller [0207]: Mellanox Technologies MT2910 [15b3:1021]\n",
    "E810": "18:00.0 Ethernet controller [0200]: Intel Corporation Ethernet Controller E810-C [8086:1592]\n",
    "X722": "18:00.0 Ethernet controller [0200]: Intel Corporation Ethernet Connection X722 [8086:37d2]\n",
    "no numbers": "18:00.0 Ethernet controller: Broadcom Inc. BCM57608\n",
}
"""Lines of lspci whose function a driver of RDMA devices takes, or may take."""
WSL = {"proc/sys/kernel/osrelease": "5.15.167.4-microsoft-standard-WSL2\n"}


class TestNoGpu:
    def test_where_nothing_expects_a_gpu_there_is_nothing_to_judge(self):
        found = failed(machine(EMPTY), no_gpu)
        verdict = judged(machine(EMPTY)).of("nccl")

        assert no_gpu.permanent and found.permanent is None
        assert found.seen == "neither GPU nor RDMA device, and nothing expects one: nothing to judge"
        assert verdict.state is State.IMPOSSIBLE

    def test_in_a_container_there_is_nobody_to_ask_for_what_nothing_expects(self):
        inside = machine(EMPTY, files={"proc/1/environ": "container=podman\0", "run/.containerenv": ""})
        whole = report_on(inside)

        assert whole.node.scope == "container"
        assert "docker run --gpus all" in failed(inside, no_gpu).advice
        assert not whole.ask

    @pytest.mark.parametrize("files", SIGNS.values(), ids=SIGNS)
    def test_where_something_expects_a_gpu_it_is_missing(self, files):
        node = machine(EMPTY, files=BARE_METAL | files)
        found = failed(node, no_gpu)

        assert found.permanent == frozenset() and "gpus = 0" in found.expected
        assert judged(node).of("nccl").state is State.BLOCKED

    @pytest.mark.parametrize("files", NO_SIGNS.values(), ids=NO_SIGNS)
    def test_what_is_there_for_other_devices_expects_no_gpu(self, files):
        assert failed(machine(EMPTY, files=BARE_METAL | files), no_gpu).permanent is None

    @pytest.mark.parametrize("name, expects", PACKAGES.items(), ids=PACKAGES)
    def test_a_package_of_the_drivers_modules_expects_a_gpu_and_its_libraries_do_not(self, name, expects):
        """An image for all nodes has the driver; a host that builds or submits jobs has its libraries."""
        status = f"Package: {name}\nStatus: install ok installed\nVersion: 1\n\n"
        found = failed(machine(EMPTY, files=BARE_METAL | {"var/lib/dpkg/status": status}), no_gpu)

        assert (found.permanent == frozenset()) is expects

    def test_a_distribution_without_a_known_package_manager_expects_none(self):
        assert failed(machine(EMPTY, files=BARE_METAL), no_gpu).permanent is None

    def test_packages_that_were_not_collected_leave_it_open(self):
        assert missing(machine(EMPTY, without=("var/lib/dpkg",)), no_gpu).source

    def test_whether_one_is_expected_is_unknown_where_no_sign_was_collected(self):
        assert missing(machine(EMPTY, without=("etc/cdi",)), no_gpu).source == "etc/cdi"

    def test_one_sign_is_enough_where_another_was_not_collected(self):
        files = BARE_METAL | {"proc/modules": LOADED}
        assert failed(machine(EMPTY, files=files, without=("etc/cdi",)), no_gpu).permanent == frozenset()

    def test_one_gpu_passes(self):
        assert passed(machine(), no_gpu).why == "1 GPU"

    def test_a_jetson_is_unknown_because_its_gpu_is_not_a_pci_device(self):
        missing(machine(EMPTY, files=BARE_METAL | {"etc/nv_tegra_release": "# R36\n"}), no_gpu)

    def test_it_does_not_apply_to_wsl(self):
        not_applicable(machine(EMPTY, files=BARE_METAL | WSL), no_gpu)

    def test_without_a_list_of_devices_it_is_unknown(self):
        missing(Node(MemoryHost()), no_gpu)


def listing(lspci: str, modules: str = NO_SIGNS["nouveau"]["proc/modules"], outline: str = EMPTY) -> Node:
    """A node of which lspci is known, and neither the RDMA devices of sysfs nor the chassis."""
    return machine(
        outline,
        files=ON_HOST | {"proc/modules": modules},
        commands={LISTED: lspci},
        without=("sys/class/infiniband", "sys/class/dmi"),
    )


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

    @pytest.mark.parametrize(
        "driver, module", [("hns3", "hns_roce_hw_v2"), ("idpf", "irdma"), ("efa", "efa"), ("erdma", "erdma")]
    )
    def test_a_dormant_nic_of_any_driver_names_the_module_that_it_waits_for(self, driver, module):
        found = failed(machine(EMPTY + f"  0000:18:00.0 i225 driver={driver}\n"), no_rdma_device)

        assert (found.subject, found.expected) == ("0000:18:00.0", f"an RDMA device created by {module}")

    def test_a_nic_without_rdma_waits_for_no_module(self):
        assert failed(machine(EMPTY + "  0000:18:00.0 i225\n", files=ON_HOST), no_rdma_device).permanent

    def test_in_a_container_the_device_may_be_elsewhere(self):
        node = machine(EMPTY, files=BARE_METAL | {".dockerenv": ""})

        assert failed(node, no_rdma_device).permanent == frozenset()

    def test_a_device_passes(self):
        assert passed(machine(), no_rdma_device).why == "mlx5_0"

    @pytest.mark.parametrize(("device", "module"), [("1007", "mlx4_ib"), ("1017", "mlx5_ib")])
    def test_a_nic_without_a_driver_lacks_the_module_of_its_generation(self, device, module):
        folder = "sys/bus/pci/devices/0000:18:00.0"
        card = {"vendor": "0x15b3", "device": f"0x{device}", "class": "0x020000"}
        files = BARE_METAL | {f"{folder}/{name}": f"{value}\n" for name, value in card.items()}

        assert failed(machine(EMPTY, files=files), no_rdma_device).expected.endswith(f"by {module}")

    def test_a_folder_that_was_not_collected_is_unknown(self):
        missing(machine(EMPTY, without=("sys/class/infiniband",)), no_rdma_device)

    def test_a_whole_list_of_lspci_without_such_a_nic_decides_where_sysfs_was_not_collected(self):
        found = failed(listing(ROOT_BRIDGE + WIRED + RADIO), no_rdma_device)

        assert found.seen == "no NIC that supports RDMA in the list of lspci" and found.permanent

    @pytest.mark.parametrize("line", MAY_BE_RDMA.values(), ids=MAY_BE_RDMA)
    def test_a_list_with_a_function_that_may_be_one_leaves_it_open(self, line):
        missing(listing(ROOT_BRIDGE + WIRED + line), no_rdma_device)

    def test_a_part_of_the_list_leaves_it_open(self):
        missing(listing(LAPTOP_GPU), no_rdma_device)

    def test_software_that_makes_rdma_devices_leaves_it_open(self):
        missing(listing(ROOT_BRIDGE + WIRED, "rdma_rxe 1000 0 - Live 0x0\n"), no_rdma_device)

    def test_a_gpu_that_lspci_calls_mobile_is_in_no_server(self):
        node = listing(ROOT_BRIDGE + WIRED + LAPTOP_GPU, outline=GPU_ALONE.format("rtx-a6000"))

        assert failed(node, no_rdma_device).permanent
        assert judged(node).of("nccl").cause.rule.code == "no-rdma-device"

    @pytest.mark.parametrize("model", ["h100-sxm", "l40s", "v100-sxm", "gh200"])
    def test_beside_a_gpu_for_the_data_centre_it_is_missing(self, model):
        node = machine(GPU_ALONE.format(model), files=ON_HOST)
        found = failed(node, no_rdma_device)

        assert found.permanent == frozenset() and "nics = 0" in found.expected
        assert judged(node).of("nccl").state is State.BLOCKED

    @pytest.mark.parametrize(
        "chassis, blocked", [("23\n", True), ("17\n", True), ("7\n", False), ("3\n", False)]
    )
    def test_a_professional_gpu_is_meant_for_a_nic_only_in_a_server(self, chassis, blocked):
        files = ON_HOST | {"sys/class/dmi/id/chassis_type": chassis}
        found = failed(machine(GPU_ALONE.format("rtx-a6000"), files=files), no_rdma_device)

        assert (found.permanent == frozenset()) is blocked

    def test_a_professional_gpu_in_an_unknown_chassis_is_unknown(self):
        node = machine(GPU_ALONE.format("rtx-a6000"), files=ON_HOST, without=("sys/class/dmi",))
        assert "chassis_type" in missing(node, no_rdma_device).source

    @pytest.mark.parametrize(
        "vendor, model, by_tcp",
        [
            ("Google", "h100-sxm", True), ("Google", "h200-sxm", False), ("QEMU", "h100-sxm", False),
        ],
    )  # fmt: skip
    def test_an_h100_of_google_has_another_path_than_verbs(self, vendor, model, by_tcp):
        name = "Google Compute Engine" if vendor == "Google" else "Standard PC"
        dmi = {"sys/class/dmi/id/product_name": f"{name}\n", "sys/class/dmi/id/sys_vendor": f"{vendor}\n"}
        files = ON_HOST | dmi | {"proc/cpuinfo": "flags\t\t: fpu hypervisor\n"}
        node = machine(GPU_ALONE.format(model), files=files)

        if by_tcp:
            found = failed(node, no_rdma_device)
            assert "by design" in found.seen and "TCPXO" in found.advice
            assert {judged(node).of(name).state for name in ("nccl", "verbs")} == {State.IMPOSSIBLE}
        else:
            assert failed(node, no_rdma_device).permanent == frozenset()
            assert judged(node).of("nccl").state is State.BLOCKED

    @pytest.mark.parametrize("model", ["rtx-4090", "gb10"])
    def test_a_geforce_or_a_spark_is_complete_without_a_nic(self, model):
        files = ON_HOST | {"sys/class/dmi/id/chassis_type": "23\n"}
        assert failed(machine(GPU_ALONE.format(model), files=files), no_rdma_device).permanent

    def test_a_dgx_station_is_a_workstation(self):
        files = ON_HOST | {"sys/class/dmi/id/product_name": "DGX Station A100 920-23487-2530-000R0\n"}
        assert failed(machine(GPU_ALONE.format("a100-sxm-80"), files=files), no_rdma_device).permanent

    def test_a_server_whose_gpus_and_nics_are_gone_lacks_both(self):
        found = failed(machine(EMPTY, files=ON_HOST | {"proc/modules": LOADED}), no_rdma_device)
        assert found.permanent == frozenset()


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

    def test_a_device_without_ports_says_so(self):
        node = machine().after("none", [ports.becomes((), "mlx5_0")])
        assert failed(node, port_down).seen == "no port"

    def test_ports_that_were_not_collected_are_unknown(self):
        place = (
            "sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:18:00.0/infiniband/mlx5_0"
        )
        missing(machine(without=(f"{place}/ports",)), port_down)


class TestLinkOfAPort:
    """What a port that is down waits for: an Ethernet port shows Disabled without carrier as well."""

    @staticmethod
    def advice(
        layer: str, board: str = "MT_0000000838", others: str = "InfiniBand", state: str = "DOWN"
    ) -> str:
        def device(name: str, of: str) -> RdmaDevice:
            return RdmaDevice(name, "0000:18:00.0", "mlx5_core", of)

        down = RdmaPort("mlx5_0", 1, state, "Disabled" if state == "DOWN" else "LinkUp", 40, layer)
        alike = [RdmaPort(name, 1, "ACTIVE", "LinkUp", 400, others) for name in ("mlx5_8", "mlx5_9")]
        devices = [device("mlx5_0", board), *(device(one.device, "MT_0000000838") for one in alike)]
        node = machine().after(
            "down",
            [
                rdma_devices.becomes(tuple(devices)),
                *(ports.becomes((port,), port.device) for port in (down, *alike)),
            ],
        )
        return next(one for one in outcomes(node, port_down) if isinstance(one, Failed)).advice

    @pytest.mark.parametrize(
        ("layer", "others", "value"), [("Ethernet", "InfiniBand", 1), ("InfiniBand", "Ethernet", 2)]
    )
    def test_one_that_differs_from_its_siblings_is_set_to_another_link_layer(self, layer, others, value):
        said = self.advice(layer, others=others)
        assert f"set to {layer}" in said and f"LINK_TYPE_P1={value}" in said and "likely" in said

    def test_ethernet_that_is_disabled_may_have_no_link(self):
        said = self.advice("Ethernet", others="Ethernet")
        assert "it is turned off, or there is no link" in said and "LINK_TYPE" not in said

    def test_a_nic_of_another_board_is_no_sibling(self):
        assert "LINK_TYPE" not in self.advice("Ethernet", board="MT_0000000359")

    def test_infiniband_that_is_disabled_is_turned_off(self):
        said = self.advice("InfiniBand")
        assert "turned off. `sudo ibportstate" in said and "no link" not in said

    def test_no_second_subnet_manager_is_started_where_one_has_set_up_another_port(self):
        said = self.advice("InfiniBand", state="INIT")
        assert "One has set up mlx5_8 and 1 more: in the same fabric do not start another" in said
        assert "separate fabrics" in said and "`sudo ibhosts -C mlx5_0 -P 1`" in said

    def test_without_another_active_infiniband_port_the_other_nodes_are_asked_before_one_is_started(self):
        said = self.advice("InfiniBand", others="Ethernet", state="INIT")
        assert said.index("If a port of another node in its fabric is ACTIVE") < said.index(
            "If none is, start"
        )

    def test_an_armed_port_has_a_subnet_manager(self):
        said = self.advice("InfiniBand", others="Ethernet", state="ARMED")
        assert "A subnet manager has begun" in said and "start" not in said

    def test_an_ethernet_port_in_init_has_no_address_and_no_subnet_manager(self):
        said = self.advice("Ethernet", others="InfiniBand", state="INIT")
        assert "IPv4 address of its interface" in said and "subnet manager" not in said


class TestPortOnOneLane:
    SWITCH = "sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0"
    PORT = f"{SWITCH}/0000:18:00.0/infiniband/mlx5_0/ports/1"

    def with_rate(self, rate: str, layer: str = "InfiniBand", state: str = "4: ACTIVE") -> Node:
        shown = {"rate": rate, "link_layer": layer, "state": state}
        return machine(
            files=BARE_METAL | {f"{self.PORT}/{name}": f"{text}\n" for name, text in shown.items()}
        )

    def test_an_infiniband_port_on_one_lane_is_found(self):
        found = failed(self.with_rate("100 Gb/sec (1X NDR)"), port_on_one_lane)

        assert (found.seen, found.subject) == ("port 1 has 1 lane, 100 Gbit/s", "mlx5_0")

    @pytest.mark.parametrize("rate", ["400 Gb/sec (4X NDR)", "200 Gb/sec (2X NDR)"])
    def test_a_whole_port_and_half_of_a_split_one_pass(self, rate):
        passed(self.with_rate(rate), port_on_one_lane)

    def test_one_lane_is_ordinary_on_ethernet_and_means_nothing_without_a_link(self):
        not_applicable(self.with_rate("25 Gb/sec (1X EDR)", "Ethernet"), port_on_one_lane)
        not_applicable(self.with_rate("2.5 Gb/sec (1X SDR)", state="1: DOWN"), port_on_one_lane)

    def test_a_rate_without_lanes_leaves_it_open(self):
        assert "lanes of mlx5_0/1" in missing(self.with_rate("400 Gb/sec"), port_on_one_lane).source


class TestPortSlowerThanOthers:
    @staticmethod
    def place(number: int) -> str:
        return (
            f"sys/devices/pci0000:1{number}/0000:1{number}:01.0/0000:2{number}:00.0/infiniband/mlx5_{number}"
        )

    def with_rates(self, *rates: int, **changed: str) -> Node:
        """NICs of one board with these rates; `changed`: what the first one has otherwise."""
        outline = "".join(
            f"0000:1{n}:01.0 spr-root\n  0000:2{n}:00.0 cx7-ib rdma=mlx5_{n} rate={rate}\n"
            for n, rate in enumerate(rates)
        )
        boards = {f"{self.place(n)}/board_id": "MT_0000000838\n" for n in range(len(rates))}
        first = {f"{self.place(0)}/{name.replace('__', '/')}": f"{text}\n" for name, text in changed.items()}
        return machine(outline, files=BARE_METAL | boards | first)

    def test_the_only_slower_one_is_found_and_the_others_pass(self):
        node = self.with_rates(100, 400, 400, 400)
        first, *others = outcomes(node, port_slower_than_others)

        assert isinstance(first, Failed)
        assert (first.subject, first.seen) == ("mlx5_0", "100 Gbit/s")
        assert first.expected == "400 Gbit/s, as 3 other NICs of its board have"
        assert {type(one) for one in others} == {Passed}

    @pytest.mark.parametrize(
        "rates", [(400, 400, 400, 400), (200, 200, 400, 400, 400), (100, 400, 400), (100, 200, 400, 400)]
    )
    def test_equal_rates_several_slower_ones_and_few_others_show_nothing(self, rates: tuple[int, ...]):
        found = outcomes(self.with_rates(*rates), port_slower_than_others)
        assert {type(one) for one in found} == {Passed}

    @pytest.mark.parametrize(
        "changed",
        [
            {"board_id": "MT_0000000222"},
            {"ports__1__link_layer": "Ethernet"},
            {"ports__1__state": "1: DOWN"},
            {"ports__1__rate": "100 Gb/sec (1X NDR)"},
            {"board_id": ""},
        ],
    )
    def test_another_board_or_link_layer_a_port_that_is_down_and_one_lane_are_no_case_of_it(
        self, changed: dict[str, str]
    ):
        found = outcomes(self.with_rates(100, 400, 400, 400, **changed), port_slower_than_others)
        assert not any(isinstance(one, Failed) for one in found)

    def test_a_board_that_was_not_collected_leaves_it_open(self):
        node = machine(
            "".join(f"0000:1{n}:01.0 spr-root\n  0000:2{n}:00.0 cx7-ib rdma=mlx5_{n}\n" for n in range(4)),
            without=tuple(f"{self.place(n)}/board_id" for n in range(4)),
        )
        assert {type(one) for one in outcomes(node, port_slower_than_others)} == {Unknown}


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


class TestOnlySoftware:
    RXE = "0000:15:01.0 spr-root\n  0000:1b:00.0 {gpu}\n"

    @pytest.mark.parametrize(("gpu", "state"), [("h100-sxm", "blocked"), ("rtx-4090", "impossible")])
    def test_soft_roce_replaces_no_nic_beside_a_gpu_for_the_data_centre(self, gpu, state):
        node = machine(
            self.RXE.format(gpu=gpu),
            files=BARE_METAL
            | {"sys/class/infiniband/rxe0/node_guid": "0\n", "sys/class/dmi/id/chassis_type": "23\n"},
        )
        assert failed(node, rdma_device_software).subject == "rxe0"
        assert judged(node).of("verbs").state == state


@pytest.mark.parametrize(
    ("outline", "files", "nothing"),
    [
        (GPU_ALONE.format("rtx-a6000"), ON_HOST, True),
        (GPU_ALONE.format("rtx-a6000") + "0000:25:01.0 spr-root\n  0000:26:00.0 cx7-ib\n", ON_HOST, False),
        (GPU_ALONE.format("rtx-a6000"), GUEST | {"proc/1/cgroup": "0::/init.scope\n"}, False),
        (GPU_ALONE.format("h100-sxm"), ON_HOST, False),  # meant to have one
    ],
)
def test_a_workstation_without_a_nic_for_rdma_needs_none_for_its_own_gpus(outline, files, nothing: bool):
    found = failed(machine(outline, files=files), no_rdma_device)
    assert found.advice.startswith("Nothing: ") is nothing
