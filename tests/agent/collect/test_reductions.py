"""Reductions keep what facts read, in a format that they can read."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gdrkit.agent.collect import module_choice, reductions
from gdrkit.agent.collect.anonymize import Anonymizer
from gdrkit.agent.collect.pci import relevant, without_serial_number
from gdrkit.agent.collect.redact import without_secrets


def test_one_processor_of_each_kind_is_kept():
    block = "processor\t: {}\nmodel name\t: {}\nflags\t\t: fpu\n"
    text = "\n".join(block.format(n, "big" if n < 3 else "small") for n in range(5)) + "\n"

    kept = reductions.processors(text.encode()).decode()

    assert kept.count("processor") == 2
    assert "processor\t: 0" in kept
    assert "processor\t: 3" in kept


def test_the_text_after_the_last_block_on_arm_is_kept():
    text = b"processor\t: 0\nCPU part\t: 0xd4f\n\nHardware\t: Board\nSerial\t: 0\n"

    assert b"Hardware" in reductions.processors(text)


def test_settings_that_libraries_read_are_kept():
    data = b"HOME=/root\0NCCL_IB_HCA=mlx5\0SSH_AUTH_SOCK=/x\0UCX_TLS=rc\0"

    assert reductions.settings(data) == b"NCCL_IB_HCA=mlx5\0UCX_TLS=rc\0"


def test_a_file_of_settings_keeps_its_comments_and_its_modules():
    data = b"# loaded at boot\nnvidia-peermem\nNCCL_DEBUG=INFO\nPATH=/bin\n"

    assert reductions.environment_file(data) == b"# loaded at boot\nnvidia-peermem\nNCCL_DEBUG=INFO\n"


def test_a_file_of_settings_may_have_blanks_and_colons_as_those_of_ucx_do():
    data = b"UCX_TLS = rc\nAPI_TOKEN = x\n  SECRET:y\nUCX_NET_DEVICES: all\n[Grace]\nCPU model=Grace\n"

    kept = b"UCX_TLS = rc\nUCX_NET_DEVICES: all\n[Grace]\nCPU model=Grace\n"
    assert reductions.environment_file(data) == kept


def test_mounts_of_users_are_removed():
    data = (
        b"22 1 0:21 / /proc rw,nosuid shared:5 - proc proc rw\n"
        b"23 1 8:1 / / rw - ext4 /dev/mapper/customer-root rw,errors=remount-ro\n"
        b"24 1 0:50 / /mnt/customer rw - cifs //server/share rw,username=alice,password=x\n"
        b"25 1 0:51 / / rw - overlay overlay rw,lowerdir=/var/lib/docker/x\n"
    )

    kept = reductions.mounts(data).decode().splitlines()

    assert kept[0] == "22 1 0:21 / /proc rw,nosuid shared:5 - proc proc rw"
    assert kept[1] == "23 1 8:1 / / rw - ext4 - rw"
    assert kept[2] == "25 1 0:51 / / rw - overlay overlay rw"
    assert len(kept) == 3


def test_packages_of_gpu_and_network_are_kept():
    data = b"nvidia-dkms-580-open\t580.95\tamd64\tii \nvim\t9\tamd64\tii \nrdma-core\t50\tamd64\tii \n"

    assert b"vim" not in reductions.packages(data)
    assert reductions.packages(data).count(b"\n") == 2


def test_virtual_network_devices_are_left_out():
    data = json.dumps([
        {"ifname": "lo", "addr_info": []},
        {"ifname": "eth0", "mtu": 9000, "secret": 1, "addr_info": [{"family": "inet", "local": "10.0.0.1"}]},
        {"ifname": "veth1234"},
    ]).encode()  # fmt: skip

    assert json.loads(reductions.cards(data)) == [
        {"ifname": "eth0", "mtu": 9000, "addr_info": [{"family": "inet", "local": "10.0.0.1"}]}
    ]


def test_only_counters_of_discards_and_pauses_are_kept():
    data = b"NIC statistics:\n     rx_packets: 5\n     rx_discards_phy: 7\n     rx_prio3_pause: 1\n"
    kept = reductions.statistics(data).split()

    assert kept == [b"rx_discards_phy:", b"7", b"rx_prio3_pause:", b"1"]


def test_text_that_is_not_json_is_kept():
    assert reductions.cards(b"Object is unknown") == b"Object is unknown"


# -- modules ---------------------------------------------------------------------------------------


def test_the_dependencies_of_a_module_are_chosen():
    needs = module_choice.dependencies("kernel/b.ko.xz: kernel/c.ko.xz\nkernel/c.ko.xz:\nkernel/d-e.ko:\n")
    softly = module_choice.soft_dependencies("# comment\nsoftdep b pre: d-e post: f\n")
    files = ["x/kernel/b.ko.xz", "x/kernel/c.ko.xz", "x/kernel/d-e.ko", "x/extra/new.ko"]

    found = module_choice.closure(files, ["b", "new*"], needs, softly, lambda path: ["c"])

    assert found == {"b", "c", "d_e", "f", "new"}


def test_the_smallest_loaded_modules_of_the_kernel_are_references():
    needs = module_choice.dependencies("".join(f"kernel/{name}.ko:\n" for name in "abcde") + "extra/f.ko:\n")
    sizes = {f"kernel/{name}.ko": 10 - n for n, name in enumerate("abcde")}

    assert module_choice.references("abcdef", needs, {"e"}, sizes.__getitem__) == ["d", "c", "b"]


def test_names_of_module_files():
    assert module_choice.module_of("a/nvidia-peermem.ko.zst") == "nvidia_peermem"
    assert module_choice.module_of("a/modules.dep") is None


# -- PCI -------------------------------------------------------------------------------------------


def test_cards_and_the_bridges_above_them_are_relevant():
    files = {
        "p/0000:00:01.0/0000:01:00.0/class": b"0x030000\n",
        "p/0000:00:1f.0/class": b"0x060100\n",
        "p/0000:00:1e.0/class": b"0x0c0330\n",
        "p/0000:00:1e.0/vendor": b"0x10de\n",
    }
    places = [("0000:01:00.0", "p/0000:00:01.0/0000:01:00.0")]
    places += [(address, f"p/{address}") for address in ("0000:00:1f.0", "0000:00:1e.0")]

    assert relevant(places, lambda path: files.get(path, b"")) == [
        "0000:00:01.0",
        "0000:00:1e.0",
        "0000:01:00.0",
    ]


# -- arbitrary content -----------------------------------------------------------------------------

WORDS = st.sampled_from(
    [
        b"key=",
        b"password: ",
        b"\n",
        b"::",
        b"fe80::1",
        b"10.0.0.1",
        b"/home/",
        b"aa:bb:cc:dd:ee:ff",
        b"ffff:",
        b"\0",
        b"Package: kmod\n\n",
        b" - ",
        b"[{",
        b'{"ifname": "eth0", "addr_info": [1]}',
        b"]",
        b"asymmetri",
        b"\t",
        b"\xff",
    ]
)
TEXTS = st.lists(WORDS | st.binary(max_size=8), max_size=30).map(b"".join)


@pytest.mark.parametrize("name", sorted(reductions.BY_NAME))
@given(data=TEXTS)
@settings(max_examples=60, deadline=None)
def test_no_text_crashes_a_reduction(name, data):
    assert isinstance(reductions.BY_NAME[name](data), bytes)


KALLSYMS = b"ffff1 T a\nffff2 r __ksymtab_a\nffff3 t inner\nffff4 T b\nffff5 r __ksymtab_b\nffff6 T never\n"


@pytest.mark.parametrize(
    ("linked", "kept"),
    [
        ({b"a"}, [b"a", b"__ksymtab_a"]),
        (None, [b"a", b"__ksymtab_a", b"b", b"__ksymtab_b"]),  # a module could not be read
    ],
)
def test_a_symbol_table_keeps_what_modules_link_to_or_all_exports(linked, kept):
    lines = reductions.symbol_table("proc/kallsyms", KALLSYMS, linked, re.compile(rb"$^")).splitlines()
    assert [line.split()[2] for line in lines] == kept


def test_all_lines_are_kept_if_exports_are_not_known():
    never = re.compile(rb"$^")
    plain = b"00 T a\n01 t b\n"
    assert reductions.symbol_table("boot/System.map-6.1", plain, None, never) == plain
    symvers = b"0x1\ta\tvmlinux\tEXPORT_SYMBOL\t\n"
    assert reductions.symbol_table("x/Module.symvers", symvers, None, never) == symvers


@given(data=TEXTS)
@settings(deadline=None)
def test_no_text_crashes_the_other_reductions(data):
    assert isinstance(without_secrets(data), bytes)
    assert isinstance(Anonymizer([("host", "zgx-3285"), ("user", "alice")]).content(data), bytes)
    assert len(without_serial_number(data, lambda value: value)) == len(data)
    assert isinstance(reductions.aliases(data, {"nvidia"}), bytes)
    for path in ("x/Module.symvers", "x/modules.symbols", "proc/kallsyms"):
        assert isinstance(reductions.symbol_table(path, data, {b"a"}, re.compile(rb"b")), bytes)
        assert isinstance(reductions.symbol_table(path, data, None, re.compile(rb"b")), bytes)


@pytest.mark.parametrize(
    "text",
    [b"key" + b"a" * 300_000, b"key a." * 50_000, b"key 0:" * 50_000, b"key" + b"a.b" * 99_999],
    ids=["one word", "words", "pairs", "dots"],
)
def test_no_text_makes_a_search_slow(text):
    """What begins like a secret or an address again and again and is none. How the search grows with such
    a text, `benchmarks.searches` measures.
    """
    assert Anonymizer([("host", "zgx-3285")]).content(without_secrets(text)) == text


# -- symbol tables -----------------------------------------------------------------------------

WANTED = re.compile(rb"ib_register")
VERSIONS = b"0x1\tours\tvmlinux\tEXPORT_SYMBOL\t\nshort\n0x2\tib_register_x\tib_core\tE\n0x3\tother\tx\tE\n"
ADDRESSES = (
    b"ffffffff81000000 T ib_register_y\t[ib_core]\nbad line\nffffffff81000010 r __ksymtab_ours\n"
    b"ffffffff81000020 A __crc_ours\nffffffff81000030 r __kstrtabns_ours\nffffffff81000040 t ours\n"
    b"ffffffff81000050 t __ksymtab_other\nffffffff81000060 t other\n"
)


def symbols(path, data, linked=frozenset({b"ours"})):
    return reductions.symbol_table(path, data, linked, WANTED).splitlines()


def test_symbols_that_are_linked_or_wanted_are_kept_in_each_table():
    rows = VERSIONS.splitlines()
    assert symbols("x/Module.symvers", VERSIONS) == [rows[0], rows[2]]
    table = b"# Aliases\nalias symbol:ours a\nalias symbol:other b\nalias symbol:ib_register_x c\n"
    rows = table.splitlines()
    assert symbols("x/modules.symbols", table) == [rows[1], rows[3]]
    rows = ADDRESSES.splitlines()
    assert symbols("boot/System.map-6.1", ADDRESSES) == [rows[0], *rows[2:6]]
    zeroed = [b"0" * 16 + row[16:] for row in (rows[0], *rows[2:6])]
    assert symbols("proc/kallsyms", ADDRESSES) == zeroed


def test_without_modules_all_exports_are_kept_if_the_table_shows_them():
    rows = ADDRESSES.splitlines()
    assert symbols("boot/System.map", ADDRESSES, None) == [rows[0], *rows[2:]]
    none = b"ffffffff81000060 t other\nffffffff81000070 t more\n"
    assert symbols("boot/System.map", none, None) == none.splitlines()
    rows = VERSIONS.splitlines()
    assert symbols("x/Module.symvers", VERSIONS, None) == [rows[0], rows[2], rows[3]]


def test_aliases_of_the_collected_modules_and_those_of_no_device_are_kept():
    data = (
        b"# comment\nalias pci:v0 mlx5-core\nalias pci:v1 e1000e\nalias net-pf-10 ipv6\nalias a:b\n"
        b"alias usb:x mlx5_core extra\n"
    )
    kept = reductions.aliases(data, {"mlx5_core"})
    assert kept == data.replace(b"alias pci:v1 e1000e\n", b"")


def test_keys_of_the_system_are_kept():
    line = b"0b8e I--Q---     1 perm 1f0b0000     0     0 %s %s: x\n"
    kinds = [
        (b"asymmetri", b"Debian", True), (b"blacklist", b"bin:00", True), (b"keyring", b".ima", True),
        (b"keyring", b"_uid.1000", False), (b"user", b".x", False),
    ]  # fmt: skip
    data = b"short line\n" + b"".join(line % (kind, name) for kind, name, _ in kinds)
    kept = b"".join(line % (kind, name) for kind, name, wanted in kinds if wanted)
    assert reductions.trusted_keys(data) == kept
