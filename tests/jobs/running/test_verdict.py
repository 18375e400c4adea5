"""The decision table: each row with evidence that decides, and the near miss beside it."""

from __future__ import annotations

import pytest

from gdrkit.evidence import Confidence
from gdrkit.facts.usage import parse_buffers
from gdrkit.jobs.running.document import exit_code
from tests.jobs.running.records import (
    GB10,
    GH200,
    GPU,
    INIT,
    NIC,
    OTHER_GPU,
    OTHER_NIC,
    RTS,
    UCX,
    bufinfo,
    closed,
    computing,
    device,
    held,
    judged,
    moved,
    process,
    record,
    verdict,
)

MIB = 1 << 20
TABLE_DENIED = {"buffers": {"status": "denied", "why": "Permission denied"}}


def with_table(*buffers: tuple[int, str, str]) -> list[dict]:
    return [{"text": bufinfo(*buffers), "truncated": False}]


def decided(made, pid: int = 701) -> tuple[str, str, Confidence | None]:
    found = verdict(made, pid)
    return found.path, found.registered_by, found.confidence


# -- none: launchers ---------------------------------------------------------------------------------


def launched(**changed):
    """torchrun has every GPU open and computes on none; the process that it started goes over NVLink."""
    torchrun = process(700, name="torchrun", **changed.pop("launcher", {}))
    nvml = [*computing(701), moved(nvlink_sent=90 * 10**9)]
    return record(torchrun, process(701), **{"nvml": nvml, "tcp_namespaces": [], **changed})


def test_a_launcher_without_gpu_memory_takes_no_path_and_leaves_the_exit_code_to_the_others():
    assert decided(launched(), 700) == ("none", "", Confidence.LIKELY)
    assert decided(launched(), 701)[0] == "nvlink"
    assert exit_code(judged(launched())) == 0


@pytest.mark.parametrize(
    "changed",
    [{"uid": 1000}, {"namespaces": {"pid": "pid:[4026532001]", "net": "net:[4026531840]"}},
     {"nvml": [*computing(701), {"gpu": OTHER_GPU, "error": 4}]},
     {"launcher": {"denied": ["maps"]}},
     {"launcher": {"buffers": [{"ino": 1, "exp_name": "nv_dmabuf"}]}},
     {"launcher": {"devices": {"/dev/nvidia0": 1, "/dev/infiniband/uverbs0": 1}}},
     {"rdma": [device(*held(1, 700, MIB))]}],
)  # fmt: skip
def test_what_may_hold_gpu_memory_unseen_stays_unknown(changed):
    assert decided(launched(**changed), 700)[0] in ("unknown", "staged")


def test_clients_of_mps_stay_unknown():
    made = launched()
    made["processes"].append(process(600, name="nvidia-cuda-mps-server"[:15]))
    assert decided(made, 700)[0] == "unknown"


# -- direct, by dma-buf ----------------------------------------------------------------------------


@pytest.mark.parametrize("exporter", ["nv_dmabuf", "nvidia"])
def test_regions_that_explain_the_nics_attachments_are_direct(exporter):
    """As in the guest: a region of 8 MiB by dma-buf, one of 2 MiB of host memory."""
    made = record(
        process(701), rdma=[device(*held(1, 701, 8 * MIB, 2 * MIB, pairs=2))],
        buffers=with_table((8 * MIB, exporter, NIC)),
    )  # fmt: skip

    assert decided(made) == ("direct", "dmabuf", Confidence.LIKELY)
    assert "at least 1 belong to this process" in verdict(made).evidence[0]
    assert "registered is not used" in verdict(made).limits[0]


@pytest.mark.parametrize(("exporter", "nic"), [("i915", NIC), ("nv_dmabuf", OTHER_NIC), ("nv_dmabuf", "")])
def test_a_buffer_of_another_exporter_or_at_another_nic_is_not(exporter, nic):
    made = record(
        process(701), rdma=[device(*held(1, 701, 8 * MIB))], buffers=with_table((8 * MIB, exporter, nic))
    )

    assert decided(made)[:2] == ("staged", "")


