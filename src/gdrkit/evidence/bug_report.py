"""Read nvidia-bug-report.log.gz: split it into the files and command outputs that it contains.

Source: nvidia-bug-report.sh of the 375, 530 and 580 drivers: append() and report_file() for files,
append_command() and report_command() for commands. A line of 44 underscores precedes each section.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from gdrkit.evidence import EvidenceMissing
from gdrkit.evidence.bundle import BundleHost
from gdrkit.evidence.errors import TargetError
from gdrkit.evidence.manifest import CommandNote
from gdrkit.evidence.memory_store import MemoryStore
from gdrkit.evidence.missing import absent, denied, not_collected
from gdrkit.evidence.stream import BLOCK_BYTES, Stream
from gdrkit.evidence.sysfs import DEVICES
from gdrkit.formats.regex import regex

START = b"Start of NVIDIA bug report log file"
END = b"End of NVIDIA bug report log file"

SECTION_LIMIT_BYTES = 16 << 20
"""Larger sections are skipped. Kernel logs and nvidia-smi stay below 5 MB; memory dumps in base64 and logs
of daemons are larger, and make some reports hundreds of MB long."""

SECTIONS_LIMIT = 20_000
"""Most sections of a report: hundreds are common, thousands with DKMS logs and 8 GPUs."""

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
is left out: it shows only some of the devices, and would be read as all of them."""

SEPARATOR_BYTES = 256
"""Enough for a separator that spans two blocks."""

_SEPARATOR = regex(rb"^_{40,100}\r?\n\r?\n?", re.M)
_FILE = regex(rb"\*\*\* (/[^\n]*?)\r?\n(?:\*\*\* ls: [^\n]*\n)?")
_NOT_READ = regex(rb"(.*?) (does not exist|is not readable)")
_COMMAND = regex(
    rb"^((?:/[\w./-]{0,200}/)?(?:nvidia-smi|lspci|ibstat|dmidecode|numactl)|dmesg:)([^\n]{0,200})\n[ \t]*\n",
    re.M,
)
_PARAMETER = regex(rb"^(/sys/module/\w+/parameters/\w+):([^\n]*)\n", re.M)
_UNAME = regex(rb"^uname: (Linux [^\n]+)\n", re.M)
_LISTED = regex(rb"^((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) ", re.M)
_HEX = regex(rb"^([0-9a-f]{2,3}):((?: [0-9a-f]{2}){16})\s*$", re.M)


class ReportRecord:
    """Files that the script reports as missing or not readable. All others count as not collected."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.absent: set[str] = set()
        self.denied: set[str] = set()

    def missing(self, path: str, real: str) -> EvidenceMissing:
        if path in self.absent:
            return absent(path)
        if path in self.denied:
            return denied(path)
        return not_collected(path)

    def there(self, path: str, real: str) -> bool | None:
        return True if path in self.denied else None

    def names(self, path: str, real: str) -> tuple[str, ...] | None:
        whole = path == "proc/driver/nvidia/gpus" or (
            path.startswith("sys/module/") and path.endswith("/parameters")
        )
        if whole and self.store.kind(path) is not None:
            return None
        raise self.missing(path, real) if self.store.kind(path) is None else not_collected(path)

    def command(self, argv: tuple[str, ...]) -> CommandNote | None:
        return None

    def output(self, file: str) -> CommandNote | None:
        return None


def open_bug_report(stream: Stream, name: str) -> BundleHost:
    """A report as a host. Raises TargetError if no section can be found."""
    store = MemoryStore()
    record = ReportRecord(store)
    whole = False
    for count, section in enumerate(_sections(stream)):
        if count > SECTIONS_LIMIT:
            raise TargetError(f"refusing {name}: more than {SECTIONS_LIMIT:,} sections")
        _store_section(store, record, section)
        whole = END in section
    if len(store.entries) == 1:
        raise TargetError(f"empty bug report: {name}", "create it again as root: nvidia-bug-report.sh")
    notes = () if whole else (f"{name} is incomplete: the script hung, or the file was cut off",)
    return BundleHost(store, record, "bug-report", notes)


def _sections(stream: Stream) -> Iterator[bytes]:
    """The text of each section in turn; empty for one that is too long."""
    buffered, scanned, too_long = b"", 0, False
    while block := stream.peek(BLOCK_BYTES):
        stream.skip(len(block))
        buffered += block
        start = 0
        for separator in _SEPARATOR.finditer(buffered, scanned):
            if separator.end() < len(buffered):  # else it may continue in the next block
                yield b"" if too_long else buffered[start : separator.start()]
                start, too_long = separator.end(), False
        buffered = buffered[start:]
        if len(buffered) > SECTION_LIMIT_BYTES:
            buffered, too_long = buffered[-SEPARATOR_BYTES:], True
        scanned = len(buffered) - SEPARATOR_BYTES  # below 0 is the beginning
    yield b"" if too_long else buffered


def _store_section(store: MemoryStore, record: ReportRecord, section: bytes) -> None:
    if match := _FILE.match(section):
        missing = _NOT_READ.fullmatch(match[1])
        path = _path((missing or match)[1])
        if not path:
            return
        if missing:
            (record.absent if missing[2].startswith(b"does") else record.denied).add(path)
        else:
            store.keep(path, section[match.end() :].removesuffix(b"\n"))
        return
    commands = list(_COMMAND.finditer(section))
    for command, following in zip(commands, [*commands[1:], None], strict=False):
        output = section[command.end() : following.start() if following else len(section)]
        _store_output(store, command, output)
    if not commands:
        for parameter in _PARAMETER.finditer(section):
            store.keep(_path(parameter[1]), parameter[2] + b"\n")
        if uname := _UNAME.search(section):
            store.keep("sos_commands/kernel/uname_-a", uname[1] + b"\n")


def _store_output(store: MemoryStore, command: re.Match[bytes], output: bytes) -> None:
    program = posixpath.basename(command[1].decode())
    if file := OUTPUTS.get((program, command[2].decode("utf-8", "replace").strip())):
        store.keep(file, output.removesuffix(b"\n"))
    if program == "lspci":
        _store_configs(store, output)


def _store_configs(store: MemoryStore, output: bytes) -> None:
    """Store the hex dumps of `lspci -xxx` as the `config` files that lspci read."""
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
            store.keep(f"{DEVICES}/{address}/config", config)


def _path(name: bytes) -> str:
    """A path as the script wrote it, without the "./" of its loops; "" if it is not valid."""
    path = posixpath.normpath(name.decode("utf-8", "replace")).lstrip("/")
    return path if path.isprintable() else ""
