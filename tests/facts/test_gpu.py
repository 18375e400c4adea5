"""What a GPU is, what state it is in, and whether CUDA gives a NIC access to its memory."""

import pytest

from gdrkit.evidence import Confidence, EvidenceMissing
from gdrkit.facts import gpu as facts
from gdrkit.facts import gpu_ids, pci
from gdrkit.facts.driver import driver_version
from gdrkit.facts.gpu_confidential import confidential_compute
from gdrkit.node import Node
from tests.facts.test_nvidia_smi import GPU as SMI_GPU
from tests.facts.test_nvidia_smi import HEAD
from tests.hardware import BARE_METAL, GUEST, SERVER, SMI, SPARK, machine, probe
from tests.memory_host import MemoryHost

H100, ADDRESS = pci.PciGpu("0000:1b:00.0", "2330"), "0000:1b:00.0"
ASKED = {18: 0, 75: 9, 76: 0, 116: 1, 124: 1}
NOT_SPLIT = {
    f"proc/driver/nvidia/gpus/{ADDRESS}/information": "Model: \t NVIDIA H100\nDevice Minor: \t 0\n",
    "proc/driver/nvidia/capabilities/mig/config": "",
}


def with_gpu(part, **options):
    """A node with another GPU, and that GPU."""
    node = machine(SERVER.replace("h100-sxm", part), **options)
    return node, pci.gpus(node)[0]


def smi(slot=6, **changes):
    text = HEAD.format(count=1) + SMI_GPU.format(slot=slot).replace("00000000:00:06.0", "00000000:1B:00.0")
    for old, new in changes.items():
        text = text.replace(old.replace("_", " "), new)
    return {SMI: text}


RUBIN = "3041"  # in no table of the driver
"""As `lspci -nn` shows it in a Vera Rubin NVL."""


def named(name, device_id=RUBIN):
    """A node whose driver has this name for its GPU, and that GPU with another id."""
    files = BARE_METAL | {path: text.replace("NVIDIA H100", name) for path, text in NOT_SPLIT.items()}
    return machine(files=files), pci.PciGpu(ADDRESS, device_id)


@pytest.mark.parametrize("path", ["dmabuf", "peermem"])
class TestNewGpu:
    @pytest.mark.parametrize(
        "name", ["NVIDIA VR200", "NVIDIA R200", "NVIDIA RTX PRO 6000 Rubin Server Edition"]
    )
    def test_the_drivers_name_of_a_data_centre_board_makes_support_likely(self, path, name):
        node, gpu = named(name)
        support = facts.gpu_support(node, gpu, path)

        assert (support.state, name in support.why) == ("yes", True)
        assert support.lacking[0].source == "cuda-attribute-116"
        assert node.trail(facts.gpu_support, gpu, path).confidence is Confidence.LIKELY
        assert not facts.is_integrated(node, gpu)

    @pytest.mark.parametrize(
        ("name", "device_id"),
        [
            ("NVIDIA Graphics Device", RUBIN),  # a driver before the GPU's release
            ("NVIDIA Thor", "2b00"),
            ("NVIDIA RTX Spark N1X", "2e03"),  # next to a GB10's id
            ("NVIDIA A40-48Q", RUBIN),
            ("NVIDIA RTX PRO 6000 Rubin Workstation Edition", RUBIN),
        ],
    )
    def test_any_other_name_leaves_support_and_integration_unknown(self, path, name, device_id):
        node, gpu = named(name, device_id)
        support = facts.gpu_support(node, gpu, path)

        assert (support.state, support.code) in {("unknown", "gpu-unsupported"), ("unknown", "gpu-vgpu")}
        assert support.lacking[0].source == "cuda-attribute-116"
        with pytest.raises(EvidenceMissing) as missing:
            facts.is_integrated(node, gpu)
        assert missing.value.missing.source == "cuda-attribute-18"

    def test_a_geforce_of_the_same_generation_is_none(self, path):
        node, gpu = named("NVIDIA GeForce RTX 6090")

        assert facts.gpu_support(node, gpu, path).code == "gpu-consumer"

    def test_without_a_driver_a_rubin_is_unknown(self, path):
        support = facts.gpu_support(machine(), pci.PciGpu("0000:1c:00.0", RUBIN), path)

        assert (support.state, support.code) == ("unknown", "gpu-unsupported")