def test_a_region_some_bytes_shorter_than_its_buffer_is_in_the_same_pages():
    made = record(
        process(701), rdma=[device(*held(1, 701, 8 * MIB - 100))],
        buffers=with_table((8 * MIB, "nv_dmabuf", NIC)),
    )  # fmt: skip

    assert decided(made)[0] == "direct"


def test_two_processes_with_equal_regions_share_what_all_of_them_explain():
    """2 x 8 MiB of two processes, both attached: each has one."""
    made = record(
        process(701), process(702), rdma=[device(*held(1, 701, 8 * MIB), *held(2, 702, 8 * MIB))],
        buffers=with_table((8 * MIB, "nv_dmabuf", NIC), (8 * MIB, "nv_dmabuf", NIC)),
    )  # fmt: skip

    assert decided(made, 701) == decided(made, 702) == ("direct", "dmabuf", Confidence.LIKELY)


def test_one_buffer_that_either_of_two_may_hold_decides_for_none():
    made = record(
        process(701), process(702), rdma=[device(*held(1, 701, 8 * MIB), *held(2, 702, 8 * MIB))],
        buffers=with_table((8 * MIB, "nv_dmabuf", NIC)),
    )  # fmt: skip

    assert decided(made, 701) == decided(made, 702) == ("unknown", "", None)
    assert verdict(made).because == "regions of GPU memory exist, of this process or of another"


def test_attachments_of_one_of_its_nics_that_are_anothers_perhaps_leave_it_open():
    made = record(
        process(701), process(702),
        rdma=[device(*held(1, 701, 8 * MIB), *held(2, 702, 8 * MIB)),
              device(*held(3, 701, 8 * MIB), name="mlx5_1", index=1)],
        buffers=with_table((8 * MIB, "nv_dmabuf", NIC)),
    )  # fmt: skip

    assert verdict(made).because == "regions of GPU memory exist, of this process or of another"


def test_attachments_decide_for_none_where_the_table_of_regions_is_not_whole():
    table = device(*held(1, 701, 8 * MIB))
    table["tables"]["mr"]["error"] = "more than 65536 rows"
    made = record(process(701), rdma=[table], buffers=with_table((8 * MIB, "nv_dmabuf", NIC)))

    assert decided(made) == ("unknown", "", None)


@pytest.mark.parametrize(("size", "in_part"), [(4 * MIB, True), (512 << 10, False)])
def test_another_nic_of_the_process_with_large_regions_of_host_memory_is_said(size, in_part):
    """As a job that is direct by one NIC and not by the other. 512 KiB: NCCL's buffers of LL (device.h)."""
    made = record(
        process(701),
        rdma=[device(*held(1, 701, 8 * MIB, 4 * MIB)), device(*held(2, 701, size), name="mlx5_1", index=1)],
        buffers=with_table((8 * MIB, "nv_dmabuf", NIC), (4 * MIB, "nv_dmabuf", NIC)),
    )  # fmt: skip

    assert decided(made)[0] == "direct"
    said = "regions of host memory on mlx5_1 are as large: part may go that way"
    assert (said in verdict(made).limits) is in_part


def test_attachments_that_no_region_explains_decide_for_none():
    """Memory of DevX, or of the kernel: it may explain the others, too."""
    made = record(
        process(701), rdma=[device(*held(1, 701, 8 * MIB))],
        buffers=with_table((8 * MIB, "nv_dmabuf", NIC), (4 * MIB, "nv_dmabuf", NIC)),
    )  # fmt: skip

    assert decided(made)[0] == "unknown"


def test_a_region_without_an_owner_may_be_the_one_that_is_attached():
    """Its maker has forked and ended: no table names the process that holds it."""
    made = record(
        process(701), rdma=[device(*held(1, 701, 8 * MIB), *held(2, None, 8 * MIB))],
        buffers=with_table((8 * MIB, "nv_dmabuf", NIC)),
    )  # fmt: skip

    assert decided(made)[0] == "unknown"


