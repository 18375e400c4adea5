"""lspci's text agrees with configuration space; lspci itself, which reads hex dumps, is the second
source."""

import contextlib
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gdrkit.facts import pci_text
from gdrkit.formats import pci_config
from gdrkit.formats.errors import FormatError
from tests.evidence_builder import config_space
from tests.evidence_builder.config_space import Bar, Link, Space
from tests.system_programs import needs, program

needs_lspci = needs("lspci")

SAMPLE = """\
15:01.0 PCI bridge [0604]: Intel Corporation Device [8086:352a] (rev 30) (prog-if 00 [Normal decode])
\tControl: I/O- Mem+ BusMaster+
\tNUMA node: 0
\tIOMMU group: 12
\tBus: primary=15, secondary=16, subordinate=19, sec-latency=0
\tCapabilities: [60] Express (v2) Root Port (Slot+), MSI 00
\t\tDevCtl:\tCorrErr- NonFatalErr- FatalErr- UnsupReq-
\t\t\tRlxdOrd- ExtTag+ PhantFunc- AuxPwr- NoSnoop-
\t\t\tMaxPayload 256 bytes, MaxReadReq 512 bytes
\t\tLnkCap:\tPort #3, Speed 32GT/s, Width x16, ASPM not supported
\t\tLnkSta:\tSpeed 16GT/s (downgraded), Width x8 (downgraded)
\tCapabilities: [140 v1] Access Control Services
\t\tACSCap:\tSrcValid+ TransBlk+ ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans+
\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-
\tKernel driver in use: pcieport

1b:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330] (rev a1)
\tSubsystem: NVIDIA Corporation Device [10de:16c1]
\tRegion 0: Memory at 22042000000 (64-bit, prefetchable) [size=16M]
\tRegion 2: Memory at 20000000000 (64-bit, prefetchable) [size=128G]
\tRegion 4: Memory at 22040000000 (64-bit, prefetchable) [size=32M]
\tCapabilities: <access denied>
\tKernel driver in use: nvidia
\tKernel modules: nvidia
"""


def test_a_listing_has_ids_positions_links_and_control_bits():
    port, gpu = pci_text.parse(SAMPLE)

    assert (port.address, port.class_code, port.buses) == ("0000:15:01.0", "060400", (0x16, 0x19))
    assert (port.numa_node, port.iommu_group, port.port_type) == (0, "12", "Root Port")
    assert port.link == pci_text.TextLink(32.0, 16, 16.0, 8)
    assert port.read_request_bytes == 512
    assert port.acs is not None and port.acs.request_redirect and not port.acs.direct_translated
    assert (gpu.vendor, gpu.device, gpu.subsystem, gpu.revision) == ("10de", "2330", "10de:16c1", "a1")
    assert [size for _, size in gpu.regions] == [16 << 20, 128 << 30, 32 << 20]
    assert gpu.denied and gpu.acs is None and gpu.link is None


def test_a_listing_without_numbers_is_read_by_names():
    """As in a forum post with the output of plain lspci."""
    (nic,) = pci_text.parse(
        "0002:01:00.1 Ethernet controller: Mellanox Technologies MT2910 Family [ConnectX-7]\n"
    )

    assert (nic.address, nic.class_code, nic.vendor, nic.device) == ("0002:01:00.1", "020000", "15b3", "")
    assert not nic.verbose


@pytest.mark.parametrize(
    "text",
    [
        "",
        "lspci: command not found",
        "pcilib: Cannot open /proc/bus/pci",
        "10:05.3 and then I looked at the fan: nothing",
    ],
)
def test_an_error_message_is_not_a_listing(text):
    with pytest.raises(FormatError):
        pci_text.parse(text)


@given(st.text(alphabet="0123456789abcdef:. []()\t\nBusRegionMemory=,sizeGT/xLnkCapSta", max_size=300))
def test_any_text_gives_devices_or_a_format_error(text):
    with contextlib.suppress(FormatError):
        pci_text.parse(text)