@pytest.mark.parametrize(
    ("device_id", "coherent"),
    [("2343", True), ("31a1", True), ("31fe", True), ("31a0", None), (RUBIN, None)],
)
def test_only_ids_that_the_driver_takes_for_coherent_are(device_id, coherent):
    node, gpu = Node(MemoryHost()), pci.PciGpu(ADDRESS, device_id)

    if coherent:
        assert facts.is_coherent(node, gpu)
    else:
        with pytest.raises(EvidenceMissing):
            facts.is_coherent(node, gpu)


@pytest.mark.parametrize("path", ["dmabuf", "peermem"])
class TestCapability:
    def test_a_gb10_is_certainly_unsupported_by_its_id(self, path):
        node = machine(SPARK)
        (gpu,) = pci.gpus(node)
        support = facts.gpu_support(node, gpu, path)

        assert (support.state, support.code) == ("no", "gpu-integrated")
        assert node.trail(facts.gpu_support, gpu, path).confidence is Confidence.CERTAIN

    @pytest.mark.parametrize("part", ["rtx-3090", "rtx-4090"])
    def test_a_geforce_is_likely_unsupported(self, path, part):
        node, gpu = with_gpu(part)
        support = facts.gpu_support(node, gpu, path)

        assert (support.state, support.code) == ("no", "gpu-consumer")
        assert node.trail(facts.gpu_support, gpu, path).confidence is Confidence.LIKELY

    def test_a_data_centre_gpu_is_likely_supported_and_names_the_missing_evidence(self, path):
        node, gpu = with_gpu("h100-sxm", files=BARE_METAL | NOT_SPLIT)
        support = facts.gpu_support(node, gpu, path)

        assert support.state == "yes"
        assert "cuda-attribute-116" in [missing.source for missing in support.lacking]
        assert ("cuda-attribute-124" in [m.source for m in support.lacking]) == (path == "dmabuf")
        assert node.trail(facts.gpu_support, gpu, path).confidence is Confidence.LIKELY

    def test_only_cudas_answer_is_certain(self, path):
        node, gpu = with_gpu("h100-sxm", commands=probe(ADDRESS, ASKED))
        support = facts.gpu_support(node, gpu, path)

        assert (support.state, support.lacking) == ("yes", ())
        assert node.trail(facts.gpu_support, gpu, path).confidence is Confidence.CERTAIN

    def test_cuda_takes_precedence_over_the_name_of_a_geforce(self, path):
        node, gpu = with_gpu("rtx-4090", commands=probe(ADDRESS, ASKED))

        assert facts.gpu_support(node, gpu, path).state == "yes"

    def test_a_gpu_that_is_not_listed_is_unknown(self, path):
        node = machine()
        support = facts.gpu_support(node, pci.PciGpu(ADDRESS, "2b00"), path)

        assert (support.state, support.code) == ("unknown", "gpu-unsupported")
        assert support.lacking[0].source == "cuda-attribute-116"

    def test_refusal_of_a_supported_product_is_not_permanent(self, path):
        node, gpu = with_gpu("h100-sxm", commands=probe(ADDRESS, ASKED | {116: 0}))
        other = machine(commands=probe(ADDRESS, ASKED | {116: 0}))

        assert facts.gpu_support(node, gpu, path).permanent is False
        support = facts.gpu_support(other, pci.PciGpu(ADDRESS, "2b00"), path)
        assert (support.state, support.code, support.permanent) == ("no", "gpu-unsupported", True)

    def test_a_volta_that_cuda_refuses_lacks_dmabuf_as_a_volta(self, path):
        node, gpu = with_gpu("v100-sxm", commands=probe(ADDRESS, ASKED | {75: 7, 76: 0, 116: 0, 124: 0}))

        code = facts.gpu_support(node, gpu, path).code
        assert code == ("gpu-before-turing" if path == "dmabuf" else "gpu-unsupported")

    def test_a_library_without_the_attribute_has_not_answered(self, path):
        node, gpu = with_gpu("h100-sxm", commands=probe(ADDRESS, {18: 0, 75: 9, 76: 0}))

        assert facts.gpu_support(node, gpu, path).lacking

    @pytest.mark.parametrize(
        ("virtualization", "state"), [("Pass-Through", "yes"), ("VGPU", "unknown"), ("Host VGPU", "yes")]
    )
    def test_a_vgpu_is_unknown_without_cudas_answer(self, path, virtualization, state):
        commands = smi(**{"Pass-Through": virtualization})
        node, gpu = with_gpu("h100-sxm", files=GUEST | NOT_SPLIT, commands=commands)

        support = facts.gpu_support(node, gpu, path)
        assert support.state == state
        assert support.code == ("gpu-vgpu" if state == "unknown" else "gpu-unsupported")

    def test_an_unprobed_guest_may_have_a_vgpu_unless_the_subsystem_id_is_of_a_board(self, path):
        guest, gpu = with_gpu("a40-vgpu", files=GUEST)
        assert facts.gpu_support(guest, gpu, path).code == "gpu-vgpu"

        whole, gpu = with_gpu("h100-sxm", files=GUEST)
        assert not facts.vgpu_guest(whole, gpu)
        assert facts.gpu_support(whole, gpu, path).code == "gpu-confidential"
        other, gpu = with_gpu("a100-sxm-40", files=GUEST)  # whose subsystem id is not listed
        assert facts.gpu_support(other, gpu, path).code == "gpu-vgpu"

    def test_mig_is_unknown_without_cudas_answer(self, path):
        split = {"proc/driver/nvidia/capabilities/gpu0/mig/gi1/access": ""}
        node, gpu = with_gpu("h100-sxm", files=BARE_METAL | NOT_SPLIT | split)

        support = facts.gpu_support(node, gpu, path)
        assert (support.state, support.code) == ("unknown", "gpu-mig")

    def test_confidential_computing_is_unknown_without_cudas_answer(self, path):
        asked = {("nvidia-smi", "conf-compute", "-f"): "CC status: ON\n"}
        node, gpu = with_gpu("h100-sxm", files=GUEST | NOT_SPLIT, commands=smi() | asked)

        support = facts.gpu_support(node, gpu, path)
        assert (support.state, support.code) == ("unknown", "gpu-confidential")