@pytest.mark.parametrize(("open_inode", "path"), [(1, "direct"), (2, "unknown")])
def test_an_open_buffer_that_a_nic_is_attached_to_is_direct_without_a_region(open_inode, path):
    """As NVSHMEM keeps it. A buffer that only has the same size is another."""
    buffers = [{"ino": open_inode, "size": 8 * MIB, "count": 2, "exp_name": "nv_dmabuf"}]
    made = record(process(701, buffers=buffers), buffers=with_table((8 * MIB, "nv_dmabuf", NIC)))

    assert decided(made)[0] == path


def test_buffers_without_a_number_are_not_taken_for_one_another():
    """Before 5.10 the table has none, and a process may not show that of its own."""
    table = bufinfo((8 * MIB, "nv_dmabuf", NIC)).replace("\t00000001\t<none>", "")
    own = [{"size": 8 * MIB, "count": 2, "exp_name": "nv_dmabuf"}]
    made = record(process(701, buffers=own), buffers=[{"text": table, "truncated": False}])

    assert [(one.inode, one.devices) for one in parse_buffers(table)] == [(None, (NIC,))]
    assert decided(made)[0] == "unknown"


def test_a_table_that_is_cut_off_decides_nothing():
    whole = record(process(701), rdma=[device(*held(1, 701, 8 * MIB))])
    cut = {**whole, "buffers": [{**whole["buffers"][0], "truncated": True}]}

    assert (decided(whole)[0], decided(cut)[0]) == ("staged", "unknown")


# -- direct, by peermem or by NCCL's flush ---------------------------------------------------------


@pytest.mark.parametrize(
    ("references", "path"), [(None, "staged"), (0, "staged"), (2, "direct"), (3, "unknown")]
)
def test_regions_of_peermem_are_those_of_the_only_process_that_has_any(references, path):
    """More references than regions: some of them are not this process's."""
    made = record(process(701), rdma=[device(*held(1, 701, 8 * MIB, 4096))], peermem=references)

    assert decided(made)[0] == path
    assert (decided(made)[1] == "peermem") is (path == "direct")


@pytest.mark.parametrize("other", [held(2, 702, 4096), held(2, None, 4096)])
def test_another_process_with_regions_leaves_peermems_owner_open(other):
    made = record(process(701), process(702), rdma=[device(*held(1, 701, 8 * MIB), *other)], peermem=1)

    assert decided(made)[0] == "unknown"


@pytest.mark.parametrize(
    "changed",
    [
        {"node": {"status": "timed-out"}},
        {"rdma": {"status": "truncated"}},
        {"system": {"system": {"shared": 0}}},  # rdma system: devices of other namespaces are not listed
        {"error": "more than 65536 rows"},
    ],
)
def test_peermem_has_no_owner_where_regions_of_others_may_not_be_listed(changed):
    table = device(*held(1, 701, 8 * MIB))
    table["tables"]["mr"]["error"] = changed.get("error", "")
    system = [changed["system"]] if "system" in changed else []
    made = record(process(701), rdma=[*system, table], peermem=1)
    for name in changed.keys() & made["sources"].keys():
        made["sources"][name] |= changed[name]

    assert decided(made)[0] == "unknown"


@pytest.mark.parametrize(
    ("rows", "path"),
    [
        ([{"peer_module": "nv_peer_mem", "peermem_references": 1}], "direct"),
        ([{"peer_module": "nv_peer_mem", "peermem_references": 0}], "staged"),
        ([{"peer_module": "nvidia_peermem", "peermem_references": None}], "unknown"),
        ([{"peer_module": "nvidia_peermem", "peermem_references": 0},
          {"peer_module": "nv_peer_mem", "peermem_references": None}], "unknown"),
    ],
)  # fmt: skip
def test_the_older_module_counts_and_a_count_that_is_not_readable_is_not_zero(rows, path):
    made = record(process(701), rdma=[device(*held(1, 701, 8 * MIB))])
    made["node"] += rows

    assert decided(made)[0] == path
    if path == "unknown":
        assert verdict(made).because == "how many regions nvidia-peermem holds is not readable"


