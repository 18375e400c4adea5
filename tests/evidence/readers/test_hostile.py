"""Malicious archives: each is read or refused with a one-line error, in bounded memory and time."""

from __future__ import annotations

import gzip
import lzma
import os
import struct
import subprocess
import sys
import tarfile
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gdrkit.evidence import EvidenceAbsent, EvidenceMissing, Host
from gdrkit.evidence.archive import HEADERS_LIMIT, MEMBERS_LIMIT
from gdrkit.evidence.errors import TargetError
from gdrkit.evidence.target import open_host
from tests.evidence.readers.tars import PACK, SOS_FILES, member, sos_bytes, tar_bytes, write

MEMORY_MIB = 300
TIME_S = 30

MEASURE = """
import sys
from gdrkit.evidence.errors import TargetError
from gdrkit.evidence.target import open_host
from gdrkit.evidence import EvidenceMissing
try:
    host = open_host(sys.argv[1])
    print("opened", *host.notes)
    for path in sys.argv[2:]:
        try:
            print(len(host.read(path)))
        except EvidenceMissing as missing:
            print(missing.missing.why.value)
except TargetError as error:
    print("refused", error)
print(next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) >> 10)
"""


def measured(target: str, *paths: str) -> list[str]:
    """The output of a separate process that opens the target; checks its memory and time."""
    command = [sys.executable, "-c", MEASURE, target, *paths]
    python = subprocess.run(command, capture_output=True, text=True, timeout=TIME_S)
    assert python.returncode == 0, python.stderr
    *lines, memory = python.stdout.splitlines()
    assert int(memory) < MEMORY_MIB
    return lines


CLEAN = {name.removeprefix("sosreport-x/"): content for name, content in SOS_FILES.items()}


def tree(host: Host, folder: str = "") -> dict[str, bytes]:
    """The content of every file of an archive without links, by path."""
    found = {}
    for name in host.list(folder):
        path = f"{folder}/{name}".lstrip("/")
        try:
            found[path] = bytes(host.read(path))
        except EvidenceMissing:
            found |= tree(host, path)
    return found


