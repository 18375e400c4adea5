"""vGPU, confidential computing, MIG and driver-managed memory."""

import pytest

from gdrkit.rules.gpu_cdmm import gpu_cdmm
from gdrkit.rules.gpu_states import gpu_confidential, gpu_mig, gpu_vgpu
from gdrkit.verdict.cells import paths_closed_by
from tests.facts.test_gpu import NOT_SPLIT, smi
from tests.hardware import BARE_METAL, GUEST, SERVER, machine, probe
from tests.rules.hardware import GPU, OF_A_GPU, failed, missing, not_applicable, passed

ASKED = {18: 0, 75: 9, 76: 0, 116: 1, 124: 1}
REFUSED = ASKED | {116: 0}
CC_ON = {("nvidia-smi", "conf-compute", "-f"): "CC status: ON\n"}
SPLIT = NOT_SPLIT | {"proc/driver/nvidia/capabilities/gpu0/mig/gi1/access": ""}
GUEST_UNSPLIT = GUEST | NOT_SPLIT


A100 = SERVER.replace("h100-sxm", "a100-sxm-40")  # with a subsystem id of no listed board


def named(name):
    return {f"proc/driver/nvidia/gpus/{GPU}/information": f"Model: \t\t {name}\n"}


def vgpu():
    return smi(**{"Pass-Through": "VGPU"})


class TestVgpu:
    def test_a_refused_vgpu_can_be_fixed_on_the_hypervisor(self):
        found = failed(machine(files=GUEST_UNSPLIT, commands=vgpu() | probe(GPU, REFUSED)), gpu_vgpu)

        assert (paths_closed_by(found.takes), found.permanent) == (OF_A_GPU, None)
        assert not gpu_vgpu.permanent

    def test_a_vgpu_whose_profile_allows_it_passes(self):
        passed(machine(files=GUEST_UNSPLIT, commands=vgpu() | probe(GPU, ASKED)), gpu_vgpu)

    def test_a_gpu_that_is_passed_through_is_whole(self):
        passed(machine(files=GUEST_UNSPLIT, commands=smi()), gpu_vgpu)
        passed(machine(), gpu_vgpu)

    def test_a_vgpu_is_unknown_without_cuda(self):
        assert (
            missing(machine(files=GUEST_UNSPLIT, commands=vgpu()), gpu_vgpu).source == "cuda-attribute-116"
        )
        guest = machine(SERVER.replace("h100-sxm", "a40-vgpu"), files=GUEST)
        assert missing(guest, gpu_vgpu).ask == "nvidia-smi -q"

    def test_the_subsystem_id_of_a_board_is_of_a_whole_gpu(self):
        passed(machine(files=GUEST), gpu_vgpu)

    @pytest.mark.parametrize("name", ["NVIDIA A100-SXM4-40GB", "NVIDIA A40", "NVIDIA L40S"])
    def test_a_guest_whose_driver_knows_it_by_a_boards_name_has_a_whole_one(self, name):
        passed(machine(A100, files=GUEST | named(name)), gpu_vgpu)

    @pytest.mark.parametrize(
        "name", ["GRID A100X-40C", "NVIDIA A40-12", "NVIDIA A100-PG509-200", "Unknown", "NVIDIA A10-24Q"]
    )
    def test_another_name_leaves_it_open(self, name):
        """One of a vGPU, or like it, and none, as the driver has not started it."""
        missing(machine(A100, files=GUEST | named(name)), gpu_vgpu)


