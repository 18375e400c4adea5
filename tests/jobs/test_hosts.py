"""A job by its hosts: which are slower, what the others show, what to do there."""

from __future__ import annotations

import cProfile
import pstats
import re
from importlib.resources import files

import pytest

from gdrkit.jobs.document import document
from gdrkit.jobs.hosts import JobHosts, by_host, contrast, headline, next_steps
from gdrkit.jobs.job import LegDirection
from gdrkit.jobs.text import text
from tests.jobs.large_job import large_job
from tests.jobs.samples import info
from tests.jobs.test_samples import analysed

TWO = ("gpu05", "gpu11")
SET = "NCCL_IB_HCA set by environment to mlx5"
LEG = "Channel 00/0 : {}[0] -> {}[0] [send] via NET/{}"


def read(log: str):
    found = document(analysed(log))
    return found, by_host(found)


def test_hosts_of_another_job_are_no_yardstick():
    slow, fast = (
        large_job(2, staged=("gpu01", "gpu02")),
        large_job(2, version="2.29.2").replace("gpu0", "far0"),
    )
    found, groups = read(slow + fast.replace("0x2f6c1c3a5b7d9e01", "0x77"))

    assert len(found.jobs) == 2
    assert contrast(found, groups) == "" and "far0" not in " ".join(next_steps(found, groups))
    one, groups = read(large_job(4, staged=("gpu01",)))
    assert "3 other hosts go directly" in contrast(one, groups) and "gpu02" in " ".join(
        next_steps(one, groups)
    )


@pytest.mark.parametrize(
    ("log", "line"),
    [(large_job(staged=TWO), "2 of 16 hosts go through host memory: gpu05, gpu11 (all 8 NICs, 16 ranks)"),
     (large_job(staged=TWO, nics=3),
      "2 of 16 hosts go through host memory: gpu05, gpu11 (3 of 8 NICs, 6 ranks)"),
     (large_job(hosts=3, staged=("gpu03",), nics=1),
      "1 of 3 hosts goes through host memory: gpu03 (1 of 8 NICs, 1 rank)"),
     (large_job(hosts=2, staged=("gpu01", "gpu02")),
      "both hosts go through host memory (all 8 NICs, 16 ranks)"),
     (large_job(hosts=12, staged=[f"gpu{number:02}" for number in range(1, 12)]),
      "11 of 12 hosts go through host memory: gpu01, gpu02, gpu03, gpu04, gpu05, gpu06, gpu07, gpu08 and 3 "
      "more (all 8 NICs, 88 ranks)"),
     (large_job(), ""),
     (info("n1:1", 0, LEG.format(0, 1, "IB/0")), "")],
)  # fmt: skip
def test_the_hosts_that_do_not_go_directly_are_named(log, line):
    _, groups = read(log)
    assert headline(groups) == line


def test_hosts_that_go_different_ways_are_counted_together_and_listed_apart():
    log = large_job(3, staged=("gpu02",)) + info("tcp:1", 0, LEG.format(24, 0, "Socket/0"))
    found, groups = read(log)

    assert headline(groups) == "2 of 4 hosts go through host memory or over TCP: gpu02, tcp (9 ranks)"
    assert [(group.path, group.hosts) for group in groups] == [
        ("staged", ("gpu02",)), ("socket", ("tcp",)), ("direct", ("gpu01", "gpu03")),
    ]  # fmt: skip
    assert "over TCP: tcp (sending, 1 device, 1 rank)" in text(found)


def test_the_others_show_where_to_look_and_no_more_than_the_log_has():
    """A setting that differs is said instead; a second version makes no contrast."""
    assert contrast(*read(large_job(staged=TWO))) == (
        "14 other hosts go directly, and the log shows no other version of NCCL: look for what differs "
        "between the hosts"
    )
    others = large_job(3, staged=("gpu02",))
    assert "no setting" in contrast(*read(others + info("gpu01:4100", 0, SET) + info("gpu02:4108", 0, SET)))
    level = "NCCL_NET_GDR_LEVEL set by environment to {}"
    differing = info("gpu01:4100", 0, level.format("SYS")) + info("gpu02:4108", 0, level.format("PXB"))
    assert contrast(*read(others + differing)) == "2 other hosts go directly; settings of the ranks differ"
    mixed = large_job(2) + large_job(2, staged=("gpu02",), version="2.20.5")
    assert "version" not in contrast(*read(mixed))
    assert not contrast(*read(large_job(2, staged=("gpu01", "gpu02"))))


