"""The tables of cases and profiles, and the files of a case, without a guest."""

from __future__ import annotations

import pytest
from lab.cache import LabError
from lab.case import Case, Prepared, names_of, one
from lab.cases import CASES, of_groups
from lab.commands import SEED
from lab.kernels import FLAVOURS, flavour
from lab.names import IDENTITIES, naming, token
from lab.profiles import PROFILES, profile
from lab.random_cases import batches, generate
from lab.session import command_line
from lab.sources import MODULES_REAL, SOURCES, SYMBOLS_REAL
from lab.variants import OF_THE_KERNEL, answer_value, compress

from lab import cpio, elf_edit, golden
from tests.module_builder import build_module


def test_there_are_at_least_sixty_cases_and_ten_profiles_with_unique_names() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 60
    assert len({row.name for row in PROFILES}) == len(PROFILES) >= 10


def test_every_case_belongs_to_a_profile() -> None:
    booted = {case.name for row in PROFILES for case in of_groups(row.groups, FLAVOURS[0])}
    assert booted == {case.name for case in CASES}


def test_a_case_that_changes_the_guest_permanently_is_last() -> None:
    order = [case.last for case in of_groups(profile("disabled").groups, FLAVOURS[0])]
    assert order == sorted(order) and order[-1]


def test_a_kernel_without_symbol_versions_has_no_case_that_changes_them() -> None:
    with_versions = {case.name for case in of_groups(("matrix",), flavour("6.12-debian13-amd64"))}
    without = {case.name for case in of_groups(("matrix",), flavour("7-debian13-amd64"))}
    assert without < with_versions
    assert {"crc-of-dependency", "no-versions", "crc-entry-missing"} <= with_versions - without
    assert "vermagic-release" in without


def test_a_file_that_replaces_another_later_is_where_depmod_does_not_see_it() -> None:
    later = {module.at for case in CASES for module in case.modules if module.at.startswith("/")}
    in_tree = {at for at in later if at.startswith(("/lib/modules", "/usr/lib/modules"))}
    assert later > in_tree == {"/usr/lib/modules/0.0.0"}  # of another release


def test_every_case_names_modules_that_exist() -> None:
    names = {source.name for source in SOURCES}
    used = {module.variant.source for case in CASES for module in case.modules}
    assert {source for source in used if not source.startswith(OF_THE_KERNEL)} <= names


def test_names_are_random_but_determined_by_the_seed() -> None:
    case = Case(name="some", modules=(one("plain"),))
    assert names_of(case, 1).module("plain") == names_of(case, 1).module("plain")
    assert names_of(case, 1).module("plain") != names_of(case, 2).module("plain")


def test_a_recorded_name_is_drawn_again_whatever_modules_were_added_since() -> None:
    """A boot is compared with its recording by names: tests/lab/test_boot.py."""
    session = golden.read("6.1-amd64", "plain")
    cases = {case.name: case for case in of_groups(session.profile.groups, flavour("6.1-amd64"))}
    loaded = {case.name: case.answer.new for case in session.cases}
    for name in ("init-ok", "init-positive"):
        assert loaded[name] == (names_of(cases[name], SEED).module("plain"),)


def test_real_names_are_used_only_if_a_case_requests_them() -> None:
    assert naming(1, real_names=True).module("peermem") == MODULES_REAL["peermem"] == "nvidia_peermem"
    made_up = naming(1)
    assert made_up.module("peermem") not in MODULES_REAL.values()
    assert made_up.symbol("peer_register") not in SYMBOLS_REAL.values()


def test_a_name_is_as_long_as_its_token() -> None:
    for seed in range(20):
        for real in (False, True):
            names = naming(seed, real_names=real).names
            assert all(len(names[name]) == len(token(name)) for name in IDENTITIES)


def test_random_symbols_keep_the_order_of_their_tokens() -> None:
    symbols = [name for name in IDENTITIES if name.kind == "symbol"]
    for seed in range(20):
        made_up = naming(seed)
        assert [made_up.names[name] for name in symbols] == sorted(made_up.names[name] for name in symbols)


