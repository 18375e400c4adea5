"""Every kind of target, and every question: each answer whole, or what is missing, why, and what to run.

The expected text is answers.txt. After a change that is meant, look at the difference, and write it with
`python -m tests.evidence.readers.test_whole_answers`.
"""

from __future__ import annotations

import difflib
import gzip
import json
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gdrkit.evidence import Command, EvidenceMissing
from gdrkit.evidence.errors import TargetError
from gdrkit.evidence.target import open_host
from tests.evidence.readers.tars import member, sos_bytes, tar_bytes
from tests.evidence.readers.test_bug_report import REPORT
from tests.evidence.readers.test_manifest import MANIFEST
from tests.evidence.readers.test_rdma_topo import DUMP, ROOT, header, packed

EXPECTED = Path(__file__).with_name("answers.txt")
LINK, HARD, FOLDER = tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE
GPU = "sys/bus/pci/devices/0000:1b:00.0"
SOS = {"components": {"report": {"plugins": {"kernel": {"commands": [
    {"filepath": "sos_commands/kernel/lsmod", "return_code": 1},
    {"filepath": "sos_commands/kernel/modinfo_x", "return_code": 1},
    {"filepath": "sos_commands/kernel/uname_-a", "return_code": 0},
    {"filepath": "sos_commands/pci/lspci", "return_code": 124},
    {"filepath": "sos_commands/kernel/none", "return_code": None}, {"return_code": 7},
]}}}}}  # fmt: skip
FILES = {
    "sys/module/nvidia/version": b"580\n",
    "lib/modules/6.1/modules.dep": b"kernel/a.ko.xz:\nextra/b.ko: c\n",
    "usr/lib/modules/6.2/modules.dep": b"", "etc/two\nlines": b"", "etc/modules-load.d/a.conf": b"a\n",
    "sos_commands/kernel/lsmod": b"lsmod: permission denied\n", "sos_commands/kernel/uname_-a": b"",
    "sos_commands/kernel/modinfo_x": b"modinfo: ERROR: Module y not found.\nfilename: x\n",
    "sos_commands/pci/lspci": b"00:00.0 Host\n", "sos_commands/kernel/blank": b" \n" * 40 + b"text",
    "sos_commands/kernel/late": b" " * 70 + b"text",
    "sos_commands/kernel/refused": b"\n sh: lspci: command not found\n",
}  # fmt: skip
LINKS = {
    "lsmod": "sos_commands/kernel/lsmod", "abs": "/etc/os-release", "up": "../../../etc/os-release",
    "loop": "loop", "a": "b/x", "b": "a/x", "dangling": "etc/nowhere", "dir": "etc",
    "file-dir": "etc/os-release/x",
    "sys/class/a": "../module/nvidia", "root": "/", "dots": "./etc/.././etc/./os-release",
}  # fmt: skip
PATHS = (
    "", ".", "..", "etc", "etc/", "etc/.", "etc/os-release", "etc/os-release/x", "etc/none",
    "etc/modprobe.d",
    "etc/modprobe.d/a.conf", "etc/modprobe.d/none.conf", "etc/modprobe.d/none/x",
    "etc/modules-load.d/none", *LINKS,
    "dir/os-release", "dir/../etc/os-release", "sys/class/a/version", "root/etc/os-release",
    "proc/modules", "proc/none",
    "proc/keys", "proc/slow", "proc/kallsyms", "sys/broken", "etc/skipped", "etc/lost", "sys/module",
    "sys/module/none",
    "sys/module/nvidia", "sys/module/ib_core/x", "sys/class/infiniband", "sys/class/infiniband/x/y",
    "sys/devices",
    "sys/devices/x", "sys/kernel/debug/x", "lib/modules", "lib/modules/6.1",
    "lib/modules/6.1/kernel/a.ko.xz",
    "lib/modules/6.1/extra/b.ko", "lib/modules/6.1/extra/none.ko", "lib/modules/6.3/extra/none.ko",
    "usr/lib/modules/6.2/x/y", "usr/lib/modules/6.1/x/y", "sys/bus/pci", GPU, f"{GPU}/config",
    f"{GPU}/vendor",
    f"{GPU}/numa_node", f"{GPU}/none", f"{GPU}/modalias", f"{GPU}/iommu_group", f"{GPU}/subsystem_vendor",
    f"{GPU}/class", f"{GPU}/revision", "sys/bus/pci/devices/0000:1a:01.0/subsystem_vendor",
    "sys/bus/pci/devices/0000:1c:00.0/vpd", "sys/class/infiniband/mlx5_0/device/vendor", "sys/class/net",
    "sys/kernel/iommu_groups/4/devices", "sys/kernel/iommu_groups/4/devices/0000:1b:00.0/vendor", "hard",
    "hard-none",
    "hard-up", "sparse", "fifo", "big", "var/log/journal/x", "proc/77/smaps", "proc/77/status",
    "proc/1/smaps",
    "sos_commands/kernel/dmesg", "proc/driver/nvidia/gpus", "proc/driver/nvidia/registry",
    "var/log/nvidia-installer.log",
)  # fmt: skip
COMMANDS = (
    Command(("dmesg",), ("sos_commands/kernel/dmesg",)),
    Command(("lsmod",), ("sos_commands/kernel/lsmod",)),
    Command(("modinfo", "x"), ("sos_commands/kernel/modinfo_x",)), Command(("ibstat",), ("none", "none2")),
    Command(("uname", "-a"), ("sos_commands/kernel/uname_-a",)), Command(("slow",), ("etc/os-release",)),
    Command(("lspci",), ("sos_commands/pci/none", "sos_commands/pci/lspci")), Command(("cut",), ()),
    Command(("blank",), ("sos_commands/kernel/blank",)), Command(("late",), ("sos_commands/kernel/late",)),
    Command(("refused",), ("sos_commands/kernel/refused",)), Command(("folder",), ("etc", "lsmod")),
    Command(("both",), ("sos_commands/kernel/refused", "sos_commands/kernel/dmesg")),
    Command(("code",), ()),
)  # fmt: skip


