"""Who owns an object: its thread's process, else that of its context; seen in guests on 6.1 and 6.12."""

from __future__ import annotations

import json

import pytest

from gdrkit.jobs.running.holders import SHORTEST_S, Holdings, owners
from gdrkit.jobs.running.record import decode
from tests.agent.running.kernel import RECORDED
from tests.jobs.running.records import device, held, judged, process, record


def found(*rows, **more):
    return owners(decode(json.dumps(record(rdma=list(rows), **more)).encode()).rdma)


def guest() -> dict:
    """The guest's device: processes 169 and 170, and a parent that opened, forked and ended."""
    tables = {
        name: {"rows": [one for one in rows if "kernel_name" not in one], "error": ""}
        for name, rows in RECORDED.items()
    }
    return {"device": {"index": 0, "device_name": "rxe0"}, "tables": tables}


def test_the_guests_objects_have_the_owners_that_its_programs_printed():
    """job-a: 65536, 1048576 and 4194304 bytes; job-b: 2097152; job-c has ended, its child holds 2097152."""
    held_by = found(guest())

    assert {pid: one["rxe0"].regions for pid, one in held_by.by_process.items()} == {
        169: [65536, 1048576, 4194304], 170: [2097152]
    }  # fmt: skip
    assert held_by.nobody["rxe0"].regions == [2097152]
    assert held_by.by_process[169]["rxe0"].connected == 1


@pytest.mark.parametrize(
    ("packets", "seconds", "rate"),
    [
        (None, 1.0, None),
        (50, SHORTEST_S / 2, None),
        (50, SHORTEST_S, int(50 / SHORTEST_S)),
        (50, 0.5, 100),
        (0, 0.5, 0),
    ],
)
def test_packets_have_a_rate_over_an_interval_that_is_long_enough(packets, seconds, rate):
    assert Holdings(device="mlx5_0", packets=packets, seconds=seconds).packets_per_s == rate


def test_what_is_not_owned_is_in_the_document():
    document = judged(record(process(169), rdma=[guest()]))

    assert (document.unowned_regions, document.unowned_bytes) == (1, 2097152)


def test_a_region_of_a_thread_belongs_to_its_process():
    rows = held(1, 198, 4096)
    rows.append(("mr", {"mrn": 9, "bytes": 3 << 20, "pdn": 1, "pid": 205}))

    alive = found(device(*rows), {"thread": 205, "process": 198})
    assert alive.by_process[198]["mlx5_0"].regions == [4096, 3 << 20]


def test_a_region_of_a_thread_that_has_ended_belongs_to_its_contexts_process():
    """Seen: 3 MiB of an ended thread had no pid; by PD and context it was 198's."""
    rows = [*held(1, 198, 4096), ("mr", {"mrn": 9, "bytes": 3 << 20, "pdn": 1})]

    assert found(device(*rows)).by_process[198]["mlx5_0"].regions == [4096, 3 << 20]


def test_a_thread_whose_process_cannot_be_read_is_said():
    row = {"thread": 198, "process": 0, "why": "Input/output error"}

    assert found(device(*held(1, 198, 4096)), row).errors == ("process of thread 198: Input/output error",)


@pytest.mark.parametrize("table", ["ctx", "pd"])
def test_without_contexts_or_domains_it_has_no_owner(table):
    """Kernels before 5.13 do not list contexts. That is said."""
    one = device(*held(1, 198, 4096), ("mr", {"mrn": 9, "bytes": 3 << 20, "pdn": 1}))
    one["tables"][table] = {"rows": [], "error": "EINVAL"}
    held_by = found(one)

    assert held_by.nobody["mlx5_0"].regions == [3 << 20]
    assert held_by.errors == (f"table {table} of mlx5_0: EINVAL",)


def test_a_thread_whose_number_now_belongs_to_nobody_falls_back_to_the_context():
    rows = [*held(1, 198, 4096), ("mr", {"mrn": 9, "bytes": 3 << 20, "pdn": 1, "pid": 205})]

    assert found(device(*rows), {"thread": 205, "process": 0}).by_process[198][
        "mlx5_0"
    ].registered == 4096 + (3 << 20)


def test_a_region_on_demand_of_all_memory_is_counted_without_its_length():
    rows = held(1, 198, (1 << 63) - 1, 4096)
    one = found(device(*rows)).by_process[198]["mlx5_0"]

    assert (len(one.regions), one.registered) == (2, 4096)


def test_pairs_count_by_their_state():
    rows = [*held(1, 198, pairs=2), *held(2, 198, pairs=3, state=1)]
    one = found(device(*rows)).by_process[198]["mlx5_0"]

    assert (one.connected, one.other_pairs, one.contexts) == (2, 3, 2)
