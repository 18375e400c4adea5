"""What follows from what: a symptom never precedes the failure that brings it about."""

from __future__ import annotations

import pytest

from tests.explain.explaining import EINVAL, explained

RETRY = (
    "node12:220119:220871 [1] transport/net_ib.cc:2101 NCCL WARN NET/IB : Got completion from peer"
    " 10.9.0.14<51234> with status=12 opcode=0 len=0 vendor err 129 (Send)\n"
)
NODE14 = "[Sat Oct 25 03:11:0{} 2025] {}\n"
XID = "NVRM: Xid (PCI:0000:b3:00): {}"
LOST = NODE14.format(9, XID.format("79, pid=1, name=x, GPU has fallen off the bus."))
ACTION = NODE14.format(
    9, XID.format("154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)")
)


def named(text: str) -> list[str]:
    """The cause of an answer, and the other ones."""
    found = explained(text).answer
    return [found.cause or "", *(other.code for other in found.others)]


# -- hosts of one job --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stopped", "code"),
    [
        (LOST + ACTION, "gpu-needs-reset"),
        (NODE14.format(9, XID.format("119, pid=1, name=x, Timeout")), "gpu-needs-reset"),
        (
            "[ 9.5] mlx5_core 0000:4b:00.0: poll_health:840:(pid 0): device's health compromised\n",
            "nic-failed",
        ),
    ],
)
def test_a_peer_that_died_comes_before_the_host_that_waits_for_it(stopped: str, code: str):
    for text in (f"{RETRY}\n# node14 dmesg -T\n{stopped}", f"# node14 dmesg -T\n{stopped}\n{RETRY}"):
        assert explained(text).answer.cause == code
    assert explained(RETRY).answer.cause == "retry-exceeded"


def test_an_xid_that_ends_a_process_at_most_does_not_explain_a_peer_that_waits():
    ended = NODE14.format(9, XID.format("43, pid=1, name=x, Ch 8"))

    assert explained(f"{RETRY}\n# node14 dmesg -T\n{ended}").answer.cause == "retry-exceeded"


def test_the_error_is_named_and_not_the_action_that_it_calls_for():
    found = explained(LOST + ACTION).answer

    assert "79" in found.lines[0].text and "154" not in found.lines[0].text


# -- a container and its node ------------------------------------------------------------------------------

POD = "nvidia-driver-daemonset-7x9kd"
LOG = (
    f"$ kubectl -n gpu-operator logs {POD} -c nvidia-peermem-ctr\n"
    f"{EINVAL}\nfailed to load nvidia-peermem module\n\n"
)
PODS = (
    "$ kubectl -n gpu-operator get pods -o wide | grep driver\n"
    f"{POD}   1/2   CrashLoopBackOff   61 (2m14s ago)   5h2m   10.42.7.19   gb300-r03-n07\n\n"
)
KERNEL = (
    "journalctl on the node:\n\n"
    "Sep 08 17:16:02 gb300-r03-n07 kernel: nvidia_peermem: disagrees about version of symbol"
    " ib_register_peer_memory_client\n"
)


def test_a_pod_is_of_the_node_on_which_kubectl_lists_it():
    assert named(f"It crashes, I see this:\n{LOG}{PODS}{KERNEL}") == ["operator-ofed-changed"]
    other = PODS.replace("gb300-r03-n07", "gb300-r03-n08")
    assert len(named(f"It crashes, I see this:\n{LOG}{other}{KERNEL}")) > 1


def test_what_is_proven_on_a_node_comes_before_what_may_be_behind_it_on_another():
    found = explained(f"It crashes, I see this:\n{LOG}{KERNEL}").answer

    assert (found.cause, found.sureness) == ("module-crc-mismatch", "certain")


# -- Kubernetes --------------------------------------------------------------------------------------------

EVENT = (
    "$ kubectl describe pod launcher | tail -1\n  Warning  FailedScheduling  12m   default-scheduler"
    "  0/4 nodes are available: 4 Insufficient rdma/hpc_shared_devices_c.\n"
)
PLUGIN = (
    "$ kubectl logs rdma-shared-dp-ds-8sd7z\n"
    "2026/02/06 06:23:37 no periodic update interval is set, use default interval 60 seconds\n"
    '2026/02/06 06:23:37 error creating new device: "missing RDMA device spec for device 0000:2e:00.0,'
    ' RDMA device \\"issm\\" not found"\n\n'
)