class TestConfidential:
    def test_a_refusal_under_confidential_computing_is_not_permanent(self):
        node = machine(files=GUEST_UNSPLIT, commands=smi() | CC_ON | probe(GPU, REFUSED))

        assert failed(node, gpu_confidential).permanent is None
        assert not gpu_confidential.permanent

    def test_off_or_on_bare_metal_it_passes(self):
        off = {("nvidia-smi", "conf-compute", "-f"): "CC status: OFF\n"}

        passed(machine(files=GUEST_UNSPLIT, commands=smi() | off), gpu_confidential)
        passed(machine(), gpu_confidential)

    @pytest.mark.parametrize(
        ("first", "off"),
        [
            ("Linux version 6.8.0-79-generic", True),
            ("systemd[1]: Started a service.", False),  # does not reach back to the boot
            (
                "Linux version 6.8.0\n[    0.1] AMD Memory Encryption Features active: SEV SEV-ES SEV-SNP",
                False,
            ),
            ("Linux version 6.8.0\n[    0.1] Memory Encryption Features active: Intel TDX", False),
            ("Linux version 5.15.0\n[    0.1] Hyper-V: Isolation Config: Group A 0x1, Group B 0xba2", False),
        ],
    )
    def test_it_is_off_in_a_guest_that_does_not_encrypt_its_own_memory(self, first, off):
        """The driver starts no GPU in that mode there."""
        node = machine(files=GUEST | NOT_SPLIT, commands={("dmesg",): f"[    0.000000] {first}\n"})
        (passed if off else missing)(node, gpu_confidential)

    def test_confidential_computing_is_unknown_without_cuda(self):
        missing(machine(files=GUEST_UNSPLIT, commands=smi() | CC_ON), gpu_confidential)
        missing(machine(files=GUEST), gpu_confidential)


class TestMig:
    def test_a_refusal_on_a_split_gpu_is_not_permanent(self):
        found = failed(machine(files=BARE_METAL | SPLIT, commands=probe(GPU, REFUSED)), gpu_mig)

        assert (found.subject, found.permanent) == (GPU, None)
        assert not gpu_mig.permanent

    def test_a_gpu_that_could_be_split_and_is_not_passes(self):
        passed(machine(files=BARE_METAL | NOT_SPLIT), gpu_mig)

    def test_a_split_gpu_is_unknown_without_cuda(self):
        missing(machine(files=BARE_METAL | SPLIT), gpu_mig)
        missing(machine(without=("proc/driver/nvidia",)), gpu_mig)


class TestSeveralStates:
    BOTH = GUEST | SPLIT

    def test_every_state_is_unknown_until_cuda_is_asked(self):
        node = machine(files=self.BOTH, commands=smi() | CC_ON)

        assert missing(node, gpu_mig).source == missing(node, gpu_confidential).source

    def test_a_refusal_is_reported_for_one_of_them(self):
        node = machine(files=self.BOTH, commands=smi() | CC_ON | probe(GPU, REFUSED))

        failed(node, gpu_confidential)
        assert passed(node, gpu_mig).why.startswith("refused for another reason")


PARAMETERS = "CoherentGPUMemoryMode: {mode}\nDmaRemapPeerMmio: 1\n"


def grace(mode, version):
    files = BARE_METAL | {
        "proc/driver/nvidia/params": PARAMETERS.format(mode=mode),
        "sys/module/nvidia/version": version + "\n",
    }
    return machine(SERVER.replace("h100-sxm", "gb200"), files=files)


class TestCdmm:
    def test_the_580_branch_cannot_give_driver_managed_memory_to_peermem(self):
        assert failed(grace('"driver"', "580.126.09"), gpu_cdmm).seen.endswith("580.126.09")
        assert paths_closed_by(gpu_cdmm.takes(None)) == ("peermem",)

    @pytest.mark.parametrize(
        ("mode", "version"), [('""', "580.126.09"), ('"numa"', "580.126.09"), ('"driver"', "590.44.01")]
    )
    def test_other_modes_and_later_drivers_pass(self, mode, version):
        passed(grace(mode, version), gpu_cdmm)

    def test_a_gpu_behind_pcie_has_no_such_mode(self):
        not_applicable(machine(), gpu_cdmm)

    def test_parameters_that_nobody_saw_leave_it_open(self):
        missing(machine(SERVER.replace("h100-sxm", "gb200"), without=("proc/driver",)), gpu_cdmm)
