"""No advice names what a platform lacks: every remedy on every platform, and a few nodes of both kinds.

`python -m tools.platforms --named` walks all nodes of the evidence and 300 of the generator over all."""

from __future__ import annotations

import pytest
from machines.cases import case
from machines.judge import written
from tools.platforms import SETTINGS, faults, faults_of_steps, on, without_step

from gdrkit.evidence import Missing, MissingReason
from gdrkit.evidence.target import open_host
from gdrkit.facts.driver_files import has_driver_container
from gdrkit.facts.module_index import module_path
from gdrkit.node import Node
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.means import can_do, means, platform_of
from gdrkit.repair.platforms.procedures import procedure_for
from gdrkit.repair.remedies import every_remedy, remedy_of
from gdrkit.report.fix import FixOptions, fix_report
from gdrkit.report.here import advice_here
from tests.evidence_nodes import laid_down

BLOCKED = {
    "debian": "peermem-blacklisted",
    "rhel": "ofed-rebuilt",
    "suse": "mixed-signers",
    "gpu-operator": "ofed-removed",
    "container": "ofed-rebuilt",
    "talos": "dgx-a100-proprietary",
    "rhcos": "dgx-a100-proprietary",
    "fedora-coreos": "iommu-translating",
    "flatcar": "acs-redirect",
    "bottlerocket": "gpu-off-the-bus",
    "cos": "rail-down",
    "sl-micro": "dgx-a100-proprietary",
}
"""A node with something to repair for each platform."""


def node(name: str) -> Node:
    return Node(open_host(str(laid_down(name))))


@pytest.mark.parametrize("name", SETTINGS)
def test_no_remedy_is_carried_out_with_what_the_platform_lacks(name):
    assert faults_of_steps(node("acs-redirect"), name) == []


@pytest.mark.parametrize("name", SETTINGS)
def test_the_advice_of_every_code_has_a_next_step_on_every_platform(name):
    assert without_step(node("acs-redirect"), name) == []


@pytest.mark.parametrize("name", SETTINGS)
def test_no_advice_for_a_node_names_what_its_platform_lacks(name):
    assert faults(node(BLOCKED[name]), name) == []


@pytest.mark.parametrize(("number", "name"), [(0, "talos"), (26, "gpu-operator")])
def test_no_advice_for_a_machine_of_the_generator_does(number, name):
    with written(case(7, number, "").machine) as path:
        assert faults(Node(open_host(str(path))), name) == []


@pytest.mark.parametrize("name", ["gpu-operator-stub", "gpu-operator-waits", "gpu-operator-ofed-changed"])
def test_what_an_operator_is_given_is_accepted_by_config_check(name):
    assert faults(node(name), "gpu-operator") == []


def test_advice_for_another_platform_is_noticed():
    """The walk can fail: what is right on one platform is wrong on most others."""
    here = node("ofed-rebuilt")
    words = str(fix_report(on(here, "rhel"), FixOptions()))
    for name in SETTINGS.keys() - {"rhel"}:
        assert SETTINGS[name].lacks.search(words), name


def test_a_waiting_operator_is_not_given_what_it_waits_for():
    """operator-waits-for-ofed: `rdma.enabled: true` without a NicClusterPolicy is the state that hangs."""
    (step,) = fix_report(node("gpu-operator-waits"), FixOptions()).further
    assert step.remedy == "use-dmabuf" and not step.needs_root and not step.needs_reboot
    (action,) = step.actions
    assert "enabled: false" in action.content and "enabled: true" not in action.content


@pytest.mark.parametrize(
    ("name", "all_nodes"),
    [("use-dmabuf", True), ("open-kernel-modules", True), ("rebuild-driver", True), ("load-driver", False)],
)
def test_a_change_of_the_policy_says_that_it_concerns_the_whole_cluster(name, all_nodes):
    """The operator replaces the driver on every node; a new pod is that of this node alone."""
    here, remedy = node("gpu-operator-waits"), remedy_of(name)
    risk = means(here, remedy).risk
    assert risk.startswith(remedy.risk) and ("every node" in risk) is all_nodes
    assert means(on(here, "debian"), remedy).risk == remedy.risk


def test_the_order_of_a_plan_for_peermem_is_that_of_the_operators():
    here = on(node("ofed-removed"), "gpu-operator")
    plans = [plan for plan in fix_report(here, FixOptions()).plans if plan.steps[0].remedy == "install-ofed"]
    written = [action.content for plan in plans for step in plan.steps for action in step.actions]
    first, *_ = [text for text in written if text]
    assert "kind: NicClusterPolicy" in first and "ofedDriver" in first


