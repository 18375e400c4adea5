"""PCI functions and their positions: from sysfs, from lspci, and from other sources."""

import pytest

from gdrkit.evidence import EvidenceAbsent, EvidenceMissing, MissingReason
from gdrkit.evidence.target import open_host
from gdrkit.facts import pci, pci_registers
from gdrkit.node import Node
from tests.facts.test_nvidia_smi import TWO
from tests.facts.test_pci_text import SAMPLE
from tests.hardware import BARE_METAL, SERVER, SMI, machine
from tests.memory_host import MemoryHost

LSPCI = ("lspci", "-nnvvv")
GPU, NIC, ROOT_PORT = "0000:1b:00.0", "0000:18:00.0", "0000:15:01.0"
UP, GPU_PORT, NIC_PORT = "0000:16:00.0", "0000:17:00.0", "0000:17:01.0"


def test_a_gpu_is_a_display_function_of_nvidia():
    """The bridges on a Grace and the audio function are NVIDIA's too, but not GPUs."""
    node = machine("0000:00:00.0 grace-root\n  0000:01:00.0 gh200\n")

    assert pci.gpus(node) == (pci.PciGpu("0000:01:00.0", "2342"),)
    assert len(pci.devices(node)) == 2


def test_a_machine_without_gpu_has_none_and_one_without_evidence_is_unknown():
    assert pci.gpus(machine("0000:15:01.0 spr-root\n")) == ()
    assert pci.gpus(Node(MemoryHost(complete=True))) == ()
    with pytest.raises(EvidenceMissing):
        pci.gpus(Node(MemoryHost()))


def test_every_source_shows_the_same_gpu():
    sysfs = machine()
    text = Node(MemoryHost(commands={LSPCI: SAMPLE}))
    smi = Node(MemoryHost(commands={SMI: TWO}))
    proc = Node(MemoryHost({"proc/driver/nvidia/gpus/0000:1b:00.0/information": "Model: NVIDIA H100\n"}))

    assert pci.gpus(sysfs) == pci.gpus(text) == (pci.PciGpu(GPU, "2330"),)
    assert pci.gpus(smi) == (pci.PciGpu("0000:00:06.0", "2335"), pci.PciGpu("0000:00:07.0", "2335"))
    assert pci.gpus(proc) == (pci.PciGpu(GPU, ""),)


def test_an_empty_list_beside_the_drivers_shows_no_machine_without_gpus(tmp_path):
    """As in a copy that left out links: each function in sysfs is one."""
    (tmp_path / pci.ROOT).mkdir(parents=True)
    assert pci.gpus(Node(open_host(str(tmp_path)))) == ()

    (tmp_path / pci.BY_DRIVER).mkdir(parents=True)
    assert pci.gpus(Node(open_host(str(tmp_path)))) == ()  # a driver that found none

    (tmp_path / pci.BY_DRIVER / GPU).mkdir()
    node = Node(open_host(str(tmp_path)))
    assert pci.gpus(node) == (pci.PciGpu(GPU, ""),)
    with pytest.raises(EvidenceMissing):
        pci.devices(node)


def test_with_an_excerpt_of_lspci_without_a_gpu_nvidia_smi_decides():
    excerpt = "01:00.0 Ethernet controller [0200]: Mellanox Technologies MT2910 [ConnectX-7] [15b3:1021]\n"
    node = Node(MemoryHost(commands={LSPCI: excerpt, SMI: TWO}))

    assert len(pci.gpus(node)) == 2


UEVENT = "PCI_CLASS=30200\nPCI_ID=10DE:2330\nPCI_SUBSYS_ID=10DE:16C1\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("2330\n", "2330\x19"),  # two lines become one
        ("2330", "233"),
        ("10DE:2330", "2330"),
        ("2330", "233g"),
        ("2330", "\u0662330"),  # a digit of another script
        ("16C1", "16C1:1"),
        ("30200", "3O200"),
        ("30200", "1030200"),
        ("30200", "302"),  # the kernel prints four digits at least
        ("PCI_CLASS=30200\n", ""),
    ],
)
def test_a_function_whose_numbers_no_kernel_prints_is_not_read(old, new):
    """Once such an id ended `gdr doctor` where it was read as a number."""
    place = f"sys/bus/pci/devices/{GPU}/uevent"
    assert pci.devices(Node(MemoryHost({place: UEVENT})))[0].device == "2330"
    with pytest.raises(EvidenceMissing, match="garbled"):
        pci.devices(Node(MemoryHost({place: UEVENT.replace(old, new)})))


