"""The paths that a program can use for a GPU and a NIC: usable, not usable or unknown, and why."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gdrkit.agent.native import cuda as binding
from gdrkit.facts.driver_files import DRIVER
from gdrkit.facts.modules import is_loaded
from gdrkit.transport import PathOption, TransportError, path_options, paths
from gdrkit.transport.measure.remote import _packed
from gdrkit.transport.native import cuda as native_cuda
from tests.hardware import SPARK, machine

GPU, NIC = "0000:1b:00.0", "mlx5_0"
BEST_FIRST = ["dmabuf", "peermem", "host-mapped", "staged", "socket"]


def by_name(found: tuple[PathOption, ...]) -> dict[str, PathOption]:
    assert [choice.name for choice in found] == BEST_FIRST
    return {choice.name: choice for choice in found}


def test_an_integrated_gpu_has_host_mapped_and_no_direct_path() -> None:
    node = machine(SPARK).after("driver", [is_loaded.becomes(True, DRIVER)])
    found = by_name(path_options.judged(node, "000f:01:00.0", "rocep1s0f1"))
    assert found["dmabuf"].usable == found["peermem"].usable == "no"
    assert found["host-mapped"].usable != "no"
    assert any(reason.evidence for reason in found["dmabuf"].reasons)


def test_every_no_and_every_unknown_has_its_reason() -> None:
    for choice in path_options.judged(machine(), GPU, NIC):
        assert choice.usable in ("yes", "no", "unknown")
        assert choice.usable == "yes" or choice.reasons, choice.name
        assert all(reason.code and reason.answer for reason in choice.reasons)


def test_missing_evidence_is_unknown_with_the_command_to_get_it() -> None:
    found = by_name(path_options.judged(machine(complete=False), GPU, NIC))
    assert found["peermem"].usable == "unknown"
    assert any(line.startswith("ask: ") for reason in found["peermem"].reasons for line in reason.evidence)


def test_a_port_number_is_not_part_of_the_device_name() -> None:
    assert path_options.judged(machine(), GPU, f"{NIC}:1") == path_options.judged(machine(), GPU, NIC)


@pytest.mark.parametrize(
    ("gpu", "device", "why"),
    [(GPU, "mlx5_7", "no such RDMA device: mlx5_7"), ("0000:99:00.0", NIC, "no such GPU: 0000:99:00.0")],
)
def test_a_gpu_or_device_that_does_not_exist_is_an_error(gpu: str, device: str, why: str) -> None:
    with pytest.raises(TransportError, match=why):
        path_options.judged(machine(), gpu, device)


def test_without_cuda_no_path_is_usable_and_the_loaders_error_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    native_cuda.cuda.cache_clear()
    monkeypatch.setattr(binding, "LIBRARIES", ("libcuda-of-nobody.so.1",))
    try:
        found = by_name(paths(0, NIC))
    except TransportError as error:  # a machine with RDMA devices of other names
        assert "no such RDMA device" in str(error)
        return
    finally:
        native_cuda.cuda.cache_clear()
    assert {choice.usable for choice in found.values()} == {"no"}
    assert "libcuda-of-nobody.so.1" in found["socket"].reasons[0].evidence[0]


def test_a_partial_installation_of_gdrkit_cannot_judge_paths(tmp_path) -> None:
    (tmp_path / "sent.zip").write_bytes(_packed())
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from gdrkit.transport import TransportError, paths\n"
        "try: paths('0000:1b:00.0', 'mlx5_0')\n"
        "except TransportError as error: print(error)\n"
    )
    answer = subprocess.run(
        [sys.executable, "-S", "-E", "-c", program, str(tmp_path / "sent.zip")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "needs a complete gdrkit installation" in answer.stdout
