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


@pytest.mark.parametrize("kind", [0x00, 0x80, 0x01, 0x81])
def test_each_number_of_a_device_is_at_its_offset(kind):
    """0x80 is the bit of a device with several functions; a bridge has no subsystem here."""
    config = bytes(range(14)) + bytes((kind,)) + bytes(range(15, 64))
    store = MemoryStore()
    put_device(store, REAL, config)
    expected = {"vendor": "0x0100", "device": "0x0302", "revision": "0x08", "class": "0x0b0a09"}
    if not kind & 1:
        expected |= {"subsystem_vendor": "0x2d2c", "subsystem_device": "0x2f2e"}
    found = {name: bytes(store.read(f"{REAL}/{name}")) for name in store.names(REAL)}
    assert found == {"config": config} | {name: f"{text}\n".encode() for name, text in expected.items()}