MODALIAS = "MODALIAS=pci:v000010DEd00002330sv000010DEsd000016C1bc03sc02i00\n"


@pytest.mark.parametrize(
    ("old", "new"), [("10DE:2330", "10D5:2330"), ("10DE:2330", "10DE:2336"), ("30200", "20200")]
)
def test_a_function_whose_numbers_contradict_its_modalias_is_not_read(old, new):
    place = f"sys/bus/pci/devices/{GPU}/uevent"
    assert len(pci.gpus(Node(MemoryHost({place: UEVENT + MODALIAS})))) == 1
    with pytest.raises(EvidenceMissing, match="garbled"):
        pci.gpus(Node(MemoryHost({place: UEVENT.replace(old, new) + MODALIAS})))


def test_a_uevent_that_names_another_function_is_not_read():
    place = f"sys/bus/pci/devices/{GPU}/uevent"
    assert len(pci.gpus(Node(MemoryHost({place: f"{UEVENT}PCI_SLOT_NAME={GPU}\n"})))) == 1
    with pytest.raises(EvidenceMissing, match="garbled"):
        pci.gpus(Node(MemoryHost({place: f"{UEVENT}PCI_SLOT_NAME={NIC}\n"})))


def test_beside_a_function_that_cannot_be_read_the_gpus_that_the_driver_lists_may_not_be_all():
    """One that fell off the bus is in no list of the driver; lspci lists it too."""
    files = {
        f"sys/bus/pci/devices/{GPU}/uevent": UEVENT,
        "sys/bus/pci/devices/0000:2b:00.0/uevent": UEVENT.replace("PCI_ID", "PCI_"),
        f"proc/driver/nvidia/gpus/{GPU}/information": "Model: NVIDIA H100\n",
    }
    with pytest.raises(EvidenceMissing, match=r"2b:00[.]0/uevent.*garbled"):
        pci.gpus(Node(MemoryHost(files)))

    printed = "".join(
        f"{place} 3D controller [0302]: NVIDIA [10de:2330]\n" for place in (GPU, "0000:2b:00.0")
    )
    assert len(pci.gpus(Node(MemoryHost(files, commands={LSPCI: printed})))) == 2


@pytest.mark.parametrize(
    ("name", "text"), [("device", "0x23\n"), ("vendor", "0x10dE\n"), ("class", "0x0302\n")]
)
def test_neither_are_those_of_single_files(name, text):
    folder = f"sys/bus/pci/devices/{GPU}"
    files = {f"{folder}/vendor": "0x10de\n", f"{folder}/device": "0x2330\n", f"{folder}/class": "0x030200\n"}
    assert pci.devices(Node(MemoryHost(files)))[0].device == "2330"
    with pytest.raises(EvidenceMissing, match="garbled"):
        pci.devices(Node(MemoryHost(files | {f"{folder}/{name}": text})))


def test_bundles_without_uevent_give_the_same_device():
    whole = machine()
    bare = machine(without=(f"sys/devices/pci0000:15/{ROOT_PORT}/{UP}/{GPU_PORT}/{GPU}/uevent",))

    found, less = pci.device_at(whole, GPU), pci.device_at(bare, GPU)
    assert (found.vendor, found.device, found.class_code, found.driver) == (
        *("10de", "2330", "030200", "nvidia"),
    )
    assert (less.vendor, less.device, less.class_code, less.driver) == ("10de", "2330", "030200", "nvidia")


