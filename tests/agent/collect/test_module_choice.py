"""Which module files are kept: those named, what they need, and a few as references."""

from __future__ import annotations

import pytest

from gdrkit.agent.collect import module_choice, walker
from gdrkit.agent.collect.walker import relevant, without_serial_number


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("kernel/a-b.ko", "a_b"), ("x/y_z.ko.gz", "y_z"), ("c.ko.xz", "c"), ("c.ko.zst", "c"),
        ("c.ko.bz2", None), ("c.kod", None), (".ko", None),
        ("ko/c", None), ("a.ko.ko", "a.ko"), ("c.ko\n", None),
    ],
)  # fmt: skip
def test_the_module_of_a_file(path, name):
    assert module_choice.module_of(path) == name


def test_the_table_of_dependencies():
    table = (
        "kernel/b.ko.xz: kernel/c-d.ko.xz kernel/not-a-module extra/e.ko\nkernel/c-d.ko.xz:\nno colon.ko\n"
        "modules.dep: x.ko\nextra/b.ko: late.ko\n"
    )
    assert module_choice.dependencies(table) == {
        "b": ("kernel/b.ko.xz", ["c_d", "e"]), "c_d": ("kernel/c-d.ko.xz", []),
    }  # fmt: skip


def test_soft_and_weak_dependencies():
    table = (
        "# softdep x pre: y\nsoftdep a-b pre: c d-e post: f\nweakdep a_b g\noptions a b c\nsoftdep alone\n"
        "softdep h pre:\n"
    )
    assert module_choice.soft_dependencies(table) == {"a_b": ["c", "d_e", "f", "g"], "h": []}


def test_lines_that_lead_to_another_module():
    table = (
        "install nvidia /sbin/modprobe -i nvidia-current; exit 1 $CMDLINE_OPTS\nalias nick a-b\n"
        "# install x y\nblacklist z w v\ninstall y\n"
    )
    found = module_choice.soft_dependencies(table)
    assert found == {"nvidia": ["nvidia_current", "exit", "1"], "nick": ["a_b"]}


def test_modules_of_aliases_of_devices():
    table = "alias pci:v10DE* nvidia\nalias pci:v15B3d0000101[3-7]sv* mlx5_core\nalias nick x\nalias\n"
    assert module_choice.of_aliases(table, ["pci:v15B3d00001014sv1", "nick", "pci:"]) == ["mlx5_core"]
    assert module_choice.of_aliases(table, ["pci:v10DE", "pci:v15B3d00001019sv"]) == ["nvidia"]


@pytest.mark.parametrize(
    ("content", "names"),
    [
        (b"\0depends=a-b,c,\0vermagic=6.1\0", ["a_b", "c"]),
        (b"\0depends=\0", []),
        (b"xdepends=a\0", []),
        (b"\0depends=a", []),
        (b"\0x\0depends=a\0depends=b\0", ["a"]),
    ],
)
def test_dependencies_that_a_module_declares(content, names):
    assert module_choice.declared(content) == names


def test_what_is_kept_is_closed_under_every_kind_of_dependency():
    needs = module_choice.dependencies("kernel/a.ko: kernel/b.ko\nkernel/b.ko: kernel/a.ko kernel/c.ko\n")
    files = [
        "kernel/a.ko",
        "kernel/b.ko",
        "extra/new-1.ko",
        "extra/new_2.ko",
        "other/new-1.ko",
        "z.ko",
        "modules.dep",
    ]
    read: list[str] = []

    def declared(path: str) -> list[str]:
        read.append(path)
        return ["d"] if path == "extra/new-1.ko" else []

    soft = {"c": ["e-missing"], "new_2": ["f"]}
    found = module_choice.closure(files, ["a", "new-*", "named-here"], needs, soft, declared)
    assert found == {"a", "b", "c", "d", "e-missing", "f", "new_1", "new_2", "named_here"}
    assert sorted(read) == ["extra/new-1.ko", "extra/new_2.ko"]  # those that depmod has not indexed
    for pattern, names in (("new_?", {"new_1", "new_2", "d"}), ("new_[1]", {"new_1", "d"})):
        assert module_choice.closure(files, [pattern], {}, {}, declared) == names


