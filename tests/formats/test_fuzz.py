"""A short run of the fuzzer; long runs are for CI and started by hand."""

from __future__ import annotations

from tests.formats import fuzz


def test_readers_accept_or_refuse_any_input(capsys):
    assert fuzz.run(inputs=12_000, seed=2026) == 0
    assert "12000 inputs, seed 2026" in capsys.readouterr().out


def test_a_reader_that_fails_is_reported(monkeypatch, capsys):
    broken = fuzz.Target((b"abcd",), lambda data: {}["missing"])
    monkeypatch.setattr(fuzz, "targets", lambda: (broken,))

    assert fuzz.run(inputs=3, seed=1) == 3
    assert "input 0 of seed 1" in capsys.readouterr().err
