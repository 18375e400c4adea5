"""Compressed modules: who unpacks them, and what modprobe and the kernel print where that fails.

The messages are those of Debian 13's kernel 7.3.4 and kmod 34.2 in a guest of the lab.
"""

from __future__ import annotations

import gzip
import lzma

import pytest
from backports import zstd

from gdrkit.formats.compressed import Packing, packing
from gdrkit.loader import Prediction, modprobe
from tests.kernel_tree import CONFIG, KernelTree
from tests.loader.shared import could_not
from tests.module_builder import RELEASE, build_module

MODULE = build_module("x")
CRC32, CRC64 = (lzma.compress(MODULE, check=check) for check in (lzma.CHECK_CRC32, lzma.CHECK_CRC64))
LZMA2 = lzma.FILTER_LZMA2


def filtered(*before: int) -> bytes:
    filters = [*({"id": number} for number in before), {"id": LZMA2}]
    return lzma.compress(MODULE, check=lzma.CHECK_CRC32, filters=filters)


DELTA, X86 = filtered(lzma.FILTER_DELTA), filtered(lzma.FILTER_X86)
TWO, IA64 = filtered(lzma.FILTER_X86, lzma.FILTER_DELTA), filtered(lzma.FILTER_IA64)
HALF = len(MODULE) // 2
HALVES = lzma.compress(MODULE[:HALF]) + lzma.compress(MODULE[HALF:])
SIZED = zstd.compress(MODULE)
_STREAM = zstd.ZstdCompressor()
UNSIZED = _STREAM.compress(MODULE) + _STREAM.flush()
INVALID = could_not("Invalid argument")
DEBIAN_13 = 'ID=debian\nVERSION_ID="13"\n'


def altered(data: bytes) -> bytes:
    at = len(data) // 2
    return data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]


def loaded(data: bytes, *, release: str = DEBIAN_13, kernel: str = "xz") -> Prediction:
    tree = KernelTree().module("x", content=data, file="x.ko.xz").put("etc/os-release", release)
    if kernel:
        tree.put("sys/module/compression", f"{kernel}\n")
    return modprobe(tree.node(), "x")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (MODULE, None),
        (CRC32, Packing("xz", check="crc32", filters=(LZMA2,))),
        (CRC64, Packing("xz", check="crc64", filters=(LZMA2,))),
        (DELTA, Packing("xz", check="crc32", filters=(lzma.FILTER_DELTA, LZMA2))),
        (X86, Packing("xz", check="crc32", filters=(lzma.FILTER_X86, LZMA2))),
        (SIZED, Packing("zstd", sized=True)),
        (UNSIZED, Packing("zstd", sized=False)),
        (b"\x1f\x8b\x08\0", Packing("gzip")),
        (b"\xfd7zXZ\0", Packing("xz")),
    ],
)
def test_how_a_file_is_compressed_by_its_first_bytes(data: bytes, expected: Packing | None) -> None:
    assert packing(data[:64]) == expected


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (CRC64, 6), (CRC64[: len(CRC64) // 2], 6), (CRC32[: len(CRC32) // 2], 0), (altered(CRC32), 7),
        (DELTA, 6), (TWO, 6),
    ],
)  # fmt: skip
def test_the_kernel_logs_a_status_for_xz_that_it_cannot_unpack(data: bytes, status: int) -> None:
    found = loaded(data)
    assert (found.stderr, found.reason, found.loaded) == (INVALID, "module-corrupt", False)
    assert found.kernel_log == (f"decompression failed with status {status}",)


def test_the_kernel_unpacks_the_first_stream_and_ignores_what_follows_it() -> None:
    sealed = CRC32 + b"a signature around a compressed file"
    assert loaded(sealed).loaded
    assert not loaded(sealed, kernel="zstd").loaded  # then modprobe unpacks it, which reads to the end


def test_a_filter_counts_that_the_kernel_was_built_with() -> None:
    tree = KernelTree().module("x", content=X86, file="x.ko.xz").put("etc/os-release", DEBIAN_13)
    tree.put("sys/module/compression", "xz\n")
    config = f"boot/config-{RELEASE}"
    lacking = modprobe(tree.put(config, f"#\n{CONFIG}CONFIG_XZ_DEC_ARM=y\n").node(), "x")
    assert lacking.kernel_log == ("decompression failed with status 6",)
    assert modprobe(tree.put(config, f"#\n{CONFIG}CONFIG_XZ_DEC_X86=y\n").node(), "x").loaded
    for data in (DELTA, TWO, IA64):
        assert loaded(data, kernel="zstd").loaded  # liblzma has them all


