"""Devices of a dump, at the paths of sysfs."""

from __future__ import annotations

import pytest

from gdrkit.evidence.memory_store import MemoryStore
from gdrkit.evidence.sysfs import put_device

REAL = "sys/devices/pci0000:00/0000:01:00.0"


@pytest.mark.parametrize(("size", "known"), [(63, False), (64, True), (256, True)])
def test_only_a_whole_header_gives_the_numbers_of_a_device(size, known):
    store = MemoryStore()
    put_device(store, REAL, (b"\xde\x10\x30\x23" + bytes(252))[:size])
    assert bytes(store.read(f"{REAL}/config")) == (b"\xde\x10\x30\x23" + bytes(252))[:size]
    assert store.entries.get(f"{REAL}/vendor") == (b"0x10de\n" if known else None)
