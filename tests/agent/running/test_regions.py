"""Regions read out of a kernel's memory: of a small one that a compiler laid out, and hostile layouts."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.agent.running import regions, system
from gdrkit.agent.running.btf import Btf
from gdrkit.agent.running.kcore import Kcore
from tests.programs import program as installed

SOURCE = Path(__file__).with_name("small_kernel.c")
HEADER = struct.Struct("=HBBIIIII")
MIB = 1 << 20
MAPS = b"""\
05db8000-0f557000 rw-p 00000000 00:00 0                                  [heap]
7f3cc1a00000-7f3cd2000000 ---p 00000000 00:00 0
7f3cd2000000-7f3cd3000000 rw-s 00000000 00:01 4101                       /dev/zero (deleted)
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory) -> tuple[Path, int]:
    """A folder with the memory and the BTF of the small kernel, and the address of its list of devices."""
    folder = tmp_path_factory.mktemp("kernel")
    gcc, objcopy = installed("gcc"), installed("objcopy")
    program, plain = folder / "kernel", folder / "kernel.o"
    run(gcc, "-gbtf", "-O0", "-c", SOURCE, "-o", plain)
    run(gcc, plain, "-no-pie", "-o", program)
    flags = ("--set-section-flags", ".BTF=alloc")
    run(objcopy, "-O", "binary", "--only-section=.BTF", *flags, plain, folder / "vmlinux")
    address = run(program, folder / "kcore")
    whole = Btf((folder / "vmlinux").read_bytes())
    (folder / "ib_core").write_bytes(module(whole))
    (folder / "lab").write_bytes(module(whole, "lab_mr"))
    return folder, int(address, 16)


def run(*words) -> str:
    return subprocess.run([*map(str, words)], check=True, capture_output=True, text=True).stdout


def module(whole: Btf, *names: str) -> bytes:
    """The BTF of a module that defines these structures again, as a driver does those of its own."""
    text, types = b"", b""

    def word(name: str) -> int:
        nonlocal text
        text += name.encode() + b"\0"
        return whole._text_last + len(text) - len(name) - 1

    text += b"\0"
    for name in names:
        members = list(whole.members(whole.struct(name)))
        types += struct.pack("=III", word(name), 4 << 24 | len(members), 0)
        for member, what, bits in members:
            types += struct.pack("=III", word(member), what, bits)
    return HEADER.pack(0xEB9F, 1, 0, HEADER.size, 0, len(types), len(types), len(text)) + types + text


def walked(folder: Path, address: int) -> list[dict]:
    core = Kcore(str(folder / "kcore"))
    try:
        return list(regions.Walk(core, regions.Layout(f"{folder}/")).regions(address))
    finally:
        core.close()


def test_every_region_of_a_process_is_told_and_how_it_was_registered(kernel):
    """One of a dma-buf, one of addresses, one that has no memory; not the one of the kernel."""
    first, second, third = walked(*kernel)

    assert first == {
        "device": "mlx5_0", "mrn": 40, "bytes": MIB, "pid": 701, "kind": "dmabuf", "exporter": "nv_dmabuf",
        "importer": "0000:b5:00.0",
    }  # fmt: skip
    assert second == {
        "device": "mlx5_0", "mrn": 41, "bytes": 2 * MIB, "pid": 701, "kind": "user",
        "address": 0x7F3CC2000000, "writable": True,
    }  # fmt: skip
    assert third == {"device": "mlx5_0", "kind": "", "why": "a region without memory of its own"}


def test_a_driver_without_btf_is_not_told_and_says_so(kernel, tmp_path):
    """As most builds of MLNX_OFED."""
    folder, address = kernel
    for name in ("kcore", "vmlinux", "ib_core"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())

    assert {row["why"] for row in walked(tmp_path, address)} == {"lab has no BTF"}


def test_a_field_that_this_kernel_has_not_is_no_field_at_the_beginning(kernel):
    layout = regions.Layout(f"{kernel[0]}/")

    assert layout.has("ib_umem", "is_odp") and not layout.has("ib_umem", "is_peer")
    with pytest.raises(LookupError, match="no is_peer in ib_umem"):
        layout.field("ib_umem", "is_peer")


