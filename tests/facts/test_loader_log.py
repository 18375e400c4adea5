"""Lines about modules in the kernel's log, and when the log shows that there is none."""

from __future__ import annotations

import pytest

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.facts.linkage import Links, symbol_links
from gdrkit.facts.loader_log import load_lines, silent
from gdrkit.rules.engine import judge, logged_failure
from gdrkit.rules.ofed_multiple_dkms import ofed_multiple_dkms
from gdrkit.rules.rule import Unknown
from tests.kernel_tree import KernelTree

BOOT = "[    0.000000] Linux version 6.1.0-56-amd64 (gcc)\n"


def a_log(*lines: str, whole: bool = True) -> KernelTree:
    tree = KernelTree(complete=False)
    tree.commands[("dmesg",)] = (BOOT if whole else "") + "".join(f"[   10.0] {line}\n" for line in lines)
    return tree


def test_a_line_of_one_meaning_that_names_the_module_decides() -> None:
    node = a_log("nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client").node()
    found = logged_failure(node, "module-crc-mismatch", "nvidia_peermem")
    assert found is not None and "disagrees" in found.seen
    assert logged_failure(node, "module-crc-mismatch", "nvidia") is None
    assert logged_failure(node, "module-symbol-missing", "nvidia_peermem") is None


def test_a_line_of_several_meanings_decides_nothing() -> None:
    node = a_log("nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -2)").node()
    assert logged_failure(node, "module-symbol-missing", "nvidia_peermem") is None


def test_a_line_that_names_no_module_decides_nothing() -> None:
    node = a_log("Loading of unsigned module is rejected").node()
    assert logged_failure(node, "module-unsigned", "nvidia_peermem") is None


def test_without_a_log_there_are_no_lines() -> None:
    assert logged_failure(KernelTree(complete=False).node(), "module-unsigned", "nvidia_peermem") is None


def test_a_complete_log_without_a_line_is_silent() -> None:
    taint = "nvidia_peermem: loading out-of-tree module taints kernel."
    assert silent(a_log(taint).node(), "nvidia_peermem")


def test_a_refusal_that_may_concern_the_module_is_not_silence() -> None:
    assert not silent(a_log("nvidia_peermem: Unknown symbol x (err -2)").node(), "nvidia_peermem")
    assert not silent(a_log("Loading of unsigned module is rejected").node(), "nvidia_peermem")
    assert silent(a_log("other: Unknown symbol x (err -2)").node(), "nvidia_peermem")


def test_a_refusal_in_an_old_kernels_wording_is_not_silence() -> None:
    """Linux 3.10 prints `(err 0)` for a symbol that nothing exports."""
    assert not silent(a_log("nvidia_peermem: Unknown symbol x (err 0)").node(), "nvidia_peermem")


def test_a_drivers_line_about_a_buffer_does_not_concern_loading() -> None:
    """A driver that refuses a mapping was loaded, so the log still has no line on its loading."""
    refused = "NVRM: dma-buf attach failed: PCI topology not supported for dma-buf"
    assert load_lines(a_log(refused).node()) == ()
    assert silent(a_log(refused).node(), "nvidia_peermem")


def test_a_log_that_lost_its_beginning_is_never_silent() -> None:
    with pytest.raises(EvidenceMissing):
        silent(a_log("something else", whole=False).node(), "nvidia_peermem")


def test_the_log_is_stale_for_what_a_step_changed() -> None:
    node = a_log("x: disagrees about version of symbol y").node()
    assert load_lines(node)
    after = node.after("rebuild", [symbol_links.becomes(Links(), "x")])
    assert logged_failure(after, "module-crc-mismatch", "x") is None
    uncertain = Missing("linkage", MissingReason.STALE, "modinfo x")
    assert (
        logged_failure(
            node.after("rebuild", [symbol_links.becomes(uncertain, "x")]), "module-crc-mismatch", "x"
        )
        is None
    )


def test_the_log_is_no_evidence_for_a_rule_that_is_not_about_loading() -> None:
    """No line of the loader has its code for a cause."""
    node = a_log("usb 1-1: new device").node()
    assert isinstance(judge(node, ofed_multiple_dkms, "node"), Unknown)
    assert "dmesg" not in {source.name for source in node.trail(judge, ofed_multiple_dkms, "node").sources}
