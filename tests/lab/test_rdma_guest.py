"""One guest with a software RDMA device and no GPU: what doctor says in it, the tools of rdma-core, and
gdrkit.transport between two processes, with the error for each failure.

Needs QEMU, like `test_boot.py`.
"""

from __future__ import annotations

import os
from typing import Any

import msgspec
import pytest
from lab.cache import apt_command, missing_packages
from lab.kernels import kernel
from lab.machine import Transcript
from lab.profiles import profile
from lab.rootfs import RDMA
from lab.session import boot

from lab import doctor, rdma, transport

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(
        bool(missing_packages()) and os.environ.get("CI") != "true", reason=f"run: {apt_command()}"
    ),
]
SCENARIOS = (*transport.SCENARIOS, "connects 20")


@pytest.fixture(scope="module")
def transcript(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Transcript:
    """One boot for all workers of a run; tests/conftest.py runs only one test of the lab at a time."""
    here = tmp_path_factory.getbasetemp()
    kept = (here if worker_id == "master" else here.parent) / "rdma-guest.json"
    if not kept.exists():
        set_up, *others = rdma.scripts_of(rdma.STEPS)
        session = boot(
            kernel("6.1-amd64"),
            profile("plain"),
            (),
            seed=0,
            packages=RDMA,
            scripts=[set_up, *doctor.scripts(), *others, *transport.scripts(SCENARIOS, limit_s=120)],
            files=rdma.guest_files() | transport.guest_files(),
        )
        kept.write_bytes(msgspec.json.encode(session.transcript))
    return msgspec.json.decode(kept.read_bytes(), type=Transcript)


@pytest.fixture(scope="module")
def outcomes(transcript: Transcript) -> dict[str, Any]:
    return transport.found(transcript, SCENARIOS)


def test_doctor_reports_the_same_in_the_guest_as_from_its_bundle(transcript: Transcript) -> None:
    both = doctor.reports(transcript)
    assert doctor.differences(both) == ()
    assert both.live["verdict"]["state"] == "impossible"  # there is no GPU in a guest


def test_software_rdma_works_and_refuses_dmabuf(transcript: Transcript) -> None:
    assert "ibv_reg_dmabuf_mr(fd=-1): EOPNOTSUPP" in rdma.printed(transcript)["verbs"]


def test_messages_of_every_size_arrive_intact_in_both_directions(outcomes: dict[str, Any]) -> None:
    assert outcomes["messages"]["path"] == "verbs"


def test_exposed_memory_is_accessed_directly_but_not_beyond_its_end(outcomes: dict[str, Any]) -> None:
    assert outcomes["one_sided"]["rkey"]
    assert "do not fit into" in outcomes["one_sided"]["beyond"]


@pytest.mark.parametrize(
    ("scenario", "words"),
    [
        ("peer_killed", "PeerLost: the other"),
        ("wrong_key", "remote access error"),
        ("link_down", "the RDMA device reports"),
    ],
)
def test_a_failure_is_detected_in_time_with_its_error(
    outcomes: dict[str, Any], scenario: str, words: str
) -> None:
    assert words in outcomes[scenario]["said"]
    assert outcomes[scenario]["within"]


def test_a_full_queue_is_an_error_and_not_a_crash(outcomes: dict[str, Any]) -> None:
    assert "Cannot allocate memory" in outcomes["queue_full"]["said"]


def test_without_the_device_the_next_path_is_used_and_the_reason_given(outcomes: dict[str, Any]) -> None:
    assert outcomes["no_device"]["path"] == "tcp"
    assert outcomes["no_device"]["considered"] == ["verbs: no such RDMA device: mlx5_0 (of rxe0)"]


def test_perftest_runs_too_and_leaves_no_process(outcomes: dict[str, Any]) -> None:
    found = outcomes["bench"]
    assert not found["left"], found
    runs = {run["tool"]: run for run in found["document"]["runs"]}
    assert list(runs) == ["gdrkit", "ib_write_bw", "ib_read_lat"]
    for tool, measured in (("ib_write_bw", "streaming_gb_per_s"), ("ib_read_lat", "median_us")):
        assert [point["size_bytes"] for point in runs[tool]["points"]] == [4096, 1 << 20], runs[tool]
        assert all(point[measured] > 0 for point in runs[tool]["points"]), runs[tool]


def test_rdma_of_host_memory_is_proven_and_never_direct(outcomes: dict[str, Any]) -> None:
    found = outcomes["prove"]
    assert found["codes"] == [0, 3], found
    (run,) = found["runs"]
    assert run["proof"]["path"] == "nic-host" and run["proof"]["direct"] is None
    assert run["trial"]["registered"] == run["trial"]["registered_there"] == "host"
    assert run["trial"]["bytes_right"]


def test_connections_leak_no_descriptors_and_no_memory(outcomes: dict[str, Any]) -> None:
    found = outcomes["connects 20"]
    assert found["before"][0] == found["after"][0]
    assert found["after"][1] - found["before"][1] < 2048  # KiB
    assert found["other"] == 0
