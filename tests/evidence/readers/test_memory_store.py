"""Entries by path, in memory or in a temporary file, and the folders above them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gdrkit.evidence import EvidenceMissing, memory_store
from gdrkit.evidence.bundle import FILE, FOLDER, LINK, OTHER
from gdrkit.evidence.memory_store import EmptyEntry, MemoryStore, SpilledFile, StoredLink, UnreadFile


def test_an_entry_adds_the_folders_above_it():
    store = MemoryStore()
    store.keep("a/b/c", b"text")
    store.put("a/l", StoredLink("b/c"))
    store.put("a/o", EmptyEntry.OTHER)
    kinds = {"": FOLDER, "a": FOLDER, "a/b": FOLDER, "a/b/c": FILE, "a/l": LINK, "a/o": OTHER, "x": None}
    assert {path: store.kind(path) for path in kinds} == kinds
    assert [store.names(path) for path in ("", "a", "a/b", "x")] == [("a",), ("b", "l", "o"), ("c",), ()]
    assert (store.target("a/l"), store.target("a/o")) == ("b/c", "")
    assert store.names_size == len("a/b/c" + "a/b" + "a" + "a/l" + "a/o")
    store.keep("a/d", b"")
    assert store.names("a") == ("b", "d", "l", "o")  # also after it was asked


def test_all_folders_of_a_deep_path_are_there():
    store = MemoryStore()
    store.keep("sys/bus/pci/x", b"")
    store.put("proc", EmptyEntry.FOLDER)
    assert [*store.entries] == ["", "sys/bus/pci/x", "sys/bus/pci", "sys/bus", "sys", "proc"]


def test_a_later_entry_replaces_an_earlier_one_but_no_folder_does():
    store = MemoryStore()
    store.keep("a", b"1")
    store.keep("a", b"2")
    assert bytes(store.read("a")) == b"2"
    store.put("a", EmptyEntry.FOLDER)
    assert store.kind("a") == FILE
    store.put("b", EmptyEntry.FOLDER)
    assert store.kind("b") == FOLDER


def test_large_files_are_in_one_temporary_file(monkeypatch):
    monkeypatch.setattr(memory_store, "IN_MEMORY_BYTES", 10)
    store = MemoryStore()
    store.keep("small", b"0123456789")
    store.keep("first", b"first" * 3)
    assert store.entries["small"] == b"0123456789"
    assert store.entries["first"] == SpilledFile(0, 15)
    assert bytes(store.read("first")) == b"first" * 3
    store.keep("second", b"second" * 1000)  # after the file was mapped
    assert store.entries["second"] == SpilledFile(15, 6000)
    assert bytes(store.read("second")) == b"second" * 1000
    assert bytes(store.read("first")) == b"first" * 3
    assert bytes(store.read("small")) == b"0123456789"


def test_small_files_go_there_too_when_the_memory_is_full(monkeypatch):
    monkeypatch.setattr(memory_store, "MEMORY_LIMIT_BYTES", 10)
    store = MemoryStore()
    for name in ("a", "b", "c"):
        store.keep(name, b"12345")
    assert [type(store.entries[name]) for name in ("a", "b", "c")] == [bytes, bytes, SpilledFile]


def test_the_temporary_file_is_bounded(monkeypatch):
    monkeypatch.setattr(memory_store, "IN_MEMORY_BYTES", 1)
    monkeypatch.setattr(memory_store, "SPILL_LIMIT_BYTES", 10)
    store = MemoryStore()
    for name in ("a", "b"):
        store.keep(name, b"12345")
    store.keep("c", b"12")
    assert store.entries["b"] == SpilledFile(5, 5)
    assert store.entries["c"] == UnreadFile("the archive is larger than gdr keeps")


def test_a_full_disk_is_a_reason(monkeypatch):
    monkeypatch.setattr(memory_store, "IN_MEMORY_BYTES", 1)
    monkeypatch.setattr(memory_store, "_temporary_file", lambda: __import__("os").open("/dev/full", 1))
    store = MemoryStore()
    store.keep("a", b"12345")
    why = "cannot write to the temporary directory: No space left on device"
    assert store.entries["a"] == UnreadFile(why)


@pytest.mark.parametrize(
    ("entry", "why", "ask"),
    [
        (UnreadFile("too large"), "not-collected", "cat /a (too large)"),
        (UnreadFile("cut off", cut=True), "truncated", "cat /a (cut off)"),
        (StoredLink("b"), "not-collected", "cat /a (not a file)"),
        (EmptyEntry.OTHER, "not-collected", "cat /a (not a file)"),
    ],
)
def test_a_file_that_was_not_kept_says_why(entry, why, ask):
    store = MemoryStore()
    store.put("a", entry)
    with pytest.raises(EvidenceMissing) as caught:
        store.read("a")
    missing = caught.value.missing
    assert (missing.source, missing.why, missing.ask) == ("a", why, ask)


def test_the_limits():
    limits = (memory_store.IN_MEMORY_BYTES, memory_store.MEMORY_LIMIT_BYTES, memory_store.SPILL_LIMIT_BYTES)
    assert limits == (65536, 64 << 20, 2 << 30)


@pytest.mark.parametrize("known", [True, False])
def test_the_temporary_file_is_where_the_user_wants_it(tmp_path, monkeypatch, known):
    monkeypatch.setenv("TMPDIR", str(tmp_path) if known else "")
    fd = memory_store._temporary_file()
    try:
        assert Path(f"/proc/self/fd/{fd}").resolve().parent == (tmp_path if known else Path("/tmp"))
    finally:
        os.close(fd)
