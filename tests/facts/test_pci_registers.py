"""Links, ACS, read requests and BAR1: from sysfs and configuration space, else from text."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.evidence import EvidenceAbsent, EvidenceMissing, MissingReason
from gdrkit.facts import pci_registers
from gdrkit.facts.pci_registers import LinkSpeeds
from gdrkit.formats.errors import FormatError
from gdrkit.node import Node
from tests.facts.test_nvidia_smi import TWO
from tests.facts.test_pci_text import SAMPLE
from tests.hardware import SERVER, SMI, SPARK, machine
from tests.memory_host import MemoryHost

LSPCI = ("lspci", "-nnvvv")
GPU, NIC, GPU_PORT, ROOT_PORT = "0000:1b:00.0", "0000:18:00.0", "0000:17:00.0", "0000:15:01.0"
GPU_FOLDER = f"sys/devices/pci0000:15/{ROOT_PORT}/0000:16:00.0/{GPU_PORT}/{GPU}"

H200_RESOURCE = """\
0x0000104002000000 0x0000104002ffffff 0x000000000014220c
0x0000000000000000 0x0000000000000000 0x0000000000000000
0x0000100000000000 0x0000103fffffffff 0x000000000014220c
0x0000000000000000 0x0000000000000000 0x0000000000000000
0x0000104000000000 0x0000104001ffffff 0x000000000014220c
0x0000000000000000 0x0000000000000000 0x0000000000000000
0x0000000000000000 0x0000000000000000 0x0000000000000000
"""
GEFORCE_RESOURCE = """\
0x00000000f6000000 0x00000000f6ffffff 0x0000000000040200
0x00000000e0000000 0x00000000efffffff 0x000000000014220c
0x0000000000000000 0x0000000000000000 0x0000000000000000
0x00000000f0000000 0x00000000f1ffffff 0x000000000014220c
0x0000000000000000 0x0000000000000000 0x0000000000000000
0x000000000000e000 0x000000000000e07f 0x0000000000040101
"""


def test_bar1_is_the_second_memory_region_in_any_register():
    """Observed on an H200: BAR0 is a 64-bit region and takes two registers, so BAR1 is the third."""
    assert pci_registers.regions(H200_RESOURCE) == ((0, 16 << 20), (2, 256 << 30), (4, 32 << 20))
    assert pci_registers.regions(GEFORCE_RESOURCE) == ((0, 16 << 20), (1, 256 << 20), (3, 32 << 20))
    assert pci_registers.bar1_bytes(machine(), GPU) == 128 << 30
    assert pci_registers.bar1_bytes(Node(MemoryHost(commands={LSPCI: SAMPLE})), GPU) == 128 << 30
    assert pci_registers.bar1_bytes(Node(MemoryHost(commands={SMI: TWO})), "0000:00:06.0") == 256 << 30


def test_a_gpu_without_memory_of_its_own_has_no_bar1():
    with pytest.raises(EvidenceAbsent):
        pci_registers.bar1_bytes(machine(SPARK), "000f:01:00.0")


UNPLACED = "0x0000000000000000 0x0000000000000000 0x0000000000000000"


@pytest.mark.parametrize(("resource", "register"), [(H200_RESOURCE, 2), (GEFORCE_RESOURCE, 1)])
def test_where_the_kernel_placed_no_bar1_the_region_after_it_is_not_taken_for_it(resource, register):
    lines = resource.splitlines()
    lines[register] = UNPLACED
    node = Node(MemoryHost({f"sys/bus/pci/devices/{GPU}/resource": "\n".join(lines)}))
    with pytest.raises(EvidenceAbsent):
        pci_registers.bar1_bytes(node, GPU)


@given(st.text(alphabet="0123456789abcdefx \n", max_size=200))
def test_any_resource_file_gives_sizes_or_a_format_error(text):
    with contextlib.suppress(FormatError):
        assert all(size > 0 for _, size in pci_registers.regions(text))


def test_a_link_is_the_same_from_files_registers_text_and_nvidia_smi():
    slow = machine(SERVER.replace("h100-sxm", "h100-sxm link=16.0x8"))
    folder = GPU_FOLDER
    gone = tuple(
        f"{folder}/{when}_link_{what}" for when in ("current", "max") for what in ("speed", "width")
    )

    assert pci_registers.link(slow, GPU) == LinkSpeeds(16.0, 8, 32.0, 16)
    registers = machine(SERVER.replace("h100-sxm", "h100-sxm link=16.0x8"), without=gone, complete=False)
    assert pci_registers.link(registers, GPU) == LinkSpeeds(16.0, 8, 32.0, 16)
    assert pci_registers.link(Node(MemoryHost(commands={LSPCI: SAMPLE})), ROOT_PORT) == LinkSpeeds(
        16.0, 8, 32.0, 16
    )
    assert pci_registers.link(Node(MemoryHost(commands={SMI: TWO})), "0000:00:06.0") == LinkSpeeds(
        16.0, 8, 32.0, 16
    )


@pytest.mark.parametrize(
    ("speed", "width"), [("Unknown\n", "0\n"), ("32.0 GT/s PCIe\n", "255\n"), ("\n", "\n")]
)
def test_an_emulated_link_is_unknown(speed, width):
    files = {f"{GPU_FOLDER}/current_link_speed": speed, f"{GPU_FOLDER}/current_link_width": width}
    node = machine(files=files)

    with pytest.raises(EvidenceMissing) as caught:
        pci_registers.link(node, GPU)
    assert caught.value.missing.why is MissingReason.UNDECIDED


def test_a_copy_without_links_still_has_its_files():
    """If the folder was not listed, it is not known whether there is a `physfn`; most devices have none."""
    files = {
        f"sys/bus/pci/devices/{GPU}/{when}_link_{what}": value
        for when in ("current", "max")
        for what, value in (("speed", "16.0 GT/s PCIe\n"), ("width", "16\n"))
    }

    assert pci_registers.link(Node(MemoryHost(files)), GPU) == LinkSpeeds(16.0, 16, 16.0, 16)


def test_a_virtual_function_has_the_link_of_its_physical_one():
    outline = SERVER + "      0000:18:00.1 cx5-vf rdma=mlx5_1 link=2.5x1\n"
    node = machine(outline)
    folder = "sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:18:00.1"
    node.host.links[f"{folder}/physfn"] = "../0000:18:00.0"  # type: ignore[attr-defined]

    assert pci_registers.link(node, "0000:18:00.1") == LinkSpeeds(32.0, 16, 32.0, 16)


def test_acs_bits_come_from_registers_and_text():
    node = machine(SERVER.replace("pex89-down\n      0000:1b", "pex89-down acs=RR,UF\n      0000:1b"))
    found, text = (
        pci_registers.acs(node, GPU_PORT),
        pci_registers.acs(Node(MemoryHost(commands={LSPCI: SAMPLE})), ROOT_PORT),
    )

    assert found is not None and found.request_redirect and found.upstream_forwarding
    assert text is not None and text.request_redirect and text.completion_redirect


def test_a_device_without_acs_is_known_to_have_none_only_where_its_registers_were_read():
    assert pci_registers.acs(machine(), GPU) is None
    with pytest.raises(EvidenceMissing):
        pci_registers.acs(machine(root=False), GPU)
    with pytest.raises(EvidenceMissing) as caught:
        pci_registers.acs(Node(MemoryHost(commands={LSPCI: SAMPLE})), GPU)
    assert caught.value.missing.why is MissingReason.DENIED


def test_the_read_request_size_is_a_register_for_root():
    node = machine(SERVER.replace("cx7-ib", "cx7-ib mrrs=512"))

    assert pci_registers.read_request_bytes(node, NIC) == 512
    assert pci_registers.read_request_bytes(Node(MemoryHost(commands={LSPCI: SAMPLE})), ROOT_PORT) == 512
    with pytest.raises(EvidenceMissing) as caught:
        pci_registers.read_request_bytes(machine(root=False), NIC)
    assert caught.value.missing.why is MissingReason.DENIED


def test_sosreports_keep_configuration_space_in_proc():
    """sos copies /proc/bus/pci and no sysfs."""
    live = machine(SERVER.replace("cx7-ib", "cx7-ib mrrs=1024 ats=on"))
    path = f"sys/devices/pci0000:15/{ROOT_PORT}/0000:16:00.0/0000:17:01.0/{NIC}/config"
    node = Node(MemoryHost({"proc/bus/pci/18/00.0": live.host.read(path)}))

    assert pci_registers.read_request_bytes(node, NIC) == 1024
    assert pci_registers.ats_enabled(node, NIC)


def test_a_config_file_of_garbage_is_garbled():
    node = machine(files={f"{GPU_FOLDER}/config": b"\xff" * 64})

    with pytest.raises(EvidenceMissing) as caught:
        pci_registers.acs(node, GPU)
    assert caught.value.missing.why is MissingReason.GARBLED
