"""hwloc's exports."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.formats import hwloc_xml
from gdrkit.formats.errors import FormatError

PCI = (
    '<object type="PCIDev" pci_busid="0000:1b:00.0" pci_type="0302 [10de:2330] [10de:16c1] a1" '
    'pci_link_speed="{}"/>'
)


def machine(inside, version=' version="2.0"'):
    return f'<topology{version}><object type="Machine" nodeset="0x3">{inside}</object></topology>'.encode()


def test_a_device_has_ids_and_the_bandwidth_of_its_link():
    (device,) = hwloc_xml.parse(machine(PCI.format("63.015385"))).children
    assert device.pci.address == "0000:1b:00.0"
    assert (device.pci.class_code, device.pci.vendor, device.pci.device) == ("0302", "10de", "2330")
    assert device.pci.gbyte_per_s == 63.015385


@pytest.mark.parametrize("speed", ["0.000000", ""])
def test_a_link_that_hwloc_could_not_read_is_unknown(speed):
    assert hwloc_xml.parse(machine(PCI.format(speed))).children[0].pci.gbyte_per_s is None


def test_sets_are_read_with_their_empty_words():
    node = '<object type="NUMANode" os_index="1" cpuset="0x1,,0x80000001" nodeset="0xf...f,0x2"/>'
    (found,) = hwloc_xml.parse(machine(node)).children
    assert found.cpus == (0, 31, 64)
    assert found.nodes == (1,)


def test_sets_have_a_bounded_size():
    def parsed(words):
        sets = ",".join(["0x80000000", *["0x0"] * (words - 1)])
        return hwloc_xml.parse(machine(f'<object type="NUMANode" os_index="1" cpuset="{sets}"/>'))

    assert parsed(512).children[0].cpus == (16383,)
    with pytest.raises(FormatError, match="a set with a number over 16384"):
        parsed(513)


def test_a_host_bridge_has_a_root_bus_and_other_bridges_do_not():
    bridge = (
        '<object type="Bridge" bridge_type="0-1" bridge_pci="0000:[15-1b]"><object type="Bridge" '
        'bridge_type="1-1" bridge_pci="0000:[16-1b]" pci_busid="0000:15:01.0" '
        'pci_type="0604 [8086:352a] [0000:0000] 04"/></object>'
    )
    (host,) = hwloc_xml.parse(machine(bridge)).children
    assert host.root_bus == "0000:15"
    assert host.children[0].root_bus == ""
    assert host.children[0].pci.subsystem == ""


def test_version_1_has_no_root_bus():
    assert hwloc_xml.parse(machine("", version="")).type == "Machine"


@pytest.mark.parametrize(
    "content",
    [b"", b"<system/>", b"<topology/>", machine("", ' version="3.0"'), machine(PCI.format("fast")),
     machine('<object type="PCIDev" pci_busid="1b" pci_type="0302 [10de:2330] [10de:16c1] a1"/>'),
     machine('<object type="PCIDev" pci_busid="0000:1b:00.0" pci_type="GPU"/>'),
     machine('<object type="NUMANode" cpuset="all"/>'), machine('<object type="NUMANode" os_index="-1"/>'),
     machine('<object type="Bridge" bridge_type="0-1" bridge_pci="all"/>'),
     machine(f'<object cpuset="{",".join(["0xffffffff"] * 2100)}"/>')],
)  # fmt: skip
def test_what_hwloc_does_not_write_is_refused(content):
    with pytest.raises(FormatError):
        hwloc_xml.parse(content)


@given(st.text("0x1f,. ", max_size=30), st.text("0123456789.", max_size=8))
def test_any_attributes_give_a_machine_or_a_format_error(words, speed):
    with contextlib.suppress(FormatError):
        hwloc_xml.parse(machine(f'<object cpuset="{words}" nodeset="{words}"/>' + PCI.format(speed)))