NOTHING = "; nothing is installed there"


def test_the_next_step_names_a_slow_host_and_a_good_one_in_the_one_way_that_the_log_fits():
    log = large_job(staged=TWO)
    (step,) = next_steps(*read(log))
    assert step == f"`gdr doctor ssh://gpu05 ssh://gpu01` compares gpu05 with gpu01{NOTHING}"
    (alone,) = next_steps(*read(large_job(2, staged=("gpu01", "gpu02"))))
    assert alone == f"`gdr doctor ssh://gpu01` judges gpu01{NOTHING}"


@pytest.mark.parametrize(
    "form",
    [
        "{}srun: error: gpu05: task 0: Exited with exit code 1\n",
        "slurmstepd: task_p_pre_launch: Using sched_affinity for tasks\n{}",
    ],
)
def test_under_slurm_the_hosts_are_asked_by_srun(form: str):
    (step,) = next_steps(*read(form.format(large_job(staged=TWO))))
    assert step == "`gdr fleet doctor --slurm gpu05 gpu01` compares gpu05 with gpu01"


def test_the_labels_of_srun_show_slurm_and_a_numbered_list_does_not():
    lines = info("gpu05:7", 0, "NET/IB : No device found.", "Using network Socket").splitlines()
    labelled = "".join(f"{3}: {line}\n" for line in lines)
    assert read(labelled)[0].logged.slurm and not read("1: first\n2: second\n")[0].logged.slurm


@pytest.mark.parametrize("name", ["nccl-test-worker-0", "train-7d9f8b6c5-x2v7k", "ring-workers-0-0-8hzqk"])
def test_a_pod_is_judged_on_its_node(name: str):
    lines = info(f"{name}:7", 0, "NET/IB : No device found.", "Using network Socket")
    manifest, step = next_steps(*read(lines))

    assert "`gdr config container --form kubernetes`" in manifest
    assert step.startswith("`gdr fleet doctor --kubernetes NODE` judges the node of the pod, ")
    assert f"`kubectl get pod {name} -o wide`" in step


@pytest.mark.parametrize("name", ["gpu05", "compute-st-p4d24xlarge-3", "trainer-0", "dgx-h100x"])
def test_a_name_that_a_host_may_have_is_that_of_a_host(name: str):
    lines = info(f"{name}:7", 0, "NET/IB : No device found.", "Using network Socket")
    (step,) = next_steps(*read(lines))
    assert step == f"`gdr doctor ssh://{name}` judges {name}{NOTHING}"


def test_a_setting_that_is_the_only_cause_is_unset_and_no_host_is_judged():
    off = info("gpu05:7", 0, "NCCL_IB_DISABLE set by environment to 1.", "Using network Socket")
    assert list(next_steps(*read(off))) == [
        "unset NCCL_IB_DISABLE on all ranks, in the job and in /etc/nccl.conf"
    ]
    other = info("gpu06:7", 0, "NET/IB : No device found.", "Using network Socket")
    unset, judge, _ = next_steps(*read(off + other))
    assert unset == "unset NCCL_IB_DISABLE on gpu05" and judge.startswith("`gdr doctor ssh://gpu0")


def test_a_geforce_in_the_list_of_ranks_is_what_is_left_where_the_log_shows_no_reason():
    listed = "#  Rank  0 Group  0 Pid      7 on       n1 device  0 [0x01] NVIDIA {}\n"
    leg = info("n1:7", 0, "Using network IB", "Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0")
    (step,) = next_steps(*read(listed.format("GeForce RTX 3090") + leg))
    assert step.startswith("`gdr codes gpu-consumer` says what is left")
    (step,) = next_steps(*read(listed.format("H100 80GB HBM3") + leg))
    assert step.startswith("`gdr doctor ssh://n1`")


