"""Configuration space: results agree with lspci, and a short file leaves the rest unknown."""

from __future__ import annotations

import random
import re
import struct
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.formats import pci_config
from gdrkit.formats.errors import FormatError
from gdrkit.formats.pci_registers import Truncated
from tests.system_programs import program

PORT_TYPES = {
    0: ("endpoint", "Endpoint"),
    4: ("root-port", "Root Port"),
    5: ("upstream-port", "Upstream Port"),
    6: ("downstream-port", "Downstream Port"),
}


def space(*, port=0, seed=0):
    """4096 bytes of a device with a PCI Express capability and four extended ones, with random registers."""
    chance = random.Random(seed)
    raw = bytearray(4096)
    bridge = port in (4, 5, 6)
    struct.pack_into(
        "<HHHHI", raw, 0, 0x10DE, 0x2330, 0x0546, 0x0010, (0x060400 if bridge else 0x030200) << 8 | 0xA1
    )
    raw[0x0E] = bridge
    raw[0x34] = 0x40
    if bridge:
        raw[0x18:0x1B] = bytes((0, 1 + seed, 3 + seed))
    else:
        struct.pack_into("<I", raw, 0x10, 0x91000000)
        struct.pack_into("<Q", raw, 0x14, 0x2000000000 * (1 + seed) | 0xC)
        struct.pack_into("<I", raw, 0x1C, 0xE001)
        struct.pack_into("<HH", raw, 0x2C, 0x10DE, 0x16C1)
    struct.pack_into("<BBHH", raw, 0x40, 0x01, 0x60, 0x0003, 0)  # power management
    slot = port in (4, 6) and chance.random() < 0.5
    struct.pack_into("<BBH", raw, 0x60, 0x10, 0, 2 | port << 4 | slot << 8)
    struct.pack_into("<IH", raw, 0x64, chance.randrange(6), chance.getrandbits(16) & 0x097F)
    raw[0x69] |= chance.randrange(6) << 4
    raw[0x68] = raw[0x68] & 0x1F | chance.randrange(6) << 5
    struct.pack_into("<I", raw, 0x6C, chance.randint(1, 6) | chance.choice((1, 2, 4, 8, 16)) << 4)
    struct.pack_into("<HH", raw, 0x70, 0, chance.randint(1, 6) | chance.choice((1, 4, 8, 16)) << 4)
    struct.pack_into("<I", raw, 0x74, chance.getrandbits(13) << 19)
    struct.pack_into("<H", raw, 0x90, chance.randint(1, 6))
    extended(raw, 0x100, 0x0003, 0x120, struct.pack("<Q", chance.getrandbits(64)))
    extended(raw, 0x120, 0x000D, 0x140, struct.pack("<HH", 0x7F, chance.getrandbits(7)))
    extended(
        raw,
        0x140,
        0x000F,
        0x160,
        struct.pack("<HH", 0x20, chance.getrandbits(1) << 15 | chance.randrange(8)),
    )
    sizes, now = chance.getrandbits(28), chance.randrange(12)
    extended(raw, 0x160, 0x0015, 0, struct.pack("<II", sizes << 4, 1 | 1 << 5 | now << 8))
    return bytes(raw)


def extended(raw, at, identity, following, content):
    struct.pack_into("<I", raw, at, identity | 1 << 16 | following << 20)
    raw[at + 4 : at + 4 + len(content)] = content


GPU = space()


class TestWhatIsThere:
    def test_a_gpu(self):
        gpu = pci_config.parse(GPU)

        assert (gpu.vendor, gpu.device, gpu.class_code, gpu.revision) == (0x10DE, 0x2330, 0x030200, 0xA1)
        assert (gpu.subsystem, gpu.buses, gpu.header_type) == ((0x10DE, 0x16C1), None, 0)
        assert (gpu.memory_enabled, gpu.bus_master) == (True, True)
        assert gpu.bars == (
            pci_config.Bar(0, True, 0x91000000, False, False),
            pci_config.Bar(1, True, 0x2000000000, True, True),
            pci_config.Bar(3, False, 0xE000, False, False),
        )

    def test_each_capability_is_where_the_one_before_points(self):
        """The two lowest bits of a pointer are reserved, and masked."""
        unaligned = bytearray(GPU)
        unaligned[0x34], unaligned[0x41] = 0x43, 0x61
        struct.pack_into("<I", unaligned, 0x100, 0x0003 | 1 << 16 | 0x123 << 20)
        for raw in (GPU, bytes(unaligned)):
            seen = pci_config.parse(raw)
            assert seen.capabilities == {1: 0x40, 0x10: 0x60}
            assert seen.extended_capabilities == {3: 0x100, 0xD: 0x120, 0xF: 0x140, 0x15: 0x160}

    def test_a_bridge(self):
        bridge = pci_config.parse(space(port=4, seed=26))

        assert (bridge.subsystem, bridge.bars) == (None, ())
        assert bridge.buses == pci_config.BridgeBuses(0, 27, 29)

    def test_a_device_without_pci_express_has_no_extended_part(self):
        conventional = bytearray(256)
        struct.pack_into("<HHHH", conventional, 0, 0x1234, 0x1111, 7, 0)
        seen = pci_config.parse(bytes(conventional))

        assert seen.capabilities == seen.extended_capabilities == {}
        assert (seen.express, seen.acs, seen.ats, seen.serial_number) == (None, None, None, None)
        assert seen.resizable_bars == ()

    def test_a_device_that_has_no_acs_has_none(self):
        without = bytearray(GPU)
        struct.pack_into("<I", without, 0x100, 0)

        assert pci_config.parse(bytes(without)).acs is None


