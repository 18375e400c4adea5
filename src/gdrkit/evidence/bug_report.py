"""nvidia-bug-report.log.gz, split into the files and the command outputs that the script put into it.

Source: nvidia-bug-report.sh of the 375, 530 and 580 drivers: append() and report_file() for files,
append_command() and report_command() for commands. Each section stands behind a line of 44 underscores.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from gdrkit.evidence import EvidenceAbsent, EvidenceMissing
from gdrkit.evidence.bundle import BundleHost
from gdrkit.evidence.errors import TargetError
from gdrkit.evidence.manifest import CommandNote
from gdrkit.evidence.memory_store import MemoryStore
from gdrkit.evidence.missing import absent, denied, not_collected
from gdrkit.evidence.stream import BLOCK_BYTES, Stream
from gdrkit.evidence.sysfs import DEVICES

START = b"Start of NVIDIA bug report log file"
END = b"End of NVIDIA bug report log file"

SECTION_LIMIT_BYTES = 16 << 20
"""A section beyond this size is passed over. Kernel logs and nvidia-smi stay below 5 MB; what is larger are
memory dumps in base64 and logs of daemons, which make some reports hundreds of MB long."""

SECTIONS_LIMIT = 50_000
"""Sections of a report: some hundreds, some thousands with DKMS logs and 8 GPUs."""

OUTPUTS = {
    ("nvidia-smi", "-q"): "sos_commands/nvidia/nvidia-smi_-q",
    ("nvidia-smi", "--query"): "sos_commands/nvidia/nvidia-smi_-q",
    ("lspci", "-nnDvvvxxxx"): "sos_commands/pci/lspci_-nnvvv",
    ("lspci", "-nnDvvvxxx"): "sos_commands/pci/lspci_-nnvvv",
    ("lspci", "-nn"): "sos_commands/pci/lspci_-nn",
    ("lspci", "-nntv"): "sos_commands/pci/lspci_-tv",
    ("lspci", "-t"): "sos_commands/pci/lspci_-tv",
    ("ibstat", ""): "sos_commands/infiniband/ibstat",
    ("dmidecode", ""): "sos_commands/hardware/dmidecode",
    ("numactl", "-H"): "sos_commands/numa/numactl_--hardware",
    ("dmesg:", ""): "sos_commands/kernel/dmesg",
}
"""Where a sosreport keeps the output of the same command. `lspci -d 10de:*`, which older scripts run first,
is not here: it shows a part of the devices, and would be read as all."""

SEPARATOR_BYTES = 256
"""Enough to hold a separator that lies across two blocks."""

_SEPARATOR = re.compile(rb"^_{40,100}\r?\n\r?\n?", re.M)
_FILE = re.compile(rb"\*\*\* (/[^\n]*?)\r?\n(?:\*\*\* ls: [^\n]*\n)?")
_ELSEWHERE = re.compile(rb"(.*?) (does not exist|is not readable)")
_COMMAND = re.compile(
    rb"^((?:/[\w./-]*/)?(?:nvidia-smi|lspci|ibstat|dmidecode|numactl)|dmesg:)([^\n]*)\n[ \t]*\n", re.M
)
_PARAMETER = re.compile(rb"^(/sys/module/\w+/parameters/\w+):([^\n]*)\n", re.M)
_LISTED = re.compile(rb"^((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) ", re.M)
_HEX = re.compile(rb"^([0-9a-f]{2,3}):((?: [0-9a-f]{2}){16})\s*$", re.M)


class ReportRecord:
    """What the script says it did not find, and may not read. Of everything else nothing is known."""

    def __init__(self, shelf: MemoryStore) -> None:
        self.shelf = shelf
        self.absent: set[str] = set()
        self.denied: set[str] = set()

    def missing(self, path: str, real: str) -> EvidenceMissing:
        if path in self.absent:
            return absent(path)
        if path in self.denied:
            return denied(path)
        return not_collected(path)

    def there(self, path: str, real: str) -> bool | None:
        if path in self.denied:
            return True
        return False if isinstance(self.missing(path, real), EvidenceAbsent) else None

    def names(self, path: str, real: str) -> tuple[str, ...] | None:
        whole = path == "proc/driver/nvidia/gpus" or (
            path.startswith("sys/module/") and path.endswith("/parameters")
        )
        if whole and self.shelf.kind(path) is not None:
            return None
        raise self.missing(path, real) if self.shelf.kind(path) is None else not_collected(path)

    def command(self, argv: tuple[str, ...]) -> CommandNote | None:
        return None

    def output(self, file: str) -> CommandNote | None:
        return None


def open_bug_report(stream: Stream, name: str) -> BundleHost:
    """A report as a host. Raises TargetError if no section can be found."""
    shelf = MemoryStore()
    record = ReportRecord(shelf)
    whole = False
    for count, section in enumerate(_sections(stream)):
        if count > SECTIONS_LIMIT:
            raise TargetError(f"{name} is refused: more than {SECTIONS_LIMIT:,} sections")
        _place(shelf, record, section)
        whole = END in section
    if len(shelf.entries) == 1:
        raise TargetError(f"{name} is a bug report with nothing in it", "make it again, as root")
    notes = () if whole else (f"{name} has no end: the script hung, or the file was cut off",)
    return BundleHost(shelf, record, "bug-report", notes)


def _sections(stream: Stream) -> Iterator[bytes]:
    """What stands between lines of underscores, one after the other; of one that is too long, nothing."""
    held, scanned, too_long = b"", 0, False
    while block := stream.peek(BLOCK_BYTES):
        stream.skip(len(block))
        held += block
        start = 0
        for separator in _SEPARATOR.finditer(held, scanned):
            if separator.end() == len(held):
                break  # the next block may go on with it
            yield b"" if too_long else held[start : separator.start()]
            start, too_long = separator.end(), False
        held = held[start:]
        if too_long or len(held) > SECTION_LIMIT_BYTES:
            held, too_long = held[-SEPARATOR_BYTES:], True
        scanned = max(0, len(held) - SEPARATOR_BYTES)
    yield b"" if too_long else held


def _place(shelf: MemoryStore, record: ReportRecord, section: bytes) -> None:
    if match := _FILE.match(section):
        missing = _ELSEWHERE.fullmatch(match[1])
        path = _path((missing or match)[1])
        if not path:
            return
        if missing:
            (record.absent if missing[2].startswith(b"does") else record.denied).add(path)
        else:
            shelf.keep(path, section[match.end() :].removesuffix(b"\n"))
        return
    commands = list(_COMMAND.finditer(section))
    for command, following in zip(commands, [*commands[1:], None], strict=False):
        output = section[command.end() : following.start() if following else len(section)]
        _place_output(shelf, command, output)
    if not commands:
        for parameter in _PARAMETER.finditer(section):
            shelf.keep(_path(parameter[1]), parameter[2] + b"\n")
        if uname := re.search(rb"^uname: (Linux [^\n]+)\n", section, re.M):
            shelf.keep("sos_commands/kernel/uname_-a", uname[1] + b"\n")


def _place_output(shelf: MemoryStore, command: re.Match[bytes], output: bytes) -> None:
    program = posixpath.basename(command[1].decode())
    if file := OUTPUTS.get((program, command[2].decode("utf-8", "replace").strip())):
        shelf.keep(file, output.removesuffix(b"\n"))
    if program == "lspci":
        _place_configs(shelf, output)


def _place_configs(shelf: MemoryStore, output: bytes) -> None:
    """The hex dumps of `lspci -xxx`, as the files that they were read from."""
    devices = list(_LISTED.finditer(output))
    for device, following in zip(devices, [*devices[1:], None], strict=False):
        dump = output[device.start() : following.start() if following else len(output)]
        config = b""
        for line in _HEX.finditer(dump):
            if int(line[1], 16) != len(config):
                break
            config += bytes.fromhex(line[2].decode())
        if config:
            address = device[1].decode()
            address = address if address.count(":") == 2 else f"0000:{address}"
            shelf.keep(f"{DEVICES}/{address}/config", config)


def _path(name: bytes) -> str:
    """A path as the script wrote it, without the "./" of its loops; "" for one that is none."""
    path = posixpath.normpath(name.decode("utf-8", "replace")).lstrip("/")
    return path if path.isprintable() and not path.startswith("..") else ""
