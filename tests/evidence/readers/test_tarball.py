"""Reading archives in place: intact, cut off and refused ones."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import random
import tarfile
from pathlib import Path

import pytest

from gdrkit.evidence import Command, EvidenceMissing, MissingReason, memory_store, tarball
from gdrkit.evidence.errors import TargetError
from gdrkit.evidence.memory_store import StoredLink
from gdrkit.evidence.stream import open_stream
from gdrkit.evidence.target import open_host
from tests.evidence.readers.tars import PACK, member, sos_bytes, tar_bytes, write
from tests.work import steps

DMESG = Command(("dmesg",), ("sos_commands/kernel/dmesg",))


def why_not(ask, *args) -> MissingReason:
    with pytest.raises(EvidenceMissing) as error:
        ask(*args)
    return error.value.missing.why


@pytest.mark.parametrize("pack", PACK)
def test_a_sosreport_is_read_with_every_compression(tmp_path, pack):
    host = open_host(write(tmp_path, PACK[pack](sos_bytes())))

    assert host.source == "sosreport"
    assert host.run(DMESG) == b"[    0.000000] Linux version 6.1\n"
    assert bytes(host.map("etc/os-release")) == b"ID=debian\n"
    assert host.list("etc") == ("modprobe.d", "os-release")
    assert not host.exists("etc/modprobe.d/b.conf")
    assert why_not(host.read, "proc/modules") is MissingReason.NOT_COLLECTED
    assert host.notes == ()


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])
def test_long_names_of_every_format_are_read(tmp_path, form):
    name = "sosreport-x/" + "/".join(["folder-" + "y" * 40] * 4) + "/file"
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as tar:
        for info, content in (member("sosreport-x/version.txt"), member("sosreport-x/sos_commands/a", b"a")):
            tar.addfile(info, io.BytesIO(content))
        info, content = member(name, b"here")
        tar.addfile(info, io.BytesIO(content))
        if form != tarfile.USTAR_FORMAT:
            link, _ = member(
                "sosreport-x/link", type=tarfile.SYMTYPE, linkname=name.removeprefix("sosreport-x/")
            )
            tar.addfile(link)
    host = open_host(write(tmp_path, out.getvalue()))

    assert host.read(name.removeprefix("sosreport-x/")) == b"here"
    if form != tarfile.USTAR_FORMAT:
        assert host.read("link") == b"here"


@pytest.mark.parametrize("prefix", ["", "./", "top/", "./top/"])
def test_the_top_folder_may_be_missing(tmp_path, prefix):
    data = tar_bytes(
        member(prefix or "./", type=tarfile.DIRTYPE), member(prefix + "etc/os-release", b"ID=x"),
        member(prefix + "proc/modules", b"nvidia"),
    )  # fmt: skip
    host = open_host(write(tmp_path, data))

    assert host.source == "tree"
    assert host.read("proc/modules") == b"nvidia"


def test_a_gdr_bundle_is_recognised_by_its_manifest(tmp_path):
    manifest = {"schema": "gdrkit.bundle/1", "files": {"proc/keys": {"status": "denied"}}}
    data = tar_bytes(
        member("gdr-host/proc/modules", b"nvidia"),
        member("gdr-host/gdr_manifest.json", json.dumps(manifest).encode()),
    )
    host = open_host(write(tmp_path, gzip.compress(data)))

    assert host.source == "bundle"
    assert host.read("proc/modules") == b"nvidia"
    assert why_not(host.read, "proc/keys") is MissingReason.DENIED


def test_links_of_every_kind_stay_inside(tmp_path):
    data = sos_bytes(
        member("sosreport-x/lsmod", type=tarfile.SYMTYPE, linkname="sos_commands/kernel/dmesg"),
        member("sosreport-x/absolute", type=tarfile.SYMTYPE, linkname="/etc/os-release"),
        member("sosreport-x/out", type=tarfile.SYMTYPE, linkname="../../../../etc/passwd"),
        member("sosreport-x/loop", type=tarfile.SYMTYPE, linkname="loop"),
        member("sosreport-x/hard", type=tarfile.LNKTYPE, linkname="sosreport-x/etc/os-release"),
        member("sosreport-x/hard-out", type=tarfile.LNKTYPE, linkname="/etc/passwd"),
        member("sosreport-x/hard-up", type=tarfile.LNKTYPE, linkname="sosreport-x/../../etc/passwd"),
    )
    host = open_host(write(tmp_path, data))

    assert host.read("lsmod").startswith(b"[    0.0")
    assert host.read("absolute") == host.read("hard") == b"ID=debian\n"
    for path in ("out", "loop", "hard-out", "hard-up"):
        with pytest.raises(EvidenceMissing):
            host.read(path)


def test_large_files_are_kept_in_an_unnamed_temporary_file(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    contents = {f"lib/modules/6.1/m{i}.ko": bytes([i]) * 100_000 for i in range(5)}
    data = sos_bytes(*(member("sosreport-x/" + path, content) for path, content in contents.items()))
    target = write(tmp_path, lzma.compress(data))
    host = open_host(target)

    assert {path: host.read(path) for path in contents} == contents
    assert [path.name for path in tmp_path.iterdir()] == ["evidence"]


def test_without_o_tmpfile_another_temporary_file_is_used(tmp_path, monkeypatch):
    monkeypatch.setattr(memory_store.os, "O_TMPFILE", 0)
    host = open_host(write(tmp_path, gzip.compress(sos_bytes(member("sosreport-x/big", b"x" * 100_000)))))

    assert host.read("big") == b"x" * 100_000


def test_memory_and_the_temporary_file_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(memory_store, "MEMORY_LIMIT_BYTES", 100)
    monkeypatch.setattr(memory_store, "SPILL_LIMIT_BYTES", 1000)
    files = [member(f"sosreport-x/f{i}", bytes([i]) * 90) for i in range(50)]
    host = open_host(write(tmp_path, gzip.compress(sos_bytes(*files))))

    assert host.read("f5") == bytes([5]) * 90
    assert why_not(host.read, "f49") is MissingReason.NOT_COLLECTED


def test_files_that_no_fact_reads_exist_but_are_not_kept(tmp_path):
    data = sos_bytes(
        member("sosreport-x/var/log/journal/x", b"y"), member("sosreport-x/proc/77/smaps", b"y" * 9999)
    )
    host = open_host(write(tmp_path, gzip.compress(data)))

    assert host.exists("var/log/journal/x")
    assert why_not(host.read, "var/log/journal/x") is MissingReason.NOT_COLLECTED
    assert why_not(host.read, "proc/77/smaps") is MissingReason.NOT_COLLECTED


class TestCutOff:
    """Complete members are used; no missing file counts as absent."""

    @pytest.mark.parametrize("pack", PACK)
    def test_in_the_middle_of_a_file(self, tmp_path, pack):
        noise = random.Random(1).randbytes(900_000)  # not compressible, so the cut is within it
        data = PACK[pack](sos_bytes(member("sosreport-x/lib/big", noise)))
        host = open_host(write(tmp_path, data[: len(data) * 3 // 4]))

        assert host.read("etc/os-release") == b"ID=debian\n"
        assert why_not(host.read, "lib/big") is MissingReason.TRUNCATED
        assert why_not(host.exists, "etc/modprobe.d/b.conf") is MissingReason.NOT_COLLECTED
        assert why_not(host.list, "etc/modprobe.d") is MissingReason.TRUNCATED
        assert len(host.notes) == 1

    def test_between_two_files(self, tmp_path):
        host = open_host(write(tmp_path, sos_bytes(end=False)))

        assert host.read("etc/os-release") == b"ID=debian\n"
        assert why_not(host.exists, "etc/modprobe.d/b.conf") is MissingReason.NOT_COLLECTED
        assert "cut off" in host.notes[0]

    def test_the_manifest_of_a_bundle_still_applies(self, tmp_path):
        manifest = {
            "schema": "gdrkit.bundle/1",
            "files": {"a": {"status": "absent"}, "b": {"status": "found"}},
        }
        data = tar_bytes(member("gdr-x/gdr_manifest.json", json.dumps(manifest).encode()), end=False)
        host = open_host(write(tmp_path, data))

        assert not host.exists("a")
        assert why_not(host.read, "b") is MissingReason.TRUNCATED

    def test_before_the_first_usable_member(self, tmp_path):
        for data in (gzip.compress(sos_bytes())[:30], lzma.compress(sos_bytes())[:50], sos_bytes()[:300]):
            with pytest.raises(TargetError):
                open_host(write(tmp_path, data))


class TestRefused:
    @pytest.mark.parametrize("pack", ["gzip", "xz", "zstd"])
    def test_corrupt_bytes(self, tmp_path, pack):
        noise = random.Random(1).randbytes(900_000)
        data = bytearray(PACK[pack](sos_bytes(member("sosreport-x/lib/noise", noise))))
        for at in range(len(data) // 2, len(data) // 2 + 400):
            data[at] ^= 0xA5
        with pytest.raises(TargetError, match="corrupt") as error:
            open_host(write(tmp_path, bytes(data)))
        assert "\n" not in str(error.value)

    def test_an_archive_of_something_else(self, tmp_path):
        data = tar_bytes(member("rocm-info/rocminfo.txt", b"Agent 1"), member("rocm-info/version", b"6"))
        with pytest.raises(TargetError, match="no evidence of a node") as error:
            open_host(write(tmp_path, data))
        assert error.value.hint

    @pytest.mark.parametrize("data", [b"", b"PK\x03\x04zip", b"BZh91AY", b"\x7fELF\0\0", bytes(2048)])
    def test_files_of_other_kinds(self, tmp_path, data):
        with pytest.raises(TargetError) as error:
            open_host(write(tmp_path, data))
        assert error.value.hint

    def test_the_hint_for_text_is_gdr_explain(self, tmp_path):
        for text in (b"modprobe: ERROR: could not insert", b"[    0.000000] Linux version 6.1\n"):
            with pytest.raises(TargetError) as error:
                open_host(write(tmp_path, text))
            assert "gdr explain" in error.value.hint

    def test_invalid_file_names(self, tmp_path):
        for name in ("a\0b", "x" * 5000, str(tmp_path / "none")):
            with pytest.raises(TargetError) as error:
                open_host(name)
            assert "\n" not in str(error.value)


def test_the_limits():
    assert (tarball.FILE_LIMIT_BYTES, tarball.NAMES_LIMIT, tarball.UNWANTED_ABOVE_BYTES) == (
        256 << 20,
        64 << 20,
        4096,
    )


@pytest.mark.parametrize(("length", "notes"), [(4096, 0), (4097, 1)])
def test_a_name_is_as_long_as_linux_allows(tmp_path, length, notes):
    """PATH_MAX, with its last byte: archives hold no zero at the end."""
    name = "sosreport-x/" + "d/" * 1000
    name += "f" * (length - len(name))
    deep = member(name, b"deep")
    for data in (sos_bytes(deep), tar_bytes(deep, end=False) + sos_bytes()):
        assert len(open_host(write(tmp_path, data)).notes) == notes


@pytest.mark.parametrize("name", ["./" * 100_000 + "a", "a/" * 100_000 + "a"])
@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.LNKTYPE])
def test_a_name_that_is_far_too_long_costs_no_more_than_another(tmp_path, name, kind):
    """Were each `./` removed by itself, such a name would take a second for each 300 kB."""
    opened = []

    def work(name: str) -> int:
        odd = member(name if kind == tarfile.REGTYPE else "sosreport-x/link", type=kind, linkname=name)
        target = write(tmp_path, sos_bytes(odd))
        return steps(lambda: opened.append(open_host(target)))

    shorter = work("b/" * 3000)
    assert abs(work(name) - shorter) < 10
    assert opened[0].notes == opened[1].notes and opened[1].read("etc/os-release") == b"ID=debian\n"


def test_names_may_begin_with_any_number_of_dots_and_slashes(tmp_path):
    files = {
        f"{start}sosreport-x/etc/{n}": b"x" for n, start in enumerate(("./", ".///", "././", "././/./"))
    }
    host = open_host(write(tmp_path, sos_bytes(*(member(name, content) for name, content in files.items()))))
    assert host.notes == () and {"0", "1", "2", "3"} <= set(host.list("etc"))


@pytest.mark.parametrize(("size", "kept"), [(1000, True), (1001, False)])
def test_a_compressed_file_is_kept_up_to_a_limit(tmp_path, monkeypatch, size, kept):
    """One that is not compressed is mapped, whatever its size."""
    monkeypatch.setattr(tarball, "FILE_LIMIT_BYTES", 1000)
    data = sos_bytes(member("sosreport-x/lib/big", b"x" * size), member("sosreport-x/lib/after", b"y"))
    for pack in ("plain", "gzip"):
        host = open_host(write(tmp_path, PACK[pack](data)))
        assert host.exists("lib/big") and host.read("lib/after") == b"y"
        if kept or pack == "plain":
            assert host.read("lib/big") == b"x" * size
        else:
            with pytest.raises(EvidenceMissing, match="larger than 0 MiB"):
                host.read("lib/big")


def test_the_target_of_a_link_is_kept_up_to_that_length(tmp_path):
    link = member("sosreport-x/link", type=tarfile.SYMTYPE, linkname="t" * 4096 + "cut")
    with Path(write(tmp_path, sos_bytes(link))).open("rb") as file:
        reader = tarball._TarReader(open_stream(file, "x"), "x")
        reader.run()

    assert reader.store.entries["link"] == StoredLink("t" * 4096)


def test_members_are_limited(tmp_path, monkeypatch):
    """With the folders above them: the report has 4 files in 5 folders."""
    monkeypatch.setattr(tarball, "MEMBERS_LIMIT", 9)
    open_host(write(tmp_path, sos_bytes()))
    with pytest.raises(TargetError, match="more than 9 files, or names that are too long"):
        open_host(write(tmp_path, sos_bytes(member("sosreport-x/one-more"))))
