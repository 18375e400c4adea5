"""GPUs that vfio-pci holds for a virtual machine."""

from gdrkit.evidence import Source
from gdrkit.facts.expectation import Supplied, expectation
from gdrkit.formats.expectation import Expectation
from gdrkit.rules.driver_not_loaded import driver_not_loaded
from gdrkit.rules.gpu_passed_through import gpu_passed_through
from gdrkit.rules.iommu import iommu_translating
from gdrkit.rules.no_rdma_device import no_rdma_device
from tests.hardware import BARE_METAL, SERVER, machine
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


ON_HOST = BARE_METAL | {"proc/1/cgroup": "0::/init.scope\n"}
ALONE = "0000:25:01.0 spr-root\n  0000:2b:00.0 h100-sxm driver=vfio-pci\n"


def test_a_host_that_passed_all_gpus_on_lacks_no_nic():
    """Neither where it has none, nor where vfio-pci holds that, too: the virtual machine has it."""
    for outline in (ALONE, HELD.replace(" rdma=mlx5_0", " driver=vfio-pci")):
        node = machine(outline, files=ON_HOST)
        verdict = judged(node)

        not_applicable(node, no_rdma_device)
        assert verdict.of("nccl").state == "impossible"
        assert verdict.of("nccl").worst.codes[0] == "gpu-passed-through"


def test_a_gpu_that_the_host_kept_lacks_its_nic():
    kept = ALONE.replace(" driver=vfio-pci", "").replace("0000:2", "0000:3")
    verdict = judged(machine(ALONE + kept, files=ON_HOST))

    assert verdict.of("nccl").state == "blocked"
    assert "no-rdma-device" in verdict.of("nccl").worst.codes


def test_a_desktops_own_geforce_beside_a_passed_through_accelerator_needs_no_nic():
    kept = "0000:35:01.0 spr-root\n  0000:3b:00.0 rtx-4090\n"
    node = machine(ALONE + kept, files=ON_HOST)

    assert failed(node, no_rdma_device).permanent
    assert judged(node).of("nccl").state == "impossible"


def test_an_expectation_of_nics_holds_for_such_a_host_too():
    node = machine(ALONE, files=ON_HOST)
    node.supply(Source("node.toml"), expectation.becomes(Supplied("node.toml", Expectation(nics=1))))

    assert failed(node, no_rdma_device).permanent == frozenset()
    assert judged(node).of("nccl").worst.codes