class TestWhatWasNotRead:
    def test_64_bytes_leave_all_capabilities_unknown(self):
        """A user other than root reads 64 bytes, which do not show that there is no ACS."""
        seen = pci_config.parse(GPU[:64])

        assert seen.device == 0x2330
        assert seen.bars
        for part in (seen.capabilities, seen.extended_capabilities, seen.express, seen.acs, seen.ats):
            assert part == Truncated(64)
        assert seen.resizable_bars == seen.serial_number == Truncated(64)

    def test_64_bytes_show_that_a_device_has_no_list(self):
        bare = bytearray(GPU[:64])
        bare[6] = 0

        assert pci_config.parse(bytes(bare)).acs is None

    def test_256_bytes_show_the_link_and_leave_acs_unknown(self):
        seen = pci_config.parse(GPU[:256])

        assert seen.express == pci_config.parse(GPU).express
        assert seen.acs == seen.serial_number == Truncated(256)

    def test_no_length_gives_a_wrong_answer(self):
        whole = pci_config.parse(GPU)
        for size in range(64, 4096):
            seen = pci_config.parse(GPU[:size])
            for part in ("express", "acs", "ats", "resizable_bars", "serial_number"):
                assert getattr(seen, part) in (getattr(whole, part), Truncated(size))


class TestBroken:
    @pytest.mark.parametrize("data", [b"", b"lspci: Unable to load libkmod", GPU[:63]])
    def test_less_than_a_header_is_refused(self, data):
        with pytest.raises(FormatError, match="less than"):
            pci_config.parse(data)

    def test_a_device_that_does_not_answer_is_no_device(self):
        with pytest.raises(FormatError, match="does not answer"):
            pci_config.parse(b"\xff" * 4096)

    def test_a_virtual_function_answers_although_its_id_is_all_ones(self):
        function = b"\xff" * 4 + GPU[4:]

        assert pci_config.answers(function)
        assert pci_config.parse(function).express == pci_config.parse(GPU).express

    @pytest.mark.parametrize("at", [0, 4, 63])
    def test_one_bit_of_the_header_that_is_clear_is_an_answer(self, at):
        almost = bytearray(b"\xff" * 64)
        almost[at] = 0xFE

        assert pci_config.answers(bytes(almost))

    def test_what_lies_behind_the_header_is_no_answer(self):
        assert not pci_config.answers(b"\xff" * 64 + bytes(192))

    def test_lists_that_bite_their_tail_end(self):
        circular = bytearray(GPU)
        circular[0x61] = 0x40
        struct.pack_into("<I", circular, 0x160, 0x0015 | 1 << 16 | 0x100 << 20)

        assert pci_config.parse(bytes(circular)).acs == pci_config.parse(GPU).acs

    def test_a_list_that_leads_into_the_header_ends(self):
        into = bytearray(GPU)
        into[0x61] = 0x10

        assert pci_config.parse(bytes(into)).capabilities == {1: 0x40, 0x10: 0x60}

    def test_what_follows_a_broken_link_is_not_read(self):
        broken = bytearray(GPU)
        broken[0x60] = 0xFF
        struct.pack_into("<I", broken, 0x140, 0xFFFFFFFF)
        seen = pci_config.parse(bytes(broken))

        assert seen.capabilities == {1: 0x40}
        assert seen.extended_capabilities == {}, "not PCI Express, as far as it shows"

    @pytest.mark.parametrize("header", [0, 0xFFFFFFFF])
    def test_an_empty_header_ends_the_extended_list(self, header):
        broken = bytearray(GPU)
        struct.pack_into("<I", broken, 0x140, header)

        assert pci_config.parse(bytes(broken)).extended_capabilities == {3: 0x100, 0xD: 0x120}


