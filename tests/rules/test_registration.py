"""Registering memory: refused by the NIC's driver, impossible for a kind of memory, no file to open."""

import json
from pathlib import Path

import pytest

from gdrkit.evidence import Confidence
from gdrkit.evidence.target import open_host
from gdrkit.node import Node
from gdrkit.rules.data_direct_missing import data_direct_missing
from gdrkit.rules.dmabuf_registration import dmabuf_mr_refused, dmabuf_no_p2p_importer
from gdrkit.rules.engine import judge
from gdrkit.rules.memory_not_registrable import memory_not_registrable
from gdrkit.rules.rdma_device_not_in_container import rdma_device_not_in_container
from gdrkit.rules.rule import ADDRESS, DMABUF, PINNING
from gdrkit.rules.vmm_not_rdma_capable import vmm_not_rdma_capable
from gdrkit.verdict.cells import paths_closed_by
from tests.evidence_builder.parts import PARTS
from tests.hardware import BARE_METAL, SERVER, machine, probe
from tests.rules.hardware import GPU, failed, missing, not_applicable, outcomes, passed

VERBS = ("gdr", "probe", "verbs", "--json")
MEMORY = ("gdr", "probe", "memory", "--json")
RM = ("gdr", "probe", "rm", "--json")
BOOT = "[    0.000000] Linux version 6.8.0\n"
REFUSED = "[   50.000000] NVRM: dma-buf attach failed: importer unable to handle MMIO without struct page\n"


def tried(*results, device="mlx5_0"):
    calls = [
        {"call": "ibv_reg_dmabuf_mr", "argument": "fd=-1", "device": device, "result": r} for r in results
    ]
    return {VERBS: json.dumps({"schema": "gdrkit.probe.verbs/1", "calls": calls})}


class TestDmabufRefused:
    @pytest.mark.parametrize("number", [95, 93, 22])
    def test_a_driver_without_the_call_loses_only_dmabuf(self, number):
        found = failed(machine(commands=tried(number)), dmabuf_mr_refused)

        assert str(number) in found.seen
        assert paths_closed_by(dmabuf_mr_refused.takes(None)) == ("dmabuf",)

    def test_a_bad_file_descriptor_is_the_good_answer(self):
        passed(machine(commands=tried(9)), dmabuf_mr_refused)

    def test_another_error_is_unknown(self):
        assert "errno 12" in missing(machine(commands=tried(12)), dmabuf_mr_refused).source

    def test_a_real_registration_of_gpu_memory_counts_as_well(self):
        """EINVAL of mlx5 without UMR: fd=-1 is a bad descriptor, and the real dma-buf is refused."""
        real = {"call": "ibv_reg_dmabuf_mr", "argument": "mlx5_0", "device": GPU, "result": 22}
        record = {MEMORY: json.dumps({"schema": "gdrkit.probe.memory/1", "calls": [real]})}

        assert "22" in failed(machine(commands=tried(9) | record), dmabuf_mr_refused).seen

    def test_without_a_probe_it_is_not_applicable(self):
        not_applicable(machine(), dmabuf_mr_refused)
        not_applicable(machine(commands=tried(95, device="mlx5_7")), dmabuf_mr_refused)


class TestImporter:
    def test_the_kernels_line_proves_it(self):
        assert (
            "struct page"
            in failed(machine(commands={("dmesg",): BOOT + REFUSED}), dmabuf_no_p2p_importer).seen
        )

    def test_it_closes_no_path_because_the_line_names_no_importer(self):
        assert paths_closed_by(dmabuf_no_p2p_importer.takes("node")) == ()

    def test_another_refusal_of_the_same_function_passes(self):
        other = "[   50.000000] NVRM: dma-buf attach failed: PCI topology not supported for dma-buf\n"

        passed(machine(commands={("dmesg",): BOOT + other}), dmabuf_no_p2p_importer)

    def test_a_machine_without_a_pair_has_nothing_to_import(self):
        node = machine("0000:15:01.0 spr-root\n", commands={("dmesg",): BOOT})

        not_applicable(node, dmabuf_no_p2p_importer)
        assert "dmesg" not in node.host.opened  # type: ignore[attr-defined]

    def test_without_a_complete_log_the_answer_is_only_likely(self):
        node = machine(commands={("dmesg",): "[   50.000000] eth0: link up\n"})

        passed(node, dmabuf_no_p2p_importer)
        assert node.trail(judge, dmabuf_no_p2p_importer, "node").confidence is Confidence.LIKELY


