"""What calls for rules: each module of them is left out exactly where a node lacks what they are about."""

from __future__ import annotations

import functools

import pytest

from gdrkit.catalogue import CALLED_FOR_BY, CODES, rule_of
from gdrkit.diagnosis import node_of
from gdrkit.evidence.target import open_host
from gdrkit.facts.expectation import Supplied
from gdrkit.formats.expectation import Expectation
from gdrkit.node import Node
from gdrkit.rules.rule import SHOWN_BY_MESSAGES, NotApplicable
from gdrkit.verdict.called_for import LACKS, is_known_to_lack, rules_called_for
from gdrkit.verdict.check_results import check_results
from tests.evidence_nodes import laid_down, names
from tests.memory_host import MemoryHost

MODULES = sorted(set(CODES.values()))


def function(address: str, kind: str, vendor: str, device: str) -> dict[str, str]:
    """The files of a PCI function."""
    words = {"class": kind, "vendor": vendor, "device": device}
    return {f"sys/bus/pci/devices/{address}/{name}": f"0x{word}\n" for name, word in words.items()}


BRIDGE = function("0000:00:00.0", "060000", "8086", "1237")
GPU = function("0000:01:00.0", "030200", "10de", "2330")
RDMA = "sys/devices/pci0000:00/0000:02:00.0/infiniband/mlx5_0"
NIC = function("0000:02:00.0", "020700", "15b3", "1021") | {f"{RDMA}/node_guid": "1\n"}
LINK = {"sys/class/infiniband/mlx5_0": f"/{RDMA}"}


def host(name: str, *, complete: bool = False, absent: frozenset[str] = frozenset()) -> MemoryHost:
    """A machine with a GPU and a NIC, without what is named."""
    gpu = {} if name.startswith("a GPU") else GPU
    has_nic = not name.endswith("a NIC")
    files = {**BRIDGE, **gpu, **(NIC if has_nic else {})}
    return MemoryHost(files, links=LINK if has_nic else {}, complete=complete, absent=absent)


@functools.cache
def shown_by(name: str) -> frozenset[str]:
    """What is read to know that this is lacking."""
    whole = host(name, complete=True)
    assert LACKS[name](Node(whole))
    return frozenset(whole.opened)


LOADED = {"proc/modules", "sys/module/nvidia_peermem/initstate", "sys/module/nv_peer_mem/initstate"}
"""Whether nvidia-peermem is loaded: if it is, no rule about what loads it applies."""


def is_idle(name: str, module: str) -> bool:
    """Whether no rule of a module applies, whatever else the machine has: none asks for more than what shows
    that this is lacking."""
    machine = host(name, absent=shown_by(name))
    rules = (rule_of(code) for code, home in CODES.items() if home == module)
    applies = [
        one for one in check_results(Node(machine), rules) if not isinstance(one.outcome, NotApplicable)
    ]
    return not applies and not set(machine.opened) - shown_by(name) - (LOADED if name == "pods" else set())


def asks_nothing(module: str) -> bool:
    """Whether the rules of a module wait for what no file of a node shows."""
    machine = host("")
    rules = (rule_of(code) for code, home in CODES.items() if home == module)
    found = check_results(Node(machine), rules)
    return not machine.opened and all(isinstance(one.outcome, NotApplicable) for one in found)


WITHOUT_FILES = ("an expectation", "a message")
DEVICES = ("a GPU", "a NIC", "a GPU or a NIC")


@pytest.mark.parametrize("name", [name for name in CALLED_FOR_BY if name not in WITHOUT_FILES])
def test_no_rule_that_is_left_out_could_have_anything_to_say(name):
    assert [module for module in CALLED_FOR_BY[name] if not is_idle(name, module)] == []


@pytest.mark.parametrize("name", DEVICES)
def test_every_module_that_only_devices_call_for_is_listed(name):
    """Else a new rule about GPUs would be loaded everywhere."""
    found = {module for module in MODULES if is_idle(name, module) and not asks_nothing(module)}
    if name == "a GPU or a NIC":
        found -= CALLED_FOR_BY["a GPU"] | CALLED_FOR_BY["a NIC"]
    assert set(CALLED_FOR_BY[name]) == found


def test_every_module_that_no_file_calls_for_is_listed():
    found = {module for module in MODULES if asks_nothing(module)}
    assert found == set().union(*(CALLED_FOR_BY[name] for name in WITHOUT_FILES))


def test_without_an_expectation_or_a_message_only_what_waits_for_them_is_left_out():
    node = Node(host(""))
    for module in CALLED_FOR_BY["a message"]:
        rules = [rule_of(code) for code, home in CODES.items() if home == module]
        assert all(one.outcome is SHOWN_BY_MESSAGES for one in check_results(node, rules))
    expecting = node_of(host(""), Supplied("node.toml", Expectation(gpus=2)))
    assert not is_known_to_lack(expecting, "an expectation")
    assert "expected-gpu-missing" in {rule.code for rule in rules_called_for(expecting)}


@pytest.mark.parametrize("name", [*DEVICES, "NVIDIA's driver"])
def test_what_is_not_known_is_not_lacking(name):
    assert not is_known_to_lack(Node(MemoryHost({})), name)


def test_every_listed_module_is_one_of_rules():
    assert {module for modules in CALLED_FOR_BY.values() for module in modules} <= set(MODULES)
    assert set(CALLED_FOR_BY) == set(LACKS)


@pytest.mark.parametrize("name", names())
def test_on_a_known_node_the_rules_that_are_left_out_would_not_apply(name):
    node = Node(open_host(str(laid_down(name))))
    asked = {rule.code for rule in rules_called_for(node)}
    left = [rule_of(code) for code in CODES if code not in asked]
    said = [one.rule.code for one in check_results(node, left) if not isinstance(one.outcome, NotApplicable)]
    assert said == []
