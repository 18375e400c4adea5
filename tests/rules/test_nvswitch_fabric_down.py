"""Boards whose NVSwitches are not set up."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType

import pytest

from gdrkit.evidence import Confidence, Host
from gdrkit.evidence.target import open_host
from gdrkit.facts.commands import FABRIC_MANAGER, PROBE_CUDA
from gdrkit.facts.fabric_manager import LOGS, STATUSES, other_fabric_manager
from gdrkit.facts.nvswitch import may_have_switches
from gdrkit.facts.packages import Package, installed
from gdrkit.node import Node
from gdrkit.repair.remedies.plan import what_then
from gdrkit.rules.nvswitch_fabric_down import nvswitch_fabric_down
from gdrkit.rules.rule import Failed, Outcome, Passed
from gdrkit.verdict import judge_node
from gdrkit.verdict.check_results import check_results, confidence_of
from gdrkit.verdict.path_state import State
from tests.evidence_nodes import laid_down
from tests.hardware import BARE_METAL, SERVER, SMI, machine
from tests.rules.altered_host import AlteredHost

SWITCHED = SERVER + "    0000:17:03.0 pex89-down\n      0000:1f:00.0 nvswitch\n"
LINUX = "[    0.000000] Linux version 6.8.0-45-generic (x) #45\n"
FATAL = "[   90.0] nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up\n"
DRIVER = "535.161.08"
STAMP = "[Nov 17 2024 06:55:12] [ERROR] [tid 1402] "
REFUSES = (
    f"{STAMP}fabric manager NVIDIA GPU driver interface version 535.183.01 don't match with driver "
    "version {}. Please update with matching NVIDIA driver package.\n"
)
LOADS = "[   99.0] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.158.01\n"


def fabric(state: str, status: str):
    """An edit of nvidia-smi's output: all GPUs have this state. Source of the layout: driver 580.159.04."""
    section = f"    Fabric\n        State   : {state}\n        Status  : {status}\n        CliqueId : 0\n"
    return lambda text: text.replace("    FB Memory Usage", f"{section}    FB Memory Usage")


@pytest.fixture(scope="module")
def good() -> Host:
    return open_host(str(laid_down("ubuntu-6.8-h100")))


@pytest.mark.parametrize(
    ("state", "status"),
    [("In Progress", "N/A"), ("Not Started", "N/A"), ("Completed", "Insufficient Resources")],
)
def test_a_fabric_that_is_not_complete_blocks_every_gpu(good: Host, state: str, status: str):
    node = Node(AlteredHost(good, smi=fabric(state, status)))
    found = judge_node(node)
    (chain,) = what_then(node, found, "nccl")

    assert found.of("nccl").state is State.BLOCKED
    assert {f.code for f in found.findings if f.status == "failed"} == {"nvswitch-fabric-down"}
    assert len({f.subject for f in found.findings if f.status == "failed"}) == 8
    assert [step.remedy.name for step in chain] == ["start-fabric-manager", "power-cycle"]


@pytest.mark.parametrize(
    ("manager", "version", "other"),
    [
        ("nvidia-fabricmanager-570", "570.133.20-1", "570.133.20"),
        ("nvidia-fabricmanager", "1:570.133.20-1", "570.133.20"),
        ("nvidia-fabricmanager-570", "570.158.01-0ubuntu1", ""),  # the driver's
        ("nvidia-fabricmanager-dev-570", "570.133.20-1", ""),
    ],
)
def test_a_fabric_manager_of_another_version_than_the_driver_is_named(good, manager, version, other):
    node = Node(AlteredHost(good, smi=fabric("In Progress", "N/A")))
    package = {manager: Package(manager, version, "dpkg")}
    node = node.after("installed", [installed.becomes(package)])
    seen = next(one for one in judge_node(node).findings if one.code == "nvswitch-fabric-down")

    assert other_fabric_manager(node) == other
    assert ("Fabric Manager is 570.133.20, the driver 570.158.01" in seen.seen) is bool(other)
    assert ("Install nvidia-fabricmanager 570.158.01" in seen.advice) is bool(other)


@pytest.mark.parametrize(("state", "status"), [("Completed", "Success"), ("N/A", "N/A")])
def test_one_that_is_complete_and_a_gpu_in_none_are_ready(good: Host, state: str, status: str):
    found = judge_node(Node(AlteredHost(good, smi=fabric(state, status))))
    assert found.of("nccl").state is State.READY


def test_the_fabric_of_a_rack_is_the_subject_of_another_code():
    host = open_host(str(laid_down("gb200-force-pcie")))
    results = check_results(
        Node(AlteredHost(host, smi=fabric("In Progress", "N/A"))), [nvswitch_fabric_down]
    )
    assert not any(isinstance(result.outcome, Failed) for result in results)