@pytest.fixture
def connectx_8(monkeypatch):
    """Parts that only machines with Data Direct have."""
    ids = {"cx8": "15b3:1023:15b3:0000", "cx8-direct": "15b3:2100:15b3:0000"}
    for name, numbers in ids.items():
        monkeypatch.setitem(PARTS, name, PARTS["cx7-eth"]._replace(ids=numbers))
    models = pytest.importorskip("tests.evidence_builder.rdma").MODELS
    monkeypatch.setitem(models, 0x1023, ("MT4131", "40.45.1020", "MT_0000001222"))


DUMPS = Path(__file__).parent / "dumps"
DIRECT = """
0000:00:00.0 grace-root
  0000:03:00.0 cx8 rdma=mlx5_0 group=1
0008:00:00.0 grace-root
  0008:01:00.0 pex89-up
    0008:02:00.0 pex89-down
      0008:06:00.0 gb200 group=2
    0008:02:01.0 pex89-down
      0008:05:00.0 cx8-direct driver=mlx5_ib group=2
"""


@pytest.mark.usefixtures("connectx_8")
class TestDataDirect:
    def test_a_connectx_8_without_its_second_function(self):
        outline = "\n".join(line for line in DIRECT.splitlines() if "cx8-direct" not in line)

        assert failed(machine(outline), data_direct_missing).seen == "no function 15b3:2100"

    def test_a_function_without_a_driver(self):
        outline = DIRECT.replace("driver=mlx5_ib", "driver=none")

        assert failed(machine(outline), data_direct_missing).seen == "0008:05:00.0 without a driver"

    def test_a_function_with_a_driver_passes(self):
        assert passed(machine(DIRECT), data_direct_missing).why == "0008:05:00.0"

    def test_of_two_functions_the_one_with_a_driver_is_named(self):
        idle = "    0008:02:02.0 pex89-down\n      0008:07:00.0 cx8-direct driver=none group=2\n"

        assert passed(machine(DIRECT + idle), data_direct_missing).why == "0008:05:00.0"

    def test_a_connectx_7_or_a_gpu_behind_pcie_needs_no_function(self):
        not_applicable(machine(SERVER.replace("h100-sxm", "gb200")), data_direct_missing)
        not_applicable(machine(SERVER.replace("cx7-ib", "cx8")), data_direct_missing)

    def test_a_dump_without_links_shows_no_lack_of_a_driver(self):
        node = Node(open_host(str(DUMPS / "gb300-right.json")))

        assert missing(node, data_direct_missing).source == "sys/bus/pci/devices/0008:03:00.0/driver"

    def test_devices_that_were_not_collected_are_unknown(self):
        commands = {("ibv_devinfo", "-v"): "hca_id: mlx5_0\n"}
        missing(machine("", files={}, commands=commands, complete=False), data_direct_missing)


ASKED = {18: 0, 75: 9, 76: 0, 110: 1, 116: 1, 124: 1}


def call(name, result, argument="", value=None):
    return {"call": name, "argument": argument, "device": GPU, "result": result, "value": value}


def memory(*calls):
    return {MEMORY: json.dumps({"schema": "gdrkit.probe.memory/1", "calls": calls})}


def resource_manager(status):
    answer = call("NV_ESC_RM_ALLOC", status, "NV50_THIRD_PARTY_P2P BAR1")
    return {RM: json.dumps({"schema": "gdrkit.probe.rm/1", "calls": [answer]})}


