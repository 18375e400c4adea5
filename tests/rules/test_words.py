"""One table of lines: what is said is heard, and nothing is heard that was not said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.evidence import Lacks, Missing, Why
from gdrkit.facts.linkage import Links, links
from gdrkit.rules.words import COULD_NOT, WORDS, Words, causes, hear, heard, load_lines, silent
from tests.kernel_tree import KernelTree

FILLING = {
    "index": "295", "count": "40",
    "module": "nvidia_peermem", "symbol": "ib_register_peer_memory_client", "owner": "ib_core",
    "license": "NVIDIA", "what": "module_layout", "parameter": "peerdirect_support", "value": "on",
    "namespace": "DMA_BUF", "found": "6.1 SMP", "wanted": "6.8 SMP", "process": "modprobe", "size": "40",
    "machine": "183", "number": "3", "type": "1", "directory": "/lib/modules/6.1",
    "error": "Invalid argument",
    "place": "", "command": "/bin/false", "status": "1", "pointer": "0x0", "path": "/lib/x.ko",
    "file": "x.ko", "kind": "nc", "oid": "2.16.840.1.101.3.4.2.8",
    "algorithm": "pkcs1pad(rsa,sha1) (pkcs1pad(rsa-generic,sha1))",
}  # fmt: skip
BOOT = "[    0.000000] Linux version 6.1.0-56-amd64 (gcc)\n"


def a_log(*lines: str, whole: bool = True) -> KernelTree:
    tree = KernelTree(complete=False)
    tree.commands[("dmesg",)] = (BOOT if whole else "") + "".join(f"[   10.0] {line}\n" for line in lines)
    return tree


@pytest.mark.parametrize("words", WORDS, ids=lambda words: words.template[:50])
def test_each_line_that_is_said_is_heard_as_itself(words: Words) -> None:
    line = words.say(**FILLING)
    found = hear(f"[   12.345678] {line}")
    assert found is not None
    assert found.words is words
    assert {
        name: value for name, value in FILLING.items() if "{" + name + "}" in words.template
    } == found.values


def test_a_line_on_module_layout_is_of_another_kernel_not_of_another_crc() -> None:
    found = hear("x: disagrees about version of symbol module_layout")
    assert found is not None and found.codes == ("module-wrong-kernel",)


def test_dashes_and_underscores_are_one_name() -> None:
    found = hear("modprobe: ERROR: could not insert 'nvidia-peermem': Exec format error")
    assert found is not None and found.values["module"] == "nvidia_peermem"


def test_invalid_argument_alone_leaves_many_causes_open() -> None:
    assert {"peermem-stub", "module-crc-mismatch", "module-bad-parameter", "init-failed"} <= set(
        causes("Invalid argument")
    )


def test_other_tools_say_the_same_in_other_words() -> None:
    assert causes("Invalid parameters") == causes("Invalid argument") == causes("invalid argument")
    assert causes("No such device") == ("dependency-failed", "init-failed")
    found = hear("systemd-modules-load[300]: Failed to insert module 'nvidia_peermem': Invalid argument")
    assert found is not None and found.values["module"] == "nvidia_peermem"


def test_a_line_of_one_meaning_that_names_the_module_decides() -> None:
    node = a_log("nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client").node()
    found = heard(node, "module-crc-mismatch", "nvidia_peermem")
    assert found is not None and "disagrees" in found.seen
    assert heard(node, "module-crc-mismatch", "nvidia") is None
    assert heard(node, "module-symbol-missing", "nvidia_peermem") is None


def test_a_line_of_several_meanings_decides_nothing() -> None:
    node = a_log("nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -2)").node()
    assert heard(node, "module-symbol-missing", "nvidia_peermem") is None


def test_a_line_that_names_no_module_decides_nothing() -> None:
    node = a_log("Loading of unsigned module is rejected").node()
    assert heard(node, "module-unsigned", "nvidia_peermem") is None


def test_without_a_log_nothing_is_heard() -> None:
    assert heard(KernelTree(complete=False).node(), "module-unsigned", "nvidia_peermem") is None


def test_a_whole_log_without_a_word_is_silent() -> None:
    taint = "nvidia_peermem: loading out-of-tree module taints kernel."
    assert silent(a_log(taint).node(), "nvidia_peermem")


def test_a_refusal_that_may_be_about_the_module_breaks_the_silence() -> None:
    assert not silent(a_log("nvidia_peermem: Unknown symbol x (err -2)").node(), "nvidia_peermem")
    assert not silent(a_log("Loading of unsigned module is rejected").node(), "nvidia_peermem")
    assert silent(a_log("other: Unknown symbol x (err -2)").node(), "nvidia_peermem")


def test_a_log_that_wrapped_is_never_silent() -> None:
    with pytest.raises(Lacks):
        silent(a_log("something else", whole=False).node(), "nvidia_peermem")


def test_the_log_has_nothing_to_say_of_what_a_step_changed() -> None:
    node = a_log("x: disagrees about version of symbol y").node()
    assert load_lines(node)
    after = node.after("rebuild", [links.becomes(Links(), "x")])
    assert heard(after, "module-crc-mismatch", "x") is None
    uncertain = Missing("linkage", Why.STALE, "modinfo x")
    assert heard(node.after("rebuild", [links.becomes(uncertain, "x")]), "module-crc-mismatch", "x") is None


@given(st.text())
def test_any_text_can_be_listened_to(text: str) -> None:
    hear(text)
    hear(COULD_NOT.say(module="x", error=text))
