"""Real modules of Debian's kernels: results agree with pyelftools, modinfo and modprobe."""

from __future__ import annotations

import random
import subprocess

import pytest

from gdrkit.formats import elf
from gdrkit.formats.compressed import decompress
from tests.debian_kernels import KERNELS, module, modules_of
from tests.system_programs import needs, program

LIMIT = 1 << 28
TAGS = ("license", "depends", "alias", "vermagic", "name", "intree", "import_ns", "description", "author")
SAMPLES = ("ib_core", "mlx5_ib", "iwlwifi", "usb-storage")
"""Many exports, many imports, exports in a namespace (by default and by name)."""

every_kernel = pytest.mark.parametrize(("version", "architecture"), KERNELS)
needs_kmod = needs("modinfo")


def content_of(path):
    return decompress(path.read_bytes(), LIMIT)


def some_of(version, architecture, count):
    """The same modules each time, of all types."""
    every = sorted(modules_of(version, architecture).glob("kernel/**/*.ko*"))
    return random.Random(2026).sample(every, count)


def output(name, *words):
    return subprocess.run([program(name), *words], capture_output=True, check=True).stdout


@every_kernel
@pytest.mark.parametrize("name", SAMPLES)
def test_symbols_agree_with_pyelftools(version, architecture, name):
    from io import BytesIO

    from elftools.elf.elffile import ELFFile

    content = content_of(module(version, architecture, name))
    witness = ELFFile(BytesIO(content))
    table = witness.get_section_by_name(".symtab")
    undefined, gpl_only, crcs, namespaces = [], {}, {}, {}
    for symbol in table.iter_symbols():
        place = symbol["st_shndx"]
        if place == "SHN_UNDEF" and symbol.name:
            undefined.append((symbol.name, symbol["st_info"]["bind"] == "STB_WEAK"))
        elif symbol.name.startswith("__ksymtab_"):
            gpl_only[symbol.name[10:]] = witness.get_section(place).name == "__ksymtab_gpl"
        elif symbol.name.startswith("__crc_"):
            offset = symbol["st_value"]
            crcs[symbol.name[6:]] = int.from_bytes(
                witness.get_section(place).data()[offset : offset + 4], "little"
            )
        elif symbol.name.startswith("__kstrtabns_"):
            text = witness.get_section(place).data()[symbol["st_value"] :]
            namespaces[symbol.name[12:]] = text.partition(b"\0")[0].decode()

    found = elf.parse(content)

    assert [(symbol.name, symbol.weak) for symbol in found.undefined()] == undefined
    assert found.exports() == {
        symbol: elf.Export(crcs[symbol], only, namespaces[symbol]) for symbol, only in gpl_only.items()
    }
    assert found.machine == {"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[architecture]
    assert [section.name for section in found.sections] == [
        section.name for section in witness.iter_sections()
    ]


@every_kernel
def test_real_exports_are_in_namespaces(version, architecture):
    exports = elf.parse(content_of(module(version, architecture, "iwlwifi"))).exports()

    assert "IWLWIFI" in {export.namespace for export in exports.values()}


@needs_kmod
@every_kernel
def test_tags_agree_with_modinfo(version, architecture):
    for path in some_of(version, architecture, 25):
        told = output("modinfo", "-0", path).decode().split("\0")
        expected = sorted(line for line in told if line.partition("=")[0] in TAGS)
        found = elf.parse(content_of(path))

        assert sorted(f"{tag}={value}" for tag, value in found.modinfo() if tag in TAGS) == expected, path
        assert f"name={found.this_module_name()}" in expected


@needs_kmod
@every_kernel
def test_versions_agree_with_modprobe(version, architecture):
    for path in some_of(version, architecture, 25):
        told = output("modprobe", "--dump-modversions", path).decode()
        expected = {name: int(crc, 16) for crc, name in (line.split() for line in told.splitlines())}

        assert elf.parse(content_of(path)).versions() == expected, path


@needs_kmod
@every_kernel
def test_exported_crcs_agree_with_modprobe(version, architecture):
    path = module(version, architecture, "ib_core")
    told = output("modprobe", "--show-exports", path).decode()
    expected = {name: int(crc, 16) for crc, name in (line.split() for line in told.splitlines())}

    exports = elf.parse(content_of(path)).exports()

    assert {name: export.crc for name, export in exports.items()} == expected


@every_kernel
@pytest.mark.parametrize(("user", "provider"), [("mlx5_ib", "ib_core"), ("mlx5_ib", "mlx5_core")])
def test_a_user_expects_the_crc_of_its_provider(version, architecture, user, provider):
    wanted = elf.parse(content_of(module(version, architecture, user))).versions()
    given = elf.parse(content_of(module(version, architecture, provider))).exports()

    shared = wanted.keys() & given.keys()

    assert len(shared) > 20
    assert {name: wanted[name] for name in shared} == {name: given[name].crc for name in shared}
