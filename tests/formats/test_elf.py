"""ELF files: imports, exports, versions and tags of modules, and errors in invalid files."""

from __future__ import annotations

import struct
import subprocess
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.formats import elf
from gdrkit.formats.errors import FormatError
from tests.module_builder import Export, build_module
from tests.system_programs import needs, program
from tests.work import steps

SECTION = struct.Struct("<IIQQQQIIQQ")
NULL, PROGBITS, SYMTAB, STRTAB, NOBITS, DYNSYM = 0, 1, 2, 3, 8, 11
ALLOC = 2


def file_of(sections, *, kind=1, machine=62):
    """An ELF file of (name, type, flags, content, link); number 0 and the names are added."""
    names, offsets = bytearray(b"\0"), []
    for name, *_ in (*sections, (".shstrtab",)):
        offsets.append(len(names))
        names += name.encode() + b"\0"
    rows = [*sections, (".shstrtab", STRTAB, 0, bytes(names), 0)]
    body, table = bytearray(64), bytearray(64)
    for (_, type_, flags, content, link), name in zip(rows, offsets, strict=True):
        table += SECTION.pack(name, type_, flags, 0, len(body), len(content), link, 0, 1, 0)
        if type_ != NOBITS:
            body += content
    count = len(rows) + 1
    body[:64] = header(len(body), count, kind=kind, machine=machine)
    return bytes(body + table)


def header(table_at, count, *, kind=1, machine=62, names_index=None, entry_size=64, bits=2, order=1):
    where = max(count - 1, 0) if names_index is None else names_index
    head = struct.pack("<4sBBBB8x", b"\x7fELF", bits, order, 1, 0)
    rest = (kind, machine, 1, 0, 0, table_at, 0, 64, 0, 0, entry_size, count, where)
    return head + struct.pack("<HHIQQQIHHHHHH", *rest)


def symbol(name, place, value=0, *, binding=1):
    return struct.pack("<IBBHQQ", name, binding << 4, 0, place, value, 0)


def with_symbols(symbols, sections, *, kind=1, table=SYMTAB):
    """A file with these sections from number 3 on, and symbols given as (name, section, value, binding)."""
    names, rows = bytearray(b"\0"), [symbol(0, 0)]
    for name, place, value, binding in symbols:
        rows.append(symbol(len(names), place, value, binding=binding))
        names += name.encode() + b"\0"
    own = ("tab", table, 0, b"".join(rows), 2), ("str", STRTAB, 0, bytes(names), 0)
    return file_of([*own, *sections], kind=kind)


MODULE = build_module(
    "gdr_user",
    imports={"gdr_hello": 0x12345678, "printk": 0x92997ED8},
    weak_imports={"maybe": 0x1},
    exports={"give": Export(0xDEADBEEF), "give_gpl": Export(7, gpl_only=True, namespace="GDR")},
    depends=("gdr_provider",),
    static_symbols=("__crc_table", "helper"),
)


class TestModule:
    def test_undefined_symbols_keep_the_files_order_and_say_which_are_weak(self):
        assert elf.parse(MODULE).undefined() == (
            elf.UndefinedSymbol("gdr_hello", False),
            elf.UndefinedSymbol("printk", False),
            elf.UndefinedSymbol("maybe", True),
        )

    def test_exports_have_crc_licence_and_namespace(self):
        assert elf.parse(MODULE).exports() == {
            "give": elf.Export(0xDEADBEEF, False, ""),
            "give_gpl": elf.Export(7, True, "GDR"),
        }

    def test_an_export_built_without_symbol_versions_has_no_crc(self):
        built = build_module("m", exports={"give": Export(None)}, versions=False)

        assert elf.parse(built).exports() == {"give": elf.Export(None, False, "")}
        assert elf.parse(built).versions() is None

    def test_a_module_without_exports_has_an_empty_table(self):
        assert elf.parse(build_module("m", static_symbols=("__crc_table",))).exports() == {}

    def test_versions_are_expected_crcs_by_name(self):
        versions = elf.parse(MODULE).versions()

        assert versions is not None
        assert versions["gdr_hello"] == 0x12345678
        assert set(versions) == {"module_layout", "gdr_hello", "printk", "maybe"}

    def test_modinfo_keeps_order_and_repeated_tags(self):
        built = build_module("m", modinfo=[("alias", "a"), ("alias", "b=c")])
        tags = elf.parse(built).modinfo()

        assert [value for tag, value in tags if tag == "alias"] == ["a", "b=c"]

    def test_a_module_shows_its_name_in_the_kernel(self):
        assert elf.parse(MODULE).this_module_name() == "gdr_user"

    def test_memory_views_are_read_like_bytes(self):
        assert elf.parse(memoryview(bytearray(MODULE))).undefined() == elf.parse(MODULE).undefined()


