"""The output of modinfo, used where the module's file was not collected."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.evidence import EvidenceMissing, MissingReason
from gdrkit.facts.modinfo_text import modinfo, parse, printed_module
from gdrkit.facts.peer_memory import peermem_linkage
from gdrkit.formats.errors import FormatError
from gdrkit.node import Node
from tests.memory_host import MemoryHost

TEXT = """\
filename:       /lib/modules/6.8.0/updates/dkms/nvidia-peermem.ko.zst
version:        580.95.05
depends:        {depends}
parm:           peerdirect_support:Set level of support (int)
"""


def a_node(text: str) -> Node:
    return Node(MemoryHost(commands={modinfo("nvidia_peermem").argv: text}))


def test_the_fields_of_each_module_are_separate():
    first, second = parse(
        TEXT.format(depends="nvidia,ib_uverbs") + "filename: /lib/x/mlx5-ib.ko\nname: mlx5_ib\n"
    )

    assert (first.name, second.name) == ("nvidia_peermem", "mlx5_ib")
    assert first.depends == ("nvidia", "ib_uverbs")
    assert second.depends is None


@pytest.mark.parametrize(("depends", "uses"), [("", False), ("nvidia,ib_core", True)])
def test_an_empty_depends_is_a_stub(depends, uses):
    assert peermem_linkage(a_node(TEXT.format(depends=depends))).uses_peer_api is uses


def test_an_excerpt_without_depends_leaves_it_unknown():
    with pytest.raises(EvidenceMissing) as error:
        peermem_linkage(a_node("filename: /lib/modules/6.8.0/nvidia-peermem.ko\nversion: 580\n"))
    assert error.value.missing.why is MissingReason.NOT_COLLECTED


def test_a_module_that_is_not_printed_is_not_collected():
    host = MemoryHost(
        {"sos_commands/kernel/modinfo_ALL_MODULES": "filename: /lib/modules/6.8.0/ib_core.ko\n"}
    )
    with pytest.raises(EvidenceMissing):
        printed_module(Node(host), "nvidia_peermem")


@pytest.mark.parametrize(("line", "signed"), [("signer: Canonical", True), ("signer:", False), ("", False)])
def test_a_signature_shows_by_its_signer(line, signed):
    (module,) = parse(TEXT.format(depends="") + line + "\n")

    assert module.signed is signed


@given(st.text())
def test_any_text_gives_modules_or_a_format_error(text):
    with contextlib.suppress(FormatError):
        assert parse(text)
