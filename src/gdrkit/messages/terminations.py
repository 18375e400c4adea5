"""Messages of the kernel and of schedulers that end a process or a job, whatever other ranks then report."""

from __future__ import annotations

from gdrkit.messages.message import Meaning, MessageTemplate

_PEERS = ("retry-exceeded",)
"""What the ranks that are left report of one that was ended."""
_THEN = "What other ranks report after it, such as a peer that does not answer, follows from it"

_USED_UP = "The kernel killed a process: the memory of the machine, or of the job or container, was used up"
_LESS = (
    f"Give the job more memory, or let it use less; the kernel log names the process and its size. {_THEN}"
)
_OF_ALL = (
    "Let the job use less, or end what else runs there: `free -h` shows what is left. A GPU without memory"
    " of its own, as in a DGX Spark, takes it from there, too: take a smaller -e of nccl-tests, which need"
    " twice that, stop the desktop, and drop caches (`sudo sysctl vm.drop_caches=3`)"
)
"""Source: NVIDIA/dgx-spark-playbooks issue 102 and pull request 103; vm.rst of the kernel."""
_WHOLE = "The memory of the whole machine was used up"
_NO_MEMORY = Meaning(_USED_UP, _LESS, brings=_PEERS)
_LOGGED = Meaning(_USED_UP, _LESS, effect="follows", brings=_PEERS)
"""In a kernel log, which may be about any process at any time: what else fails comes before it."""
SLURM_MEMORY = Meaning(
    "Tasks of the job were killed: they used more memory than Slurm gave the job",
    "Ask for more with --mem, or use less: `sacct -j JOB -o JobID,ReqMem,MaxRSS` shows both. " + _THEN,
    brings=_PEERS,
)
_JOB_MEMORY = Meaning(
    "The scheduler killed the job: it used more memory than it asked for",
    f"Ask for more (LSF: -M; PBS: -l mem), or use less. {_THEN}",
    brings=_PEERS,
)
NODE_FAILED = Meaning(
    "The scheduler lost a node of the job, and ended the job",
    f"Find out on that node why it failed: its kernel log, its BMC, and `scontrol show node NODE`. {_THEN}",
    brings=_PEERS,
)
JOB_TIME = Meaning(
    "The scheduler ended the job at its time limit; the line does not say whether the job was hanging",
    "Look for the last progress of each rank: if all stopped long before, find the rank that stopped first."
    " Else ask for more time",
    effect="follows",
)

_SLURMSTEPD = "SchedMD/slurm src/slurmd/slurmstepd"