def dump(address: str, space: bytes) -> str:
    """A hex dump as `lspci -xxxx` prints it, which `lspci -F` reads."""
    rows = [f"{at:02x}: {space[at : at + 16].hex(' ')}" for at in range(0, len(space), 16)]
    return "\n".join([f"{address} device", *rows]) + "\n\n"


SPEEDS = st.sampled_from(["2.5", "5.0", "8.0", "16.0", "32.0"])
WIDTHS = st.sampled_from([1, 2, 4, 8, 16])


@st.composite
def spaces(draw: st.DrawFn) -> Space:
    """A function with any link and bits."""
    return Space(
        vendor=draw(st.sampled_from([0x10DE, 0x15B3, 0x8086])),
        device=draw(st.integers(1, 0xFFFE)),
        class_code=draw(st.sampled_from([0x030200, 0x020700, 0x020000])),
        revision=draw(st.integers(0, 0xFE)),
        subsystem_vendor=0x10DE,
        subsystem_device=1,
        kind="endpoint",
        link=Link(draw(SPEEDS), draw(WIDTHS), draw(SPEEDS), draw(WIDTHS)),
        bars=[Bar(0, 0x2000_0000_0000, 16 << 20, True)],
        max_read_request=draw(st.sampled_from([128, 256, 512, 1024, 2048, 4096])),
        acs_control=draw(st.none() | st.sets(st.sampled_from(config_space.ACS_BITS)).map(sorted)),
        ats=draw(st.none() | st.booleans()),
    )


@needs_lspci
@settings(max_examples=25, deadline=None)
@given(st.lists(spaces(), min_size=1, max_size=30))
def test_lspci_and_the_parser_of_configuration_space_agree(tmp_path_factory, found):
    """Both read the same bytes and agree on what they have in common."""
    raw = {f"0000:{bus:02x}:00.0": config_space.build(space) for bus, space in enumerate(found, 1)}
    file = tmp_path_factory.mktemp("dumps") / "dump"
    file.write_text("".join(dump(address, space) for address, space in raw.items()))
    output = subprocess.run(
        [program("lspci"), "-F", str(file), "-nnvvv"], capture_output=True, text=True, check=True
    )

    for device in pci_text.parse(output.stdout):
        config = pci_config.parse(raw[device.address])
        assert (device.vendor, device.device) == (f"{config.vendor:04x}", f"{config.device:04x}")
        assert device.class_code[:4] == f"{config.class_code:06x}"[:4]
        assert device.revision == (f"{config.revision:02x}" if config.revision else "")
        express = config.express
        assert isinstance(express, pci_config.Express)
        assert device.read_request_bytes == express.read_request_bytes
        assert device.link is not None and express.link is not None
        assert (device.link.current_gt_per_s, device.link.current_width) == (
            express.link.current_gt_per_s,
            express.link.current_width,
        )
        assert (device.link.max_gt_per_s, device.link.max_width) == (
            express.link.max_gt_per_s,
            express.link.max_width,
        )
        assert device.acs == config.acs
        assert device.ats_enabled == (config.ats.enabled if isinstance(config.ats, pci_config.Ats) else None)
        assert device.extended


@needs_lspci
def test_lspci_does_not_show_capabilities_that_only_root_can_read(tmp_path):
    space = Space(
        *(0x10DE, 0x2330, 0x030200, 0xA1, 0x10DE, 0x16C1, "endpoint", Link("32.0", 16, "32.0", 16)),
        acs_control=("RR",),
    )
    (tmp_path / "dump").write_text(dump("0000:1b:00.0", config_space.build(space)[:64]))
    command = [program("lspci"), "-F", str(tmp_path / "dump"), "-nnvvv"]
    output = subprocess.run(command, capture_output=True, text=True, check=True)

    (device,) = pci_text.parse(output.stdout)
    assert device.denied
    assert device.acs is None and device.link is None and not device.extended