def members(top: str) -> list[Any]:
    return [
        *(member(top + path, content) for path, content in FILES.items()),
        *(member(top + path, type=LINK, linkname=target) for path, target in LINKS.items()),
        member(f"{top}hard", type=HARD, linkname=f"{top}etc/os-release"),
        member(f"{top}hard-none", type=HARD, linkname=f"{top}etc/none"),
        member(f"{top}hard-up", type=HARD, linkname=f"{top}../x"),
        member(f"{top}fifo", type=tarfile.FIFOTYPE), member(f"{top}sparse", type=b"S"),
        member(f"{top}big", bytes(70_000)), member(f"{top}var/log/journal/x", b"y"),
        member(f"{top}proc/77/smaps", b"y" * 4097), member(f"{top}proc/77/status", b"y" * 4096),
        member(f"{top}proc/1/smaps", b"y" * 4097), member(f"{top}empty/", type=FOLDER),
    ]  # fmt: skip


def targets() -> Iterator[tuple[str, bytes]]:
    """The files of all kinds of targets, by name."""
    top = "sosreport-x/"
    manifest = member(f"{top}sos_reports/manifest.json", json.dumps(SOS).encode())
    odd = [
        member("/etc/absolute", b"x"), member("elsewhere/etc/x", b"x"), member(f"{top}../up", b"x"),
        member(f"{top}two\nlines", b"x"), member(f"{top}./etc//dots", b"x"),
        member(f"{top}etc/os-release/", b"y"),
    ]  # fmt: skip
    sos = sos_bytes(manifest, *members(top), *odd)
    yield "sosreport", sos
    yield "sosreport.gz", gzip.compress(sos)
    yield "sosreport-cut", sos[:5400]
    yield "sosreport-damaged", sos[:9216] + b"garbage".ljust(512) + sos[9728:]
    yield "sosreport-odd-manifest", sos_bytes(member(f"{top}sos_reports/manifest.json", b"{"), *members(top))
    contents = {
        "proc/modules": b"nvidia 1 0 - Live 0x0\n", "sos_commands/kernel/dmesg": b"[    0.000000] Linux\n",
        "sos_commands/kernel/lsmod": b"", "sys/devices/pci0000:1a/0000:1b:00.0/vendor": b"0x10de\n",
    }  # fmt: skip
    more = [
        {"argv": ["cut"], "status": "truncated"}, {"argv": ["code"], "status": "failed", "exit_code": 9},
        {"argv": ["late"], "file": "sos_commands/kernel/dmesg", "status": "found", "exit_code": 0},
        {"argv": ["slow"], "status": "timed-out"},
        {"argv": ["modinfo", "x"], "status": "found", "exit_code": 1},
    ]  # fmt: skip
    etc = {"status": "listed", "names": ["b", "a", "two\nlines"]}
    folders = {**MANIFEST["folders"], "etc": etc}  # type: ignore[dict-item]
    text = json.dumps({**MANIFEST, "folders": folders, "commands": [*MANIFEST["commands"], *more]})
    rows = [member("gdr-x/gdr_manifest.json", text.encode())]
    rows += [member(f"gdr-x/{path}", content) for path, content in contents.items()]
    rows += [member(f"gdr-x/{GPU}", type=LINK, linkname="../../../devices/pci0000:1a/0000:1b:00.0")]
    yield "bundle", tar_bytes(*rows)
    yield "tree.tar", tar_bytes(*members(""), member("etc/os-release", b"ID=x\n"))
    yield "report", REPORT.encode()
    ports = {"infiniband": ["mlx5_0", "mlx5_1"]}
    four = {"realpath": f"{ROOT}/10000:1d:00.0", "config": packed(header(1, 2, 3)[:64]), "subsystems": ports}
    five = {
        "realpath": f"{ROOT}/0000:1e:00.0",
        "config": packed(bytes(63)),
        "iommu_group": "/sys/x/12",
        "numa_node": "-1",
    }
    yield "dump", json.dumps([*DUMP, four, five]).encode()
    yield from bad()


