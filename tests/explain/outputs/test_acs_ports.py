"""Ports that redirect, with the tree that shows what is below them."""

from __future__ import annotations

import pytest

from gdrkit.explain.text import text as as_text
from tests.explain.explaining import explained

TREE = """\
$ lspci -tv -s 40:
-[0000:40]---01.1-[41-44]----00.0-[42-44]--+-08.0-[43]----00.0  NVIDIA Corporation GH100 [H100 SXM5 80GB]
                                           \\-10.0-[44]----00.0  Mellanox Technologies MT2910 Family [CX-7]
"""
PORT = (
    "$ lspci -vvv -s {0}\n{0} PCI bridge: Broadcom / LSI PEX890xx PCIe Gen 5 Switch (rev b0)\n"
    "\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir{1} CmpltRedir{1} UpstreamFwd{1} EgressCtrl- DirectTrans-\n"
)


def test_a_redirecting_port_between_a_gpu_and_a_nic_is_named():
    found = explained(TREE + PORT.format("42:08.0", "+"))

    assert (found.answer.cause, str(found.answer.sureness)) == ("acs-redirect", "likely")
    assert "port 0000:42:08.0 is between a GPU and a NIC" in as_text(found)


def test_every_redirecting_port_on_the_way_is_named():
    found = as_text(explained(TREE + PORT.format("42:08.0", "+") + PORT.format("42:10.0", "+")))

    assert "ports 0000:42:08.0, 0000:42:10.0 are between GPUs and NICs" in " ".join(found.split())


def test_the_bits_behind_an_address_are_those_of_that_port():
    bits = "$ for b in $(lspci | cut -d' ' -f1); do\n{0} \t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+\n"
    assert explained(TREE + bits.format("42:08.0")).answer.cause == "acs-redirect"
    assert explained(TREE + bits.format("41:00.0")).answer.cause is None


def test_a_port_that_redirects_above_both_or_elsewhere_need_not_matter():
    for text in (TREE + PORT.format("41:00.0", "+"), PORT.format("42:08.0", "+")):
        found = explained(text).answer
        assert found.cause is None
        assert [other.code for other in found.others] == ["acs-redirect"]


def test_a_port_that_does_not_redirect_is_right():
    assert explained(TREE + PORT.format("42:08.0", "-")).answer.others == ()


@pytest.mark.parametrize("typed", ["# gpu300: sudo lspci -vvv | grep ACSCtl\n", "$ sudo lspci -vvv\n", ""])
def test_without_a_tree_the_ports_are_named_and_the_tree_is_the_next_step(typed: str):
    """What the text shows already is not asked for again."""
    ports = "".join(PORT.format(address, "+").partition("\n")[2] for address in ("15:01.0", "17:02.0"))
    found = explained(typed + ports + PORT.format("18:00.0", "-").partition("\n")[2])

    assert found.answer.sentence.endswith(": 0000:15:01.0, 0000:17:02.0.")
    assert found.answer.now[0].startswith("`lspci -tv` shows")
    assert found.question is None


def test_bits_without_an_address_name_no_port():
    found = explained(
        "$ sudo lspci -vvv | grep ACSCtl\n\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+\n"
    )

    assert [one.code for one in found.answer.others] == ["acs-redirect"]
    assert "0000:" not in found.answer.sentence