def outcome(files: Mapping[str, str] = MappingProxyType({}), **changes: str) -> Outcome:
    """Of a GPU beside an NVSwitch, of which nvidia-smi prints no fabric state, as of A100."""
    smi = "Attached GPUs : 1\nGPU 00000000:1B:00.0\n    Fabric\n        State : N/A\n        Status : N/A\n"
    commands = {SMI: smi, ("dmesg",): LINUX} | {
        {"unit": FABRIC_MANAGER.argv, "log": ("dmesg",), "probe": PROBE_CUDA.argv}[name]: text
        for name, text in changes.items()
    }
    version = {"sys/module/nvidia/version": f"{DRIVER}\n"}
    node = machine(SWITCHED, files=BARE_METAL | version | dict(files), commands=commands)
    (result,) = check_results(node, [nvswitch_fabric_down])
    return result.outcome


def unit(active: str, sub: str) -> str:
    return f"nvidia-fabricmanager.service loaded {active} {sub} NVIDIA fabric manager service\n"


class TestA100:
    @pytest.mark.parametrize(("active", "sub"), [("failed", "failed"), ("inactive", "dead")])
    def test_its_service_must_run(self, active: str, sub: str):
        assert isinstance(outcome(unit=unit(active, sub)), Failed)
        assert isinstance(outcome(unit="● " + unit(active, sub)), Failed)

    @pytest.mark.parametrize(
        "listed",
        [
            unit("active", "running"),
            "",
            "nvidia-fabricmanager.service not-found inactive dead nvidia-fabricmanager.service\n",
        ],
    )
    def test_where_it_runs_or_is_not_installed_on_the_host_nothing_is_wrong(self, listed: str):
        assert isinstance(outcome(unit=listed), Passed)

    @pytest.mark.parametrize("path", [*LOGS])
    def test_a_manager_that_refuses_the_running_driver_blocks_by_its_last_words(self, path: str):
        refuses, works = (
            REFUSES.format(DRIVER),
            f"{STAMP}Successfully configured all the available NVSwitches\n",
        )
        found = outcome({path: works + refuses})
        assert isinstance(found, Failed)
        assert f"Fabric Manager is 535.183.01, the driver {DRIVER}" in found.seen
        assert f"Install nvidia-fabricmanager {DRIVER}" in found.advice
        for text in (
            refuses + works,
            refuses + REFUSES.format("535.54.03"),
        ):  # repaired, or of another driver
            assert isinstance(outcome({path: text}), Passed)
        assert isinstance(outcome({path: refuses}, unit=unit("active", "running")), Passed)

    @pytest.mark.parametrize("path", [*STATUSES])
    @pytest.mark.parametrize(
        ("active", "kind"), [("active (running)", Passed), ("failed (Result: exit)", Failed)]
    )
    def test_the_status_of_the_service_decides_too(self, path: str, active: str, kind: type[Outcome]):
        other = "● x.service - x\n     Loaded: loaded (y)\n     Active: failed\n"
        own = "nvidia-fabricmanager.service - NVIDIA fabric manager\n     Loaded: loaded (/lib; enabled)\n"
        assert isinstance(outcome({path: f"{other}● {own}     Active: {active} since Mon\n{other}"}), kind)

    def test_a_fatal_error_of_a_switch_blocks_until_the_driver_starts_again(self):
        assert isinstance(outcome(log=LINUX + FATAL), Failed)
        assert isinstance(outcome(log=LINUX + FATAL + LOADS), Passed)
        assert isinstance(outcome(log=LINUX + FATAL.replace("Fatal", "Non-fatal")), Passed)

    def test_cuda_says_it_itself(self):
        call = {"call": "cuInit", "argument": "0", "device": "", "result": 802}
        record = json.dumps({"schema": "gdrkit.probe.cuda/1", "calls": [call]})
        assert isinstance(outcome(probe=record), Failed)


@pytest.mark.parametrize(
    ("name", "may"),
    [("gb200-force-pcie", True), ("h200-vm", True), ("gpu-gone", False), ("ofed-rebuilt", False)],
)
def test_nvidia_smi_is_started_only_where_there_may_be_switches(name: str, may: bool):
    """Not on bare metal without switches on the bus, nor for one GPU."""
    assert may_have_switches(Node(open_host(str(laid_down(name))))) is may


def test_without_nvidia_smi_a_board_with_switches_is_only_likely_to_be_set_up():
    node = machine(SWITCHED, commands={("dmesg",): LINUX})
    (result,) = check_results(node, [nvswitch_fabric_down])

    assert isinstance(result.outcome, Passed)
    assert confidence_of(node, result) is Confidence.LIKELY
