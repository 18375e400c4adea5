"""Rings in shared memory: how messages are divided into chunks, and how counters compare."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.transport.errors import PathUnavailable
from gdrkit.transport.ring import _HEADER, _MAGIC, RING_BYTES, UNIT_BYTES, Ring, _Header, reached, units
from gdrkit.transport.ring_threads import RingThreads

MIB = 1 << 20
MAGIC = _MAGIC.to_bytes(8, "little")


@pytest.fixture(scope="module")
def small():
    ring = Ring.create(ring_bytes=MIB)
    yield ring
    ring.close()


@given(st.integers(0, 40 * MIB), st.integers(0, 1 << 40), st.integers(1, 64))
def test_chunks_cover_a_message_without_gap_or_overlap(small, size, position, step):
    covered, end = 0, position
    first = small.address + _HEADER
    for reaches, address, offset, length in small.pieces(position, size, step * UNIT_BYTES):
        assert offset == covered and 0 < length <= step * UNIT_BYTES
        assert address == first + end % small.units * UNIT_BYTES
        assert address + length <= small.address + small.size_bytes
        covered, end = offset + length, reaches
    assert covered == size
    assert end == position + units(size)


@given(st.integers(1, 40).map(lambda size: size * MIB // 4 + 1), st.integers(0, 1 << 40), st.data())
def test_no_chunk_is_a_single_byte_whatever_came_before(small, size, position, data):
    """A copy of one byte into a GPU may be queued behind the stream that waits for it: Cuda.copy."""
    both = [RingThreads(small, sending) for sending in (True, False)]
    for side in both:
        side.take(position * UNIT_BYTES)
    begins = {side.take(size) for side in both}
    assert begins in ({position}, {position + 1})  # the same on both sides
    step = data.draw(st.integers(2, 64)) * UNIT_BYTES
    assert min(length for *_, length in small.pieces(*begins, size, step)) > 1


def test_a_unit_is_left_out_only_where_a_single_byte_would_stand_after_the_rings_end(small):
    for size, begin in ((8 * UNIT_BYTES, 0), (8 * UNIT_BYTES + 1, 1), (8 * UNIT_BYTES + 2, 0), (1, 0)):
        side, before = RingThreads(small, sending=True), small.units - 8
        side.take(before * UNIT_BYTES)
        assert side.take(size) == before + begin


@given(st.integers(0, 1 << 34), st.booleans())
def test_a_ring_holds_at_least_four_chunks_so_that_both_sides_can_always_proceed(small, size, busy):
    step = small.step(size, busy=busy)
    assert step % UNIT_BYTES == 0
    assert UNIT_BYTES <= step <= small.units * UNIT_BYTES // 4


def test_chunks_are_small_so_that_both_copies_overlap_and_larger_once_they_do():
    large_ring = Ring.create(ring_bytes=RING_BYTES // 2)
    try:
        steps = [large_ring.step(MIB, busy=busy) for busy in (False, True)]
        assert steps == [MIB // 2, MIB]
        large = [large_ring.step(16 * MIB, busy=busy) for busy in (False, True)]
        assert large[0] < large[1] <= 4 * MIB
        assert large_ring.step(4096, busy=False) == UNIT_BYTES
    finally:
        large_ring.close()


def test_for_a_message_that_wraps_the_ring_holds_a_whole_number_of_chunks():
    ring = Ring.create(ring_bytes=RING_BYTES // 2)
    try:
        size = 8 * RING_BYTES // 2
        chunks = -(-(RING_BYTES // 2) // ring.step(size, busy=False))
        for position in range(0, ring.units, 97):
            lengths = [length for *_, length in ring.pieces(position, size, ring.step(size, busy=False))]
            assert max(lengths) <= -(-ring.units // chunks) * UNIT_BYTES
            assert len(lengths) <= 8 * chunks + 1  # one more if it starts in the middle
    finally:
        ring.close()


@given(st.integers(0, 2**32 - 1), st.data())
def test_the_senders_acknowledgement_counts_while_it_is_ahead_of_the_gpu(small, produced, data):
    small.produced[0] = produced
    ahead = data.draw(st.integers(0, small.units))
    small.acknowledge(produced + ahead)
    assert small.filled == (produced + ahead) % 2**32
    for stale in (data.draw(st.integers(1, 2**31)), -data.draw(st.integers(small.units + 1, 2**31))):
        small.acknowledge(produced - stale)
        assert small.filled == produced


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**30))
def test_counters_compare_as_on_the_gpu_also_when_they_wrap(wanted, ahead):
    assert reached((wanted + ahead) % 2**32, wanted)
    assert not reached((wanted - ahead - 1) % 2**32, wanted)


def test_the_header_fits_before_the_ring():
    import ctypes

    assert ctypes.sizeof(_Header) <= _HEADER


@pytest.fixture
def ring():
    ring = Ring.create(ring_bytes=MIB)
    yield ring
    ring.close()


def test_both_sides_share_the_memory(ring):
    other = Ring.open(ring.path)
    ring.produced[0] = 7
    assert other.produced[0] == 7
    assert other.units == ring.units == MIB // UNIT_BYTES
    other.close()


def test_the_file_is_private_and_its_name_can_be_removed(ring):
    assert os.stat(ring.path).st_mode & 0o777 == 0o600
    path = ring.path
    ring.unlink()
    ring.unlink()
    assert not os.path.exists(path)


@pytest.mark.parametrize("path", ["/etc/passwd", "/dev/shm/gdrkit-../../etc/passwd", "/dev/shm/gdrkit-none"])
def test_only_a_ring_is_opened_as_one(path):
    with pytest.raises(PathUnavailable):
        Ring.open(path)


def opened(content: bytes) -> int:
    """The bytes that a ring has which a file with this content is opened as."""
    path = f"/dev/shm/gdrkit-test-{os.getpid()}"
    with open(path, "wb") as file:
        file.write(content)
    try:
        ring = Ring.open(path)
        ring.close()
        return ring.size_bytes
    finally:
        Path(path).unlink(missing_ok=True)  # one that was opened has no name left


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"\xff" * 64, id="another file"),
        pytest.param(MAGIC + (1 << 20).to_bytes(8, "little"), id="truncated"),
        pytest.param((MAGIC + MIB.to_bytes(8, "little")).ljust(MIB, b"\0"), id="no space for the header"),
        pytest.param((MAGIC + MIB.to_bytes(8, "little")).ljust(_HEADER + MIB - 1, b"\0"), id="a byte short"),
        pytest.param(MAGIC + bytes(8) + bytes(8192), id="no space for data"),
        pytest.param(MAGIC + (600_001).to_bytes(8, "little") + bytes(700_000), id="no whole units"),
    ],
)
def test_a_file_with_such_a_name_that_is_not_a_ring_is_refused(content):
    with pytest.raises(PathUnavailable, match="not a ring"):
        opened(content)


@pytest.mark.parametrize("more", [0, 1])
def test_a_file_with_header_and_ring_is_opened(more):
    start = MAGIC + MIB.to_bytes(8, "little")
    assert opened(start.ljust(_HEADER + MIB + more, b"\0")) == _HEADER + MIB


def test_without_space_the_path_is_unavailable():
    with pytest.raises(PathUnavailable):
        Ring.create("/proc")


def test_a_ring_that_cannot_be_mapped_is_an_unavailable_path():
    reader, writer = os.pipe()  # the kernel maps no pipes
    try:
        with pytest.raises(PathUnavailable, match="4 MiB of shared memory cannot be mapped: "):
            Ring(reader, "a pipe", 4 * MIB)
    finally:
        os.close(reader)
        os.close(writer)
