"""A GPU without the NIC that its peers have, and a NIC without the GPU."""

import pytest

from gdrkit.facts.driver_files import DRIVER
from gdrkit.facts.modules import is_loaded
from gdrkit.facts.pci import gpus
from gdrkit.rules.missing_neighbours import gpu_missing, nic_missing
from gdrkit.rules.rule import Failed, NotApplicable, Passed, Unknown
from gdrkit.verdict.path_state import State
from tests.hardware import BARE_METAL, machine
from tests.known_answers import judged
from tests.rules.hardware import failed, outcomes, passed


def rail(number: int, *, gpu: str = "h100-sxm", nic: str = "cx7-ib rdma=mlx5_{number}") -> str:
    """One switch of a machine with a GPU and a NIC, or with one of them."""
    bus = 0x10 + 0x10 * number
    lines = [
        f"0000:{bus:02x}:01.0 spr-root numa=0",
        f"  0000:{bus + 1:02x}:00.0 pex89-up",
        f"    0000:{bus + 2:02x}:00.0 pex89-down",
        f"      0000:{bus + 3:02x}:00.0 {gpu}" if gpu else "",
        f"    0000:{bus + 2:02x}:01.0 pex89-down",
        f"      0000:{bus + 4:02x}:00.0 {nic.format(number=number)}" if nic else "",
    ]
    return "\n".join(line for line in lines if line) + "\n"


BUSES = (0x13, 0x23, 0x33, 0x43)
"""Of the GPUs of four rails."""


def rails(count: int) -> list[str]:
    return [rail(number) for number in range(count)]


class TestNicMissing:
    def test_the_gpu_whose_switch_has_no_nic_is_blocked_by_that_and_not_by_distance(self):
        node = machine("".join([*rails(3), rail(3, nic="")]))
        node = node.after("driver", [is_loaded.becomes(True, DRIVER)])
        kinds = [type(outcome) for outcome in outcomes(node, nic_missing)]
        state = judged(node).of("nccl")

        assert kinds == [Passed, Passed, Passed, Failed]
        assert (state.state, state.first_broken_layer) == (State.BLOCKED, "hardware")
        assert state.worst is not None and state.worst.codes[0] == "nic-missing"

    def test_gpus_that_share_nics_in_twos_are_complete(self):
        without = [rail(number, nic="") for number in (2, 3)]
        assert {type(o) for o in outcomes(machine("".join([*rails(2), *without])), nic_missing)} == {Passed}

    def test_two_gpus_are_no_pattern(self):
        node = machine(rail(0) + rail(1, nic=""))
        assert {type(o) for o in outcomes(node, nic_missing)} == {NotApplicable}

    def test_a_gpu_of_another_model_is_not_a_peer(self):
        node = machine("".join([*rails(4), rail(4, gpu="rtx-4090", nic="")]))
        assert [type(o) for o in outcomes(node, nic_missing)] == [Passed] * 4 + [NotApplicable]

    @pytest.mark.parametrize(
        ("name", "expected"), [("Model: NVIDIA H100 80GB HBM3\n", Failed), ("IRQ: 17\n", Unknown)]
    )
    def test_gpus_without_an_id_are_compared_by_the_driver_s_name_for_them(self, name: str, expected: type):
        listed = {f"proc/driver/nvidia/gpus/0000:{bus:02x}:00.0/information": name for bus in BUSES}
        outline = "".join([*rails(3), rail(3, nic="")])
        nic = machine(outline).resolve("sys/bus/pci/devices/0000:14:00.0")
        unread = {f"{nic}/uevent": "\n"}  # of one function, and the list of all is unknown
        excerpt = "14:00.0 Infiniband controller [0207]: Mellanox Technologies MT2910 [15b3:1021]\n"
        node = machine(outline, files=BARE_METAL | listed | unread, commands={("lspci", "-nnvvv"): excerpt})

        assert {gpu.device_id for gpu in gpus(node)} == {""}
        assert [type(outcome) for outcome in outcomes(node, nic_missing)] == [Passed] * 3 + [expected]

    @pytest.mark.parametrize("hidden", ["sys/bus/pci/devices", "sys/class/infiniband"])
    def test_without_the_lists_of_devices_it_is_unknown(self, hidden: str):
        node = machine("".join(rails(4)), without=(hidden,))
        assert {type(o) for o in outcomes(node, nic_missing)} == {Unknown}


class TestGpuMissing:
    def test_a_nic_whose_gpu_is_gone_is_named(self):
        node = machine("".join([*rails(3), rail(3, gpu="")]))
        found = failed(node, gpu_missing)

        assert found.subject == "mlx5_3"
        assert "3 GPUs" in found.seen

    def test_it_is_a_warning_that_closes_no_path_of_the_other_gpus(self):
        verdict = judged(machine("".join([*rails(3), rail(3, gpu="")])))

        assert "gpu-missing" not in {code for j in verdict.of("nccl").judgements for code in j.codes}
        assert {f.status for f in verdict.findings if f.code == "gpu-missing"} == {"warning"}

    def test_a_nic_for_storage_is_not_one_of_them(self):
        storage = rail(4, gpu="", nic="cx7-ib rdma=mlx5_4 board=MT_0999")
        assert passed(machine("".join([*rails(3), storage])), gpu_missing)

    def test_a_nic_of_the_same_kind_in_a_slot_of_its_own_is_not_one_of_them(self):
        own_slot = "0000:05:01.0 spr-root numa=0\n  0000:06:00.0 cx7-ib rdma=mlx5_4\n"
        assert passed(machine("".join([*rails(3), own_slot])), gpu_missing)

    def test_a_machine_built_for_four_gpus_has_all_of_them(self):
        assert passed(machine("".join([*rails(4), rail(4, gpu="")])), gpu_missing).why == "4 GPUs"
