"""lspci's drawing of the tree, which lspci draws from hex dumps made here."""

import contextlib
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.facts import pci, pci_tree
from gdrkit.facts.pci_tree import TreePosition
from gdrkit.formats.errors import FormatError
from gdrkit.node import Node
from tests.facts.test_pci_text import dump
from tests.facts.test_rdma import TREE
from tests.hardware import SERVER, SPARK, machine
from tests.memory_host import MemoryHost
from tests.system_programs import program

DRAWN = r"""
-+-[0000:15]---01.0-[16-19]----00.0-[17-19]--+-00.0-[18]----00.0  Mellanox Technologies MT2910 [ConnectX-7]
 |                                           \-01.0-[19]--+-00.0  NVIDIA Corporation GH100 [H100 SXM5 80GB]
 |                                                        \-00.1  NVIDIA Corporation Device 22bc
 \-[0000:00]-+-00.0  Intel Corporation Device 09a2
             +-1c.0-[01]--
             \-1f.0  Intel Corporation LPC-01.0-[02] Controller
"""


def test_bridges_are_read_from_the_drawing():
    positions = pci_tree.parse(DRAWN)

    switch = ("0000:15:01.0", "0000:16:00.0")
    assert positions["0000:18:00.0"] == TreePosition("0000:15", (*switch, "0000:17:00.0"))
    assert positions["0000:19:00.1"] == TreePosition("0000:15", (*switch, "0000:17:01.0"))
    assert positions["0000:00:1f.0"] == TreePosition("0000:00", ())
    assert positions["0000:00:1c.0"] == TreePosition("0000:00", ())
    assert len(positions) == 10


@pytest.mark.parametrize("outline", [SERVER, TREE, SPARK], ids=["server", "tree", "spark"])
@pytest.mark.parametrize("names", [["-t"], ["-tv"]], ids=["bare", "with names"])
def test_the_drawing_of_lspci_agrees_with_sysfs(tmp_path, outline, names):
    node = machine(outline)
    dumps = [dump(d.address, node.host.read(f"{pci.ROOT}/{d.address}/config")) for d in pci.devices(node)]
    (tmp_path / "dump").write_text("".join(dumps))
    command = [program("lspci"), "-F", str(tmp_path / "dump"), *names]
    drawn = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert pci_tree.parse(drawn) == {
        d.address: TreePosition(pci.root_bus(node, d.address), pci.bridges_above(node, d.address))
        for d in pci.devices(node)
    }


def test_the_drawing_is_used_where_the_listing_has_no_bus_numbers():
    listing = "19:00.0 3D controller [0302]: NVIDIA Corporation GH100 [10de:2330] (rev a1)\n"
    node = Node(MemoryHost(commands={("lspci", "-nnvvv"): listing, ("lspci", "-tv"): DRAWN}))

    assert pci.bridges_above(node, "0000:19:00.0") == ("0000:15:01.0", "0000:16:00.0", "0000:17:01.0")


@pytest.mark.parametrize("text", ["", "lspci: command not found", "-rw-r--r-- 1 root root 0"])
def test_an_error_message_is_not_a_tree(text):
    with pytest.raises(FormatError):
        pci_tree.parse(text)


@given(st.text(alphabet="-+|\\ []0123:.abf\n", max_size=200))
def test_any_text_gives_positions_or_a_format_error(text):
    with contextlib.suppress(FormatError):
        pci_tree.parse(text)