def test_a_selection_of_nics_that_matches_none_is_corrected_first():
    setting = "NCCL_IB_HCA set by environment to mlx5_9"
    no_device = ("NET/IB : No device found.", "Using network Socket")
    step = next(next_steps(*read(info("gpu05:7", 0, setting, *no_device))))

    assert step.startswith(
        "`ls /sys/class/infiniband` in the job lists the names that NCCL_IB_HCA has to match"
    )
    assert "NCCL_IB_HCA" not in next(next_steps(*read(info("gpu05:7", 0, *no_device))))


def test_hosts_of_other_causes_are_named_beside_the_first():
    """The near miss: a host with the same causes is not."""
    tcp = large_job(4, staged=("gpu01", "gpu02")).replace("gpu03:", "gpu03 :")
    other = "".join(
        info(f"gpu03:{4116 + gpu}", gpu, "Using network Socket", f"Channel 00/0 : {16 + gpu}[{gpu}] -> "
             f"{24 + gpu}[{gpu}] [send] via NET/Socket/0") for gpu in range(8)
    )  # fmt: skip
    steps = list(next_steps(*read(tcp.replace("gpu03 :", "gpu03:") + other)))

    assert [step for step in steps if step.startswith("the same for")] == [
        "the same for gpu03: the path or its causes are others there"
    ]


@pytest.mark.parametrize("lines", [("NET/IB : No device found.", "Using network Socket"),
                                   ("NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'",)])  # fmt: skip
def test_a_log_of_one_host_has_next_steps_too(lines: tuple[str, ...]):
    shown = text(read(info("n1:7", 0, *lines))[0])

    assert f"\nNext\n  `gdr doctor ssh://n1` judges n1{NOTHING}\n" in shown


def test_nics_that_lack_the_same_share_a_reason_without_a_channel():
    """NVIDIA/nccl issue 1537: thirteen causes, once for each NIC."""
    line = "NET/IB : GPU Direct RDMA Disabled for HCA {0} 'mlx5_{0}'"
    found, _ = read(info("n1:7", 0, line.format(0), line.format(1)))

    (why,) = found.why_not_direct
    assert why.text == "NCCL finds neither nvidia-peermem nor dma-buf for mlx5_0, mlx5_1"


def test_a_cause_that_is_certain_comes_before_a_look_at_the_host():
    off = info("gpu02:4108", 0, "NCCL_NET_GDR_LEVEL set by environment to LOC")
    first, *_ = next_steps(*read(large_job(2, staged=("gpu02",), nics=1) + off))

    assert first == "unset NCCL_NET_GDR_LEVEL on gpu02"


def test_a_setting_that_only_the_slow_host_prints_is_named_and_one_that_all_print_is_not():
    """The others print no setting at all: whether they have it is not known."""
    off = "NCCL_DMABUF_ENABLE set by environment to 0"
    log = large_job(3, staged=("gpu02",))
    found = read(log + info("gpu02:4108", 0, off))
    every = log + "".join(info(f"gpu0{host}:{4092 + 8 * host}", 0, off) for host in (1, 2, 3))

    assert contrast(*found) == "2 other hosts go directly; only gpu02 prints NCCL_DMABUF_ENABLE=0"
    assert next(next_steps(*found)) == "unset NCCL_DMABUF_ENABLE on gpu02"
    assert "no setting that differs" in contrast(*read(every))


LOOK = "`nvidia-smi topo -m` on the host shows whether"
CAUTION = "; across sockets it is slower on some machines: `gdr bench` compares"


