"""Members of tar archives, header by header, as the formats describe them."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from gdrkit.evidence import archive
from gdrkit.evidence.archive import BLOCK, DamagedArchive, Member, is_header, members
from gdrkit.evidence.stream import PlainStream, StreamEnded
from tests.work import steps

END = bytes(2 * BLOCK)


def header(name: bytes = b"name", kind: bytes = b"0", size: int = 0, **fields: bytes) -> bytes:
    """A header as POSIX describes it, with other fields at the offsets of `fields`, such as at345."""
    block = bytearray(BLOCK)
    block[: len(name)] = name
    block[124:136] = b"%011o\0" % size
    block[156:157] = kind
    block[257:265] = b"ustar\x0000"
    for at, value in fields.items():
        block[int(at[2:]) : int(at[2:]) + len(value)] = value
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % BLOCK)


def record(key: bytes, value: bytes) -> bytes:
    """A record of an extended header; its length counts itself."""
    rest = b" " + key + b"=" + value + b"\n"
    length = len(rest) + 1
    while len(b"%d" % length) + len(rest) != length:
        length += 1
    return b"%d" % length + rest


def extended(*records: bytes, kind: bytes = b"x") -> bytes:
    data = b"".join(records)
    return header(b"././@PaxHeader", kind, len(data)) + padded(data)


def found(folder: Path, data: bytes) -> list[tuple[Member, bytes]]:
    """Each member with its content."""
    path = folder / "file.tar"
    path.write_bytes(data)
    with path.open("rb") as file:
        stream = PlainStream(file)
        return [(member, bytes(stream.peek(member.size))) for member in members(stream)]


def rows(folder: Path, data: bytes) -> list[tuple[object, ...]]:
    return [(row.name, row.type, row.size, row.link, row.sparse) for row, _ in found(folder, data)]


def test_each_type_of_member(tmp_path):
    data = b"".join([
        header(b"a", b"0", 3), padded(b"abc"), header(b"old", b"\0", 1), padded(b"o"), header(b"c", b"7"),
        header(b"hard", b"1", 5, at157=b"a"), header(b"soft", b"2", at157=b"../a"), header(b"tty", b"3"),
        header(b"disk", b"4"), header(b"dir/", b"5", 9), header(b"fifo", b"6"), header(b"odd", b"Z", 1),
        padded(b"z"), header(b"slash/", b"0"), header(b"soft/", b"2", at157=b"to"), header(b"odd/", b"Z"),
        header(b"g", b"g", 2), padded(b"gg"), header(b"last"), END,
    ])  # fmt: skip
    assert rows(tmp_path, data) == [
        ("a", "0", 3, "", False), ("old", "0", 1, "", False), ("c", "0", 0, "", False),
        ("hard", "1", 0, "a", False), ("soft", "2", 0, "../a", False), ("tty", "?", 0, "", False),
        ("disk", "?", 0, "", False), ("dir/", "5", 0, "", False), ("fifo", "?", 0, "", False),
        ("odd", "?", 1, "", False), ("slash/", "5", 0, "", False), ("soft/", "2", 0, "to", False),
        ("odd/", "?", 0, "", False), ("last", "0", 0, "", False),
    ]  # fmt: skip
    assert found(tmp_path, data)[0][1] == b"abc"


def test_content_of_any_length_is_skipped_to_the_next_block(tmp_path):
    sizes = (0, 1, 511, 512, 513, 1024)
    data = b"".join(header(b"%d" % size, size=size) + padded(b"x" * size) for size in sizes) + END
    assert [(row.size, content) for row, content in found(tmp_path, data)] == [
        (size, b"x" * size) for size in sizes
    ]


def test_long_names_of_posix(tmp_path):
    data = header(b"end", at345=b"first/part") + header(b"end", at345=b"p")
    data += header(b"n" * 100, at345=b"p" * 155, at157=b"l" * 100, at100=b"0000644") + header(b"next") + END
    names = ["first/part/end", "p/end", "p" * 155 + "/" + "n" * 100, "next"]
    assert [row[0] for row in rows(tmp_path, data)] == names
    gnu = header(b"end", at257=b"ustar  \0", at345=b"times")
    assert rows(tmp_path, gnu + END)[0][0] == "end"
    assert rows(tmp_path, header(b"l", b"2", at157=b"l" * 100, at257=b"ustar\0") + END)[0][3] == "l" * 100


def test_long_names_of_gnu(tmp_path):
    name, link = b"n" * 700, b"l" * 300
    data = b"".join([
        header(b"././@LongLink", b"L", 701), padded(name + b"\0"), header(b"././@LongLink", b"K", 301),
        padded(link + b"\0"), header(b"short", b"2", at157=b"s"), header(b"next"), END,
    ])  # fmt: skip
    assert [(row[0], row[3]) for row in rows(tmp_path, data)] == [
        (name.decode(), link.decode()),
        ("next", ""),
    ]


def test_extended_headers_are_of_the_next_member(tmp_path):
    data = b"".join([
        extended(record(b"mtime", b"1.5"), record(b"path", b"a/\xc3\xa9=b"), record(b"linkpath", b"to")),
        header(b"short", b"2", at157=b"s"),
        extended(record(b"size", b"5")), header(b"sized", size=1), padded(b"12345"),
        extended(record(b"mtime", b"1.5")), header(b"plain"),
        extended(record(b"path", b"of all"), kind=b"g"), header(b"after"), END,
    ])  # fmt: skip
    assert [row[:4] for row in rows(tmp_path, data)] == [
        ("a/\xe9=b", "2", 0, "to"), ("sized", "0", 5, ""), ("plain", "0", 0, ""), ("after", "0", 0, ""),
    ]  # fmt: skip


@pytest.mark.parametrize("size", [b"", b"-5", b"1e3", b"\xb2"])
def test_a_size_that_is_no_number_is_not_used(tmp_path, size):
    data = extended(record(b"size", size)) + header(b"a", size=1) + padded(b"x") + END
    assert rows(tmp_path, data)[0][2] == 1


def test_what_fills_the_last_block_of_an_extended_header_is_not_read(tmp_path):
    """A program may leave there what its buffer held before."""
    filled = record(b"path", b"good")
    filled = header(b"././@PaxHeader", b"x", len(filled)) + (filled + record(b"path", b"old")).ljust(BLOCK)
    named = header(b"././@LongLink", b"L", 4) + b"name of another".ljust(BLOCK)
    assert [row[0] for row in rows(tmp_path, filled + header() + named + header() + END)] == ["good", "name"]


@pytest.mark.parametrize("garbage", [b"\0\0\0\0", b"no number", b"0 path=x\n", b"x path=x\n"])
def test_garbage_among_records_ends_them(tmp_path, garbage):
    data = extended(record(b"path", b"good"), garbage, record(b"path", b"hidden")) + header(b"a") + END
    assert rows(tmp_path, data)[0][0] == "good"
    assert rows(tmp_path, extended(garbage, record(b"path", b"hidden")) + header(b"a") + END)[0][0] == "a"


@pytest.mark.parametrize("garbage", [b"2 ", b"1 ", b"3 \n", b"12 no equals\n"])
def test_the_first_record_without_an_equals_sign_ends_the_others(tmp_path, garbage):
    """Were each read, a mebibyte of them would take half a million rounds, an archive 64 times that."""

    def work(count: int) -> int:
        full = extended(record(b"path", b"good"), garbage * count, record(b"path", b"hidden"))
        return steps(rows, tmp_path, full + header(b"a") + END)

    assert work(50_000) == work(1)
    full = extended(record(b"path", b"good"), garbage, record(b"path", b"hidden"))
    assert rows(tmp_path, full + header(b"a") + END)[0][0] == "good"


def test_records_of_a_header_are_limited(tmp_path, monkeypatch):
    assert archive.RECORDS_LIMIT == 10_000
    monkeypatch.setattr(archive, "RECORDS_LIMIT", 3)
    one = record(b"a", b"")
    most = extended(one * 2, record(b"path", b"third")) + header()
    assert [row[0] for row in rows(tmp_path, most * 2 + END)] == ["third", "third"]
    with pytest.raises(DamagedArchive, match=r"^$"):
        rows(tmp_path, extended(one * 3, record(b"path", b"fourth")) + header() + END)


def test_records_of_an_archive_are_limited(tmp_path, monkeypatch):
    assert archive.ARCHIVE_RECORDS_LIMIT == 2_000_000
    monkeypatch.setattr(archive, "ARCHIVE_RECORDS_LIMIT", 6)
    two = extended(record(b"a", b""), record(b"path", b"name")) + header()
    assert len(rows(tmp_path, two * 3 + END)) == 3
    with pytest.raises(DamagedArchive, match=r"^more than 6 records in extended headers$"):
        rows(tmp_path, two * 4 + END)


def test_records_that_no_reader_wants_are_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "ARCHIVE_RECORDS_LIMIT", 0)
    times = extended(record(b"mtime", b"1.5"), record(b"atime", b"1.5")) + header(b"plain")
    assert len(rows(tmp_path, times * 9 + END)) == 9


def test_the_blocks_of_a_sparse_map_count_as_headers(tmp_path, monkeypatch):
    further = bytearray(BLOCK)
    further[504] = 1
    sparse = header(b"s", b"S", at482=b"\1") + bytes(further) * 2 + bytes(BLOCK)
    monkeypatch.setattr(archive, "HEADERS_LIMIT", 6)
    assert [row[0] for row in rows(tmp_path, sparse + header(b"next") + END)] == ["s", "next"]
    for many in (sparse + header() * 2, header(b"s", b"S", at482=b"\1") + bytes(further) * 9):
        with pytest.raises(DamagedArchive, match=r"^more than 6 headers$"):
            rows(tmp_path, many + END)


@pytest.mark.parametrize("key", [b"GNU.sparse.major", b"GNU.sparse.name"])
def test_sparse_files_are_told(tmp_path, key):
    data = extended(record(b"path", b"p"), record(key, b"1")) + header(b"a", size=1) + padded(b"x") + END
    assert rows(tmp_path, data) == [("p", "0", 1, "", True)]
    further = bytearray(BLOCK)
    further[504] = 1
    old = header(b"old", b"S", 3, at482=b"\1") + further + bytes(BLOCK) + padded(b"abc")
    assert found(tmp_path, old + header(b"b") + END)[0] == (Member("old", "0", 3, "", True), b"abc")
    assert rows(tmp_path, header(b"s", b"S", 3) + padded(b"abc") + header(b"b") + END)[1][0] == "b"


def test_a_sparse_file_with_a_long_name_is_sparse_and_another_with_one_is_not(tmp_path):
    name, content = extended(record(b"path", b"long")), padded(b"abc")
    data = name + header(b"s", b"S", 3) + content + name + header(b"p", size=3) + content + END
    assert rows(tmp_path, data) == [("long", "0", 3, "", True), ("long", "0", 3, "", False)]


def test_sizes_in_base_256_and_in_blanks(tmp_path):
    large = header(b"a", at124=b"\x80" + (3).to_bytes(11, "big")) + padded(b"abc")
    blank = header(b"b", at124=b" " * 12) + header(b"c", at124=b"          2 ") + padded(b"xx")
    assert [row[2] for row in rows(tmp_path, large + blank + END)] == [3, 0, 2]


def test_a_size_beyond_any_file_is_one(tmp_path):
    """Python converts at most 4,300 digits to a number, and fails with more."""
    huge = extended(record(b"size", b"9" * 5000)) + header(b"a") + END
    assert _first(tmp_path, huge).size == 10**20 - 1
    large = header(b"a", at124=b"\x80" + (1 << 80).to_bytes(11, "big"))
    assert _first(tmp_path, large + END).size == 1 << 80


def _first(folder: Path, data: bytes) -> Member:
    path = folder / "file.tar"
    path.write_bytes(data)
    with path.open("rb") as file:
        return next(members(PlainStream(file)))


@pytest.mark.parametrize("size", [b"-1\0", b"9\0", b"text"])
def test_an_invalid_size_is_damage(tmp_path, size):
    with pytest.raises(DamagedArchive, match=r"^$"):
        rows(tmp_path, header(b"a", at124=size.ljust(12, b"\0")) + END)


def test_an_archive_that_ends_early_is_cut_off(tmp_path):
    whole = header(b"a", size=600) + padded(b"x" * 600)
    for length in (0, 100, BLOCK, BLOCK + 600, len(whole)):
        with pytest.raises(StreamEnded):
            rows(tmp_path, whole[:length])
    assert rows(tmp_path, whole + bytes(BLOCK))[0][0] == "a"


def test_what_is_no_header_is_damage(tmp_path):
    with pytest.raises(DamagedArchive, match=r"^$"):
        rows(tmp_path, header(b"a") + b"text".ljust(BLOCK) + END)
    old = bytearray(header(b"v7", at257=bytes(8)))
    assert rows(tmp_path, bytes(old) + END)[0][0] == "v7"  # by its checksum alone
    for whole in (bytes(old), header(b"a")):
        with pytest.raises(DamagedArchive):
            rows(tmp_path, b"b" + whole[1:] + END)


@pytest.mark.parametrize("size", [0, 1, 511, 513])
def test_a_header_is_a_whole_block(size):
    assert not is_header(header(b"a")[:size] if size < BLOCK else header(b"a") + b"x")


def test_a_header_has_its_checksum():
    assert is_header(header(b"a")) and not is_header(bytes(BLOCK))
    assert is_header(tarfile.TarInfo("name").tobuf())
    assert is_header(header(b"\xff" * 100, at157=b"\xff" * 100, at345=b"\xff" * 155))  # above 65521
    for at in (0, 200, 511):
        block = bytearray(header(b"a"))
        block[at] ^= 0x40
        assert not is_header(bytes(block))
    blank = bytearray(header(b"a"))
    blank[148:156] = b"        "
    assert not is_header(bytes(blank))


def test_headers_and_extensions_are_limited(tmp_path, monkeypatch):
    assert (archive.MEMBERS_LIMIT, archive.HEADERS_LIMIT) == (250_000, 750_000)
    assert (archive.EXTENSION_LIMIT_BYTES, archive.EXTENSIONS_LIMIT_BYTES) == (1 << 20, 64 << 20)
    monkeypatch.setattr(archive, "HEADERS_LIMIT", 3)
    assert len(rows(tmp_path, header() * 2 + END)) == 2
    with pytest.raises(DamagedArchive, match=r"^more than 3 headers$"):
        rows(tmp_path, header() * 3 + END)


def test_extensions_of_one_member_are_limited(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "EXTENSION_LIMIT_BYTES", 40)
    twenty = record(b"path", b"x" * 11)
    assert len(twenty) == 20
    assert rows(tmp_path, (extended(twenty) * 2 + header()) * 3 + END)[2][0] == "x" * 11
    with pytest.raises(DamagedArchive, match=r"^$"):
        rows(tmp_path, extended(twenty) * 3 + header() + END)


def test_extensions_of_an_archive_are_limited(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "EXTENSIONS_LIMIT_BYTES", 60)
    one = extended(record(b"path", b"x" * 11)) + header()
    assert len(rows(tmp_path, one * 3 + END)) == 3
    with pytest.raises(DamagedArchive, match=r"^more than 0 MiB of extended headers$"):
        rows(tmp_path, one * 4 + END)


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_what_pythons_tarfile_writes(tmp_path, form):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as made:
        for number in range(3):
            info = tarfile.TarInfo(f"{'d' * 90}/{'e' * 90}/{number}")
            info.size = number * 400
            made.addfile(info, io.BytesIO(bytes([number]) * info.size))
    expected = [(f"{'d' * 90}/{'e' * 90}/{number}", bytes([number]) * number * 400) for number in range(3)]
    assert [(row.name, content) for row, content in found(tmp_path, out.getvalue())] == expected
