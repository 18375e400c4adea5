"""Symbols of nvidia-peermem's file in a pasted text."""

from __future__ import annotations

import pytest

from gdrkit.explain.explain import explain
from gdrkit.explain.outputs.pasted_host import PastedHost

PROMPT = "root@node7:~# "
REFUSED = (
    f"{PROMPT}modprobe nvidia-peermem\n"
    "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument\n"
)
FILE = "/lib/modules/6.8.0-45-generic/updates/dkms/nvidia-peermem.ko"
SYMBOLS = "0000000000000000 T cleanup_module\n0000000000000000 T init_module\n                 U _printk\n"
CALL = "                 U ib_register_peer_memory_client\n"


@pytest.mark.parametrize(
    ("command", "output"),
    [
        (f"nm {FILE}", SYMBOLS),
        (f"nm {FILE} | grep ib_register", ""),
        (f"strings {FILE} | grep peer_memory_client", ""),
    ],
)
def test_a_file_without_the_call_is_a_stub(command, output):
    found = explain(PastedHost(f"{PROMPT}{command}\n{output}{REFUSED}"))

    assert found.answer.cause == "peermem-stub"
    assert [one.line for one in found.machines[0].established[0].proofs] == [1]


@pytest.mark.parametrize(
    ("command", "output"),
    [
        (f"nm {FILE}", SYMBOLS + CALL),
        (f"strings {FILE} | grep ib_register", CALL),
    ],
)
def test_a_file_with_the_call_is_none(command, output):
    found = explain(PastedHost(f"{PROMPT}{command}\n{output}{REFUSED}"))

    assert "peermem-stub" in found.machines[0].cleared
    assert "peermem-stub" not in (found.answer.cause, *(one.code for one in found.answer.others))


@pytest.mark.parametrize(
    ("command", "output"),
    [
        (f"nm {FILE}.zst | grep ib_register", ""),  # compressed: nothing is found
        ("nm nvidia-peermem.ko", SYMBOLS),  # it may be another one than modprobe's
        (f"nm {FILE} 2>/dev/null | grep ib_register", ""),  # it may not be there
        (f"nm {FILE} | grep rdma_", ""),  # a search for something else
        (f"nm {FILE}", "                 U _printk\n"),  # an excerpt
        (f"nm {FILE}", "nm: 'nvidia-peermem.ko': No such file\n"),
    ],
)
def test_what_does_not_show_the_symbols_proves_nothing(command, output):
    found = explain(PastedHost(f"{PROMPT}{command}\n{output}{REFUSED}"))

    assert not found.machines[0].established
    assert "peermem-stub" not in found.machines[0].cleared


# -- nvidia-fs -----------------------------------------------------------------------------------------

STRINGS = f"{PROMPT}strings /lib/modules/6.8.0/extra/nvidia-fs.ko | grep nvfs_dma\n{{}}\n"
KALLSYMS = f"{PROMPT}grep nvfs_dma_ops /proc/kallsyms\nffffffffc0a3c3d0 t {{}}\t[nvme]\n"
FIRST, SECOND = "nvme_v1_register_nvfs_dma_ops", "nvme_v2_register_nvfs_dma_ops"


def test_a_symbol_that_the_storage_module_has_under_another_version_is_the_cause():
    found = explain(PastedHost(STRINGS.format(FIRST) + KALLSYMS.format(SECOND))).answer
    assert (found.cause, str(found.sureness)) == ("nvidia-fs-symbols-missing", "certain")


@pytest.mark.parametrize(
    "text",
    [
        STRINGS.format(FIRST) + KALLSYMS.format(FIRST),
        STRINGS.format(f"{FIRST}\n{SECOND}") + KALLSYMS.format(SECOND),
        STRINGS.format("rpcrdma_register_nvfs_dma_ops") + KALLSYMS.format(SECOND),
        STRINGS.format(FIRST),
        KALLSYMS.format(SECOND),
        STRINGS.format(FIRST).replace("nvidia-fs", "other") + KALLSYMS.format(SECOND),
    ],
)
def test_the_same_version_and_another_module_s_symbol_show_nothing(text: str):
    assert explain(PastedHost(text)).answer.cause is None