@pytest.mark.parametrize(
    ("first", "second", "step"),
    [("SYS", None, f"set NCCL_NET_GDR_LEVEL=SYS on all ranks: gpu-2 lacks it{CAUTION}"),
     ("SYS", "PXB", f"set NCCL_NET_GDR_LEVEL=SYS on all ranks: gpu-2 has PXB{CAUTION}"),
     (None, "PIX", "unset NCCL_NET_GDR_LEVEL on gpu-2"),
     (None, "LOC", "unset NCCL_NET_GDR_LEVEL on gpu-2"),
     ("$(reboot)", None, "unset NCCL_NET_GDR_LEVEL on gpu-1"),
     ("SYS", "SYS", f"{LOOK} a NIC is nearer to the GPU: NCCL takes it unless it is down"),
     (None, None, f"{LOOK} a NIC is nearer to the GPU: NCCL takes it unless it is down; without one, "
      "NCCL_NET_GDR_LEVEL=SYS goes farther: measure it against the copy")],
)  # fmt: skip
def test_ranks_that_differ_in_a_setting_are_made_like_those_that_go_directly(first, second, step):
    """The log of `gdr example`, whose two hosts have a level, another one or none."""
    line = "NCCL_NET_GDR_LEVEL set by environment to "
    subsystems = "NCCL_DEBUG_SUBSYS set by environment to INIT,ENV,NET,GRAPH"
    lines = []
    for row in (files("gdrkit.cli.examples") / "job.log").read_text().splitlines():
        if line in row:
            continue
        lines.append(row)
        level = first if row.startswith("gpu-1") else second
        if row.endswith(subsystems) and level:
            lines.append(row.replace(subsystems, line + level))

    assert next(next_steps(*read("\n".join(lines) + "\n"))) == step


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("NCCL_IB_HCA set by environment to mlx5_0,mlx5_1", "NCCL_IB_HCA=mlx5_0,mlx5_1 leaves out a NIC"),
        ("NCCL_IB_HCA set by environment to $(reboot)", "NCCL_IB_HCA leaves out a NIC"),
        (
            "NCCL_DEBUG set by environment to INFO",
            "a NIC is nearer to the GPU: NCCL takes it unless it is down;",
        ),
        ("", "a NIC is nearer to the GPU: NCCL takes it unless it is down or NCCL_IB_HCA leaves it out;"),
    ],
)
def test_a_list_of_nics_is_blamed_for_a_distance_only_where_the_log_has_one(line, step):
    rows = (files("gdrkit.cli.examples") / "job.log").read_text().splitlines()
    log = "\n".join(row for row in rows if "set by environment" not in row) + "\n"
    given = "".join(info(f"gpu-{1 + rank // 2}:{4100 + rank}", 0, line) for rank in range(4) if line)
    document, _ = read(log + given)
    (todo,) = {finding.todo for finding in document.findings if finding.code == "pair-cross-socket"}

    assert todo.startswith(f"{LOOK} {step}") and "ind each rank" not in todo


@pytest.mark.parametrize("name", ["-oProxyCommand=x", "a;reboot", "a`id`", "$(id)"])
def test_a_command_has_no_name_that_a_shell_could_read(name):
    log = large_job(2, staged=("gpu02",)).replace("gpu02:", f"{name}:")
    assert not any(name in step for step in next_steps(*read(log)))


@pytest.mark.parametrize("width", [80, 120])
def test_equal_paragraphs_are_printed_once(width):
    found, _ = read(large_job(staged=TWO))
    shown = text(found, width=width)

    (why,) = found.why_not_direct
    assert (why.ranks, why.text.count("mlx5_")) == (16, 8)
    assert len(re.findall("possible\\s+causes", shown)) == 1
    assert max(map(len, shown.splitlines())) <= width and len(shown.splitlines()) < 42


def test_a_device_is_not_found_within_the_name_of_another():
    """mlx5_1 does not belong to mlx5_10."""
    start = info("n1:1", 0, "NET/IB : Using [0]mlx5_1:1/IB [1]mlx5_10:1/IB [RO]; OOB eth0:10.0.0.1<0>")
    log = start + info(
        "n1:1", 0, "NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_1'",
        "NET/IB : GPU Direct RDMA Disabled for HCA 1 'mlx5_10'", LEG.format(0, 1, "IB/0"),
        LEG.format(0, 1, "IB/1"),
    )  # fmt: skip
    (why,) = read(log)[0].why_not_direct
    assert why.text.endswith("for mlx5_1, mlx5_10")


STATE = "NET/{} : GPU Direct RDMA {} for HCA 0 '{}'"
OF_ALL = {"gpu-integrated", "peermem-not-loaded"}