def test_the_three_smallest_loaded_modules_of_the_kernel_are_references():
    table = "".join(f"kernel/{name}.ko:\n" for name in "abcdef") + "extra/g.ko:\n"
    needs = module_choice.dependencies(table)
    sizes = {f"kernel/{name}.ko": size for name, size in zip("abcdef", (9, 5, 5, 7, 1, 2), strict=True)}
    found = module_choice.references([*"fedcbag", "unknown"], needs, {"e"}, sizes.__getitem__)
    assert found == ["f", "b", "c"]


# -- PCI -------------------------------------------------------------------------------------------

DEVICES = {
    "0000:00:01.0": ("pci0000:00/0000:00:01.0", "0x060400", "0x8086"),
    "0000:01:00.0": ("pci0000:00/0000:00:01.0/0000:01:00.0", "0x030200", "0x10de"),
    "0000:02:00.0": ("pci0000:00/0000:02:00.0", "0x020000", "0x15b3"),
    "0000:03:00.0": ("pci0000:00/0000:03:00.0", "0x060100", "0x8086"),
    "0000:04:00.0": ("pci0000:00/0000:04:00.0", "0x068000", "0x10de"),
    "0000:05:00.0": ("pci0000:00/0000:05:00.0", "0x0c0600", "0x15b3"),
    "0000:06:00.0": ("pci0000:00/0000:06:00.0", "0x120000", "0x1da3"),
    "0000:07:00.0": ("pci0000:00/0000:07:00.0", "0x0b4000", "0x8086"),
    "0000:08:00.0": ("pci0000:00/0000:08:00.0", "0x0c0330", "0x8086"),
}


def chosen(devices: dict[str, tuple[str, str, str]]) -> list[str]:
    files = {f"{path}/class": kind for path, kind, _ in devices.values()}
    files |= {f"{path}/vendor": vendor for path, _, vendor in devices.values()}
    pairs = [(address, row[0]) for address, row in devices.items()]
    return relevant(pairs, lambda path: f"{files[path]}\n".encode())


def test_cards_and_the_bridges_above_them_are_relevant():
    assert chosen(DEVICES) == [f"0000:{number}.0" for number in
                               ("00:01", "01:00", "02:00", "04:00", "05:00", "06:00", "07:00")]  # fmt: skip


def test_relevant_devices_are_limited(monkeypatch):
    monkeypatch.setattr(walker, "DEVICES_LIMIT", 2)
    assert chosen(DEVICES) == ["0000:00:01.0", "0000:01:00.0"]
    monkeypatch.setattr(walker, "DEVICES_LIMIT", 3)
    assert chosen(DEVICES) == ["0000:00:01.0", "0000:01:00.0", "0000:02:00.0"]


def capability(kind: int, following: int) -> bytes:
    return (kind | 1 << 16 | following << 20).to_bytes(4, "little")


def test_the_serial_number_is_replaced_wherever_it_is_and_nothing_else():
    def replaced(number: bytes) -> bytes:
        assert number == b"ABCDEFGH"
        return b"12345678"

    for places in ((0x100,), (0x100, 0x200), (0x100, 0x140, 0xFF4)):
        config = bytearray(range(256)) * 16
        for here, there in zip(places, (*places[1:], 0), strict=True):
            config[here : here + 4] = capability(3 if here == places[-1] else 1, there)
        at = places[-1] + 4
        config[at : at + 8] = b"HGFEDCBA"
        expected = config[:at] + b"87654321" + config[at + 8 :]
        assert without_serial_number(bytes(config), replaced) == bytes(expected)


@pytest.mark.parametrize("following", [0x100, 0xFF8, 0x140])
def test_a_list_of_capabilities_without_an_end_ends(following):
    config = bytearray(4096)
    config[0x100:0x104] = capability(1, following)
    config[0x140:0x144] = capability(1, 0x100)
    assert without_serial_number(bytes(config), lambda number: b"x" * 8) == bytes(config)


def test_a_short_configuration_space_stays():
    for size in (0, 64, 256, 0x100 + 11):
        assert without_serial_number(bytes(size), lambda number: b"x" * 8) == bytes(size)