def test_registers_agree_with_lspci(tmp_path):
    spaces = [space(port=port, seed=seed) for seed in range(32) for port in PORT_TYPES]
    dump = []
    for number, raw in enumerate(spaces):
        dump.append(f"{number:02x}:00.0 Device")  # lspci says less of functions other than 0
        dump += [f"{at:02x}: {raw[at : at + 16].hex(' ')}" for at in range(0, 4096, 16)]
        dump.append("")
    (tmp_path / "dump").write_text("\n".join(dump))
    command = [program("lspci"), "-nvvvF", tmp_path / "dump"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip().split("\n\n")

    for raw, device in zip(spaces, told, strict=True):
        lines = re.sub(r" \((ok|downgraded|overdriven)\)", "", device.replace("\t", " "))
        for line in as_lspci_says(pci_config.parse(raw)):
            assert line in lines


def as_lspci_says(seen):
    """What we read, in the words of lspci."""
    express, link, acs, ats = seen.express, seen.express.link, seen.acs, seen.ats
    port = dict(PORT_TYPES.values())[express.port_type]
    if express.port_type in ("root-port", "downstream-port"):
        port += " (Slot-)" if express.slot_number is None else " (Slot+)"
    yield f"Express (v{express.version}) {port}"
    if express.slot_number is not None:
        yield f"Slot #{express.slot_number},"
    yield f"DevCap: MaxPayload {express.supported_payload_bytes} bytes"
    yield flags(RlxdOrd=express.relaxed_ordering, ExtTag=express.extended_tag)
    yield flags(AuxPwr=False, NoSnoop=express.no_snoop)
    yield f"MaxPayload {express.payload_bytes} bytes, MaxReadReq {express.read_request_bytes} bytes"
    yield f"LnkCap: Port #{link.port_number}, Speed {link.max_gt_per_s:g}GT/s, Width x{link.max_width}"
    yield f"LnkSta: Speed {link.current_gt_per_s:g}GT/s, Width x{link.current_width}"
    yield f"LnkCtl2: Target Link Speed: {link.target_gt_per_s:g}GT/s"
    yield "ACSCtl: " + flags(
        SrcValid=acs.source_validation,
        TransBlk=acs.translation_blocking,
        ReqRedir=acs.request_redirect,
        CmpltRedir=acs.completion_redirect,
        UpstreamFwd=acs.upstream_forwarding,
        EgressCtrl=acs.egress_control,
        DirectTrans=acs.direct_translated,
    )
    unit = (ats.smallest_translation_bytes // 4096).bit_length() - 1
    yield f"ATSCtl: {flags(Enable=ats.enabled)}, Smallest Translation Unit: {unit:02x}"
    yield f"Device Serial Number {seen.serial_number}"
    (bar,) = seen.resizable_bars
    sizes = " ".join(size_of(supported) for supported in bar.supported_bytes)
    yield f"BAR {bar.bar_index}: current size: {size_of(bar.size_bytes)}, supported: {sizes}"
    if seen.buses:
        first, second, last = seen.buses.primary, seen.buses.secondary, seen.buses.subordinate
        yield f"Bus: primary={first:02x}, secondary={second:02x}, subordinate={last:02x}"
    for bar in seen.bars:
        width, prefetch = ("64" if bar.is_64_bit else "32"), ("" if bar.prefetchable else "non-")
        kind = f"Memory at {bar.address:08x} ({width}-bit, {prefetch}prefetchable)"
        yield f"Region {bar.index}: {kind if bar.memory else f'I/O ports at {bar.address:04x}'}"


def flags(**bits):
    fixed = {"ExtTag": " PhantFunc-"} if "RlxdOrd" in bits else {}
    return " ".join(name + "-+"[bit] + fixed.get(name, "") for name, bit in bits.items())


def size_of(size_bytes):
    for unit, shift in (("TB", 40), ("GB", 30), ("MB", 20)):
        if size_bytes >> shift:
            return f"{size_bytes >> shift}{unit}"
    raise AssertionError(size_bytes)


@given(st.binary(min_size=64, max_size=600))
def test_any_bytes_give_a_value_or_a_format_error(data):
    try:
        pci_config.parse(data)
    except FormatError:
        return


@given(st.data())
def test_any_byte_changed_gives_a_value_or_a_format_error(data):
    changed = bytearray(GPU)
    for _ in range(data.draw(st.integers(1, 8))):
        changed[data.draw(st.integers(0, 0x180))] = data.draw(st.integers(0, 255))
    try:
        pci_config.parse(bytes(changed))
    except FormatError:
        return
