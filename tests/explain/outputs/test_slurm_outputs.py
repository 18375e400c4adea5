"""What sinfo, sacct and scontrol print, and what it means for GPU memory and the network."""

from __future__ import annotations

import pytest

from gdrkit.formats.slurm_tables import slurm_states
from tests.explain.explaining import explained

REASONS = """\
REASON               USER      TIMESTAMP           NODELIST
{} gpu[017-018]
"""
"""As awslabs/awsome-distributed-ai issue 185 has it."""
NODES = """\
NODELIST   NODES PARTITION       STATE CPUS    S:C:T MEMORY TMP_DISK WEIGHT AVAIL_FE REASON
a058           1    xeon8*       mixed    8    2:4:1  23900    32752      1 xeon5570 none
gpu017         1      gpu*       down* 128    2:64:1 103136        0      1   (null) Not responding
"""
PARTITIONS = """\
PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST
short*       up    4:00:00      6  {} node[4-7,9,17]
high         up   infinite      1   idle node23
"""
"""As mattbellis/Siena-HPC FAQ/admin_help.md has it."""
NODE = """\
NodeName=yigou-dev-102-68 Arch=x86_64 CoresPerSocket=1
   CPUAlloc=0 CPUEfctv=8 CPUTot=8 CPULoad=0.99
   Gres=gpu:nvidia-rtx-3090:1
   OS=Linux 5.10.0-153.12.0.92.oe2203sp2.x86_64 #1 SMP Wed Jun 28 23:04:48 CST 2023
   State={} ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   BootTime=2024-11-18T20:46:45 SlurmdStartTime=2024-12-19T11:41:49

{}"""
"""As awslabs/awsome-distributed-ai issue 195 has it."""
LOWER = "   Reason=gres/gpu count reported lower than configured (0 < 1) [slurm@2024-12-19T11:03:34]\n"
JOBS = """\
JobID           JobName  Partition    Account  AllocCPUS      State ExitCode
------------ ---------- ---------- ---------- ---------- ---------- --------
{}
"""
JOB = """\
JobId=81234 JobName=train
   UserId=u(1000) GroupId=g(1000) MCS_label=N/A
   JobState={} Reason=NonZeroExitCode Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode={}
   RunTime=00:01:02 TimeLimit=1-00:00:00 TimeMin=N/A
"""
DECIDES_NOTHING = "decides nothing about GPU memory and the network"


def said(text: str) -> str:
    """The answer to an output, which is the same in a code block."""
    found = explained(text).answer
    assert found.kind == "elsewhere"
    assert explained(f"It says:\n```\n{text}```\n").answer.sentence == found.sentence
    return " ".join((found.sentence, *found.now))


@pytest.mark.parametrize(
    ("reason", "words", "step"),
    [
        ("Not responding       slurm     2025-11-18T03:12:01", "does not reach it", "journalctl -k -b -1"),
        (
            "Kill task failed     root      2024-01-25T15:12:23",
            "waits in the kernel",
            "dmesg -T | gdr explain",
        ),
        ("Prolog error         slurm     2025-11-17T20:00:00", "before each job", "slurmd's log"),
        ("gres/gpu count repor slurm(64) 2025-11-16T09:15:20 inval", "fewer GPUs", "nvidia-smi -L"),
        ("moved to rack 7      mueller   Unknown            ", "a person, a script", "gdr fleet doctor"),
    ],
)
def test_a_reason_of_a_node_without_jobs_is_explained_and_names_the_nodes(reason, words, step):
    answer = said(REASONS.format(reason))

    assert words in answer and step in answer and DECIDES_NOTHING in answer
    assert "`gdr fleet doctor 'gpu[017-018]'`" in answer


@pytest.mark.parametrize(
    ("reason", "name"),
    [
        ("gdrkit: port-down   ", "port-down"),  # of the nightly run
        ("gdrkit: port-down: p", "port-down"),  # of the health check
        ("gdrkit: peermem-not-", "NAME"),  # cut in the name
        ("gdrkit: node044: blo", "NAME"),  # of an older health check
    ],
)
def test_a_reason_that_gdrkit_gave_is_about_the_path(reason: str, name: str):
    answer = said(REASONS.format(f"{reason} root      2026-11-18T03:12:01"))
    assert "a check by gdrkit" in answer and f"`gdr codes {name}`" in answer
    assert DECIDES_NOTHING not in answer