@pytest.mark.parametrize(
    ("other", "codes"),
    [
        (STATE.format("IB", "Enabled", "mlx5_0"), {"dmabuf-mr-refused", "kernel-lacks-dmabuf"}),
        (STATE.format("IB", "Disabled", "mlx5_0"), OF_ALL),
        (STATE.format("Plugin", "Enabled", "x"), OF_ALL),
    ],
)
def test_a_nic_that_works_excludes_what_all_nics_of_a_process_share(other, codes):
    """Module, GPU, libibverbs and settings are the same for both; the NIC's driver need not be."""
    two = "NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>"
    refused = "NET/IB : GPU Direct RDMA Disabled for HCA 1 'mlx5_1'"
    (why,) = read(info("n1:1", 0, two, other, refused, LEG.format(0, 1, "IB/1")))[0].why_not_direct

    assert codes <= set(why.codes)
    assert bool(OF_ALL & set(why.codes)) == (codes == OF_ALL)


def test_the_version_that_a_process_prints_excludes_causes_though_another_prints_an_older_one():
    """2.27.5 finds nvidia-peermem where 2.12 does not, and has dma-buf."""
    log = large_job(2, staged=("gpu02",)).replace("gpu01:4100:4107 [0] NCCL INFO NCCL version 2.27.5", "x")
    old = "gpu01:4100:4107 [0] NCCL INFO NCCL version 2.12.12+cuda11.7\n"
    (why,) = read(old + log)[0].why_not_direct

    assert "peermem-not-loaded" in why.codes
    assert not {"nccl-misses-peermem", "nccl-lacks-dmabuf"} & set(why.codes)


@pytest.mark.parametrize(
    ("other", "line"), [("gpu02", "1 of 2 hosts goes through host memory: gpu01"), ("", "")]
)
def test_hosts_are_counted_only_where_each_has_a_name(other, line):
    """Lines without a frame may be of a host that others name."""
    groups = tuple(
        JobHosts(path=path, hosts=(host,), devices=(), of_devices=0, direction=LegDirection.BOTH, ranks=1)
        for path, host in (("staged", "gpu01"), ("direct", other))
    )
    assert headline(groups).startswith(line) and bool(headline(groups)) is bool(line)


def calls(hosts: int) -> int:
    """Calls of functions for a job of some hosts: a measure of work without a clock."""
    log = large_job(hosts, staged=TWO)
    profile = cProfile.Profile()
    profile.runcall(read, log)
    return pstats.Stats(profile).total_calls


def test_the_work_for_a_job_grows_with_its_ranks_and_not_with_their_square():
    assert calls(64) < 4.5 * calls(16)


@pytest.mark.parametrize(
    ("command", "step"),
    [
        ("kubectl logs nccl-test-0", "`gdr fleet doctor --kubernetes NODE` judges the node of the pod"),
        ("kubectl -n ml exec -it pod/nccl-test-0 -- env", "`gdr fleet doctor --kubernetes NODE` judges"),
        ("kubectl get pod nccl-test-0", "`gdr fleet doctor --kubernetes NODE` judges the node of the pod"),
        ("kubectl get node nccl-test-0", "`gdr doctor ssh://nccl-test-0` judges nccl-test-0"),
        ("kubectl exec other-0 -- ssh nccl-test-0", "`gdr doctor ssh://nccl-test-0` judges nccl-test-0"),
        ("ssh nccl-test-0", "`gdr doctor ssh://nccl-test-0` judges nccl-test-0"),
    ],
)
def test_a_host_that_kubectl_names_as_a_pod_is_not_asked_over_ssh(command: str, step: str):
    """Of Mellanox/k8s-rdma-shared-dev-plugin issue 101; a pod with hostNetwork has the name of its node."""
    log = (
        f"$ {command}\nnccl-test-0:41:78 [0] NCCL INFO NET/IB : No device found.\n"
        "nccl-test-0:41:95 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0\n"
    )
    steps = list(next_steps(*read(log)))

    assert any(one.startswith(step) for one in steps)
    assert any("ssh://" in one for one in steps) == step.startswith("`gdr doctor ssh")
