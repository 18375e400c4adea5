"""What GPUs move, from counters that wrap, are absent, or fail: read as NVML gives them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from gdrkit.agent.native.nvml import ALL_LINKS, NVLINK_DATA_TX, PCIE_TX_BYTES, Nvml, NvmlError
from gdrkit.agent.running.nvml import GPUS, emit_rates, read, started

GPU = "0000:1b:00.0"


class Counters:
    """Counters that go on by a step with each look; NVML refuses all others."""

    def __init__(self, **steps: int) -> None:
        self.steps = steps
        self.values = dict.fromkeys(steps, (1 << 32) - 1000)

    def field(self, gpu: str, field: int, scope: int) -> int:
        name = {(NVLINK_DATA_TX, ALL_LINKS): "nvlink", (PCIE_TX_BYTES, 0): "pcie"}.get((field, scope), "")
        if name not in self.steps:
            raise NvmlError("field", 3, "Not Supported")
        self.values[name] += self.steps[name]
        return self.values[name] % (1 << 32 if name == "pcie" else 1 << 64)


def rates(counters: Counters, seconds: float = 0.1) -> dict:
    rows: list = []
    emit_rates(counters, [GPU], rows.append, seconds)
    (row,) = rows
    return row


def test_nvlink_counts_kib_and_pcie_goes_round_after_32_bits():
    """Each window sees the counter of PCIe go on by 600 bytes, the first time past its end."""
    row = rates(Counters(nvlink=7, pcie=600))

    assert row["gpu"] == GPU and row["seconds"] >= 0.1
    assert row["nvlink_sent"] == 7 * 1024 and row["nvlink_ever"] == ((1 << 32) - 1000 + 14) * 1024
    assert row["pcie_sent"] % 600 == 0 and 600 <= row["pcie_sent"] <= 6 * 600
    assert "pcie_received" not in row and "nvlink_received" not in row


def test_a_gpu_without_counters_has_no_rates_and_is_not_still():
    assert rates(Counters()).keys() == {"gpu", "seconds"}


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A root with GPUs, each with its BIOS; that NVML is loaded fails the test."""
    monkeypatch.setattr("gdrkit.agent.running.nvml.Nvml", lambda: pytest.fail("loaded"))

    def made(**bios: str) -> str:
        for name, version in bios.items():
            folder = tmp_path / GPUS / f"0000:1B:0{name[-1]}.0"
            folder.mkdir(parents=True)
            (folder / "information").write_text(f"Model: \t\t NVIDIA H200\nVideo BIOS: \t {version}\n")
        return f"{tmp_path}/"

    return made


def test_only_gpus_that_run_are_asked_about(machine):
    """To ask about another would start it."""
    root = machine(gpu0="96.00.a5.00.1a", gpu1="??.??.??.??.??")

    assert started(root) == ["0000:1b:00.0"]


def test_where_no_gpu_runs_nvml_is_not_loaded(machine):
    rows: list[object] = []
    read(rows.append, 0, machine(gpu0="??.??.??.??.??"))
    assert not rows


def test_without_the_driver_nvml_is_not_loaded(machine):
    """That would load the driver."""
    with pytest.raises(FileNotFoundError):
        read(pytest.fail, 0, machine())


@pytest.mark.parametrize(("words", "shown"), [(b"GPU is lost", "GPU is lost"), (None, "")])
def test_an_error_of_nvml_has_its_words(words: bytes | None, shown: str):
    made = Nvml.__new__(Nvml)
    made._library = SimpleNamespace(nvmlErrorString=lambda number: words, refuses=lambda: 15)
    with pytest.raises(NvmlError) as caught:
        made._call("refuses")
    assert str(caught.value) == str(NvmlError("refuses", 15, shown))
    with pytest.raises(NvmlError, match="this library has no such function"):
        made._call("absent")
