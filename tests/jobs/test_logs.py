"""Logs of a job: files, folders, patterns, packed streams; in chunks, by one process or two."""

from __future__ import annotations

import gzip
import io
import sys
from pathlib import Path

import pytest

from gdrkit.evidence.errors import TargetError
from gdrkit.jobs import logs as job_logs
from gdrkit.jobs import workers as job_workers
from gdrkit.jobs.analyse import analyse
from gdrkit.jobs.document import document
from tests.jobs.samples import SAMPLES
from tests.jobs.test_line_counts import JOB, WHOLE, answers

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

TEXT = ("\n".join(line for lines in JOB for line in lines) + "\n").encode()


def counted(*arguments: str) -> job_workers.CountedLogs:
    return job_workers.count(job_logs.find(list(arguments)))


def result(found: job_workers.CountedLogs) -> object:
    return answers(analyse(found.tally, found.position))


def test_files_folders_and_patterns(tmp_path: Path):
    (tmp_path / "deep").mkdir()
    for number, lines in enumerate(JOB):
        folder = tmp_path / "deep" if number % 2 else tmp_path
        (folder / f"rank{number}.log").write_text("\n".join(lines) + "\n")
    (tmp_path / ".hidden").write_text("NCCL version 2.1.1\n")

    by_folder, by_pattern = counted(str(tmp_path)), counted(f"{tmp_path}/**/rank*.log")

    assert result(by_folder) == result(by_pattern) == WHOLE
    assert sorted(by_folder.files) == sorted(by_pattern.files)
    assert len(counted(str(tmp_path), f"{tmp_path}/rank0.log").files) == 4, "each file once"


@pytest.mark.parametrize(
    "packed",
    [TEXT, gzip.compress(TEXT), gzip.compress(TEXT[:700]) + gzip.compress(TEXT[700:]), zstd.compress(TEXT),
     zstd.compress(TEXT[:900]) + zstd.compress(TEXT[900:])],
    ids=["plain", "gzip", "gzip of two", "zstd", "zstd of two"],
)  # fmt: skip
def test_packed_files_are_recognised_by_content(tmp_path: Path, packed: bytes):
    (tmp_path / "job").write_bytes(packed)
    found = counted(str(tmp_path / "job"))

    assert result(found) == WHOLE
    assert found.notes == []


@pytest.mark.parametrize("pack", [gzip.compress, zstd.compress])
def test_a_truncated_packed_file_is_counted_with_a_note(tmp_path: Path, pack):
    noise = "".join(f"step {n} loss 0.{n * 7919 % 9973}\n" for n in range(40_000)).encode()
    packed = pack(TEXT + noise)
    (tmp_path / "job").write_bytes(packed[: len(packed) * 9 // 10])
    found = counted(str(tmp_path / "job"))

    assert result(found) == WHOLE
    assert found.notes and "truncated" in found.notes[0]


@pytest.mark.parametrize("pack", [gzip.compress, zstd.compress])
def test_a_file_of_very_many_packed_streams_is_counted_up_to_a_limit(tmp_path: Path, monkeypatch, pack):
    monkeypatch.setattr(job_logs, "STREAMS_LIMIT", 3)
    (tmp_path / "most").write_bytes(pack(TEXT) + pack(b"") * 2)
    (tmp_path / "more").write_bytes(pack(TEXT) + pack(b"") * 3)
    most, more = (counted(str(tmp_path / name)) for name in ("most", "more"))

    assert not most.notes and "more than 3 parts" in more.notes[0]
    assert result(most) == result(more)


def test_files_that_are_damaged_or_not_text_get_a_note(tmp_path: Path):
    (tmp_path / "a.gz").write_bytes(gzip.compress(TEXT)[:12] + b"\xff" * 40)
    (tmp_path / "b.bin").write_bytes(b"\x7fELF\0\0\0" * 100)
    (tmp_path / "c.xz").write_bytes(b"\xfd7zXZ\0" + b"x" * 30)
    found = counted(str(tmp_path))

    assert [note.rpartition(": ")[2] for note in found.notes[:2]] == [
        "the gzip file is damaged",
        "not a text file",
    ]
    assert "xz is not supported" in found.notes[2]
    assert analyse(found.tally, found.position).state == "unknown"


def test_standard_input(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT)))
    found = counted("-")

    assert result(found) == WHOLE
    legs = analyse(found.tally, found.position).jobs[0].ranks[0].legs
    assert str(min(leg.line for leg in legs)) == "stdin:5"


