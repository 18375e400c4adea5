"""Texts that are longer than is read whole."""

from __future__ import annotations

import gzip

import pytest

from gdrkit.cli import explain, long_text
from gdrkit.cli.long_text import read_cut
from gdrkit.evidence.errors import TargetError

FAILED = "[ 100.1] nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client\n"


def test_the_lines_of_a_cut_text_keep_their_numbers(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(explain, "LIMIT_BYTES", 50_000)
    monkeypatch.setattr(explain, "HEAD_BYTES", 1000)
    monkeypatch.setattr(explain, "TAIL_BYTES", 2000)
    file = tmp_path / "log"
    file.write_text("[    1.000000] docker0: port 1 entered blocking state\n" * 2000 + FAILED)

    assert explain.main([str(file)]) == 2
    shown = capsys.readouterr()
    assert "line 2001: [ 100.1] nvidia_peermem: disagrees" in shown.out
    assert "lines 19 to" in shown.err and "were not read" in shown.err


def unchecked(start: bytes) -> None:
    pass


def test_a_text_within_the_limit_is_whole(tmp_path):
    file = tmp_path / "log"
    file.write_bytes(b"a\n" * 50)

    assert not read_cut(str(file), 100, 10, 10, unchecked).is_cut
    assert read_cut(str(file), 99, 10, 10, unchecked).content == b"a\n" * 5 + b"[...]\n" + b"a\n" * 4


def test_what_is_packed_is_not_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(explain, "LIMIT_BYTES", 20)
    file = tmp_path / "log.gz"
    file.write_bytes(gzip.compress(FAILED.encode()))

    with pytest.raises(TargetError, match="larger than"):
        explain.main([str(file)])


def test_a_text_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(explain, "LIMIT_BYTES", 1000)
    monkeypatch.setattr(long_text, "LONGEST_BYTES", 4 << 30 >> 8)
    file = tmp_path / "log"
    with file.open("wb") as stream:
        stream.write(b"[ 1.0] a\n" * 200)
        stream.truncate((4 << 30 >> 8) + 1)  # a hole: no block of it is on the disk

    with pytest.raises(TargetError, match="larger than"):
        explain.main([str(file)])


def test_a_device_without_end_is_no_text_and_is_not_read_on():
    with pytest.raises(TargetError, match="not a text"):
        explain.main(["/dev/zero"])