class TestNewerAndOlderKernels:
    def test_extended_versions_can_have_names_longer_than_a_record(self):
        name = "_RNv" + "x" * 90
        extended = file_of(
            [
                ("__versions", PROGBITS, ALLOC, struct.pack("<Q56s", 1, b"short"), 0),
                ("__version_ext_crcs", PROGBITS, ALLOC, struct.pack("<II", 0xA, 0xB), 0),
                ("__version_ext_names", PROGBITS, ALLOC, f"short\0{name}\0".encode(), 0),
            ]
        )

        assert elf.parse(extended).versions() == {"short": 0xA, name: 0xB}

    def test_extended_versions_without_enough_names_are_refused(self):
        extended = file_of(
            [
                ("__version_ext_crcs", PROGBITS, ALLOC, struct.pack("<III", 1, 2, 3), 0),
                ("__version_ext_names", PROGBITS, ALLOC, b"a\0b", 0),
            ]
        )

        with pytest.raises(FormatError, match="more symbol versions than names"):
            elf.parse(extended).versions()

    def test_before_5_19_the_crc_is_an_absolute_symbol(self):
        old = with_symbols(
            [("__ksymtab_f", 3, 0, 1), ("__crc_f", 0xFFF1, 0x89ABCDEF, 1)],
            [("___ksymtab_gpl+f", PROGBITS, ALLOC, bytes(12), 0)],
        )

        assert elf.parse(old).exports() == {"f": elf.Export(0x89ABCDEF, True, "")}

    def test_a_crc_that_genksyms_could_not_compute_is_none(self):
        failed = with_symbols(
            [("__ksymtab_f", 3, 0, 1), ("__crc_f", 0, 0, 2)], [("__ksymtab", PROGBITS, ALLOC, bytes(12), 0)]
        )

        assert elf.parse(failed).exports() == {"f": elf.Export(None, False, "")}

    @pytest.mark.parametrize(("flags", "gpl_only"), [(0, False), (1, True), (2, False), (3, True)])
    def test_a_table_of_flags_decides_the_licence(self, flags, gpl_only):
        flagged = with_symbols(
            [("__ksymtab_f", 3, 0, 0), ("__flags_f", 4, 1, 0)],
            [
                ("__ksymtab", PROGBITS, ALLOC, bytes(12), 0),
                ("__kflagstab", PROGBITS, ALLOC, bytes([0xFF, flags]), 0),
            ],
        )

        assert elf.parse(flagged).exports() == {"f": elf.Export(None, gpl_only, "")}

    def test_a_variable_with_the_name_of_a_flag_is_not_a_flag(self):
        flagged = with_symbols(
            [("__ksymtab_f", 3, 0, 0), ("__flags_f", 4, 0, 0)],
            [
                ("__ksymtab_gpl", PROGBITS, ALLOC, bytes(12), 0),
                (".data", PROGBITS, ALLOC, b"\0", 0),
            ],
        )

        assert elf.parse(flagged).exports() == {"f": elf.Export(None, True, "")}

    def test_objects_before_modpost_list_exports_in_a_section_of_their_own(self):
        fresh = with_symbols(
            [("__export_symbol_f", 3, 0, 0), ("__export_symbol_g", 3, 16, 0)],
            [(".export_symbol", PROGBITS, ALLOC, b"GPL\0module:kvm\0".ljust(16, b"\0") + b"\0\0", 0)],
        )

        assert elf.parse(fresh).exports() == {
            "f": elf.Export(None, True, "module:kvm"),
            "g": elf.Export(None, False, ""),
        }

    def test_the_loaded_one_of_two_sections_with_a_name_is_used(self):
        twice = file_of(
            [
                (".modinfo", PROGBITS, 0, b"license=no\0", 0),
                (".modinfo", PROGBITS, ALLOC, b"license=GPL\0", 0),
            ]
        )

        assert elf.parse(twice).modinfo() == (("license", "GPL"),)


