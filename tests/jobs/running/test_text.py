"""The screen of `gdr ps`: 80 columns, whatever the processes are called."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from gdrkit.jobs.running.changes import looks, screen
from gdrkit.jobs.running.document import exit_code
from gdrkit.jobs.running.text import row, text
from tests.jobs.running.records import (
    GPU,
    NIC,
    bufinfo,
    closed,
    computing,
    device,
    held,
    judged,
    moved,
    process,
    record,
)

MIB = 1 << 20


def node(**changed):
    """A direct process, a staged one on another NIC, a closed one, and a region without an owner."""
    return record(
        process(701), process(702, cgroup="0::/\n"), closed(703),
        rdma=[device(*held(1, 701, 8 * MIB, 2 * MIB, pairs=2)),
              device(*held(1, 702, 4 * MIB, pairs=1), *held(2, None, MIB), name="mlx5_1", index=1)],
        buffers=[{"text": bufinfo((8 * MIB, "nv_dmabuf", NIC)), "truncated": False}],
        **changed,
    )  # fmt: skip


def test_a_row_for_each_process_then_the_reasons(snapshot):
    assert text(judged(node(uid=1000)), width=80) == snapshot


def test_the_evidence_of_each_process(snapshot):
    assert text(judged(node(uid=1000)), verbose=True, width=80) == snapshot


@pytest.mark.parametrize("verbose", [False, True])
@pytest.mark.parametrize(
    ("chosen", "who"),
    [({}, "no process"), ({"pid": 9}, "no process 9"), ({"job": "x"}, "no process of x"),
     ({"pid": 9, "job": "x"}, "no process 9 of x")],
)  # fmt: skip
def test_no_process_is_said(chosen, who, verbose):
    """Others may be visible if one was asked for."""
    shown = text(judged(record(), **chosen), width=80, verbose=verbose, **chosen)

    assert shown.startswith(f"{who} that uses a GPU or an RDMA device is visible")


@pytest.mark.parametrize(
    ("chosen", "pids"),
    [
        ({"pid": 702}, [702]),
        ({"job": "4711"}, [701, 703]),
        ({"job": "slurm 4711.0"}, [701, 703]),
        ({"job": "47"}, []),
    ],
)
def test_a_process_or_a_job_is_chosen(chosen, pids):
    assert [one.pid for one in judged(node(), **chosen).processes] == pids


def test_a_job_counts_the_ways_of_its_processes():
    (job,) = judged(node()).jobs

    assert (job.job.id, job.processes, job.paths) == ("4711", 2, {"direct": 1, "unknown": 1})


def test_the_exit_code_is_that_of_the_worst_that_is_seen():
    direct = record(
        process(701), rdma=[device(*held(1, 701, 8 * MIB))],
        buffers=[{"text": bufinfo((8 * MIB, "nv_dmabuf", NIC)), "truncated": False}],
    )  # fmt: skip

    assert exit_code(judged(direct)) == exit_code(judged(record())) == 0
    assert exit_code(judged(node())) == 2
    assert exit_code(judged(node(), pid=703)) == 3


GPU_ROWS = [{"gpu": GPU, "minor": 0, "model": "", "device_id": "2335"}]


@pytest.mark.parametrize(
    ("changed", "sources", "code"),
    [
        ({}, {}, 0),
        ({"denied_processes": 3}, {}, 0),  # NVML lists whose they may be
        ({"denied_processes": 3}, {"nvml": "absent"}, 3),
        ({"hidden_processes": True}, {}, 0),
        ({"hidden_processes": True}, {"nvml": "absent"}, 3),
        ({"denied_processes": 3, "nvml": [{"gpu": GPU, "error": 4}]}, {}, 3),
        ({"denied_processes": 3, "node": []}, {"nvml": "absent"}, 0),  # there is no GPU
        ({"denied_processes": 3, "node": []}, {"nvml": "absent", "node": "failed"}, 3),
        ({"node": GPU_ROWS}, {"nvml": "absent"}, 0),
        ({}, {"processes": "timed-out"}, 3),
        ({"node": []}, {"processes": "truncated"}, 3),
    ],
)
def test_nothing_seen_is_no_success_where_a_process_may_be_missing(changed, sources, code):
    made = record(sources={name: {"status": status} for name, status in sources.items()}, **changed)

    assert exit_code(judged(made)) == code


def test_root_is_not_told_to_become_root():
    notes = {uid: judged(record(uid=uid, denied_processes=1)).notes for uid in (0, 1000)}

    assert notes[0] == ("1 process cannot be read, although root looks",)
    assert notes[1000] == ("1 process of other users cannot be read; as root: sudo gdr ps",)


def test_a_user_is_told_that_proc_hides_processes():
    notes = {uid: judged(record(uid=uid, hidden_processes=True)).notes for uid in (0, 1000)}

    assert notes[0] == ("/proc leaves out processes of other users (mount option hidepid)",)
    assert notes[1000] == (f"{notes[0][0]}; as root: sudo gdr ps",)


def test_a_process_that_root_cannot_read_is_named_with_the_reason():
    some = [
        {"pid": pid, "name": f"x{pid}", "why": "EACCES" if pid == 1 else "ENOMEM"} for pid in range(1, 5)
    ]
    (note,) = judged(record(denied_processes=6, unreadable=some)).notes
    (other,) = judged(record(denied_processes=1, unreadable=some[1:2])).notes

    assert note == (
        "6 processes cannot be read, although root looks (1 x1: EACCES, 2 x2: ENOMEM, 3 x3: ENOMEM, 4 x4: "
        "ENOMEM, and 2 more); the kernel asks for CAP_SYS_PTRACE, which root in a container may lack"
    )
    assert other == "1 process cannot be read, although root looks (2 x2: ENOMEM)"


@pytest.mark.parametrize(
    ("gpus", "shown"),
    [(range(1), "0"), (range(8), "0-7"), ((0, 2), "0,2"), ((0, 4, 5, 6, 7), "0,4-7"),
     ((0, 2, 4, 6), "0,2,~"),
     ((), "-")],
)  # fmt: skip
def test_the_column_says_which_gpus(gpus, shown):
    """By their place among the node's, in the order of their addresses."""
    addresses = [f"0000:{0x1B + 0x10 * number:x}:00.0" for number in range(8)]
    rows = [{"gpu": address, "minor": 7 - n, "device_id": "2335"} for n, address in enumerate(addresses)]
    listed = [row for number in gpus for row in computing(701, gpu=addresses[number])]
    made = record(process(701), node=rows[::-1], nvml=[*listed, *computing(9, gpu=addresses[7])])
    (one,) = judged(made).processes

    assert row(one)[row(one).index("4711.0") + 8 :].split()[0] == shown


