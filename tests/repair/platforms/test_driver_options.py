"""Options of the driver: what is set already stays, and the file that gdr fix writes is read last."""

from __future__ import annotations

import pytest

from gdrkit.evidence import EvidenceMissing
from gdrkit.facts.driver import PEER_MAPPING, driver_parameters, registry_dwords
from gdrkit.facts.modprobe_config import Directive, configuration
from gdrkit.node import Node
from gdrkit.repair.platforms.action import AskPerson, WriteFile
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.procedures import procedure_for
from gdrkit.repair.remedies import remedy_of
from gdrkit.repair.remedies.allow_peer_mapping import dwords_with_peer_mapping
from tests.memory_host import MemoryHost
from tests.repair.remedies.test_pairs import plain, with_dwords

NVIDIA_CONF = "etc/modprobe.d/nvidia.conf"
RACK = 'options nvidia NVreg_RegistryDwords="RMBug5172204War=4"\n'
"""Of a cloud's image for GB200."""


def configured(text: str, file: str = NVIDIA_CONF) -> Node:
    """A node with this file, whose running driver was loaded without it."""
    node = Node(MemoryHost({file: text}, complete=True))
    return node.after("derived", [driver_parameters.becomes({"RegistryDwords": ""})])


def actions(node: Node, remedy: str = "allow-peer-mapping"):
    named = remedy_of(remedy)
    return procedure_for(node, named, ProcedureChoices()).actions


@pytest.mark.parametrize(
    ("given", "merged"),
    [
        ("", "PeerMappingOverride=1;"),
        ("RMBug5172204War=4", "RMBug5172204War=4;PeerMappingOverride=1;"),
        ("A=0x1F; PeerMappingOverride=0;B=2;", "A=0x1F;B=2;PeerMappingOverride=1;"),
    ],
)
def test_keys_of_the_running_driver_stay(given, merged):
    node = with_dwords(given)
    assert dwords_with_peer_mapping(node) == merged
    after = node.after("fixed", tuple(remedy_of("allow-peer-mapping").effect(node)))
    assert registry_dwords(after)[PEER_MAPPING] == 1
    assert dict(registry_dwords(node)).keys() <= dict(registry_dwords(after)).keys()


def test_keys_of_modprobe_d_count_before_those_of_a_driver_that_was_loaded_without_them():
    assert dwords_with_peer_mapping(configured(RACK)) == "RMBug5172204War=4;PeerMappingOverride=1;"


@pytest.mark.parametrize("value", ["A=1\n;install x /bin/sh", "A=$(reboot)", "A", "=1", '"A=1'])
def test_a_value_that_the_driver_could_not_read_gives_no_commands(value):
    node = with_dwords(value)
    with pytest.raises(EvidenceMissing, match="RegistryDwords"):
        dwords_with_peer_mapping(node)
    assert all(isinstance(action, AskPerson) for action in actions(node))


def test_the_file_is_read_after_every_other_one():
    """modprobe sorts files by name, and the kernel takes the last value of a parameter."""
    wrote = next(action for action in actions(plain("ubuntu-6.8-h100")) if isinstance(action, WriteFile))
    name = wrote.path.rpartition("/")[2]
    assert max("nvidia.conf", "nvidia-graphics-drivers-kms.conf", "zfs.conf", name) == name
    assert (
        configuration(Node(MemoryHost({wrote.path[1:]: wrote.content, NVIDIA_CONF: RACK}, complete=True)))
        .arguments_of("nvidia")
        .endswith('NVreg_RegistryDwords="PeerMappingOverride=1;"')
    )


def test_a_parameter_on_the_command_line_has_to_be_removed_there():
    node = plain("ubuntu-6.8-h100")
    line = Directive("nvidia", "NVreg_RegistryDwords=A=1", "proc/cmdline", 1)
    there = node.after("derived", [configuration.becomes(type(configuration(node))(options=(line,)))])
    asked = [action.what for action in actions(there) if isinstance(action, AskPerson)]
    assert asked == ["remove nvidia.NVreg_RegistryDwords=A=1 from the kernel's command line"]
    assert not [action for action in actions(there, "create-imex-channel") if isinstance(action, AskPerson)]


def test_the_operators_container_gets_the_option_by_its_config_map():
    """Its driver does not read the host's modprobe.d."""
    options, policy = actions(plain("gpu-operator-stub"))
    assert isinstance(options, AskPerson) and isinstance(policy, AskPerson)
    assert '    NVreg_RegistryDwords="PeerMappingOverride=1;"\n' in options.content
    assert "kernelModuleConfig:\n      name: gdrkit-kernel-modules\n" in policy.content