class TestLibrary:
    def test_dynamic_exports_are_defined_and_not_local(self):
        library = with_symbols(
            [("ibv_reg_dmabuf_mr", 3, 0, 1), ("malloc", 0, 0, 1), ("own", 3, 0, 0), ("weak", 3, 0, 2)],
            [(".text", PROGBITS, ALLOC, b"\xc3", 0)],
            kind=3,
            table=DYNSYM,
        )

        assert elf.parse(library).dynamic_exports() == {"ibv_reg_dmabuf_mr", "weak"}

    def test_a_module_has_no_dynamic_symbols(self):
        with pytest.raises(FormatError, match="no dynamic symbol table"):
            elf.parse(MODULE).dynamic_exports()

    def test_a_library_has_no_exports_to_modules(self):
        with pytest.raises(FormatError, match="not a module"):
            elf.parse(file_of([], kind=3)).exports()

    @needs("gcc", "nm")
    def test_symbols_of_a_compiled_library_agree_with_nm(self, tmp_path):
        source, library = tmp_path / "a.c", tmp_path / "liba.so"
        source.write_text(
            "int seen; static int own; extern int there(void); int f(void){return own+there();}"
        )
        build = [program("gcc"), "-shared", "-fPIC", "-o", library, source]
        subprocess.run(build, check=True)
        listed = subprocess.run(
            [program("nm"), "-D", "--defined-only", library], capture_output=True, text=True, check=True
        )

        found = elf.parse(library.read_bytes())

        assert found.dynamic_exports() == {line.split()[-1] for line in listed.stdout.splitlines()}
        assert found.type == elf.ET_DYN


class TestIdentity:
    @pytest.mark.parametrize("name", ["x86_64", "aarch64", "riscv64"])
    def test_the_machine_is_known_without_a_full_parse(self, name):
        built = build_module("m", machine=name, module_layout=None, versions=False, vermagic="")

        identity = elf.identify(built[:20])

        assert identity == elf.ElfIdentity(
            64, True, {"x86_64": 62, "aarch64": 183, "riscv64": 243}[name], elf.ET_REL
        )

    def test_other_classes_and_byte_orders_are_identified_and_not_parsed(self):
        narrow = header(0, 1, bits=1) + bytes(64)
        big = b"\x7fELF\x02\x02" + bytes(10) + struct.pack(">HH", 1, 21) + bytes(100)

        assert elf.identify(narrow).bits == 32
        assert elf.identify(big) == elf.ElfIdentity(64, False, 21, 1)
        with pytest.raises(FormatError, match="32-bit"):
            elf.parse(narrow)
        with pytest.raises(FormatError, match="big-endian"):
            elf.parse(big)

    @pytest.mark.parametrize(
        ("data", "words"),
        [
            (b"", "empty"),
            (b"modinfo: ERROR: Module x not found.\n", "not an ELF file"),
            (b"\x7fELF\x02\x01", "cut off"),
            (b"\x7fELF\x02\x01".ljust(19, b"\0"), "cut off"),
            (b"\x7fELF\x02\x01".ljust(63, b"\0"), "cut off"),
            (b"\x7fELF\x02\x01".ljust(64, b"\0"), "no section table"),
            (b"\x7fELF\x07\x01" + bytes(60), "unknown class"),
        ],
    )
    def test_other_files_than_elf_are_refused(self, data, words):
        with pytest.raises(FormatError, match=words):
            elf.parse(data)


class TestReduced:
    """A bundle can keep a module's section table without the sections that are not needed."""

    def test_a_dropped_section_has_a_size_and_no_content(self):
        reduced = elf.parse(file_of([(".text", NOBITS, ALLOC, bytes(4096), 0)]))

        assert reduced.size_of(".text") == 4096
        with pytest.raises(FormatError, match=r"\.text has no content"):
            reduced.section(".text")

    def test_a_missing_section_is_none(self):
        reduced = elf.parse(file_of([]))

        assert (reduced.section(".text"), reduced.size_of(".text")) == (None, None)
        assert reduced.this_module_name() is None

    @pytest.mark.parametrize("ask", ["undefined", "exports", "modinfo"])
    def test_a_stripped_module_is_not_one_without_imports_and_tags(self, ask):
        with pytest.raises(FormatError, match="there is no"):
            getattr(elf.parse(file_of([])), ask)()