def test_where_no_index_is_known_the_column_has_bus_and_device_or_a_question():
    """That all are open does not show which of them compute."""
    (unlisted,) = judged(record(process(701), node=[])).processes
    (open_only,) = judged(record(process(701), nvml=[])).processes

    assert " 1b:00 " in row(unlisted) and "GPU 0000:1b:00.0: computes" in text(
        judged(record(process(701), node=[])), verbose=True
    )
    assert " ? " in row(open_only)


def test_what_is_not_shown_is_said():
    made = node(sources={"tcp": {"status": "timed-out"}}, denied_processes=4,
                namespaces={"pid": "pid:[4026532001]", "net": "net:[4026531840]"})  # fmt: skip
    made["rdma"].append({"system": {"shared": 0}})
    shown = text(judged(made), width=80)

    for note in ("tcp: timed-out", "4 processes cannot be read", "pid namespace of its own",
                 "belong to one network namespace each"):  # fmt: skip
        assert note in " ".join(shown.split())


NAMES = st.text(max_size=40) | st.sampled_from(
    ["\x1b[2J\x1b[31m", "a\nb", "\u202e\u2066x", "日本語" * 9, "\udcff"]
)


@given(NAMES, NAMES, NAMES)
def test_a_row_has_one_line_of_at_most_80_columns(name, job, value):
    """A process chooses its name, its user the names of its cgroup and the values of its environment."""
    cgroup = f"0::/{job}.service\n".encode("utf-8", "replace").decode()
    made = node()
    name, value = (one.encode("utf-8", "replace").decode() for one in (name, value))
    made["processes"][0].update(name=name, cgroup=cgroup, environment={"NCCL_IB_HCA": value})
    document = judged(made)

    for one in document.processes:
        assert cell_len(row(one)) <= 80 and row(one).isprintable()
        assert cell_len(row(one, is_narrow=True)) <= 58
    for verbose in (False, True):
        assert all(cell_len(line) <= 80 for line in text(document, verbose=verbose, width=80).split("\n"))


@pytest.mark.parametrize("verbose", [False, True])
def test_nothing_that_is_quoted_begins_a_line_of_its_own(verbose):
    """A bundle may hold anything, and any user may listen where NCCL's RAS does."""
    evil = "\x1b[2J\nFORGED\u2028FORGED\r\n"
    library = {"name": f"libnccl.so{evil}", "path": evil, "version": evil}
    status = {"nccl_version": evil, "communicators": [{"size": 2}]}
    made = record(
        process(701, libraries=[library], denied=[evil], environment={f"NCCL_{evil}": evil}),
        process(702, name=evil, devices={f"/dev/infiniband/uverbs0{evil}": 1, "/dev/nvidia0": 1}),
        rdma=[device(*held(1, 702, 4 * MIB), name=evil)],
        sources={"tcp": {"status": evil, "why": evil}},
        ports=[{"device": evil, "port": evil, "sent": 5, "received": 5, "seconds": 0.4}],
        ras=[{"format": "json", "text": json.dumps(status)}],
    )
    document = judged(made)
    shown = text(document, verbose=verbose, width=80)
    screens = screen(document, looks(None, document), clock="", colour=False, width=80)

    assert all(found.replace("\n", "").isprintable() for found in (shown, screens))
    assert shown.count("FORGED") > 3 and "\nFORGED" not in shown + screens


def test_what_gpus_move_is_shown_and_what_is_not_counted_is_a_question_mark():
    nvml = [*computing(701), moved(nvlink_sent=56_000_000_000, pcie_sent=400_000)]
    del nvml[-1]["nvlink_received"]
    shown = text(judged(record(process(701), nvml=nvml)), verbose=True)

    assert "0000:1b:00.0  NVLink sends 140 GB/s, receives ?; PCIe sends 1 MB/s, receives 0 bytes/s" in shown


def test_a_gpu_without_counters_says_so():
    nvml = [*computing(701), {"gpu": GPU, "seconds": 0.4}]

    assert "0000:1b:00.0  has no counters" in text(judged(record(process(701), nvml=nvml)), verbose=True)