def bad() -> Iterator[tuple[str, bytes]]:
    """Damaged targets, and files of other kinds."""
    yield "empty", b""
    yield "text", b"some words\n"
    yield "dmesg.txt", b"[    0.000000] Linux version 6.8.0\n[12.5] NVRM: loading\n"
    yield "binary", b"\0\1\2"
    yield "bzip2", b"BZh91AY"
    yield "cut.gz", gzip.compress(b"x" * 9999)[:12]
    yield "other.tar", tar_bytes(member("x/y", b"z"))
    yield "other-cut.tar", tar_bytes(member("x/y", b"z"))[:600]
    yield "manifest.tar", tar_bytes(member("x/gdr_manifest.json", b"{"))
    yield "schema.tar", tar_bytes(member("x/gdr_manifest.json", b'{"schema": "other/1"}'))
    yield "sparse.tar", tar_bytes(member("x/gdr_manifest.json", type=b"S"))
    yield "report-empty", b"Start of NVIDIA bug report log file\n"
    for name, value in (
        ("list", []), ("numbers", [1]), ("path", [{**DUMP[1], "realpath": "/x"}]),
        ("base64", [{**DUMP[1], "config": "!"}]),
        ("zlib", [{**DUMP[1], "config": "AAAA"}]),
        ("large", [{**DUMP[1], "config": packed(bytes((1 << 16) + 1))}]),
        ("device", [{**DUMP[1], "subsystems": {"net": ["a/b"]}}]),
        ("dots", [{**DUMP[1], "subsystems": {"net": [".."]}}]),
        ("node", [{**DUMP[1], "numa_node": "x"}]),
        ("line", [{**DUMP[1], "subsystems": {"net": ["a\nb"]}}]),
    ):  # fmt: skip
        yield f"{name}.json", json.dumps(value).encode()


def answer(ask: Callable[..., Any], asked: Any) -> str:
    try:
        found = ask(asked)
    except EvidenceMissing as error:
        missing = error.missing
        source = "" if missing.source in (asked, getattr(asked, "line", "")) else f" of {missing.source}"
        return f"{missing.why}{source}: {missing.ask.replace(f'/{asked}', '/…')}"
    if isinstance(found, bytes | memoryview) and len(found) > 200:
        return f"{len(found)} bytes {bytes(found[:20])!r}"
    return repr(found)


def answers(path: Path) -> Iterator[str]:
    """A line for each question; none where nothing is known of a path but its name."""
    try:
        host: Any = open_host(str(path))
    except TargetError as error:
        yield f"{error} / {error.hint}".replace(str(path.parent), "FOLDER")
        return
    yield f"{host.source} {host.notes}"
    for asked in PATHS:
        found = [answer(ask, asked) for ask in (host.read, host.list, host.exists, host.resolve)]
        shown = " | ".join(dict.fromkeys(found)).replace(f"'{asked}'", "=")
        if shown != "not-collected: cat /… | =":
            yield f"{asked}: {shown}"
    for command in COMMANDS:
        yield f"$ {command.line}: {answer(host.run, command)}"


def lines() -> Iterator[str]:
    """What each target answers; of other forms of a sosreport only what differs from the first."""
    first: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, data in targets():
            path = Path(folder, name)
            path.write_bytes(data)
            rows = [*answers(path)]
            yield f"=== {name}"
            if name.startswith("sosreport") and first:
                changed = [*difflib.unified_diff(first, rows, n=0, lineterm="")][2:]
                yield from (f"{row[0]} {row[1:]}" for row in changed if not row.startswith("@"))
            else:
                first = first or rows
                yield from rows


def test_every_answer_is_as_it_should_be():
    expected = EXPECTED.read_text().splitlines()
    difference = "\n".join(difflib.unified_diff(expected, [*lines()], n=0, lineterm=""))
    assert not difference, difference


if __name__ == "__main__":
    EXPECTED.write_text("\n".join(lines()) + "\n")