def test_each_reason_is_named_and_that_about_gpus_comes_first():
    lines = "Prolog error slurm 2025-11-17T20:00:00 n1\nNot responding slurm 2025-11-17T20:00:00 n2"
    lower = "gres/gpu count repor slurm 2025-11-17T20:00:00 n3\nProlog error slurm 2025-11-17T21:00:00 n4"
    answer = said(REASONS.format(f"{lines} \n{lower}\nlost      root      Unknown            "))

    assert answer.index("n3: slurmd finds fewer GPUs") < answer.index("n2: the controller")
    assert "n1,n4: a script" in answer and "gpu[017-018]: a person" in answer


def test_a_row_of_a_node_that_works_says_nothing_of_one_that_does_not():
    answer = said(NODES)
    assert "gpu017: the controller" in answer and "a058" not in answer and "ssh://gpu017" in answer


@pytest.mark.parametrize("state", ["down*", "drain", "inval", "idle*", "drng"])
def test_a_state_without_its_reason_asks_for_it(state: str):
    answer = said(PARTITIONS.format(state))
    assert "node[4-7,9,17] no jobs" in answer and "sinfo -R" in answer


def test_nodes_that_get_jobs_say_as_little():
    answer = said(PARTITIONS.format(" idle"))
    assert "node[4-7,9,17],node23 jobs" in answer and DECIDES_NOTHING in answer


def test_what_scontrol_shows_of_a_node_has_its_reason():
    answer = said(NODE.format("IDLE+DRAIN+INVALID_REG", LOWER))
    assert "fewer GPUs" in answer and "gdr doctor ssh://yigou-dev-102-68" in answer
    assert "yigou-dev-102-68 jobs" in said(NODE.format("IDLE", ""))
    one_line = " ".join(NODE.format("IDLE+DRAIN", LOWER).split())
    assert "fewer GPUs" in said(f"{one_line} Comment=x\n")


@pytest.mark.parametrize(
    ("end", "words"),
    [
        ("NODE_FAIL      1:0", "lost a node"),
        ("OUT_OF_ME+    0:125", "more memory than Slurm gave"),
        ("TIMEOUT      0:0", "at its time limit"),
        ("FAILED    137:0", "signal 9 (SIGKILL)"),
        ("FAILED      0:9", "signal 9 (SIGKILL)"),
        ("FAILED     0:11", "signal 11 (SIGSEGV)"),
        ("FAILED      1:0", "exit code 1"),
        ("FAILED    134:0", "signal 6"),
        ("COMPLETED   0:0", "no failure of this job"),
    ],
)
def test_how_a_job_ended_is_explained(end: str, words: str):
    table = JOBS.format(f"81235.0   torch          lab1    512     {end}")

    assert words in said(table)
    assert words in said(JOB.format(*end.replace("OUT_OF_ME+", "OUT_OF_MEMORY").split()))
    assert words in said(
        "JobID|JobName|State|ExitCode|NodeList\n{}|torch|{}|{}|n1\n".format(7, *end.split())
    )


def test_of_the_steps_of_a_job_the_one_that_says_why_counts():
    steps = "\n".join(
        f"81234{step}   x    gpu   lab1   512   {end}"
        for step, end in ((".batch", "CANCELLED 0:15"), (".0", "FAILED 1:0"), ("", "NODE_FAIL 1:0"))
    )
    assert "lost a node" in said(JOBS.format(steps))


def test_what_a_health_check_says_of_a_nic_comes_before_that_slurm_gives_no_jobs():
    check = "NHC: check_hw_ib:  No IB port mlx5_2:1 is ACTIVE (LinkUp 400 Gb/sec)."
    found = explained(REASONS.format(f"{check} root 2025-11-18T03:12:01"))
    assert "port-down" in {code for machine in found.machines for one in machine.open for code in one.codes}


@pytest.mark.parametrize(
    "text",
    [
        "gpu[017-018] did not respond to root since 2025-11-18T03:12:01 gpu017\n",
        "NodeName=gpu[01-16] Gres=gpu:h100:8 CPUs=128 State=UNKNOWN\n",  # slurm.conf
        "81235.0 torch FAILED 137:0\n",  # without its titles
    ],
)
def test_other_lines_are_no_state_that_slurm_prints(text: str):
    assert list(slurm_states(enumerate(text.splitlines(), 1))) == []