ROWS = (
    MessageTemplate(
        "kernel",
        r"{:\bOut of memory}: Kill{:(?:ed)? process \d}",
        meaning=Meaning(
            f"The kernel killed a process. {_WHOLE}, not only that of a job or container",
            f"{_OF_ALL}. The line names the process and its size. {_THEN}",
            effect="follows",
            brings=_PEERS,
        ),
        source="Linux mm/oom_kill.c, out_of_memory(): the other message is that of a memory cgroup",
        open_end=True,
        sample="Out of memory: Killed process 52310 (all_gather_perf) total-vm:201326592kB",
    ),
    MessageTemplate(
        "nvidia",
        "Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x00000051) returned from _memdescAllocInternal(",
        meaning=Meaning(
            "NVIDIA's driver did not get memory that it asked for. On a DGX Spark, whose GPU has none of its"
            " own, that of the machine was used up: it may stop without another line",
            _OF_ALL,
            effect="follows",
            brings=_PEERS,
        ),
        source="NVIDIA/open-gpu-kernel-modules issue 1358; NVIDIA/dgx-spark-playbooks issue 97",
        open_end=True,
        sample="NVRM: nvCheckOkFailedNoLog: Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x00000051)"
        " returned from _memdescAllocInternal(pMemDesc) @ mem_desc.c:1359",
    ),
    MessageTemplate(
        "slurm",
        r"{:Detected \d{1,9} oom[_-]kill event|[Ee]xceeded (?:job |step )?memory limit}",
        meaning=SLURM_MEMORY,
        source=f"{_SLURMSTEPD}, and src/plugins/task/cgroup/task_cgroup_memory.c",
        open_end=True,
        sample="slurmstepd: error: Detected 1 oom_kill event in StepId=88123.0. Some of the step tasks have"
        " been OOM Killed.",
    ),
    MessageTemplate(
        "slurm",
        r"{:\btasks? [\d,-]{1,80}}: Out Of Memory",
        meaning=SLURM_MEMORY,
        source="what srun prints of tasks that ended, in Slurm 18.08 to 25.05",
        sample="srun: error: n0219: task 3: Out Of Memory",
    ),
    MessageTemplate(
        "kernel",
        r"{:[Oo]}ut of memory{:.{0,20}}: Kill{:(?:ed)? process \d}",
        meaning=_LOGGED,
        source="Linux mm/oom_kill.c, __oom_kill_process()",
        open_end=True,
        sample="Memory cgroup out of memory: Killed process 5512 (python) total-vm:8124kB",
    ),
    MessageTemplate(
        "kubernetes",
        r"{:\b(?:[Rr]eason:|Terminated\b.{0,40})\s+}OOMKilled",
        meaning=_NO_MEMORY,
        source="kubernetes pkg/kubelet, reason of a container that ended",
        open_end=True,
        sample="      Reason:       OOMKilled",
    ),
    MessageTemplate(
        "lsf",
        "TERM_MEMLIMIT: job killed",
        meaning=_JOB_MEMORY,
        source="IBM Spectrum LSF, termination reasons displayed by bacct and bhist",
        open_end=True,
        sample="TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.",
    ),
    MessageTemplate(
        "pbs",
        r"PBS: job killed: {:v?mem \d}",
        meaning=_JOB_MEMORY,
        source="openpbs src/resmom/linux/mom_mach.c, mom_over_limit()",
        open_end=True,
        sample="=>> PBS: job killed: mem 134217728kb exceeded limit 125829120kb",
    ),
    MessageTemplate(
        "slurm",
        r"CANCELLED AT {:\S{1,40}} DUE TO NODE FAIL",
        meaning=NODE_FAILED,
        source=f"{_SLURMSTEPD}/req.c",
        open_end=True,
        sample="slurmstepd: error: *** JOB 771 ON n1 CANCELLED AT 2026-11-30T03:12:55 DUE TO NODE FAILURE,"
        " SEE SLURMCTLD LOG FOR DETAILS ***",
    ),
    MessageTemplate(
        "slurm",
        r"error: Node failure on {:\S}",
        meaning=NODE_FAILED,
        source="what srun prints of a node that does not respond",
        open_end=True,
        sample="srun: error: Node failure on gpu103",
    ),
    MessageTemplate(
        "slurm",
        r"CANCELLED AT {:\S{1,40}} DUE TO TIME LIMIT",
        meaning=JOB_TIME,
        source=f"{_SLURMSTEPD}/req.c",
        open_end=True,
        sample="slurmstepd: error: *** JOB 88 ON n1 CANCELLED AT 2026-11-30T03:12:55 DUE TO TIME LIMIT ***",
    ),
    MessageTemplate(
        "lsf",
        "TERM_RUNLIMIT: job killed",
        meaning=JOB_TIME,
        source="IBM Spectrum LSF, termination reasons displayed by bacct and bhist",
        open_end=True,
        sample="TERM_RUNLIMIT: job killed after reaching LSF run time limit.",
    ),
    MessageTemplate(
        "pbs",
        r"PBS: job killed: walltime {:\d}",
        meaning=JOB_TIME,
        source="openpbs src/resmom/linux/mom_mach.c, mom_over_limit()",
        open_end=True,
        sample="=>> PBS: job killed: walltime 3621 exceeded limit 3600",
    ),
)