def test_a_device_plugin_s_own_error_comes_before_the_pod_that_waits_for_its_resource():
    for text in (PLUGIN + EVENT, EVENT + PLUGIN):
        assert explained(text).answer.cause == "umad-device-missing"
    assert explained(EVENT).answer.sentence.startswith("Kubernetes does not find enough")


def test_another_failure_does_not_explain_a_pod_that_waits():
    slow = "$ ulimit -l\n8192\n\n"

    assert explained(slow + EVENT).answer.sentence.startswith("Kubernetes does not find enough")


# -- Mooncake ----------------------------------------------------------------------------------------------

GLOG = "E20260801 12:30:19.43{} 41177 {}] {}\n"
WHY = "DMA BUF supported required for GPU RDMA without nvidia-peermem"
FOLLOWING = (
    GLOG.format(5, "rdma_context.cpp:209", "Failed to open device mlx5_0 on port  with GID 3")
    + GLOG.format(6, "rdma_transport.cpp:827", "RdmaTransport: No available RNIC")
    + GLOG.format(7, "transfer_engine_impl.cpp:1", "Failed to install RDMA transport")
)


@pytest.mark.parametrize("rest", ["", " on GPU device 0 mapped to RNIC mlx5_0"])
def test_the_first_error_of_a_chain_has_the_causes(rest: str):
    first = GLOG.format(4, "rdma_context.cpp:1343", WHY + rest)
    (machine,) = explained(first + FOLLOWING).machines

    assert [line.line for line in machine.open] == [1]
    assert "no-rdma-device" not in named(first + FOLLOWING)


def test_a_last_error_alone_keeps_its_causes():
    assert "no-rdma-device" in named(FOLLOWING.splitlines(keepends=True)[1])


def test_an_error_of_another_program_explains_no_error_of_mooncake():
    assert "no-rdma-device" in named(f"Couldn't allocate MR with error=14\n{FOLLOWING}")


ONE_LINE = "$ modinfo -F license nvidia; modinfo -F version nvidia\n{}\n580.95.05\n"


def test_a_module_that_is_not_loaded_does_not_outweigh_a_failure_that_does_not_need_it():
    first = GLOG.format(4, "rdma_context.cpp:1343", WHY)
    absent = "node1$ lsmod | grep -c peermem\n0\nnode1$ date\n"

    assert named(first + ONE_LINE.format("NVIDIA") + absent)[0] == "driver-proprietary"
    assert explained(first + ONE_LINE.format("NVIDIA") + absent).machines[0].contradictions == ()


# -- UCX ---------------------------------------------------------------------------------------------------

TABLE = """\
$ ucx_perftest peer -t tag_bw -m cuda
+---------------------------+------------------------------------------------------+------------------+
| perftest inter-node cfg#2 | rendezvous data send(multi) from cuda/GPU0 to cuda memory |             |
+---------------------------+------------------------------------------------------+------------------+
|                    0..inf | cuda_copy, fenced write to remote, frag host          | rc_mlx5/mlx5_0:1 |
"""


@pytest.mark.parametrize(
    ("setting", "codes"),
    [
        ("UCX_IB_GPU_DIRECT_RDMA=n", ["dmabuf-disabled-by-env"]),
        ("UCX_IB_GPU_DIRECT_RDMA=no", ["dmabuf-disabled-by-env"]),
        ("UCX_CUDA_COPY_DMABUF=n", ["dmabuf-disabled-by-env", "ucx-misses-peermem", "peermem-not-loaded"]),
        ("UCX_IB_GPU_DIRECT_RDMA=y", ["ucx-misses-peermem", "peermem-not-loaded"]),
    ],
)
def test_a_setting_that_turns_paths_off_explains_a_table_that_shows_copies(setting: str, codes: list[str]):
    found = [code for code in named(f"$ env | grep UCX\n{setting}\n{TABLE}") if code]

    assert found[: len(codes)] == codes
    assert ("driver-proprietary" in found) is setting.endswith("=y")