def read(kernel: tuple[Path, int], monkeypatch, tmp_path: Path, address: int) -> list[dict]:
    """The rows about the small kernel whose symbols have this address of the list."""
    folder, _ = kernel
    layout = regions.Layout(f"{folder}/")
    (tmp_path / "kallsyms").write_text(f"{1:016x} b devices\t[other]\n{address:016x} d devices\t[ib_core]\n")
    (tmp_path / "701").mkdir()
    (tmp_path / "701/maps").write_bytes(MAPS)
    monkeypatch.setattr(regions, "_SYMBOLS", str(tmp_path / "kallsyms"))
    monkeypatch.setattr(regions, "Kcore", lambda: Kcore(str(folder / "kcore")))
    monkeypatch.setattr(regions, "Layout", lambda: layout)
    found: list[dict] = []
    regions.read(found.append, str(tmp_path))
    return found


def test_a_region_of_addresses_has_its_area_and_not_its_address(kernel, monkeypatch, tmp_path):
    rows = read(kernel, monkeypatch, tmp_path, kernel[1])

    assert [row["kind"] for row in rows] == ["dmabuf", "user", ""]
    assert rows[1]["area"] == "---p" and not any("address" in row for row in rows)


def test_symbols_whose_addresses_are_hidden_lead_nowhere(kernel, monkeypatch, tmp_path):
    """Sysctl kernel.kptr_restrict: then /proc/kallsyms shows zeros."""
    with pytest.raises(LookupError, match="kallsyms does not show"):
        read(kernel, monkeypatch, tmp_path, 0)


@given(st.integers(0, 20_000), st.binary(min_size=1, max_size=8))
def test_memory_that_changes_meanwhile_raises_only_what_is_documented(kernel, at, changed):
    folder, address = kernel
    data = bytearray((folder / "kcore").read_bytes())
    at %= len(data)
    data[at : at + len(changed)] = changed
    broken = folder / "broken"
    broken.write_bytes(data)
    try:
        core = Kcore(str(broken))
    except LookupError:
        return
    try:
        list(regions.Walk(core, regions.Layout(f"{folder}/")).regions(address))
    except LookupError:
        pass
    finally:
        core.close()


@given(st.integers(0, 5_000), st.binary(min_size=1, max_size=8))
def test_btf_that_is_malformed_raises_only_what_is_documented(kernel, at, changed):
    data = bytearray((kernel[0] / "vmlinux").read_bytes())
    at %= len(data)
    data[at : at + len(changed)] = changed
    try:
        types = Btf(bytes(data))
        for number in types.structures():
            list(types.members(number))
        types.field("dma_buf_attachment", "dmabuf")
    except (LookupError, ValueError):
        pass


def test_bit_fields_have_their_bit(kernel):
    types = Btf((kernel[0] / "vmlinux").read_bytes())

    assert [types.field("ib_umem", name).bit for name in ("writable", "is_odp", "is_dmabuf")] == [0, 1, 2]
    with pytest.raises(LookupError, match="no is_peer in ib_umem"):
        types.field("ib_umem", "is_peer")


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        (0x05DB8000, "rw-p [heap]"),
        (0x0F557000, ""),
        (0x7F3CC2000000, "---p"),
        (0x7F3CD2000000, "rw-s /dev/zero (deleted)"),
    ],
)
def test_the_area_of_an_address_ends_before_its_last(address, expected):
    assert regions.area(MAPS, address) == expected


def test_under_lockdown_nothing_is_opened(monkeypatch):
    """Each try would be a line in the kernel's log."""
    monkeypatch.setattr(system, "lockdown", lambda: "none integrity [confidentiality]")
    monkeypatch.setattr(regions, "Kcore", lambda: pytest.fail("opened"))

    with pytest.raises(PermissionError, match="locked down"):
        regions.read(pytest.fail)