def test_a_node_that_was_not_read_may_have_peermem():
    made = record(
        process(701), rdma=[device(*held(1, 701, 8 * MIB))], sources={"node": {"status": "failed"}}
    )

    assert decided(made)[0] == "unknown"


def flushing(sent: int, **changed) -> dict:
    """A pair that is connected to itself, as NCCL's for flushing, on a node whose table is not readable."""
    pair = ("qp", {"lqpn": 42, "rqpn": 42, "type": 2, "state": 3, "pdn": 1, "pid": 701, **changed})
    moves = {"qp": 42, "index": 0, "sent_packets": sent, "received_packets": 0, "seconds": 0.4}
    return record(
        process(701), rdma=[device(*held(1, 701, 8 * MIB, 4), pair), moves], sources=TABLE_DENIED, buffers=[]
    )


def test_a_receiver_that_flushes_receives_directly():
    found = verdict(flushing(9))

    assert (found.path, found.registered_by, found.confidence) == ("direct", "", Confidence.CERTAIN)
    assert found.moving is True and found.limits == ("of what is sent this shows nothing",)


@pytest.mark.parametrize(
    "made", [flushing(0), flushing(9, rqpn=43), flushing(9, type=4), flushing(9, state=1)]
)
def test_a_pair_that_does_not_flush_decides_nothing(made):
    """At rest it may be that nothing has to be flushed (compute capability 9.0)."""
    assert decided(made)[0] == "unknown"


def test_a_pair_to_itself_of_another_program_is_no_flush():
    made = flushing(9)
    made["processes"][0]["libraries"] = []

    assert decided(made)[0] == "unknown"


# -- through host memory ---------------------------------------------------------------------------


def test_regions_without_any_attachment_are_host_memory_for_certain():
    made = record(process(701), rdma=[device(*held(1, 701, 4 * MIB, pairs=2))])

    assert decided(made) == ("staged", "", Confidence.CERTAIN)


def test_a_table_that_is_not_readable_is_no_empty_table():
    made = record(
        process(701), rdma=[device(*held(1, 701, 4 * MIB))], sources=TABLE_DENIED, buffers=[], uid=1000
    )

    assert decided(made) == ("unknown", "", None)
    assert "as root: sudo gdr ps" in verdict(made).ask
    assert not verdict(made | {"uid": 0}).ask  # who is root already needs no such advice


@pytest.mark.parametrize(
    ("gpu", "path", "confidence"),
    [(GB10, "host-mapped", Confidence.CERTAIN), (GH200, "unknown", None), ("", "staged", Confidence.LIKELY)],
)
def test_host_memory_means_another_thing_on_other_gpus(gpu, path, confidence):
    """GB10 has no other memory; on GH200 system memory may lie on the GPU."""
    made = record(process(701), rdma=[device(*held(1, 701, 4 * MIB))], gpu=gpu)

    assert decided(made) == (path, "", confidence)


def test_one_gpu_whose_kind_is_not_known_leaves_the_kind_open():
    nvml = [*computing(701), *computing(701, gpu=OTHER_GPU)]

    assert decided(record(process(701), rdma=[device(*held(1, 701, 4 * MIB))], nvml=nvml)) == (
        "staged", "", Confidence.LIKELY,
    )  # fmt: skip


def test_another_fabric_leaves_host_memory_open():
    devices = {"/dev/nvidia0": 1, "/dev/cxi0": 1}
    made = record(process(701, devices=devices), rdma=[device(*held(1, 701, 4 * MIB))])

    assert decided(made)[0] == "unknown"


