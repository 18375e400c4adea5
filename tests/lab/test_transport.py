"""gdrkit's transport over a real RDMA stack in a guest: what arrives, and how each failure is told.

Two processes, rdma_rxe, no GPU. Needs QEMU as `test_boot.py` does.
"""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from lab.cache import apt_command, missing_packages
from lab.kernels import kernel
from lab.transport import SCENARIOS, answers

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(
        bool(missing_packages()) and os.environ.get("CI") != "true", reason=f"run: {apt_command()}"
    ),
]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> dict[str, Any]:
    """One boot for all workers of a run; tests/conftest.py lets one test of the lab run at a time."""
    here = tmp_path_factory.getbasetemp()
    kept = (here if worker_id == "master" else here.parent) / "transport.json"
    if not kept.exists():
        found = answers(kernel("6.1-amd64"), scenarios=(*SCENARIOS, "connects 20"), limit_s=120)
        kept.write_text(json.dumps(found))
    found = json.loads(kept.read_text())
    assert isinstance(found, dict)
    return found


def test_messages_of_every_size_go_both_ways_with_their_bytes_right(told: dict[str, Any]) -> None:
    assert told["messages"]["path"] == "verbs"


def test_exposed_memory_is_written_and_read_directly_and_not_beyond_its_end(told: dict[str, Any]) -> None:
    assert told["one_sided"]["rkey"]
    assert "do not fit into" in told["one_sided"]["beyond"]


@pytest.mark.parametrize(
    ("scenario", "words"),
    [
        ("peer_killed", "PeerLost: the other"),
        ("wrong_key", "remote access error"),
        ("link_down", "the device reports"),
    ],
)
def test_a_failure_is_named_and_noticed_in_time(told: dict[str, Any], scenario: str, words: str) -> None:
    assert words in told[scenario]["said"]
    assert told[scenario]["within"]


def test_a_full_queue_is_an_error_and_no_crash(told: dict[str, Any]) -> None:
    assert "Cannot allocate memory" in told["queue_full"]["said"]


def test_without_the_device_the_next_path_is_taken_and_the_reason_told(told: dict[str, Any]) -> None:
    assert told["no_device"]["path"] == "tcp"
    assert told["no_device"]["considered"] == ["verbs: no RDMA device mlx5_0 here (of rxe0)"]


def test_perftest_runs_beside_our_own_and_nothing_of_it_is_left(told: dict[str, Any]) -> None:
    found = told["bench"]
    assert not found["left"], found
    runs = {run["tool"]: run for run in found["document"]["runs"]}
    assert list(runs) == ["gdrkit", "ib_write_bw", "ib_read_lat"]
    for tool, measured in (("ib_write_bw", "streaming_gb_per_s"), ("ib_read_lat", "median_us")):
        assert [point["size_bytes"] for point in runs[tool]["points"]] == [4096, 1 << 20], runs[tool]
        assert all(point[measured] > 0 for point in runs[tool]["points"])


def test_rdma_of_host_memory_is_proven_to_be_that_and_never_direct(told: dict[str, Any]) -> None:
    found = told["prove"]
    assert found["codes"] == [0, 3], found
    (run,) = found["runs"]
    assert run["proof"]["way"] == "nic-host" and run["proof"]["direct"] is None
    assert run["trial"]["registered"] == run["trial"]["registered_there"] == "host"
    assert run["trial"]["bytes_right"]


def test_connections_leave_no_descriptor_and_no_memory_behind(told: dict[str, Any]) -> None:
    found = told["connects 20"]
    assert found["before"][0] == found["after"][0]
    assert found["after"][1] - found["before"][1] < 2048  # KiB
    assert found["other"] == 0