NOT_LISTED = "$ lsmod | grep peermem\n"
INVALID = (
    "$ sudo modprobe nvidia_peermem\nmodprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument\n"
)
FAILED = "$ ib_write_bw --use_cuda=0 -d mlx5_0\nCouldn't allocate MR\nfailed to create mr\n"


def test_a_module_that_was_refused_is_not_to_be_loaded_again():
    found = explained(NOT_LISTED + INVALID + FAILED).answer
    assert (found.cause, found.sureness) == ("peermem-stub", "possible")
    assert not any("modprobe nvidia-peermem" in step for step in found.now)
    never_tried = explained(NOT_LISTED + FAILED).answer
    assert never_tried.cause == "peermem-not-loaded" and "modprobe nvidia-peermem" in never_tried.now[0]


def test_a_refusal_of_another_module_leaves_one_that_is_not_loaded():
    other = INVALID.replace("nvidia_peermem", "nvidia_fs")
    assert explained(NOT_LISTED + other + FAILED).answer.cause == "peermem-not-loaded"


def test_a_proprietary_driver_closes_the_path_that_is_left():
    license = "$ modinfo -F license nvidia\nNVIDIA\n"
    dmabuf = "$ ib_write_bw --use_cuda=0 --use_cuda_dmabuf -d mlx5_0\nDMA-BUF is not supported on this GPU\n"
    found = explained(license + NOT_LISTED + INVALID + FAILED + dmabuf).answer
    assert (found.cause, found.sureness) == ("driver-proprietary", "likely")


# -- ended by a scheduler or the kernel --------------------------------------------------------------------

SLURM = "slurmstepd: error: "
ENDED = {
    SLURM
    + "Detected 1 oom_kill event in StepId=88123.0. Some of the step tasks have been OOM Killed.": "memory",
    SLURM + "Detected 1 oom-kill event(s) in step 370626.batch cgroup. Some of your processes may have been"
    " killed by the cgroup out-of-memory handler.": "memory",
    "srun: error: n0219: task 3: Out Of Memory": "memory",
    SLURM + "StepId=7.batch exceeded memory limit (734003200 > 52428800), being killed": "memory",
    "TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.": "memory",
    "=>> PBS: job killed: mem 134217728kb exceeded limit 125829120kb": "memory",
    "      Reason:       OOMKilled": "memory",
    "[812345.1] Out of memory: Killed process 5512 (python) total-vm:812344124kB, anon-rss:40kB": "memory",
    "Nov 30 10:01:02 n1 kernel: Memory cgroup out of memory: Kill process 5 (python) score 9": "memory",
    "srun: error: Node failure on gpu103": "lost a node",
    SLURM + "*** JOB 771 ON n1 CANCELLED AT 2026-11-30T03:12:55 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR"
    " DETAILS ***": "lost a node",
}
"""Lines that end a process, with a word of what they mean."""


@pytest.mark.parametrize("line", ENDED)
def test_a_peer_that_does_not_answer_follows_from_a_process_that_was_killed(line: str):
    for text in (f"{line}\n{RETRY}", f"{RETRY}{line}\n", f"{line}\n"):
        found = explained(text).answer
        assert found.kind == "elsewhere" and ENDED[line] in found.sentence
        assert [other.code for other in found.others] == []


@pytest.mark.parametrize(
    "line",
    [
        SLURM + "*** JOB 88 ON n1 CANCELLED AT 2026-11-30T03:12:55 DUE TO TIME LIMIT ***",
        "TERM_RUNLIMIT: job killed after reaching LSF run time limit.",
        "=>> PBS: job killed: walltime 3621 exceeded limit 3600",
    ],
)
def test_a_limit_of_time_ends_what_hangs_for_another_reason(line: str):
    assert named(f"{RETRY}{line}\n")[0] == "retry-exceeded"
    alone = explained(f"{line}\n").answer
    assert alone.kind == "elsewhere" and "time limit" in alone.sentence


def test_a_process_that_the_kernel_killed_some_day_is_no_reason_for_another_failure():
    kills = next(line for line in ENDED if line.startswith("["))
    assert named(f"{kills}\n{EINVAL}\n")[0] == "peermem-stub"
    of_cuda = explained("RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB.\n").answer
    assert of_cuda.sentence.startswith("The GPU ran out of memory")