def test_a_device_without_a_pci_address_may_be_the_one_that_is_attached():
    """Its attachment is named by another device: rdma_rxe has none of its own."""
    rdma = [device(*held(1, 701, 4 * MIB), name="rxe0")]

    assert decided(record(process(701), rdma=rdma))[0] == "staged"
    attached = with_table((8 * MIB, "nv_dmabuf", OTHER_NIC))
    assert decided(record(process(701), rdma=rdma, buffers=attached))[0] == "unknown"


def test_a_buffer_at_a_device_that_is_no_known_nic_may_be_data_direct():
    """A ConnectX-8 attaches by another function then: mlx5 mr.c, reg_user_mr_dmabuf_by_data_direct()."""
    made = record(
        process(701), rdma=[device(*held(1, 701, 4 * MIB))],
        buffers=with_table((4 * MIB, "nv_dmabuf", "0000:b5:00.1")),
    )  # fmt: skip

    assert decided(made)[0] == "unknown"
    assert (
        verdict(made).because == "a buffer of GPU memory is attached to a device that may belong to its NIC"
    )


def test_regions_of_a_process_whose_gpu_is_not_known_are_not_said_to_be_missing():
    """It has the driver open, and NVML lists another process only."""
    made = record(process(701), rdma=[device(*held(1, 701, 4 * MIB))], nvml=computing(702))

    assert verdict(made).because == "it has memory regions, and the GPU on which it computes is not known"


@pytest.mark.parametrize(
    ("status", "because"),
    [
        ({"status": "found"}, "it has an RDMA device open and no memory region"),
        ({"status": "absent", "why": "Protocol not supported"},
         "it has an RDMA device open, and not every region is listed: Protocol not supported"),
    ],
)  # fmt: skip
def test_tables_that_were_not_read_are_not_empty(status, because):
    devices = {"/dev/nvidia0": 1, "/dev/infiniband/uverbs0": 1}
    made = record(process(701, devices=devices), sources={"rdma": status})

    assert verdict(made).because == because


def test_what_sizes_leave_open_the_log_of_the_job_shows():
    """Two processes that have a region of 8 MiB, and one buffer of that size."""
    made = record(
        process(701), process(702), rdma=[device(*held(1, 701, 8 * MIB), *held(2, 702, 8 * MIB))],
        buffers=with_table((8 * MIB, "nv_dmabuf", NIC)),
    )  # fmt: skip

    assert decided(made) == ("unknown", "", None)
    assert verdict(made).ask == ("the log of the job: gdr nccl job.log",)


# -- sockets, and no path --------------------------------------------------------------------------


def talking(rate: int, **changed) -> dict:
    tcp = {"sockets": 20, "sent": rate, "received": 0, "sent_here": 0, "received_here": 0}
    return process(701, tcp=tcp, **changed)


def test_a_job_without_rdma_that_moves_data_over_tcp_goes_over_sockets():
    found = verdict(record(talking(30_620_000)))

    assert (found.path, found.confidence, found.moving) == ("socket", Confidence.LIKELY, True)
    assert found.because == "TCP to other nodes, 30.6 MB/s"
    assert "may be other data" in found.limits[0]


def test_a_program_without_such_a_library_may_read_files_at_that_rate():
    """gdrkit's own transport needs no library: a rate that files seldom have decides."""
    assert decided(record(talking(30_620_000, libraries=[])))[0] == "none"
    assert decided(record(talking(3_000_000_000, libraries=[]))) == ("socket", "", Confidence.LIKELY)


@pytest.mark.parametrize(
    "changed",
    [
        {"devices": {"/dev/nvidia0": 1, "/dev/infiniband/uverbs0": 1}},
        {"mapped_devices": ["/dev/infiniband/uverbs0"]},
        {"mapped_devices": ["/dev/infiniband/uverbs7"]},  # whose device is not known
        {"devices": {"/dev/nvidia0": 1, "/dev/hfi1_0": 1}},
        {"namespaces": {"pid": "pid:[4026531836]", "net": "net:[4026532999]"}},
        {"namespaces": {}},
        {"denied": ["maps"]},
    ],
)
def test_tcp_beside_what_could_carry_the_data_decides_nothing(changed):
    assert decided(record(talking(30_620_000, **changed)))[0] == "unknown"