def extension(size_bytes: int) -> bytes:
    """An extended header full of the shortest records, each of another key."""
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, size_bytes
    records = b"".join(b"13 k%06d=v\n" % number for number in range(size_bytes // 13))
    return info.tobuf(tarfile.USTAR_FORMAT) + records.ljust(size_bytes + -size_bytes % 512, b"\0")


class TestExtendedHeaders:
    def test_many_of_them_before_one_member_are_damage(self, tmp_path):
        content = sos_bytes(end=False) + extension(1 << 19) * 40
        assert any(
            "is damaged" in line for line in measured(write(tmp_path, lzma.compress(content, preset=0)))
        )

    def test_a_mebibyte_before_each_of_70_members_is_refused(self, tmp_path):
        one = extension(1 << 20)
        parts = [one + tar_bytes(member(f"sosreport-x/f{n}", b"x"), end=False) for n in range(70)]
        content = sos_bytes(end=False) + b"".join(parts)
        (line,) = measured(write(tmp_path, lzma.compress(content, preset=0)))
        assert line.startswith("refused") and "64 MiB of extended headers" in line

    def test_the_longest_name_of_a_real_archive_is_read(self, tmp_path):
        name = "sosreport-x/" + "/".join(["d" * 200] * 19)
        content = sos_bytes(member(name, b"deep\n"), form=tarfile.PAX_FORMAT)
        assert open_host(write(tmp_path, content)).read(name.partition("/")[2]) == b"deep\n"


class TestBombs:
    def test_a_small_xz_that_becomes_ten_gigabytes(self, tmp_path):
        one = lzma.compress(sos_bytes(member("sosreport-x/lib/zeros", size=10 << 30), end=False))
        stream = lzma.compress(bytes(1 << 28), preset=0)  # 256 MiB in about 40 kB
        target = write(tmp_path, one + stream * 40)

        assert Path(target).stat().st_size < 2_000_000
        lines = measured(target)
        assert len(lines) == 1
        assert lines[0].startswith("refused") and "times its size" in lines[0]

    def test_a_small_gzip_that_becomes_a_gigabyte(self, tmp_path):
        head = gzip.compress(sos_bytes(member("sosreport-x/lib/zeros", size=10 << 30), end=False))
        lines = measured(write(tmp_path, head + gzip.compress(bytes(1 << 28), 9) * 5))

        assert lines[0].startswith("refused")

    def test_a_bug_report_of_one_huge_line(self, tmp_path):
        data = b"\nStart of NVIDIA bug report log file\n" + b"A" * (1 << 28)
        lines = measured(write(tmp_path, gzip.compress(data, 1)))

        assert len(lines) == 1

    def test_a_dictionary_that_fills_the_memory(self, tmp_path):
        packer = lzma.LZMACompressor(filters=[{"id": lzma.FILTER_LZMA2, "preset": 0}])
        data = bytearray(packer.compress(sos_bytes()) + packer.flush())
        # the dictionary's size is one byte of the block header, guarded by a CRC32: xz file format, 3.1
        size = (data[12] + 1) * 4
        data[16] = 38  # 2^30 bytes
        data[12 + size - 4 : 12 + size] = struct.pack("<I", zlib.crc32(data[12 : 12 + size - 4]))
        lines = measured(write(tmp_path, bytes(data)))

        assert lines[0].startswith("refused")

    def test_a_file_of_empty_compressed_streams(self, tmp_path):
        lines = measured(write(tmp_path, gzip.compress(b"") * 200_000))

        assert lines[0].startswith("refused")


class TestSizes:
    def test_a_sparse_member_that_claims_ten_gigabytes(self, tmp_path):
        """As GNU tar -S writes it: 4 kB stored, a sparse map, 10 GB claimed."""
        info, content = member("sosreport-x/var/lib/big", b"x" * 4096, type=tarfile.GNUTYPE_SPARSE)
        header = bytearray(info.tobuf(tarfile.GNU_FORMAT))
        header[386:410] = b"%011o\0%011o\0" % (0, 4096)
        header[483:495] = b"%011o\0" % (10 << 30 & 0o77777777777)
        header[148:156] = b" " * 8
        header[148:156] = b"%06o\0 " % sum(header)
        data = sos_bytes(end=False) + bytes(header) + content + tar_bytes(member("sosreport-x/after", b"ok"))
        for pack in ("plain", "gzip"):
            lines = measured(write(tmp_path, PACK[pack](data)), "var/lib/big", "after")
            assert lines[1:] == ["not-collected", "2"]

    def test_a_sparse_member_with_extended_headers(self, tmp_path):
        info, content = member("sosreport-x/big", b"x" * 512)
        info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.realsize": str(10 << 30)}
        data = sos_bytes(end=False) + tar_bytes((info, content), form=tarfile.PAX_FORMAT)
        lines = measured(write(tmp_path, data), "big")

        assert lines[1:] == ["not-collected"]

    def test_a_size_beyond_the_end_of_the_file(self, tmp_path):
        for size in (10 << 30, 1 << 60):
            lines = measured(
                write(tmp_path, sos_bytes(member("sosreport-x/big", size=size))), "big", "etc/os-release"
            )
            assert lines[1:] == ["truncated", "10"]

    def test_a_plain_archive_with_a_hole_of_ten_gigabytes(self, tmp_path):
        """A plain archive is mapped, so a hole of 10 GB costs nothing until it is read."""
        target = write(tmp_path, sos_bytes(member("sosreport-x/big", size=10 << 30), end=False))
        with Path(target).open("r+b") as file:
            file.truncate(Path(target).stat().st_size + (10 << 30))
            file.seek(0, os.SEEK_END)
            file.write(bytes(1024))
        lines = measured(target, "etc/os-release", "big")

        assert lines[1:] == ["10", "truncated"]


class TestNames:
    def test_members_that_all_have_the_same_name(self, tmp_path):
        header = member("sosreport-x/etc/f")[0].tobuf(tarfile.GNU_FORMAT)
        with gzip.open(tmp_path / "many", "wb", compresslevel=1) as file:
            file.write(sos_bytes(end=False))
            for _ in range(HEADERS_LIMIT // 1000):
                file.write(header * 1000)
        lines = measured(str(tmp_path / "many"))

        assert lines[0].startswith("refused")

    def test_a_member_more_than_the_most(self, tmp_path):
        """Unlike those above, each has a name of its own; a compressed archive of them has 1 MB."""
        header = member("sosreport-x/f000000")[0].tobuf(tarfile.GNU_FORMAT)
        rest = sum(header[:13] + b" " * 8 + header[19:148] + header[156:])
        with gzip.open(tmp_path / "many", "wb", compresslevel=1) as file:
            file.write(sos_bytes(end=False))
            for number in range(MEMBERS_LIMIT):
                digits = b"%06d" % number
                checksum = b"%06o\0 " % (rest + sum(digits))
                file.write(header[:13] + digits + header[19:148] + checksum + header[156:])
            file.write(bytes(1024))
        (line,) = measured(str(tmp_path / "many"))
        assert line.startswith("refused") and f"more than {MEMBERS_LIMIT:,} files" in line

    def test_very_deep_names(self, tmp_path):
        names = [f"sosreport-x/{i}/" + "a/" * 1900 + "f" for i in range(3000)]
        lines = measured(write(tmp_path, gzip.compress(sos_bytes(*(member(name) for name in names)), 1)))

        assert len(lines) == 1

    @pytest.mark.parametrize(
        "name",
        [
            "../../etc/passwd", "sosreport-x/../../etc/passwd", "sosreport-x/../etc/passwd", "/etc/passwd",
            "./../etc/passwd", "sosreport-x/etc/../etc/passwd", "sosreport-x/etc/..", "sosreport-x/./x",
            "sosreport-x//etc/passwd", "sosreport-x/etc/two\nlines", "sosreport-x/etc/\x1b[2Jclear",
            "elsewhere/etc/passwd", "sosreport-x/" + "a/" * 2048 + "f", "sosreport-x/etc/\u202epasswd",
        ],
    )  # fmt: skip
    def test_invalid_names_are_skipped(self, tmp_path, name):
        host = open_host(write(tmp_path, sos_bytes(member(name, b"evil"))))

        assert tree(host) == CLEAN and len(host.notes) == 1
        assert host.notes[0].endswith("skipped 1 members with invalid names")
        for path in ("etc/passwd", "../etc/passwd", "../../etc/passwd"):
            with pytest.raises(EvidenceMissing):
                host.read(path)

    def test_bytes_that_are_no_text_are_replaced_in_a_name(self, tmp_path):
        host = open_host(write(tmp_path, sos_bytes(member(b"sosreport-x/etc/\xff\xfe", b"odd"))))

        assert tree(host) == {**CLEAN, "etc/\ufffd\ufffd": b"odd"}

    def test_the_last_of_two_equal_names_wins(self, tmp_path):
        again = member("sosreport-x/etc/os-release", b"ID=second\n")
        for pack in ("plain", "xz"):
            assert (
                open_host(write(tmp_path, PACK[pack](sos_bytes(again)))).read("etc/os-release")
                == b"ID=second\n"
            )

    def test_a_member_below_a_link_does_not_replace_the_target(self, tmp_path):
        data = sos_bytes(
            member("sosreport-x/etc2", type=tarfile.SYMTYPE, linkname="/etc"),
            member("sosreport-x/etc2/os-release", b"evil"),
        )
        assert open_host(write(tmp_path, data)).read("etc2/os-release") == b"ID=debian\n"


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, b"Z", tarfile.DIRTYPE])
def test_devices_and_pipes_are_not_read(tmp_path, kind):
    host = open_host(write(tmp_path, sos_bytes(member("sosreport-x/dev/x", type=kind))))

    with pytest.raises(EvidenceMissing) as error:
        host.read("dev/x")
    assert not isinstance(error.value, EvidenceAbsent)
    assert host.read("etc/os-release") == b"ID=debian\n"


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_random_damage_gives_a_host_or_an_error(tmp_path, data):
    """Bytes are changed anywhere in an archive, compressed or not: a host, or a one-line error."""
    pack = data.draw(st.sampled_from(sorted(PACK)))
    link = member("sosreport-x/l", type=tarfile.SYMTYPE, linkname="a" * 200)
    content = bytearray(PACK[pack](sos_bytes(link, member("sosreport-x/" + "long/" * 30 + "f", b"x"))))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        host = open_host(write(tmp_path, bytes(content[: data.draw(st.integers(0, len(content)))])))
    except TargetError as error:
        assert "\n" not in str(error)
        return
    for name in SOS_FILES:
        try:
            host.read(name.removeprefix("sosreport-x/"))
        except EvidenceMissing:
            continue