@pytest.mark.parametrize("missing", ["nothing/here.log", "*.none"])
def test_a_missing_file_is_an_error(missing: str, tmp_path: Path):
    with pytest.raises(TargetError, match="no such file"):
        job_logs.find([str(tmp_path / missing)])


def test_a_file_that_is_gone_is_an_error_when_it_is_read(tmp_path: Path):
    with pytest.raises(TargetError, match="no such file"):
        job_logs.beginning(str(tmp_path / "gone.log"))


def test_an_empty_folder_is_an_error(tmp_path: Path):
    with pytest.raises(TargetError, match="no files"):
        job_logs.find([str(tmp_path)])


def test_two_processes_give_the_same_analysis_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(job_logs, "SECTION_BYTES", 500)
    monkeypatch.setattr(job_workers, "WORTH_TWO_BYTES", 1)
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1})
    (tmp_path / "job.log").write_bytes(TEXT)
    (tmp_path / "second.log.gz").write_bytes(gzip.compress(TEXT))
    found = counted(str(tmp_path))

    assert result(found) == WHOLE
    assert len(found.sections) > 5
    lines = (tmp_path / "job.log").read_text().splitlines()
    for rank in analyse(found.tally, found.position).jobs[0].ranks:
        for leg in rank.legs:
            assert " via " in lines[leg.line.line - 1]


def test_an_endless_line_is_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(job_logs, "LONGEST_LINE_BYTES", 1000)
    monkeypatch.setattr(job_logs, "CHUNK_BYTES", 300)
    (tmp_path / "job.log").write_bytes(b"x" * 5000 + b"\n" + TEXT)

    assert result(counted(str(tmp_path))) == WHOLE


def test_progress_is_reported_in_bytes(tmp_path: Path):
    (tmp_path / "job.log").write_bytes(TEXT)
    seen: list[tuple[int, int]] = []
    job_workers.count([str(tmp_path / "job.log")], lambda done, size: seen.append((done, size)))

    assert seen[-1] == (len(TEXT), len(TEXT))


def test_two_processes_count_the_same_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    sample = "".join(sample.text for sample in SAMPLES) * 3
    (tmp_path / "job.log").write_text(sample)
    alone = counted(str(tmp_path))
    monkeypatch.setattr(job_logs, "SECTION_BYTES", 700)
    monkeypatch.setattr(job_workers, "WORTH_TWO_BYTES", 1)
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1})
    both = counted(str(tmp_path))

    assert len(both.sections) > 20
    assert document(analyse(both.tally, both.position)) == document(analyse(alone.tally, alone.position))


BOX = ("\N{BOX DRAWINGS LIGHT VERTICAL} {}   \N{BOX DRAWINGS LIGHT VERTICAL}", "| {}  |")
TABLE = "\N{BOX DRAWINGS DOUBLE VERTICAL} {}"


@pytest.mark.parametrize("box", [*BOX, TABLE, "{} \N{BOX DRAWINGS LIGHT VERTICAL}"])
def test_lines_in_a_box_are_those_of_the_log(tmp_path: Path, box: str):
    """As k9s, tmux and tables of Markdown show them."""
    boxed = "".join(f"{box.format(line)}\n" for line in TEXT.decode().splitlines())
    (tmp_path / "job").write_text(boxed)

    assert result(counted(str(tmp_path / "job"))) == WHOLE


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str):
    """PowerShell writes it; a piece can end within a character."""
    monkeypatch.setattr(job_logs, "CHUNK_BYTES", 101)
    (tmp_path / "job").write_bytes(f"\ufeff{TEXT.decode()}".encode(encoding))

    assert result(counted(str(tmp_path / "job"))) == WHOLE


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("", "empty"),
        ("\n\n", "empty"),
        (
            "apiVersion: v1\nkind: Pod\nspec:\n  env:\n  - NCCL_DEBUG\n",
            "a manifest, not a log: gdr config check ",
        ),
        ("apiVersion: v1\nkind: Pod\n" + TEXT.decode(), ""),
    ],
)
def test_a_file_that_is_no_log_is_named(tmp_path: Path, text: str, note: str):
    """The near miss: a manifest that somebody prints before the lines of the job."""
    (tmp_path / "job").write_text(text)
    notes = counted(str(tmp_path / "job")).notes

    assert [one.partition(": ")[2].removesuffix(str(tmp_path / "job")) for one in notes] == [note] * bool(
        note
    )
