"""Altered input breaks no command; the longer run is `python -m tools.fuzz --seconds N`."""

import io
import tarfile

import pytest
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


@pytest.mark.parametrize(
    "command", ["doctor", "topo", "estimate", "fix", "modprobe nvidia", "config nccl-env"]
)
@pytest.mark.parametrize("kept", [0, 1, 700])
def test_an_archive_that_is_cut_inside_its_manifest(command, kept, tmp_path):
    """Found with seed 1, input 16: the manifest's header is there, and its content is not."""
    at = tmp_path / "node.tar"
    with tarfile.open(at, "w") as tar:
        entry = tarfile.TarInfo("gdr-node/gdr_manifest.json")
        entry.size = 4096
        tar.addfile(entry, io.BytesIO(b'{"schema": "gdrkit.bundle/1", "files": {'.ljust(4096)))
    at.write_bytes(at.read_bytes()[: 512 + kept])
    code, _, error = fuzz.run((*command.split(), str(at)))
    assert code == 66 and "Traceback" not in error and len(error.splitlines()) <= 3
