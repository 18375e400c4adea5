"""Altered input breaks no command; the longer run is `python -m tools.fuzz --seconds N`."""

from tools import fuzz


def test_altered_input_breaks_no_command(tmp_path):
    inputs = fuzz.Inputs(tmp_path, ("wsl2", "no-gpu", "h200-vm"))
    assert list(fuzz.failures(inputs, seed=1, numbers=iter(range(25)))) == []


def test_a_broken_command_is_noticed(tmp_path, monkeypatch):
    """An exception in a command, and its exit code 70, are failures that name the input."""
    inputs = fuzz.Inputs(tmp_path, ("wsl2",))
    monkeypatch.setattr("gdrkit.explain.explain.explain", lambda host: 1 / 0)
    found = list(fuzz.failures(inputs, seed=1, numbers=iter(range(12))))
    assert found and all("ZeroDivisionError" in failure.why for failure in found)
    assert found == list(fuzz.failures(inputs, seed=1, numbers=iter(range(12))))
