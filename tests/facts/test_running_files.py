"""What is asked for where no file on disk is the module that runs: a command, never prose."""

from __future__ import annotations

import pytest

from gdrkit.evidence import EvidenceMissing
from gdrkit.facts.running_files import OPENIBD, loaded_path, running_file
from tests.kernel_tree import KernelTree


@pytest.mark.parametrize("module", ["ib_core", "nvidia"])
def test_what_a_running_module_can_do_is_asked_without_a_restart(module: str) -> None:
    tree = KernelTree().module(module, modinfo={"srcversion": "NEW"}, loaded="").put(OPENIBD, "")
    with pytest.raises(EvidenceMissing) as raised:
        loaded_path(tree.node(), module)

    assert raised.value.missing.ask == "gdr probe memory"
    assert "install" not in raised.value.missing.source


@pytest.mark.parametrize("folder", ["weak-updates/mlnx-ofa_kernel", "extra/doca", "updates/mlnx-ofa_kernel"])
def test_the_file_of_another_ofed_is_found_in_the_folder_of_its_package(folder):
    """Two OFEDs side by side: the one that runs lies deep below the folder of its package."""
    inner = "drivers/infiniband/core"
    tree = KernelTree().module("ib_core", at=f"kernel/{inner}", intree=True, modinfo={"srcversion": "OWN"})
    order = tree.path("ib_core").rpartition("kernel/")[0] + "modules.order"
    tree.put(order, f"kernel/{inner}/ib_core.ko\n")
    tree.module("ib_core", at=f"{folder}/{inner}", modinfo={"srcversion": "OLD"})
    former = tree.path("ib_core")
    tree.module("ib_core", at=f"extra/newer/{inner}", modinfo={"srcversion": "NEW"}, loaded="O")
    tree.put("sys/module/ib_core/srcversion", "OLD\n")

    found = running_file(tree.node(), "ib_core")
    assert (found.path, found.differs != "") == (former, True)