def here(rate: int) -> dict:
    return {"sockets": 20, "sent": 0, "received": 0, "sent_here": rate, "received_here": rate}


def test_control_connections_are_no_sockets_path():
    assert decided(record(talking(20_000)))[0] == "unknown"
    assert decided(record(process(701, tcp=here(2_000_000))))[0] == "unknown"


# -- within the node -------------------------------------------------------------------------------

SHM = {"file": "18:41", "path": "/dev/shm/nccl-1U6vHN (deleted)", "bytes": 9_637_888}


def pair(*rates: dict, **changed) -> dict:
    """Two processes on two GPUs, and what the GPUs move."""
    nvml = [*computing(701), *computing(702, gpu=OTHER_GPU), *rates]
    return record(process(701, **changed), process(702, **changed), nvml=nvml)


def test_tcp_on_the_node_is_a_sockets_path_if_nvlink_moves_less():
    quiet = pair(moved(), tcp=here(1_700_000_000))
    busy = pair(moved(nvlink_sent=140_000_000_000), tcp=here(1_700_000_000))

    assert decided(quiet) == ("socket", "", Confidence.LIKELY)
    assert verdict(quiet).because == "TCP on this node, 3.4 GB/s"
    assert decided(busy)[0] == "nvlink"
    little = pair(moved(nvlink_sent=4_000_000), tcp=here(1_700_000_000))
    assert decided(little)[0] == "socket"


def test_nvlink_that_moves_is_the_way_and_certain_if_the_process_is_alone_on_its_gpu():
    made = pair(moved(nvlink_sent=140_000_000_000, nvlink_received=140_000_000_000))
    crowded = {**made, "nvml": [*made["nvml"], *computing(703)]}

    assert decided(made) == ("nvlink", "", Confidence.CERTAIN)
    assert decided(crowded) == ("nvlink", "", Confidence.LIKELY)
    assert "move 700000000000 bytes/s over NVLink" in verdict(made).evidence[1] and verdict(made).moving
    assert decided(made, 702)[0] == "unknown"  # NVML counted nothing on its GPU


def test_nvlink_beside_a_network_does_not_decide_which_way_to_the_network():
    fast = moved(nvlink_sent=140_000_000_000)
    rdma = [device(*held(1, 701, 8 * MIB))]
    nvml = [*computing(701), fast]

    assert decided(record(process(701), rdma=rdma, nvml=nvml))[0] == "staged"
    assert decided(record(closed(701), nvml=nvml))[0] == "unknown"


FAST = 14_000_000_000


def test_what_one_gpu_sends_and_another_receives_beside_shared_memory_goes_through_host_memory():
    """NCCL sends and receives on both GPUs, gdrkit's own transport in one direction."""
    one_way = pair(moved(pcie_sent=FAST), moved(OTHER_GPU, pcie_received=FAST), shared=[SHM])

    for pid, other in ((701, 702), (702, 701)):
        assert decided(one_way, pid) == ("staged", "", Confidence.LIKELY)
        assert (
            verdict(one_way, pid).evidence[1] == f"maps: 9.64 MB of memory are shared with process {other}"
        )
    least = pair(moved(pcie_sent=FAST), moved(OTHER_GPU, pcie_received=FAST),
                 shared=[{**SHM, "bytes": 1_000_000}])  # fmt: skip
    assert decided(least)[0] == "staged"


@pytest.mark.parametrize(
    ("own", "other", "shared"),
    [
        ({"pcie_received": FAST}, {"pcie_received": FAST}, SHM),  # both load data
        ({"pcie_sent": FAST}, {"pcie_received": 9_000_000}, SHM),  # it saves, the other starts kernels
        ({"pcie_sent": FAST}, {"pcie_received": FAST}, {**SHM, "bytes": 999_999}),  # flags
    ],
)
def test_pcie_beside_shared_memory_that_is_no_exchange_decides_nothing(own, other, shared):
    assert decided(pair(moved(**own), moved(OTHER_GPU, **other), shared=[shared]))[0] == "unknown"


