"""A search in lsmod that finds nothing shows that the module is not loaded, if the text shows it whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.explain.lines.blocks import blocks
from gdrkit.explain.lines.transcript import read
from gdrkit.explain.outputs.absent_modules import absent_modules
from tests.explain.explaining import explained

HEAD = "Module                  Size  Used by\n"
UNAME = "root@alpha:~# uname -r\n6.8.0-90-generic\n"


def absent(text: str) -> set[str]:
    return set(absent_modules(blocks(read(text))))


@pytest.mark.parametrize(
    "search",
    [
        "lsmod | grep nvidia_peermem",
        "lsmod | grep -i peermem",
        "lsmod|grep peer",
        "sudo lsmod | grep -E 'nvidia_peermem|xyz'",
        "lsmod | grep 'nv_peer\\|nvidia_peer'",
        "lsmod | grep -E 'peer_?mem'",
        "lsmod | grep -i -E 'peer|gdrdrv'",
        "cat /proc/modules | grep nvidia_peermem",
        "grep nvidia_peermem /proc/modules",
    ],
)
@pytest.mark.parametrize(
    "end",
    [
        "root@alpha:~# ",
        "root@alpha:~# date",
        "(no output)\n",
        "nothing",
        "# returns nothing\n",
        "\n\nroot@alpha:~# \n",
    ],
)
def test_a_search_that_finds_nothing_shows_an_absence(search, end):
    assert "nvidia_peermem" in absent(f"{UNAME}root@alpha:~# {search}\n{end}")


def test_an_empty_prompt_after_the_search_shows_that_it_was_run():
    assert "nvidia_peermem" in absent("$ lsmod | grep nvidia_peermem\n$ \n")


@pytest.mark.parametrize(
    "text",
    [
        f"{UNAME}root@alpha:~# lsmod | grep nvidia_peermem\n",  # the text ends
        f"{UNAME}root@alpha:~# lsmod | grep nvidia_peermem\nso what now, is it there?\n",
        f"{UNAME}root@alpha:~# lsmod | grep mlx5\nroot@alpha:~# date\n",
        f"{UNAME}root@alpha:~# lsmod | grep -v nvidia_peermem\nroot@alpha:~# date\n",
        f"{UNAME}root@alpha:~# lsmod | grep nvidia_peermem | head -1\nroot@alpha:~# date\n",
        f"{UNAME}root@alpha:~# lsmod | grep nvidia_peermem\nnvidia_peermem 16384 0\nroot@alpha:~# date\n",
        "$ sudo modprobe nvidia-peermem\n$ lsmod | grep nvidia_peermem\n$ ibv_devinfo\n",  # commands to run
        f"{UNAME}root@alpha:~# lsmod | grep '(a+)+peermem'\nroot@alpha:~# date\n",
    ],
)
def test_other_searches_show_none(text):
    assert absent(text) == set()


NVSHMEM_FAILS = (
    "/nvshmem_src/src/modules/transport/common/transport_ib_common.cpp:114: NULL value"
    " mem registration failed{}\n"
    "/nvshmem_src/src/host/mem/mem_heap.cpp:510: non-zero status: 7 transport get memhandle failed\n"
)


def test_a_whole_listing_without_the_module_shows_an_absence():
    listing = f"root@alpha:~# lsmod\n{HEAD}nvidia 1000000 4\nib_core 50000 2\n"

    assert absent(f"{listing}root@alpha:~# date\n") == {"nvidia_peermem", "nv_peer_mem"}
    assert absent(f"{listing}...\nroot@alpha:~# date\n") == set()
    assert absent(f"{listing}{NVSHMEM_FAILS}") == {"nvidia_peermem", "nv_peer_mem"}
    assert absent(f"{listing}nvidia_peermem 16\n{NVSHMEM_FAILS}") == set()
    assert absent(listing) == set()


def test_rows_of_the_search_that_do_not_have_the_module_show_its_absence():
    assert absent(
        "root@alpha:~# lsmod | grep nvidia\nnvidia_uvm 1000 0\nnvidia 5000 1\nroot@alpha:~# \n"
    ) == {"nvidia_peermem"}


def test_an_absence_shows_that_the_module_is_not_loaded_and_not_that_it_matters():
    text = f"{UNAME}root@alpha:~# lsmod | grep nvidia_peermem\nroot@alpha:~# date\nMon Mar 2\n"
    (machine,) = explained(text).machines

    assert [found.code for found in machine.notes] == ["peermem-not-loaded"]
    assert machine.established == ()
    assert "nvidia_peermem: not loaded" in [f"{fact.name}: {fact.value}" for fact in machine.known]


def test_a_module_that_is_loaded_later_is_loaded():
    text = (
        f"{UNAME}root@alpha:~# lsmod | grep nvidia_peermem\nroot@alpha:~# modprobe nvidia-peermem\n"
        "root@alpha:~# lsmod | grep nvidia_peermem\nnvidia_peermem 16384 0\nroot@alpha:~# \n"
    )
    (machine,) = explained(text).machines

    assert machine.established == ()


@given(st.text(alphabet="lsmod |grep'\"-iE?\\^$nvidia_peerm"))
def test_any_search_can_be_read(pattern):
    absent(f"$ uname -r\n6.8.0\n$ lsmod | grep {pattern}\n$ date\n")


@pytest.mark.parametrize(("count", "modules"), [("0", {"nvidia_peermem", "nv_peer_mem"}), ("1", set())])
def test_a_count_of_no_rows_shows_that_a_module_is_not_loaded(count: str, modules: set[str]):
    assert absent(f"root@alpha:~# lsmod | grep -c peer\n{count}\n{UNAME}") == modules


LEGACY = """\
# lsmod | grep nv_peer
#
# modinfo {0}
filename:       /lib/modules/4.15.0-46-generic/updates/dkms/{1}.ko
name:           {0}
vermagic:       4.15.0-46-generic SMP mod_unload
"""


def test_nv_peer_mem_that_is_installed_and_not_loaded_is_named():
    """Mellanox/nv_peer_memory issue 46: nothing loads it at boot."""
    found = explained(LEGACY.format("nv_peer_mem", "nv_peer_mem")).answer
    assert found.sentence.startswith("nv_peer_mem is installed, but not loaded.")
    assert found.now[0].startswith("Run `sudo modprobe nv_peer_mem`")


def test_a_module_whose_file_is_shown_is_installed_and_else_it_is_not_known():
    text = LEGACY.replace("nv_peer", "nvidia_peer", 1)
    found = explained(text.format("nvidia_peermem", "nvidia-peermem")).answer
    assert found.sentence.startswith("nvidia-peermem is installed, but not loaded.")
    alone = explained("# lsmod | grep peermem\n#\n# uname -r\n4.15.0-46-generic\n").answer
    assert "neither whether it is installed" in alone.sentence


def test_nv_peer_mem_beside_an_nvidia_peermem_that_is_loaded_is_not_missed():
    loaded = "# lsmod | grep nvidia_peermem\nnvidia_peermem         16384  0\n"
    found = explained(loaded + LEGACY.format("nv_peer_mem", "nv_peer_mem"))
    assert not any(machine.established or machine.notes for machine in found.machines)


@pytest.mark.parametrize("error", [".", " ", ". Reason: Invalid argument", ". Reason: Bad address"])
def test_nvshmem_that_cannot_register_memory_lacks_the_module_that_is_not_loaded(error: str):
    """Azure/azhpc-images issue 316; NVSHMEM's FAQ."""
    fails = NVSHMEM_FAILS.format(error)
    listing = "root@alpha:~# lsmod | grep nv\nnvidia_uvm 1376256 0\nnvidia 56467456 106 nvidia_uvm,gdrdrv\n"
    for text in (f"{listing}{fails}", f"root@alpha:~# ./job\n{fails}{listing}root@alpha:~# \n"):
        assert explained(text).answer.cause == "peermem-not-loaded"
    loaded = listing.replace("nvidia_uvm 1376256 0", "nvidia_peermem 16384 0")
    assert explained(f"{loaded}{fails}").answer.cause != "peermem-not-loaded"
