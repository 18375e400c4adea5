"""GPUs that vfio-pci holds for a virtual machine."""

from gdrkit.rules.driver_not_loaded import driver_not_loaded
from gdrkit.rules.gpu_passed_through import gpu_passed_through
from gdrkit.rules.iommu import iommu_translating
from tests.hardware import SERVER, machine
from tests.known_answers import judged
from tests.rules.hardware import failed, not_applicable, passed

HELD = SERVER.replace("h100-sxm", "h100-sxm driver=vfio-pci")
TRANSLATING = {"iommu": "DMA-FQ"}


def test_a_gpu_that_a_virtual_machine_has_is_said_as_such():
    node = machine(HELD)
    verdict = judged(node)

    assert failed(node, gpu_passed_through).subject == "0000:1b:00.0"
    assert verdict.of("nccl").state == "impossible"
    assert verdict.of("nccl").worst.codes[0] == "gpu-passed-through"
    not_applicable(node, driver_not_loaded)


def test_a_gpu_of_this_host_passes_and_needs_its_driver():
    passed(machine(), gpu_passed_through)
    failed(machine(), driver_not_loaded)


def test_translation_is_intended_where_gpus_are_passed_through():
    passed(machine(HELD, spec=TRANSLATING), iommu_translating)
    failed(machine(spec=TRANSLATING), iommu_translating)


def test_one_gpu_of_two_leaves_the_other_to_judge():
    second = SERVER.replace("0000:1", "0000:2").replace("mlx5_0", "mlx5_1")
    verdict = judged(machine(HELD + second))

    assert verdict.of("nccl").state == "blocked"
    assert {f.status for f in verdict.findings if f.code == "gpu-passed-through"} == {"note"}