class TestHostile:
    @pytest.mark.parametrize(
        ("head", "words"),
        [
            (header(1 << 62, 3), "section table is cut off"),
            (header(64, 0xFFFF), "section table is cut off"),
            (header(64, 3, names_index=7), "section names is outside"),
            (header(64, 3, entry_size=63), "no section table"),
            (header(64, 0), "no section table"),
        ],
    )
    def test_wrong_headers_are_refused(self, head, words):
        with pytest.raises(FormatError, match=words):
            elf.parse(head + bytes(400))

    def test_every_truncation_is_refused_or_gives_the_same(self):
        whole = elf.parse(MODULE).sections
        for size in range(len(MODULE)):
            with pytest.raises(FormatError):
                elf.parse(MODULE[:size])
        assert elf.parse(MODULE + b"tail").sections == whole

    def test_a_section_beyond_the_end_is_refused(self):
        lying = bytearray(file_of([(".modinfo", PROGBITS, ALLOC, b"a=b\0", 0)]))
        at = struct.unpack_from("<Q", lying, 40)[0] + 64 + 24
        struct.pack_into("<Q", lying, at, 1 << 63)

        with pytest.raises(FormatError, match="beyond the end"):
            elf.parse(lying)

    def test_a_string_table_without_an_end_is_refused(self):
        endless = file_of([("tab", SYMTAB, 0, symbol(1, 0), 2), ("str", STRTAB, 0, b"\0name", 0)])

        with pytest.raises(FormatError, match="zero byte"):
            elf.parse(endless).undefined()

    def test_a_name_outside_its_table_is_refused(self):
        outside = file_of([("tab", SYMTAB, 0, symbol(99, 0), 2), ("str", STRTAB, 0, b"\0name\0", 0)])

        with pytest.raises(FormatError, match="outside"):
            elf.parse(outside).undefined()

    def test_overlapping_names_are_limited(self):
        """500,000 symbols, each named by another ending of one long string: 10 GB for all names."""
        count = 500_000
        table = b"".join(symbol(index % 40_000 + 1, 0) for index in range(count))
        text = b"\0" + b"a" * 50_000 + b"\0"

        self.refused_cheaply(
            file_of([("tab", SYMTAB, 0, table, 2), ("str", STRTAB, 0, text, 0)]), "undefined"
        )

    def test_a_module_full_of_tags_is_limited(self):
        self.refused_cheaply(file_of([(".modinfo", PROGBITS, ALLOC, b"=\0" * 4_000_000, 0)]), "modinfo")

    def test_a_module_full_of_versions_is_limited(self):
        crcs = ("__version_ext_crcs", PROGBITS, ALLOC, bytes(8_000_000), 0)
        names = ("__version_ext_names", PROGBITS, ALLOC, bytes(8_000_000), 0)

        self.refused_cheaply(file_of([crcs, names]), "versions")

    def test_namespaces_in_many_sections_are_not_copied(self):
        """Each section is the whole file: copying each would take 20 GB."""
        names = b"\0__kstrtabns_f\0".ljust(400_000, b"x") + b"\0"
        sections = [("str", STRTAB, 0, names, 0)]
        table = b"".join(symbol(1, 3 + index % 50_000) for index in range(50_000))
        many = bytearray(file_of([("tab", SYMTAB, 0, table, 2), *sections]))
        row = many[-64:]
        struct.pack_into("<IIQQQQ", row, 0, 0, STRTAB, ALLOC, 0, 0, len(many))
        many += bytes(row) * 50_000
        struct.pack_into("<H", many, 60, 50_004)

        self.refused_cheaply(bytes(many), "exports")

    def test_the_maximum_of_sections_is_read_in_limited_time(self):
        size = 0xFFFF * SECTION.size
        body = bytearray(header(64, 0xFFFF, names_index=1)) + bytes(size)
        struct.pack_into("<IIQQQQ", body, 128, 1, STRTAB, 0, 0, 0, 8)  # names: the first bytes of the file
        body[7] = 0

        assert len(elf.parse(bytes(body)).sections) == 0xFFFF
        assert steps(elf.parse, bytes(body)) < 20 * 0xFFFF

    def refused_cheaply(self, data, ask):
        def refused():
            with pytest.raises(FormatError):
                getattr(parsed, ask)()

        parsed = elf.parse(data)
        tracemalloc.start()
        refused()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 12 * len(data) + (16 << 20)
        parsed = elf.parse(data)
        assert steps(refused) < 100_000


QUESTIONS = (
    "undefined",
    "exports",
    "versions",
    "modinfo",
    "dynamic_exports",
    "this_module_name",
)


def ask_everything(data):
    """Call every method for a file; each returns a value or raises FormatError."""
    try:
        parsed = elf.parse(data)
    except FormatError:
        return
    for question in QUESTIONS:
        try:
            getattr(parsed, question)()
        except FormatError:
            continue


@given(st.binary(max_size=400))
def test_any_bytes_give_a_value_or_a_format_error(data):
    ask_everything(data)
    ask_everything(header(64, 3) + data)


@given(st.data())
def test_a_module_with_any_byte_changed_gives_a_value_or_a_format_error(data):
    changed = bytearray(MODULE)
    for _ in range(data.draw(st.integers(1, 8))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    ask_everything(bytes(changed))