class TestMemory:
    def test_memory_that_exports_no_dmabuf_blocks_dmabuf(self):
        node = machine(commands=probe(GPU, ASKED, call("cuMemGetHandleForAddressRange", 801)))
        found = failed(node, memory_not_registrable)

        assert (paths_closed_by(found.takes), found.subject) == (("dmabuf",), GPU)
        assert "801" in found.seen

    def test_a_pointer_without_the_capability_blocks_both(self):
        node = machine(commands=probe(GPU, ASKED, call("cuPointerGetAttribute", 0, "15", 0)))

        assert failed(node, memory_not_registrable).takes is None

    @pytest.mark.parametrize(
        ("name", "number", "value"),
        [
            ("cuDeviceGetAttribute", "15", 0),  # 15 is another attribute of a device
            ("cuPointerGetAttribute", "9", 0),  # the ordinal of the first device
            ("cuPointerGetAttribute", "15", 1),
        ],
    )
    def test_only_the_capability_of_a_pointer_shows_that_it_lacks_it(self, name, number, value):
        node = machine(commands=probe(GPU, ASKED, call(name, 0, number, value)))

        not_applicable(node, memory_not_registrable)

    def test_a_refused_pcie_mapping_beside_a_working_export_passes(self):
        """An H200 behind PCIe exports with flags 0, and answers 801 to flag 1."""
        calls = (
            call("cuMemGetHandleForAddressRange", 0, "0"),
            call("cuMemGetHandleForAddressRange", 801, "1"),
        )

        passed(machine(commands=probe(GPU, ASKED, *calls)), memory_not_registrable)

    def test_memory_of_cu_mem_create_alone_blocks_nothing(self):
        """Which memory is then refused has a code of its own, of which GIN alone loses paths."""
        node = machine(commands=probe(GPU, ASKED | {110: 0}))

        not_applicable(node, memory_not_registrable)
        assert failed(node, vmm_not_rdma_capable).subject == GPU

    def test_a_real_export_that_failed_outranks_the_attribute(self):
        """Attribute 124 is 1, and the memory probe got no dma-buf."""
        tried = memory(call("cuMemGetHandleForAddressRange", 999, "device plain"))
        found = failed(machine(commands=probe(GPU, ASKED) | tried), memory_not_registrable)

        assert (paths_closed_by(found.takes), "999" in found.seen) == (("dmabuf",), True)

    def test_a_mapping_over_pcie_and_of_host_memory_may_fail(self):
        """Recorded on an H200: 801 and 1 beside a plain export that works."""
        tried = memory(
            call("cuMemGetHandleForAddressRange", 0, "device plain"),
            call("cuMemGetHandleForAddressRange", 801, "device pcie"),
            call("cuMemGetHandleForAddressRange", 1, "host plain"),
        )

        passed(machine(commands=probe(GPU, ASKED) | tried), memory_not_registrable)

    def test_a_failed_pcie_mapping_alone_proves_nothing(self):
        tried = memory(call("cuMemGetHandleForAddressRange", 801, "device pcie"))

        not_applicable(machine(commands=probe(GPU, ASKED) | tried), memory_not_registrable)

    @pytest.mark.parametrize("status", [0x56, 0x22])
    def test_a_kernel_module_that_refuses_the_object_blocks_peermem(self, status):
        found = failed(
            machine(commands=probe(GPU, ASKED) | resource_manager(status)), memory_not_registrable
        )

        assert found.takes == (ADDRESS, PINNING)
        assert f"{status:#x}" in found.seen

    @pytest.mark.parametrize("status", [0, 0x1B, 0x63])
    def test_success_and_unrelated_errors_block_nothing(self, status):
        node = machine(commands=probe(GPU, ASKED) | resource_manager(status))

        not_applicable(node, memory_not_registrable)

    def test_both_refusals_block_both(self):
        tried = memory(call("cuMemGetHandleForAddressRange", 801, "device plain")) | resource_manager(0x56)
        found = failed(machine(commands=probe(GPU, ASKED) | tried), memory_not_registrable)

        assert found.takes == (DMABUF, ADDRESS, PINNING)

    def test_without_a_probe_it_is_not_applicable(self):
        not_applicable(machine(), memory_not_registrable)


CONTAINER = BARE_METAL | {".dockerenv": ""}


class TestContainer:
    def test_a_device_without_its_file_stops_all_but_sockets(self):
        node = machine(files=CONTAINER, spec={"device_nodes": False})

        assert failed(node, rdma_device_not_in_container).seen == "no /dev/infiniband/uverbs0"
        assert "socket" not in paths_closed_by(rdma_device_not_in_container.takes(None))

    def test_a_device_with_its_file_passes(self):
        passed(machine(files=CONTAINER), rdma_device_not_in_container)

    def test_on_the_host_it_is_not_a_question(self):
        host = BARE_METAL | {"proc/1/cgroup": "0::/init.scope\n"}
        not_applicable(machine(files=host, spec={"device_nodes": False}), rdma_device_not_in_container)

    def test_files_that_nobody_listed_leave_it_open(self):
        node = machine(files=CONTAINER, without=("dev/infiniband",))
        assert missing(node, rdma_device_not_in_container).source == "dev/infiniband/uverbs0"

    def test_each_device_is_judged_by_its_own_file(self):
        two = SERVER + "      0000:18:00.1 cx7-ib rdma=mlx5_1\n"
        node = machine(two, files=CONTAINER, without=("dev/infiniband/uverbs1",), spec={})
        first, second = outcomes(node, rdma_device_not_in_container)
        assert type(first) is not type(second)
