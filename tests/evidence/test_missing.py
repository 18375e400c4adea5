"""The command that answers a question quotes what comes from a stranger's evidence."""

import shlex

import pytest

from gdrkit.evidence.missing import absent, denied, not_collected, unreadable
from gdrkit.facts.pci import sysfs_devices
from gdrkit.node import Node
from tests.memory_host import MemoryHost

EVIL = "etc/x;id;.conf"


@pytest.mark.parametrize("error", [absent(EVIL), denied(EVIL), not_collected(EVIL), unreadable(EVIL, "odd")])
def test_a_name_in_a_suggested_command_is_one_word(error):
    assert "/" + EVIL in shlex.split(error.missing.ask)


def test_a_device_whose_address_is_a_command_is_left_out():
    names = ("0000:1b:00.0", "0000:1b:00.0;id", "0000:$(id):00.0")
    files = {f"sys/bus/pci/devices/{name}/uevent": "PCI_CLASS=30200\nPCI_ID=10DE:2330\n" for name in names}
    assert [device.address for device in sysfs_devices(Node(MemoryHost(files)))] == ["0000:1b:00.0"]