def test_a_worker_that_computes_on_no_gpu_is_no_other_end():
    """As those that load data: they map the same memory, and the GPU is open in them since the fork."""
    made = pair(moved(pcie_sent=FAST), moved(OTHER_GPU, pcie_received=FAST), shared=[SHM])
    made["nvml"] = [row for row in made["nvml"] if row.get("pid") != 702]

    assert decided(made)[0] == "unknown"


BOTH = {"pcie_sent": FAST, "pcie_received": FAST}


def test_an_exchange_in_both_directions_goes_through_memory_of_the_driver_where_nvlink_is_idle():
    """As NCCL on two H200s with NCCL_P2P_DISABLE=1: it shares memory of the driver, which no file shows."""
    barred = pair(moved(**BOTH), moved(OTHER_GPU, **BOTH))
    linked = pair(*(moved(gpu, nvlink_ever=1 << 40, **BOTH) for gpu in (GPU, OTHER_GPU)), environment={})

    for made in (barred, linked):
        assert decided(made) == decided(made, 702) == ("staged", "", Confidence.LIKELY)
    assert "NCCL_P2P_DISABLE" in verdict(barred).evidence[1] and "NVLink" in verdict(linked).evidence[1]


@pytest.mark.parametrize(("ever", "path"), [({"nvlink_ever": 1 << 40}, "staged"), ({}, "unknown")])
def test_nvlink_is_there_if_each_gpu_of_the_process_has_used_it(ever, path):
    third = "0000:1d:00.0"
    made = pair(
        *(moved(gpu, nvlink_ever=1 << 40, **BOTH) for gpu in (GPU, OTHER_GPU)), *computing(701, gpu=third),
        moved(third, **ever), environment={},
    )  # fmt: skip

    assert decided(made)[0] == path


@pytest.mark.parametrize(
    ("own", "changed"),
    [
        (BOTH, {"environment": {}}),  # GPUs without NVLink: it may be from GPU to GPU over PCIe
        (BOTH, {"environment": {"NCCL_P2P_DISABLE": "0"}}),
        ({"pcie_received": FAST}, {}),  # one loads, the other saves
        (BOTH, {"libraries": [{"name": "libucs.so", "path": "/x", "version": ""}]}),
    ],
)
def test_what_may_be_from_gpu_to_gpu_or_no_exchange_is_not_said_to_go_through_host_memory(own, changed):
    made = pair(moved(**own), moved(OTHER_GPU, **BOTH), **changed)

    assert decided(made)[0] in ("unknown", "none")


def test_two_processes_on_one_gpu_exchange_nothing_that_its_counters_show():
    made = record(
        process(701, shared=[SHM]), process(702, shared=[SHM]),
        nvml=[*computing(701, 702), moved(**BOTH)],
    )  # fmt: skip

    assert decided(made)[0] == decided(made, 702)[0] == "unknown"


def test_data_that_moves_over_pcie_alone_is_named():
    made = record(process(701), nvml=[*computing(701), moved(pcie_sent=14_000_000_000)])

    assert verdict(made).because == "its GPU moves 35 GB/s over PCIe: to other GPUs or to host memory"


def test_a_process_without_a_gpu_or_without_a_network_has_no_path():
    no_gpu = record(process(701, devices={"/dev/infiniband/uverbs0": 2}), nvml=[])
    no_network = record(process(701, libraries=[]))

    assert decided(no_gpu) == ("none", "", Confidence.CERTAIN)
    assert decided(no_network) == ("none", "", Confidence.LIKELY)


