"""nvidia-bug-report.log.gz. The layout is that of the script; the machine is invented."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gdrkit.evidence import EvidenceMissing, MissingReason, bug_report
from gdrkit.evidence.errors import TargetError
from gdrkit.evidence.stream import open_stream
from gdrkit.evidence.target import open_host
from gdrkit.facts.commands import DMESG, LSPCI, NVIDIA_SMI
from tests.evidence.readers.tars import write

LINE = "____________________________________________\n\n"
CONFIG = bytes(range(256)) * 2


def file_section(path: str, content: str) -> str:
    """A section as append() writes it."""
    listed = f"-r--r--r-- 1 root root 0 2026-11-20 18:00:00.000000000 +0000 {path}"
    return f"{LINE}*** {path}\n*** ls: {listed}\n{content}\n"


def hex_dump(data: bytes) -> str:
    """A dump as `lspci -xxxx` prints it."""
    lines = (f"{at:02x}: {data[at : at + 16].hex(' ')}" for at in range(0, len(data), 16))
    return "\n".join(lines) + "\n"


REPORT = (
    f"{LINE}Start of NVIDIA bug report log file.  Please include this file, along\n"
    "with a detailed description of your problem\n\nnvidia-bug-report.sh Version: 37062940\n\n"
    "Date: Fri Nov 20 18:00:00 UTC 2026\nuname: Linux node1 6.8.0-31-generic #31-Ubuntu SMP x86_64\n"
    "command line flags: \n\n"
    + file_section("/etc/issue", "Ubuntu 24.04 LTS \\n \\l\n\n")
    + f"{LINE}*** /var/log/nvidia-installer.log does not exist\n\n"
    + f"{LINE}*** /proc/driver/nvidia/./registry is not readable\n\n"
    + f'{LINE}/usr/bin/lspci -d "10de:*" -v -xxx\n\n1b:00.0 3D controller: NVIDIA Corporation\n\n'
    + f"{LINE}/usr/bin/lspci -nnDvvvxxxx\n\n"
    + f"0000:1b:00.0 3D controller [0302]: NVIDIA [10de:2330]\n\tNUMA node: 0\n{hex_dump(CONFIG)}\n"
    + "0000:1c:00.0 Infiniband controller [0207]: Mellanox [15b3:1021]\n\n"
    + f"{LINE}/usr/sbin/modinfo nvidia | grep vermagic\n\nvermagic:       6.8.0-31-generic SMP\n\n"
    + f"{LINE}/sys/module/nvidia/parameters/NVreg_EnableGpuFirmware:18\n"
    + "/sys/module/nvidia_peermem/parameters/peerdirect_support:0\n"
    + f"{LINE}dmesg:\n\n[    0.000000] Linux version 6.8.0-31-generic\n[    9.0] nvidia: loading\n"
    + file_section("/proc/modules", "nvidia 1 0 - Live 0x0 (OE)\n")
    + file_section(
        "/proc/driver/nvidia/./version", "NVRM version: NVIDIA UNIX Open Kernel Module  580.95.05\n"
    )
    + file_section("/proc/driver/nvidia/./gpus/0000:1b:00.0/information", "Model: \t\t NVIDIA H100\n")
    + f"{LINE}/usr/bin/nvidia-smi --query\n\n\n"
    + "==============NVSMI LOG==============\n\nDriver Version : 580.95.05\n\n"
    + "/usr/bin/nvidia-smi --query --unit\n\nAttached Units : 0\n\n"
    + f"{LINE}End of NVIDIA bug report log file.\n"
)


@pytest.fixture
def host(tmp_path):
    parts = (gzip.compress(part.encode()) for part in REPORT.split(LINE) for part in (part and LINE + part,))
    return open_host(write(tmp_path, b"".join(parts)))


def why_not(ask, *args) -> MissingReason:
    with pytest.raises(EvidenceMissing) as error:
        ask(*args)
    return error.value.missing.why


def test_files_are_at_their_paths(host):
    assert host.source == "bug-report"
    assert host.notes == ()
    assert host.read("proc/modules") == b"nvidia 1 0 - Live 0x0 (OE)\n"
    assert host.read("proc/driver/nvidia/version").endswith(b"580.95.05\n")
    assert host.read("etc/issue") == b"Ubuntu 24.04 LTS \\n \\l\n\n"
    assert host.list("proc/driver/nvidia/gpus") == ("0000:1b:00.0",)


def test_outputs_are_where_a_sosreport_keeps_them(host):
    assert host.run(DMESG).startswith(b"[    0.000000] Linux version 6.8.0-31-generic\n")
    assert b"15b3:1021" in host.run(LSPCI)
    smi = host.run(NVIDIA_SMI)
    assert b"580.95.05" in smi
    assert b"Attached Units" not in smi
    assert host.read("sos_commands/kernel/uname_-a").startswith(b"Linux node1 6.8.0-31-generic")


def test_a_listing_of_only_nvidia_devices_is_not_used(host):
    assert host.run(LSPCI).count(b"controller") == 2


def test_hex_dumps_become_config_files(host):
    assert host.read("sys/bus/pci/devices/0000:1b:00.0/config") == CONFIG
    assert why_not(host.list, "sys/bus/pci/devices") is MissingReason.NOT_COLLECTED


def test_module_parameters_are_at_their_sysfs_paths(host):
    assert host.read("sys/module/nvidia_peermem/parameters/peerdirect_support") == b"0\n"
    assert host.list("sys/module/nvidia/parameters") == ("NVreg_EnableGpuFirmware",)
    assert why_not(host.list, "sys/module") is MissingReason.NOT_COLLECTED
    assert why_not(host.exists, "sys/module/ib_core") is MissingReason.NOT_COLLECTED


def test_files_the_script_did_not_find_are_absent_and_others_not_collected(host):
    assert why_not(host.read, "var/log/nvidia-installer.log") is MissingReason.ABSENT
    assert not host.exists("var/log/nvidia-installer.log")
    assert why_not(host.read, "proc/driver/nvidia/registry") is MissingReason.DENIED
    assert host.exists("proc/driver/nvidia/registry")
    assert why_not(host.read, "proc/cmdline") is MissingReason.NOT_COLLECTED


def test_an_unpacked_report_after_the_text_of_a_forum_post_is_read(tmp_path):
    host = open_host(write(tmp_path, f"Hello, my GPU is slow.\n\n```\n{REPORT}```\n".encode()))

    assert host.source == "bug-report"
    assert b"580.95.05" in host.read("proc/driver/nvidia/version")


def test_a_report_that_is_cut_off_has_a_note(tmp_path):
    packed = gzip.compress(REPORT.encode())
    host = open_host(write(tmp_path, packed[: len(packed) * 9 // 10]))

    assert host.notes[0].endswith("cut off")
    assert host.read("etc/issue")


def test_sections_after_a_dump_of_hundreds_of_megabytes_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(bug_report, "SECTION_LIMIT_BYTES", 3_000_000)
    dump = f"{LINE}/usr/bin/nvidia-debugdump -D\n\n" + ("QUJD" * 19 + "\n") * 100_000
    for cut in (0, 1_048_570 - len(LINE), 7):  # separators at different offsets from block boundaries
        data = REPORT.replace(f"{LINE}dmesg:", dump + "A" * cut + f"\n{LINE}dmesg:").encode()
        host = open_host(write(tmp_path, gzip.compress(data)))

        assert host.run(DMESG).startswith(b"[    0.000000] Linux version")
        assert b"580.95.05" in host.run(NVIDIA_SMI)
        assert host.notes == ()


def test_an_error_message_in_place_of_an_output_is_not_an_output(tmp_path):
    text = f"{LINE}Start of NVIDIA bug report log file\n{LINE}/usr/bin/nvidia-smi --query\n\n"
    text += (
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the "
        "latest NVIDIA driver is installed and running.\n\n"
    )
    text += f"{LINE}dmesg:\n\n{LINE}End of NVIDIA bug report log file.\n"
    host = open_host(write(tmp_path, text.encode()))

    for command in (NVIDIA_SMI, DMESG):
        assert why_not(host.run, command) is MissingReason.NOT_COLLECTED


def test_an_empty_report_is_refused(tmp_path):
    with pytest.raises(TargetError, match="empty bug report"):
        open_host(write(tmp_path, b"Start of NVIDIA bug report log file\n"))


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.binary(max_size=200), st.integers(0, len(REPORT)))
def test_random_bytes_do_not_crash_the_reader(tmp_path, noise, at):
    data = REPORT.encode()[:at] + noise + REPORT.encode()[at:]
    try:
        host = open_host(write(tmp_path, data))
    except TargetError:
        return
    for name in host.store.names(""):
        assert name.isprintable()


DEVICES = "sys/bus/pci/devices"


def report(tmp_path, *sections: str, end: str = "End of NVIDIA bug report log file.\n"):
    start = f"{LINE}Start of NVIDIA bug report log file.\n"
    return open_host(write(tmp_path, gzip.compress((start + "".join(sections) + LINE + end).encode())))


def test_hex_dumps_end_where_their_offsets_do(tmp_path):
    rows = hex_dump(CONFIG).splitlines(keepends=True)
    odd = "".join((*rows[:3], "40: " + rows[4][4:], *rows[3:]))
    dump = f"1b:00.0 one\n{odd}1c:00.0 two\n{rows[1]}10001:1d:00.0 three\n{''.join(rows[:2])}"
    host = report(tmp_path, f"{LINE}/usr/bin/lspci -xxxx\n\n{dump}\n")
    assert host.read(f"{DEVICES}/0000:1b:00.0/config") == CONFIG[:48]
    assert why_not(host.read, f"{DEVICES}/0000:1c:00.0/config") is MissingReason.NOT_COLLECTED
    assert host.read(f"{DEVICES}/10001:1d:00.0/config") == CONFIG[:32]


@pytest.mark.parametrize("block", [50, 64, 97, 1000])
def test_the_same_is_found_in_blocks_of_any_size(tmp_path, monkeypatch, block):
    monkeypatch.setattr(bug_report, "BLOCK_BYTES", block)
    whole = [bytes(row) for row in bug_report._sections(opened(tmp_path, REPORT))]
    assert whole == [row.encode() for row in REPORT.split(LINE)]


def opened(tmp_path, text: str):
    path = tmp_path / "report"
    path.write_text(text)
    return open_stream(path.open("rb"), "report")


@pytest.mark.parametrize("block", [64, 1 << 20])
def test_a_section_beyond_the_limit_is_empty_and_the_next_is_not(tmp_path, monkeypatch, block):
    monkeypatch.setattr(bug_report, "BLOCK_BYTES", block)
    monkeypatch.setattr(bug_report, "SECTION_LIMIT_BYTES", 2000)
    monkeypatch.setattr(bug_report, "SEPARATOR_BYTES", 128)
    text = f"\n{LINE}".join(("first", "x" * 5000, "third", "y" * 1500, "z" * 9000))
    found = [bytes(row) for row in bug_report._sections(opened(tmp_path, text))]
    if block == 64:
        assert found == [b"first\n", b"", b"third\n", b"y" * 1500 + b"\n", b""]
    else:
        assert [row[:1] for row in found] == [b"f", b"x", b"t", b"y", b""]


def test_sections_are_limited(tmp_path, monkeypatch):
    monkeypatch.setattr(bug_report, "SECTIONS_LIMIT", 3)
    file = file_section("/etc/issue", "text\n")
    assert report(tmp_path, file).read("etc/issue") == b"text\n"  # the number of the last one is 3
    with pytest.raises(TargetError, match=r"^refusing .*: more than 3 sections$"):
        report(tmp_path, file, file)


def test_the_whole_list_of_a_folder_is_known_for_two_kinds(tmp_path):
    host = report(
        tmp_path,
        f"{LINE}/sys/module/nvidia/parameters/NVreg_A:1\n/sys/module/nvidia/parameters/NVreg_B:\n",
        file_section("/proc/driver/nvidia/gpus/0000:1b:00.0/information", "Model: H100\n"),
        file_section("/proc/driver/nvidia/version", "NVRM\n"),
        file_section("/sys/module/nvidia/version", "580\n"),
        file_section("/etc/x/parameters", "text\n"),
        f"{LINE}*** /etc/hidden is not readable\n\n",
        f"{LINE}*** /etc/none does not exist\n\n",
        f"{LINE}*** /../up does not exist\n\n",
    )
    assert host.list("sys/module/nvidia/parameters") == ("NVreg_A", "NVreg_B")
    assert host.read("sys/module/nvidia/parameters/NVreg_B") == b"\n"
    assert host.list("proc/driver/nvidia/gpus") == ("0000:1b:00.0",)
    for path in ("proc/driver/nvidia", "sys/module/nvidia", "sys/module", "etc", "sys/module/x/parameters"):
        assert why_not(host.list, path) is MissingReason.NOT_COLLECTED, path
    assert why_not(host.list, "etc/hidden") is MissingReason.DENIED
    assert why_not(host.list, "etc/none") is MissingReason.ABSENT
    assert host.exists("etc/hidden") and not host.exists("etc/none")
    assert why_not(host.exists, "etc/other") is MissingReason.NOT_COLLECTED
    assert why_not(host.read, "up") is MissingReason.ABSENT


def test_every_output_is_where_a_sosreport_keeps_it(tmp_path):
    sections = [
        f"{LINE}/usr/bin/{program} {words}\n\noutput {program} {words}\n\n"
        for program, words in bug_report.OUTPUTS
    ]
    sections = [row.replace("/usr/bin/dmesg: \n", "dmesg:\n") for row in sections]
    host = report(tmp_path, *sections)
    last = {file: f"output {program} {words}\n" for (program, words), file in bug_report.OUTPUTS.items()}
    assert {file: host.read(file).decode() for file in last} == last
    more = report(tmp_path, f"{LINE}uname: Linux node1 6.8\n/sys/module/a/parameters/b:c\n")
    assert more.read("sos_commands/kernel/uname_-a") == b"Linux node1 6.8\n"
    assert more.read("sys/module/a/parameters/b") == b"c\n"


def test_the_hints_of_a_report(tmp_path):
    cut = report(tmp_path, file_section("/etc/issue", "text\n"), end="")
    assert [row.partition(" ")[2] for row in cut.notes] == [
        "is incomplete: the script hung, or the file was cut off"
    ]
    with pytest.raises(TargetError, match=r"^empty bug report: ") as error:
        report(tmp_path)
    assert error.value.hint == "create it again as root: nvidia-bug-report.sh"


def test_the_limits():
    assert (bug_report.SECTION_LIMIT_BYTES, bug_report.SECTIONS_LIMIT, bug_report.SEPARATOR_BYTES) == (
        16 << 20,
        20_000,
        256,
    )