def test_volta_supports_peermem_but_not_dmabuf():
    node, gpu = with_gpu("v100-sxm")

    assert facts.gpu_support(node, gpu, "peermem").state == "yes"
    refused = facts.gpu_support(node, gpu, "dmabuf")
    assert (refused.state, refused.code) == ("no", "gpu-before-turing")


def test_attribute_124_stops_only_dmabuf_and_not_permanently():
    """This is the answer with the proprietary kernel module."""
    node, gpu = with_gpu("h100-sxm", commands=probe(ADDRESS, ASKED | {124: 0}))

    assert facts.gpu_support(node, gpu, "peermem").state == "yes"
    refused = facts.gpu_support(node, gpu, "dmabuf")
    assert (refused.state, refused.code, refused.permanent) == ("no", "gpu-unsupported", False)


def test_a_change_of_driver_makes_the_probe_stale():
    """The probe ran before the supposed step of a remedy that changes the driver."""
    node, gpu = with_gpu("h100-sxm", commands=probe(ADDRESS, ASKED))
    assert facts.gpu_support(node, gpu, "dmabuf").lacking == ()

    after = node.after("install another driver", [driver_version.becomes("595.45.04")])
    assert facts.gpu_support(after, gpu, "dmabuf").lacking


def test_the_name_comes_from_the_driver_then_nvidia_smi_then_the_id():
    driver, gpu = with_gpu("h100-sxm", files=NOT_SPLIT)
    assert facts.product_name(driver, gpu) == "NVIDIA H100"

    unseen = Node(MemoryHost(commands=smi()))
    assert facts.product_name(unseen, gpu) == "NVIDIA H200"

    nothing = Node(MemoryHost())
    assert facts.product_name(nothing, gpu) == "NVIDIA H100 80GB HBM3"
    assert nothing.trail(facts.product_name, gpu).confidence is Confidence.LIKELY
    with pytest.raises(EvidenceMissing):
        facts.product_name(nothing, pci.PciGpu(ADDRESS, "2b00"))