@pytest.mark.parametrize(
    "changed",
    [
        {"mapped_devices": ["/dev/nvidia0"]},
        {"buffers": [{"ino": 1, "size": 8 * MIB, "exp_name": "nv_dmabuf"}]},  # another process sent it
        {"denied": ["the rest of fd"]},
    ],
)
def test_a_process_that_holds_memory_of_a_gpu_uses_one(changed):
    made = record(
        process(701, **{"devices": {"/dev/infiniband/uverbs0": 2}, **changed}), nvml=computing(702)
    )

    assert decided(made)[0] == "unknown"


def test_what_was_read_in_part_is_named():
    made = record(process(701, denied=["the rest of maps"]))

    assert verdict(made).because == "not all of it is readable: the rest of maps"


def test_a_process_that_is_closed_is_not_said_to_have_no_gpu():
    made = record(closed(701), nvml=[], uid=1000)

    assert decided(made) == ("unknown", "", None)
    assert verdict(made).because == "its descriptors and maps are not readable"


@pytest.mark.parametrize("name", ["libucp.so.0.0.0", "libucp-1f2e3d4c.so.0.0.0"])
def test_pairs_that_no_table_lists_are_said(name):
    """The second name is that of a library in a wheel: auditwheel adds a digest."""
    made = record(process(701, libraries=[{**UCX, "name": name}]))

    assert verdict(made).limits == ("queue pairs of DevX are in no table",)


# -- what moves ------------------------------------------------------------------------------------


def moving(packets: int | None, port: int | None, **changed) -> bool | None:
    rdma = [device(*held(1, 701, 4 * MIB, pairs=1))]
    if packets is not None:
        rdma.append({"qp": 100, "index": 0, "sent_packets": packets, "received_packets": 0, "seconds": 0.4})
    ports = [] if port is None else [
        {"device": "mlx5_0", "port": "1", "sent": port, "received": 0, "seconds": 0.5}
    ]  # fmt: skip
    return verdict(record(process(701, **changed), rdma=rdma, ports=ports)).moving


@pytest.mark.parametrize(
    ("packets", "port", "expected"),
    [
        (9, None, True),
        (0, None, False),
        (0, 0, False),
        (0, 5000, None),  # the pairs of this NIC may not show what they move: none of any process does
        (None, 5000, True),
        (None, 0, False),
        (None, None, None),
    ],
)
def test_what_moves_is_told_by_pairs_and_else_by_ports(packets, port, expected):
    assert moving(packets, port) is expected


@pytest.mark.parametrize(("others", "expected"), [(9, False), (0, None)])
def test_pairs_at_rest_are_idle_where_those_of_another_process_show_what_they_move(others, expected):
    """EFA has no sequence numbers, and those of mlx5 were never seen to move."""
    pairs = [*held(1, 701, 4 * MIB, pairs=1), *held(2, 702, 4 * MIB, pairs=1)]
    moves = [
        {"qp": number, "index": 0, "sent_packets": sent, "received_packets": 0, "seconds": 0.4}
        for number, sent in ((100, 0), (200, others))
    ]
    ports = [{"device": "mlx5_0", "port": "1", "sent": 10**9, "received": 0, "seconds": 0.4}]

    assert verdict(record(process(701), rdma=[device(*pairs), *moves], ports=ports)).moving is expected


def test_pairs_at_rest_say_nothing_where_devx_hides_others():
    assert moving(0, 5000, libraries=[UCX]) is True
    assert moving(0, None, libraries=[UCX]) is None


@pytest.mark.parametrize(("state", "moving"), [(INIT, False), (RTS, True)])
def test_a_process_whose_pairs_are_not_connected_does_not_move_what_its_port_moves(state, moving):
    """Another process uses the port. Pairs that are connected and were not sampled may be what moves."""
    made = record(
        process(701), rdma=[device(*held(1, 701, 8 * MIB, pairs=2, state=state))],
        ports=[{"device": "mlx5_0", "port": "1", "sent": 10**9, "received": 0, "seconds": 0.4}],
    )  # fmt: skip

    assert verdict(made).moving is moving
