"""What runs is not what lies on disk: machines whose loaded modules are of another build."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from typing import Any

import pytest

from gdrkit.evidence.target import open_host
from gdrkit.facts.kernel_symbols import lists_modules
from gdrkit.facts.modules import module_path, replaced
from gdrkit.facts.peer_memory import peer_api_exporter, peer_api_waits_in
from gdrkit.facts.running_files import RunningFile, running_file
from gdrkit.loader import modprobe
from gdrkit.node import Node
from gdrkit.rules.engine import judge
from gdrkit.rules.module_symbols import module_crc_mismatch, module_symbol_missing
from gdrkit.rules.ofed_rebuilt_after_driver import ofed_rebuilt_after_driver
from gdrkit.rules.rdma_lacks_peer_api import rdma_lacks_peer_api
from gdrkit.rules.rule import Failed, Outcome, Passed, Unknown
from tests.evidence_builder import node as nodes
from tests.evidence_nodes import FOLDER

OLD, NEW = "24.04-0.6.6", "24.10-0.7.0"
MODULES = "lib/modules/5.14.0-427.13.1.el9_4.x86_64"
OFED = f"{MODULES}/extra/mlnx-ofa_kernel"
UVERBS = f"{OFED}/drivers/infiniband/core/ib_uverbs.ko.xz"


WITHOUT_LOG = {"log": {"lines": []}, "kernel": {"symvers": f"{MODULES}/symvers.gz"}}


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A function that returns ofed-rebuilt with changed tables, and without its log of a refusal."""

    def made(**changes: Mapping[str, Any]) -> Node:
        folder = tmp_path / "ofed-rebuilt"
        folder.mkdir()
        shutil.copy(FOLDER / "ofed-rebuilt" / "node.toml", folder)
        shutil.copy(FOLDER / "presets.toml", tmp_path)
        spec = nodes.merge(nodes.load(folder), {**WITHOUT_LOG, **changes})
        monkeypatch.setattr(nodes, "load", lambda folder: spec)
        return Node(open_host(str(nodes.write(folder, tmp_path))))

    return made


FOR_NEW = {"peermem_against": {"ib_uverbs": f"ofed-{NEW}"}}
NOT_THE_FILE = "the running {} is not the file on disk"


def outcomes(node: Node) -> tuple[Outcome, Outcome]:
    """Whether a symbol is missing, and whether one has another CRC."""
    found = [judge(node, rule, "nvidia_peermem") for rule in (module_symbol_missing, module_crc_mismatch)]
    return found[0], found[1]


def test_ofed_is_installed_and_the_kernels_own_stack_runs(machine):
    """The initramfs brought the inbox modules: the files would fit, what runs has no peer-memory API."""
    node = machine(rdma={"loaded_from": "inbox"}, driver=FOR_NEW)
    found = modprobe(node, "nvidia_peermem")

    assert (found.exit_code, found.reason) == (1, "module-symbol-missing")
    assert "nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -2)" in found.kernel_log
    assert peer_api_exporter(node) == ""
    missing = judge(node, module_symbol_missing, "nvidia_peermem")
    for outcome in (judge(node, rdma_lacks_peer_api, "node"), missing):
        assert isinstance(outcome, Failed)
        assert outcome.seen.endswith(
            "the file of ib_uverbs on disk does, but another build runs: restart openibd or reboot"
        )


def test_once_the_files_run_the_symbols_are_there(machine):
    node = machine(rdma={"loaded_from": "inbox"}, driver=FOR_NEW)
    modules = [name for name in ("ib_core", "ib_uverbs") if replaced(node, name)]
    after = node.after(
        "restart OFED",
        [
            lists_modules.becomes(False),  # kallsyms is that of the former stack
            *(running_file.becomes(RunningFile(module_path(node, name)), name) for name in modules),
        ],
    )

    assert peer_api_waits_in(node) == "ib_uverbs"
    assert (peer_api_exporter(after), peer_api_waits_in(after)) == ("ib_uverbs", "")
    assert isinstance(judge(after, module_symbol_missing, "nvidia_peermem"), Passed)


@pytest.mark.parametrize("built_for", [OLD, NEW])
def test_ofed_was_rebuilt_and_the_old_build_runs(machine, built_for):
    """No file has the checksums of what runs: those of the file do not decide."""
    node = machine(rdma={"running": OLD}, driver={"peermem_against": {"ib_uverbs": f"ofed-{built_for}"}})

    for outcome in outcomes(node):
        assert isinstance(outcome, Unknown)
    later = judge(node, ofed_rebuilt_after_driver, "nvidia_peermem")
    if built_for == OLD:  # the files decide what the next boot does, and close no path now
        assert isinstance(later, Failed) and later.takes == ()
        assert later.cost == "After the next boot it cannot load."
    else:
        assert isinstance(later, Unknown)
    assert outcomes(node)[0].missing.source.startswith(NOT_THE_FILE.format("ib_uverbs"))
    assert outcomes(node)[0].missing.ask == "gdr probe memory"  # it has no openibd
    assert peer_api_exporter(node) == "ib_uverbs"
    assert modprobe(node, "nvidia_peermem").unless


def test_ofed_was_removed_and_still_runs(machine):
    node = machine(rdma={"running": OLD, "ofed": ""})

    assert peer_api_exporter(node) == "ib_uverbs"
    assert isinstance(outcomes(node)[0], Unknown)


def test_the_file_of_a_loaded_module_is_gone(machine):
    node = machine(driver=FOR_NEW, drop=[UVERBS])

    assert running_file(node, "ib_uverbs") == RunningFile("", "its file is gone")
    assert peer_api_exporter(node) == "ib_uverbs"
    assert isinstance(outcomes(node)[0], Unknown) and isinstance(outcomes(node)[1], Unknown)


def test_the_driver_was_updated_and_the_old_one_runs(machine):
    node = machine(driver={**FOR_NEW, "running": "535.183.01"})

    assert isinstance(outcomes(node)[1], Unknown)
    assert outcomes(node)[1].missing.source.startswith(NOT_THE_FILE.format("nvidia"))
    assert outcomes(node)[1].missing.ask == "gdr probe memory"


def test_what_runs_is_the_file_where_nothing_was_changed(machine):
    node = machine(driver=FOR_NEW)

    assert all(isinstance(outcome, Passed) for outcome in outcomes(node))
    assert running_file(node, "ib_uverbs").differs == ""