def test_a_remedy_that_a_platform_cannot_do_says_why_and_is_in_no_plan():
    here = on(node("ofed-rebuilt"), "talos")
    for name in ("install-ofed", "sign-module", "load-peermem", "rebuild-driver"):
        remedy = remedy_of(name)
        assert means(here, remedy).cannot.startswith("on Talos, ") and not can_do(here, remedy)
    report = fix_report(here, FixOptions())
    steps = [*(step for plan in report.plans for step in plan.steps), *report.further]
    assert steps and all(can_do(here, remedy_of(step.remedy)) for step in steps)


def test_in_a_container_the_owner_of_the_host_is_asked_by_one_sentence():
    report = fix_report(on(node("ofed-rebuilt"), "container"), FixOptions())
    assert report.ask.startswith("On the host of my container") and " Please " in report.ask
    assert "gdr collect" in report.ask and report.node.platform == "container"
    for step in report.plans[0].steps:
        (action,) = step.actions
        assert action.commands == ("gdr collect",) and step.undo == "ask the same person to undo it"
    assert fix_report(on(node("ofed-rebuilt"), "rhel"), FixOptions()).ask == ""


def test_the_files_of_an_image_do_not_make_a_container_a_host():
    talos = on(node("ofed-rebuilt"), "talos")
    assert platform_of(talos) == "talos" and platform_of(on(talos, "container")) == "container"


def test_every_platform_can_do_something_about_the_driver():
    """A platform where nothing can be done would be a row that was forgotten."""
    for name in SETTINGS:
        here = on(node("dgx-a100-proprietary"), name)
        assert any(can_do(here, remedy) for remedy in every_remedy() if remedy.changes == "driver"), name


@pytest.mark.parametrize("name", ["talos", "fedora-coreos", "flatcar", "bottlerocket", "sl-micro"])
@pytest.mark.parametrize(
    ("remedy", "words"),
    [("allow-peer-mapping", "PeerMappingOverride=1"), ("iommu-passthrough", "iommu=pt")],
)
def test_an_image_is_given_the_options_and_arguments_that_a_remedy_sets(name, remedy, words):
    """The walk knows what must not be said; a remedy that is offered nowhere would pass it."""
    here = on(node("iommu-translating"), name)
    assert can_do(here, remedy_of(remedy))
    (action,) = procedure_for(here, remedy_of(remedy), ProcedureChoices()).actions
    assert words in " ".join((action.what, *action.commands))


@pytest.mark.parametrize("name", ["talos", "bottlerocket", "rhcos", "fedora-coreos", "container"])
def test_a_port_that_is_off_can_be_turned_on_from_every_platform(name):
    (action,) = fix_report(on(node("rail-down"), name), FixOptions()).by_hand
    assert action.line.startswith("port-down: ")
    by_owner = "Ask the owner of the host" in action.line
    assert by_owner if name == "container" else "ibportstate -C mlx5_7 -D 0 1 enable" in action.line


@pytest.mark.parametrize("name", ["fedora-coreos", "flatcar", "sl-micro"])
def test_root_loads_what_the_image_has_and_nothing_else(name):
    """A module in the image is loaded by modprobe; none is installed there, and peermem is always a stub."""
    here = on(node("acs-redirect"), name)
    assert advice_here(here, "driver-not-loaded") == ""  # as the page has it: sudo modprobe nvidia
    absent = Missing("nvidia", MissingReason.ABSENT, "modinfo -n nvidia")
    without = here.after("none in the image", [module_path.becomes(absent, "nvidia")])
    assert "gdr fix --steps" in advice_here(without, "driver-not-loaded")
    assert "sudo modprobe" not in advice_here(here, "peermem-not-loaded")


@pytest.mark.parametrize("name", ["talos", "bottlerocket", "cos"])
def test_an_operator_installs_no_ofed_where_the_system_takes_none(name):
    """What a system lacks, it lacks also where an operator's container installs the driver."""
    here = on(node("gpu-operator-waits"), name).after("operator", [has_driver_container.becomes(True)])
    assert platform_of(here) == "gpu-operator"
    assert not can_do(here, remedy_of("install-ofed")) and can_do(here, remedy_of("use-dmabuf"))
    assert "OFED" not in advice_here(here, "operator-waits-for-ofed")