def test_ats_does_not_decide():
    """GH200 has it and is supported; GB10 has it and is not."""
    text = smi(**{"Addressing Mode                                    : None": "Addressing Mode : ATS"})
    node, gpu = with_gpu("gh200", files=BARE_METAL | NOT_SPLIT, commands=text)

    assert facts.addressing_mode(node, gpu) == "ATS"
    assert facts.gpu_support(node, gpu, "peermem").state == "yes"
    assert facts.is_coherent(node, gpu)
    assert not facts.is_integrated(node, gpu)


def test_a_gpu_of_which_only_the_name_is_known_is_judged_by_it():
    """This happens if only /proc/driver/nvidia was copied."""
    gpu = pci.PciGpu(ADDRESS)
    for name, state in (
        ("NVIDIA H100 80GB HBM3", "yes"),
        ("NVIDIA GB10", "no"),
        ("NVIDIA GeForce RTX 5090", "no"),
    ):
        files = BARE_METAL | {
            f"proc/driver/nvidia/gpus/{ADDRESS}/information": f"Model: {name}\nDevice Minor: 0\n",
            "proc/driver/nvidia/capabilities/mig/config": "",
        }
        assert facts.gpu_support(Node(MemoryHost(files, complete=True)), gpu, "peermem").state == state, name


def test_mig_is_read_from_the_drivers_capabilities_then_nvidia_smi():
    off, gpu = with_gpu("h100-sxm", files=NOT_SPLIT)
    assert not facts.mig_enabled(off, gpu)

    text = Node(MemoryHost(commands=smi(**{"Disabled\n        Pending": "Enabled\n        Pending"})))
    assert facts.mig_enabled(text, gpu)
    assert not facts.mig_enabled(text, pci.PciGpu(ADDRESS, "26b9"))  # an L40S cannot be split
    with pytest.raises(EvidenceMissing):
        facts.mig_enabled(Node(MemoryHost()), gpu)


@pytest.mark.parametrize(
    ("answer", "confidential"),
    [("CC status: OFF\n", False), ("CC status: ON\n", True), ("CC status: OFF\nDevTools Mode: ON\n", False)],
)
def test_confidential_computing_is_read_from_nvidia_smi_in_guests(answer, confidential):
    command = {("nvidia-smi", "conf-compute", "-f"): answer}
    guest, gpu = with_gpu("h100-sxm", files=GUEST, commands=command)

    assert confidential_compute(guest, gpu) is confidential
    metal, _ = with_gpu("h100-sxm", commands=command)
    assert not confidential_compute(metal, gpu)


def test_every_id_has_four_digits_and_is_in_one_table():
    for device_id in (*gpu_ids.SUPPORTED, *gpu_ids.COHERENT, *gpu_ids.INTEGRATED):
        assert len(device_id) == 4 and int(device_id, 16)
        assert not gpu_ids.is_consumer(device_id)
    assert gpu_ids.SUPPORTED.keys() >= gpu_ids.COHERENT
    assert all(map(gpu_ids.is_self_hosted, gpu_ids.COHERENT))
    assert not gpu_ids.SUPPORTED.keys() & gpu_ids.INTEGRATED.keys()
    assert not [name for name in gpu_ids.SUPPORTED.values() if "GeForce" in name or "TITAN" in name]
