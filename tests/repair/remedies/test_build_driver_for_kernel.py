"""A kernel that was upgraded without the driver's modules: everyday, and each way to get them."""

from __future__ import annotations

import pytest

from gdrkit.evidence import EvidenceMissing
from gdrkit.evidence.target import open_host
from gdrkit.facts.driver import DRIVER, driver_flavour, driver_version
from gdrkit.facts.machine import Distribution, distribution
from gdrkit.facts.modules import is_loaded
from gdrkit.facts.packages import DkmsModule, Package, dkms, installed
from gdrkit.facts.secure_boot import signatures_enforced
from gdrkit.node import Node
from gdrkit.repair.platforms.action import AskPerson, RunCommand
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.procedures import procedure_for
from gdrkit.repair.remedies.build_driver_for_kernel import BUILD_DRIVER_FOR_KERNEL
from gdrkit.repair.remedies.plan import plan
from gdrkit.verdict import judge_node
from tests.evidence_nodes import laid_down

KERNEL = "5.15.0-122-generic"
ADDED = DkmsModule("nvidia", "580.95.05", "", "", "added")
ROCKY = Distribution("rocky", "9.6", ("rhel",), "Rocky Linux")


def upgraded(*changes: object) -> Node:
    node = Node(open_host(str(laid_down("kernel-upgraded"))))
    return node.after("derived", changes) if changes else node  # type: ignore[arg-type]


def with_dkms(*packages: str) -> Node:
    names = {name: Package(name, "580.95.05-1", "dpkg") for name in packages}
    return upgraded(dkms.becomes((ADDED,)), installed.becomes(names))


def after(node: Node) -> Node:
    return node.after(BUILD_DRIVER_FOR_KERNEL.name, tuple(BUILD_DRIVER_FOR_KERNEL.effect(node)))


def commands(node: Node) -> list[str]:
    found = procedure_for(node, BUILD_DRIVER_FOR_KERNEL, ProcedureChoices())
    return [" ".join(action.argv) for action in found.actions if isinstance(action, RunCommand)]


def steps(node: Node) -> list[list[str]]:
    return [[step.remedy.name for step in chain] for chain in plan(node, judge_node(node), "nccl")]


def test_modules_of_a_package_come_from_the_package_for_this_kernel():
    node = upgraded()
    assert (driver_flavour(after(node)), driver_version(after(node))) == ("proprietary", "535.183.01")
    assert commands(node) == [
        f"apt-get install -y linux-modules-nvidia-535-server-{KERNEL}",
        "modprobe nvidia",
        "modprobe nvidia_uvm",
    ]
    assert steps(node) == [["build-driver-for-kernel", "open-kernel-modules"]]


@pytest.mark.parametrize(
    ("system", "headers"),
    [(None, f"apt-get install -y linux-headers-{KERNEL}"), (ROCKY, f"dnf install -y kernel-devel-{KERNEL}")],
    ids=["ubuntu", "rocky"],
)
def test_modules_of_dkms_are_built_once_the_headers_are_there(system, headers):
    node = with_dkms("nvidia-dkms-580-open")
    if system is not None:
        node = node.after("elsewhere", [distribution.becomes(system)])
    assert commands(node) == [
        headers,
        f"dkms autoinstall -k {KERNEL}",
        "modprobe nvidia",
        "modprobe nvidia_uvm",
    ]
    assert (driver_flavour(after(node)), driver_version(after(node))) == ("open", "580.95.05")
    assert steps(node) == [["build-driver-for-kernel"]]


def test_the_flavour_is_unknown_where_no_package_names_it():
    with pytest.raises(EvidenceMissing):
        driver_flavour(after(with_dkms()))
    assert driver_flavour(after(with_dkms("nvidia-dkms-580"))) == "proprietary"


def test_nothing_is_promised_where_signatures_are_enforced():
    node = with_dkms("nvidia-dkms-580-open").after("boot", [signatures_enforced.becomes(True)])
    with pytest.raises(EvidenceMissing):
        is_loaded(after(node), DRIVER)
    assert steps(node) == []


def test_it_is_not_possible_without_a_driver_or_with_one_that_fits_or_runs():
    for node in (
        upgraded(dkms.becomes(()), installed.becomes({})),
        Node(open_host(str(laid_down("ofed-rebuilt")))),
        upgraded(is_loaded.becomes(True, DRIVER)),
    ):
        with pytest.raises(EvidenceMissing):
            tuple(BUILD_DRIVER_FOR_KERNEL.effect(node))


def test_without_a_known_driver_a_person_installs_one():
    node = upgraded(dkms.becomes(()), installed.becomes({}))
    found = procedure_for(node, BUILD_DRIVER_FOR_KERNEL, ProcedureChoices())
    assert [type(action) for action in found.actions] == [AskPerson]
