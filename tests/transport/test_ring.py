"""Shared memory between two processes: how messages are cut, and what counters mean."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.transport.errors import PathUnavailable
from gdrkit.transport.ring import _HEADER, SLOTS, Ring, _Header, chunks, reached

SLOT = 1 << 20


@given(st.integers(0, 1 << 30), st.sampled_from([64 << 10, SLOT, 8 * SLOT]))
def test_chunks_cover_a_message_without_gap_or_overlap(size, slot):
    end = 0
    for offset, length in chunks(size, slot):
        assert offset == end and 0 < length <= slot
        end = offset + length
    assert end == size


def test_a_short_message_is_cut_so_that_both_copies_overlap():
    assert len(chunks(1 << 20, 2 << 20)) == 2
    assert len(chunks(4096, 2 << 20)) == 1


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**30))
def test_a_counter_is_compared_as_the_gpu_does_it_also_past_its_end(wanted, ahead):
    assert reached((wanted + ahead) % 2**32, wanted)
    assert not reached((wanted - ahead - 1) % 2**32, wanted)


def test_the_header_fits_before_the_first_slot():
    import ctypes

    assert ctypes.sizeof(_Header) <= _HEADER


@pytest.fixture
def ring():
    ring = Ring.create(slot_bytes=64 << 10)
    yield ring
    ring.close()


def test_both_sides_see_one_memory(ring):
    other = Ring.open(ring.path)
    ring.header.produced[0] = 7
    assert other.header.produced[0] == 7
    assert other.slot_bytes == ring.slot_bytes
    other.close()


def test_slots_lie_side_by_side_and_are_used_again(ring):
    places = [ring.slot(position) for position in range(SLOTS)]
    assert places == sorted(set(places))
    assert places[-1] + ring.slot_bytes == ring.address + ring.size_bytes
    assert ring.slot(SLOTS) == ring.slot(0)


def test_the_file_is_ours_alone_and_its_name_goes(ring):
    assert os.stat(ring.path).st_mode & 0o777 == 0o600
    path = ring.path
    ring.unlink()
    ring.unlink()
    assert not os.path.exists(path)


@pytest.mark.parametrize("path", ["/etc/passwd", "/dev/shm/gdrkit-../../etc/passwd", "/dev/shm/gdrkit-none"])
def test_only_a_ring_is_opened_as_one(path):
    with pytest.raises(PathUnavailable):
        Ring.open(path)


def test_a_file_of_that_name_that_is_no_ring_is_refused():
    path = f"/dev/shm/gdrkit-test-{os.getpid()}"
    with open(path, "wb") as file:
        file.write(b"\xff" * 64)
    try:
        with pytest.raises(PathUnavailable, match="not a ring"):
            Ring.open(path)
    finally:
        os.unlink(path)


def test_where_there_is_no_room_the_path_is_unavailable():
    with pytest.raises(PathUnavailable):
        Ring.create("/proc")