def test_real_symbols_keep_the_order_of_their_tokens_within_each_module() -> None:
    made_up = naming(3, real_names=True)
    for source in SOURCES:
        exported = sorted(
            source.exports,
            key=lambda export: token(
                next(n for n in IDENTITIES if n.kind == "symbol" and n.identity == export.symbol)
            ),
        )
        assert [made_up.symbol(row.symbol) for row in exported] == sorted(
            made_up.symbol(row.symbol) for row in exported
        )


def test_random_cases_depend_only_on_seed_and_number() -> None:
    assert generate(7, 30)[:10] == generate(7, 10)
    assert generate(7, 10) != generate(8, 10)


def test_random_cases_are_distributed_over_profiles_without_losing_any() -> None:
    dealt = [case for _, cases in batches(7, 200) for case in cases]
    assert sorted(case.name for case in dealt) == sorted(case.name for case in generate(7, 200))


@pytest.mark.parametrize(("word", "value"), [("0", 0), ("+3", 3), ("EINVAL", -22), ("ENOTSUPP", -524)])
def test_the_return_value_of_an_init(word: str, value: int) -> None:
    assert answer_value(word) == value


def test_compressed_files_have_the_magic_that_kmod_expects() -> None:
    assert compress(b"x", "xz").startswith(b"\xfd7zXZ\0")
    assert compress(b"x", "gz").startswith(b"\x1f\x8b")


def test_an_archive_has_folders_before_their_files_and_ends_with_a_trailer() -> None:
    archive = cpio.pack(cpio.files({"a/b/c": b"content"}))
    assert (
        archive.index(b"a\0")
        < archive.index(b"a/b\0")
        < archive.index(b"a/b/c\0")
        < archive.index(b"TRAILER!!!")
    )
    assert len(archive) % 4 == 0


def test_bytes_are_replaced_only_if_they_occur_once() -> None:
    assert elf_edit.replace_once(b"abc", b"b", b"x") == b"axc"
    with pytest.raises(Exception, match="occurs 2 times"):
        elf_edit.replace_once(b"abcb", b"b", b"x")


def test_random_cases_cover_more_than_the_named_cases() -> None:
    cases = generate(1, 500)
    tampered = [(module.variant.source, module.variant.tamper) for case in cases for module in case.modules]
    assert any("namespace:space_one" in tamper for _, tamper in tampered)
    assert any(source == "provider" and "license:Pro" in tamper for source, tamper in tampered)  # inherited
    revoking = [profile(name) for name, _ in batches(1, 500) if name.endswith("-revoked")]
    assert revoking and all(row.enrol.mok_revoked or row.enrol.dbx_hashes for row in revoking)
    assert any(module.variant.key == "lab" for case in cases for module in case.modules)  # the revoked one


def test_a_flip_changes_one_byte_of_its_section_and_never_the_header() -> None:
    content = build_module("x")
    flipped = elf_edit.flip(content, ".modinfo")
    (changed,) = [at for at in range(len(content)) if content[at] != flipped[at]]
    offset, size = elf_edit.sections(content)[".modinfo"]
    assert offset <= changed < offset + size
    empty = elf_edit.grow_section(content, ".modinfo", -size)
    with pytest.raises(LabError, match="is empty"):
        elf_edit.flip(empty, ".modinfo")


def test_a_section_grows_only_in_its_header() -> None:
    content = build_module("x")
    grown = elf_edit.grow_section(content, ".modinfo", 64)
    (offset, size), (same, more) = (
        elf_edit.sections(content)[".modinfo"],
        elf_edit.sections(grown)[".modinfo"],
    )
    assert (same, more, len(grown)) == (offset, size + 64, len(content))


def test_kernel_command_line_arguments_are_joined_and_its_blacklists_merged() -> None:
    rows = [
        Prepared(Case(name="c"), {}, {}, append=words)
        for words in ("module_blacklist=a", "x.y=1", "module_blacklist=b")
    ]
    assert command_line(profile("sig-enforce"), rows) == "module.sig_enforce=1 x.y=1 module_blacklist=a,b"
    assert command_line(profile("plain"), []) == ""
