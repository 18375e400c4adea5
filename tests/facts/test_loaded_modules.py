"""Loaded modules."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.evidence import EvidenceAbsent, EvidenceMissing, MissingReason
from gdrkit.facts.loaded_modules import is_loaded, loaded, parse, running
from gdrkit.formats.errors import FormatError
from gdrkit.node import Node
from tests.memory_host import MemoryHost

LINES = (
    "nvidia_uvm 1830912 0 - Live 0xffffffffc0a00000 (OE)\n"
    "nvidia 14299136 2 nvidia_uvm,nvidia_peermem, Live 0xffffffffc1000000 (POE)\n"
    "ib_core 462848 9 rdma_cm,[permanent], Live 0xffffffffc0500000\n"
    "slow 100 1 - Loading 0xffffffffc0500000 (O+)\n"
)


def test_a_line_has_size_references_users_state_and_taint() -> None:
    modules = parse(LINES)
    assert modules["nvidia"].taint == "POE"
    assert modules["nvidia"].users == ("nvidia_uvm", "nvidia_peermem")
    assert modules["ib_core"].users == ("rdma_cm",)
    assert modules["ib_core"].taint == ""
    assert modules["slow"].taint == "O"


def test_a_kernel_that_cannot_unload_modules_counts_no_references() -> None:
    """As on the H200s of h200-collected: Linux kernel/module/procfs.c, print_unload_info()."""
    line = "nvidia_uvm 1830912 - - Live 0xffffffffc080c000 (O)\n"

    assert parse(line)["nvidia_uvm"].references is None
    assert is_loaded(Node(MemoryHost({"proc/modules": line})), "nvidia_uvm")
    with pytest.raises(FormatError):
        parse(line.replace(" - -", " x -"))


def test_a_module_that_is_still_loading_is_not_loaded() -> None:
    node = Node(MemoryHost({"proc/modules": LINES}))
    assert is_loaded(node, "nvidia-uvm")
    assert not is_loaded(node, "slow")
    assert not is_loaded(node, "nvidia_peermem")


def test_sysfs_answers_where_proc_modules_is_missing() -> None:
    node = Node(MemoryHost({"sys/module/nvidia/initstate": "live\n"}, absent={"sys/module/x/initstate"}))
    assert is_loaded(node, "nvidia")
    assert not is_loaded(node, "x")
    with pytest.raises(EvidenceMissing):
        is_loaded(node, "y")


OTHERS = "slow 100 1 - Live 0xffffffffc0500000\n"


@pytest.mark.parametrize("listed", ["", OTHERS])
@pytest.mark.parametrize("sign", ["sys/module/nvidia/initstate", "proc/driver/nvidia/version"])
def test_a_list_that_another_file_contradicts_shows_nothing(listed: str, sign: str) -> None:
    """As in a tree whose files in /proc were copied by their size, which is 0."""
    node = Node(MemoryHost({"proc/modules": listed, sign: "live\n"}, complete=True))

    with pytest.raises(EvidenceMissing) as raised:
        loaded(node)
    assert (
        raised.value.missing.why is MissingReason.GARBLED and f"/{sign} is there" in raised.value.missing.ask
    )


def test_sysfs_answers_where_the_list_is_contradicted() -> None:
    signs = {"sys/module/nvidia/initstate": "live\n", "sys/module/mlx5_core/uevent": ""}
    node = Node(MemoryHost({"proc/modules": OTHERS, **signs}, complete=True))
    assert is_loaded(node, "nvidia") and not is_loaded(node, "mlx5_core")

    alone = Node(MemoryHost({"proc/modules": OTHERS, "proc/driver/nvidia/version": "x"}, complete=True))
    with pytest.raises(EvidenceMissing):  # nothing shows either
        is_loaded(alone, "nvidia")


@pytest.mark.parametrize(
    "sign", ["sys/module/nvidia/parameters/x", "sys/module/kernel/initstate", "dev/nvidia0"]
)
def test_a_list_without_the_driver_stands_beside_what_does_not_contradict_it(sign: str) -> None:
    """A module that is built in has parameters, and a file in /dev outlives its module."""
    node = Node(MemoryHost({"proc/modules": OTHERS, sign: ""}, complete=True))

    assert not is_loaded(node, "nvidia") and set(loaded(node)) == {"slow"}


def test_a_kernel_without_loaded_modules_has_an_empty_list() -> None:
    assert loaded(Node(MemoryHost({"proc/modules": ""}))) == {}


def test_a_running_module_shows_its_readable_parameters() -> None:
    folder = "sys/module/nvidia_peermem"
    files = {
        f"{folder}/version": "580.65.06\n",
        f"{folder}/srcversion": "ABCDEF\n",
        f"{folder}/refcnt": "3\n",
        f"{folder}/parameters/peerdirect_support": "0\n",
    }
    found = running(Node(MemoryHost(files, complete=True)), "nvidia-peermem")
    assert (found.version, found.reference_count) == ("580.65.06", 3)
    assert found.parameters == {"peerdirect_support": "0"}


def test_a_module_that_is_not_loaded_is_absent() -> None:
    with pytest.raises(EvidenceAbsent):
        running(Node(MemoryHost(complete=True)), "nvidia")


@given(st.text())
def test_any_text_is_a_list_of_modules_or_none(text: str) -> None:
    with contextlib.suppress(FormatError):
        parse(text)
