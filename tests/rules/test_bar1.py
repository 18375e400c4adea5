"""BAR1, small and full."""

from gdrkit.evidence import Confidence
from gdrkit.facts import pci
from gdrkit.rules.bar1 import bar1_exhausted, bar1_small
from gdrkit.rules.engine import judge
from gdrkit.rules.rule import Unknown
from tests.hardware import BARE_METAL, SERVER, SPARK, machine
from tests.rules.hardware import GPU, GPU_FOLDER, failed, missing, not_applicable, passed

LOADED = BARE_METAL | {"sys/module/nvidia/version": "580.126.09\n"}
MEMORY = ("nvidia-smi", "-q", "-d", "MEMORY")
BOOT = "[    0.000000] Linux version 6.8.0\n"


def bar1_usage(free_mib):
    text = (
        "Attached GPUs : 1\nGPU 00000000:1B:00.0\n    BAR1 Memory Usage\n"
        f"        Total : 65536 MiB\n        Free : {free_mib} MiB\n"
    )
    return {MEMORY: text}


class TestSmall:
    def test_256_mib_is_small(self):
        assert "256 MiB" in failed(machine(SERVER.replace("h100-sxm", "rtx-3090")), bar1_small).seen

    def test_a_large_bar1_passes_and_shared_memory_has_none(self):
        assert passed(machine(), bar1_small).why == "131072 MiB"
        not_applicable(machine(SERVER.replace("h100-sxm", "gh200")), bar1_small)
        not_applicable(machine(SPARK), bar1_small)

    def test_an_unknown_size_is_unknown(self):
        missing(machine(without=(f"{GPU_FOLDER}/resource",)), bar1_small)


class TestExhausted:
    def test_no_more_free_than_the_reserve_fails(self):
        assert (
            failed(machine(files=LOADED, commands=bar1_usage(36)), bar1_exhausted).seen
            == "36 MiB of BAR1 free"
        )

    def test_one_mib_more_than_the_reserve_passes(self):
        passed(machine(files=LOADED, commands=bar1_usage(37)), bar1_exhausted)

    def test_the_kernel_log_decides_without_nvidia_smi(self):
        line = "[  100.000000] NVRM: kbusMapFbAperture: no space for BAR1 mappings, length: 0x200000\n"
        node = machine(files=LOADED, commands={("dmesg",): BOOT + line})

        assert "no space for BAR1" in failed(node, bar1_exhausted).seen

    def test_the_kernel_log_names_no_gpu_and_so_blames_none_of_several(self):
        line = "[  100.000000] NVRM: no space for BAR1 mappings, length: 0x200000\n"
        two = SERVER + "    0000:17:02.0 pex89-down\n      0000:1c:00.0 h100-sxm\n"
        node = machine(two, files=LOADED, commands={("dmesg",): BOOT + line})

        for gpu in pci.gpus(node):
            assert isinstance(judge(node, bar1_exhausted, gpu), Unknown)

    def test_nvidia_smi_outranks_an_older_log_line(self):
        line = "[  100.000000] NVRM: no space for BAR1 mappings, length: 0x200000\n"
        passed(machine(files=LOADED, commands={("dmesg",): BOOT + line} | bar1_usage(60000)), bar1_exhausted)

    def test_without_a_driver_nothing_is_mapped(self):
        passed(machine(), bar1_exhausted)

    def test_a_large_bar1_of_unknown_use_is_likely_free(self):
        node = machine(files=LOADED)

        passed(node, bar1_exhausted)
        (gpu,) = pci.gpus(node)
        assert gpu.address == GPU
        assert node.trail(judge, bar1_exhausted, gpu).confidence is Confidence.LIKELY

    def test_a_small_bar1_of_unknown_use_is_unknown(self):
        small = SERVER.replace("h100-sxm", "a40-vgpu")
        assert missing(machine(small, files=LOADED), bar1_exhausted).source == "nvidia-smi -q -d MEMORY"