def test_of_several_streams_the_kernel_reads_one_and_modprobe_all() -> None:
    assert loaded(HALVES, kernel="zstd").loaded
    found = loaded(HALVES.replace(lzma.compress(MODULE[:HALF]), lzma.compress(MODULE[:HALF], check=1)))
    assert (found.loaded, found.reason) == (False, "module-corrupt")
    assert loaded(CRC32 + lzma.compress(b"")).loaded
    frames = zstd.compress(MODULE[:HALF]) + zstd.compress(MODULE[HALF:])
    assert loaded(frames).stderr == ("modprobe: ERROR: zstd: Destination buffer is too small", *INVALID)
    assert not loaded(frames, kernel="zstd").loaded
    assert loaded(frames, release='ID=ubuntu\nVERSION_ID="22.04"\n').loaded


@pytest.mark.parametrize(
    ("behind", "said"),
    [
        (b"a word that is long", "xz: File is corrupt"), (b"abc", "xz: Unexpected end of input"),
        (bytes(6), "xz: File is corrupt"), (bytes(8), ""),
    ],
)  # fmt: skip
def test_what_modprobe_says_of_bytes_behind_the_last_stream(behind: bytes, said: str) -> None:
    found = loaded(CRC32 + behind, kernel="zstd")
    assert found.stderr == ((f"modprobe: ERROR: {said}", *INVALID) if said else ())
    assert loaded(CRC32 + behind).loaded


def test_bytes_behind_a_zstd_frame_are_an_error_and_behind_gzip_nothing() -> None:
    assert loaded(SIZED + b"more").stderr == ("modprobe: ERROR: zstd: Src size is incorrect", *INVALID)
    assert loaded(gzip.compress(MODULE) + b"more").loaded


def test_an_older_kmod_unpacks_every_file_itself() -> None:
    debian_12 = 'ID=debian\nVERSION_ID="12"\n'
    assert loaded(CRC64, release=debian_12).loaded
    found = loaded(CRC32[: len(CRC32) // 2], release=debian_12)
    assert (found.stderr, found.kernel_log) == (INVALID, ())


def test_a_kernel_that_does_not_decompress_leaves_it_to_kmod() -> None:
    assert loaded(CRC64, kernel="zstd").loaded


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (UNSIZED, "zstd: Failed to determine decompression size"),
        (UNSIZED + b"more", "zstd: Failed to determine decompression size"),
        (SIZED[: len(SIZED) // 2], "zstd: Src size is incorrect"),
    ],
)
def test_kmod_34_says_why_it_cannot_unpack_zstd(data: bytes, said: str) -> None:
    found = loaded(data)
    assert found.stderr == (f"modprobe: ERROR: {said}", *INVALID)
    assert (found.reason, found.kernel_log) == ("module-corrupt", ())


def test_zstd_with_the_size_of_its_content_loads_and_without_it_only_before_kmod_34() -> None:
    assert loaded(SIZED).loaded
    assert loaded(UNSIZED, release='ID=ubuntu\nVERSION_ID="22.04"\n').loaded
    assert loaded(UNSIZED, kernel="zstd").loaded  # the kernel needs no size


def test_disabled_modules_are_refused_before_the_kernel_unpacks_anything() -> None:
    tree = KernelTree().module("x", content=CRC64, file="x.ko.xz").put("etc/os-release", DEBIAN_13)
    tree.put("sys/module/compression", "xz\n").put("proc/sys/kernel/modules_disabled", "1\n")
    found = modprobe(tree.node(), "x")
    assert (found.reason, found.kernel_log) == ("modules-disabled", ())


def test_kmod_34_prints_no_place_in_its_source() -> None:
    tree = KernelTree().module("x").put("etc/modprobe.d/a.conf", "install x /bin/false\n")
    found = modprobe(tree.put("etc/os-release", DEBIAN_13).node(), "x")
    assert found.stderr[0] == (
        "modprobe: ERROR: Error running install command '/bin/false' for module x: retcode 1"
    )