def test_the_path_in_sysfs_shows_the_bridges():
    node = machine()

    assert pci.bridges_above(node, GPU) == (ROOT_PORT, UP, GPU_PORT)
    assert pci.bridges_above(node, ROOT_PORT) == ()
    assert pci.root_bus(node, GPU) == "0000:15"


def test_bus_numbers_show_the_bridges_in_lspcis_text():
    node = Node(MemoryHost(commands={LSPCI: SAMPLE.replace("1b:00.0 3D", "17:00.0 3D")}))

    assert pci.bridges_above(node, "0000:17:00.0") == (ROOT_PORT,)
    assert pci.root_bus(node, "0000:17:00.0") == "0000:15"


def test_text_without_bus_numbers_shows_no_bridges():
    node = Node(MemoryHost(commands={LSPCI: "1b:00.0 3D controller [0302]: NVIDIA X [10de:2330]\n"}))

    with pytest.raises(EvidenceMissing):
        pci.bridges_above(node, GPU)


def test_a_numa_node_that_firmware_does_not_define_is_none():
    named = machine(SERVER.replace("h100-sxm", "h100-sxm numa=1"))

    assert pci.numa_node(named, GPU) == 1
    assert pci.numa_node(machine(), GPU) is None
    with pytest.raises(EvidenceMissing):
        pci.numa_node(machine(complete=False, without=("sys",)), GPU)


def test_a_machine_without_iommu_has_no_groups():
    on, off = machine(spec={"iommu": "DMA-FQ"}), machine(spec={"iommu": "off"})

    assert pci.iommu_type(on, NIC) == "DMA-FQ"
    with pytest.raises(EvidenceAbsent):
        pci.iommu_type(off, NIC)


@pytest.mark.parametrize(
    ("below", "driver"),
    [
        ("\tKernel driver in use: mlx5_core\n", "mlx5_core"),
        ("\tKernel modules: mlx5_core\n", ""),
        ("", None),
    ],
)
def test_a_listing_shows_that_no_driver_is_bound_if_it_has_more_than_titles(below, driver):
    title = "18:00.0 Infiniband controller [0207]: Mellanox Technologies MT2910 [15b3:1021]\n"
    node = Node(MemoryHost(commands={LSPCI: (title + below).encode()}))
    if driver is None:
        with pytest.raises(EvidenceMissing):
            pci.bound_driver(node, "0000:18:00.0")
    else:
        assert pci.bound_driver(node, "0000:18:00.0") == driver


def test_no_program_is_started_if_files_have_the_answer():
    """On a live machine, lspci and nvidia-smi would take a second, too long for doctor."""
    node = machine()
    for ask in (pci.gpus, pci.devices):
        ask(node)
    for ask in (pci_registers.link, pci_registers.acs, pci_registers.bar1_bytes, pci.numa_node):
        ask(node, GPU)

    started = [name for name in node.host.opened if name.startswith(("lspci", "nvidia-smi"))]  # type: ignore
    assert not started


def test_lspci_is_not_run_for_what_only_root_may_read():
    node = machine(root=False)

    with pytest.raises(EvidenceMissing) as caught:
        pci_registers.acs(node, GPU_PORT)
    assert caught.value.missing.why is MissingReason.DENIED
    assert caught.value.missing.ask == f"sudo lspci -vvv -s {GPU_PORT}"
    assert "lspci -nnvvv" not in node.host.opened  # type: ignore[attr-defined]


def test_a_firecracker_guest_shows_gpus_on_its_root_bus():
    """Observed: two H200s passed through are on bus 00 with NUMA node -1, next to virtio devices."""
    node = machine(
        "0000:00:00.0 host-bridge\n0000:00:01.0 virtio-net\n0000:00:06.0 h200-sxm\n0000:00:07.0 h200-sxm\n",
        files=BARE_METAL,
    )

    assert [gpu.address for gpu in pci.gpus(node)] == ["0000:00:06.0", "0000:00:07.0"]
    assert pci.bridges_above(node, "0000:00:06.0") == ()
    assert pci.root_bus(node, "0000:00:06.0") == "0000:00"
