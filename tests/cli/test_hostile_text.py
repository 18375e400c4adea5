"""Texts, logs and archives that were made so that reading them takes long, or all memory."""

from __future__ import annotations

import resource
import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

SECONDS = 60  # of the processor; each took minutes, hours or days
LINE_SECONDS = 15  # for a quarter of a MiB in long lines


def gdr(*words: str, file: Path, seconds: int = SECONDS) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-I", "-c", "import sys\nfrom gdrkit.cli import main\nsys.exit(main())"]
    return subprocess.run(
        [*command, *words, str(file)],
        capture_output=True,
        check=False,
        preexec_fn=lambda: _bound(seconds),
    )


def _bound(seconds: int) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))


def line(unit: str, start: str = "") -> str:
    return (start + unit * (4096 // len(unit)))[:4096] + "!"


LINES = {
    "modprobe": line("ctx= path= ", "modprobe: ERROR: "),
    "verbs": line("aibv_reg_mra"),
    "suffixes": line("_iova2", "Call to ibv_reg_mr"),
    "sections": line("Invalid ELF section in module (section a type "),
    "tabs": line("\t"),
    "blanks": line(" ", "n:1:1 [0] NCCL INFO Using network a"),
    "completions": line("Got completion awith error 1)avendor err ", "n:1:1 [0] NCCL WARN "),
}


@pytest.mark.parametrize("command", ["explain", "nccl"])
@pytest.mark.parametrize("name", LINES)
def test_no_line_takes_long(tmp_path, command, name):
    (tmp_path / "text").write_text(f"{LINES[name]}\n" * 64)

    done = gdr(command, file=tmp_path / "text", seconds=LINE_SECONDS)

    assert done.returncode in (0, 1, 2, 3)


def test_a_text_of_too_many_lines_is_refused(tmp_path):
    (tmp_path / "text").write_bytes(b"a\n" * 500_000)
    done = gdr("explain", file=tmp_path / "text")

    assert done.returncode == 66
    assert b"cut it down to what matters" in done.stderr


def test_of_a_line_that_is_too_long_the_ends_are_read(tmp_path):
    (tmp_path / "text").write_bytes(b"a" * (17 << 20))
    done = gdr("explain", file=tmp_path / "text")

    assert done.returncode == 3
    assert done.stderr.count(b"\n") == 1 and b"were not read" in done.stderr


@pytest.mark.parametrize("command", ["topo", "estimate"])
@pytest.mark.parametrize("start", ["<!", "<?", "<!--"])
def test_what_begins_in_a_topology_and_never_ends_does_not_take_long(tmp_path, command, start):
    (tmp_path / "topo.xml").write_text('<system version="1">' + start * 2_000_000)

    assert gdr(command, file=tmp_path / "topo.xml").returncode == 66


def test_blanks_in_the_output_of_a_benchmark_do_not_take_long(tmp_path):
    text = b"# Rank 0 Pid 1 on a device 0 [0x0]" + b" " * (1 << 20) + b"x\n" + b"\t" * (1 << 20) + b"x\n"
    (tmp_path / "text").write_bytes(text)

    assert gdr("estimate", "--measured", file=tmp_path / "text").returncode >= 64


def test_empty_lines_in_a_configuration_do_not_take_long(tmp_path):
    (tmp_path / "text").write_bytes(b"\n" * (1 << 19))

    assert gdr("config", "check", file=tmp_path / "text").returncode == 3


def test_one_long_line_in_each_file_of_an_archive_does_not_take_long(tmp_path):
    with tarfile.open(tmp_path / "node.tar.gz", "w:gz", compresslevel=1) as archive:
        for name, start in (
            ("etc/os-release", "ID=debian\n"),
            ("proc/cmdline", ""),
            ("sos_commands/kernel/dmesg", "[    1.0] "),
            ("sos_commands/rpm/package-data", ""),
            ("etc/modprobe.d/a.conf", ""),
        ):
            member = tarfile.TarInfo(name)
            data = start.encode() + b"a" * (20 << 20)
            member.size = len(data)
            archive.addfile(member, BytesIO(data))

    assert gdr("doctor", file=tmp_path / "node.tar.gz").returncode == 3


def test_one_line_of_programs_in_a_bug_report_does_not_take_long(tmp_path):
    start = b"Start of NVIDIA bug report log file\n" + b"_" * 44 + b"\n\n"
    (tmp_path / "report.log").write_bytes(start + b"/a/nvidia-smi" * (1 << 19) + b"\n" + b"_" * 44 + b"\n\n")

    assert gdr("doctor", file=tmp_path / "report.log").returncode in (3, 66)
