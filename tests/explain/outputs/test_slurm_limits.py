"""A job of Slurm has the limits of the shell that submits it, unless the configuration says otherwise."""

from __future__ import annotations

import pytest

from gdrkit.explain.first_steps import paragraphs
from gdrkit.report.pages import IN_SLURM, sections
from gdrkit.rules.memlock_limit import memlock_limit
from tests.explain.explaining import explained

FAILS = (
    "gpu011:3391:3402 [1] misc/ibvwrap.cc:190 NCCL WARN Call to ibv_create_cq failed with error"
    " Cannot allocate memory\n"
)
JOB = f"$ srun -N1 bash -c 'ulimit -l'\n8192\n{FAILS}"
SHELL = f"$ ulimit -l\n8192\n{FAILS}"
DAEMON = "$ systemctl show slurmd -p LimitMEMLOCK\nLimitMEMLOCK=infinity\n"
(STEP,) = paragraphs(sections(memlock_limit)[1][IN_SLURM])


@pytest.mark.parametrize(
    "text",
    [
        JOB,  # by default
        JOB + DAEMON,
        f"{SHELL}srun: error: node017: task 3: Exited with exit code 3\n",  # it reports the end of a job
        f"{SHELL}slurmstepd: error: *** STEP 41207.0 ON node017 CANCELLED AT 2026-11-30T03:10:20 ***\n",
        f"PropagateResourceLimits=ALL\n{SHELL}",
        f"PropagateResourceLimits=STACK,MEMLOCK\n{JOB}",
        f"PropagateResourceLimitsExcept=STACK\n{JOB}",
        f"PropagateResourceLimits = ALL\nPropagateResourceLimitsExcept = (null)\n{JOB}",  # scontrol
    ],
)
def test_the_limit_of_a_job_is_raised_where_it_comes_from(text: str):
    found = explained(text).answer
    assert found.cause == "memlock-limit"
    assert found.now[0] == STEP and found.now.count(found.now[0]) == 1


@pytest.mark.parametrize(
    "text",
    [
        SHELL,  # no job of Slurm
        f"{SHELL}all that srun: error lines have is a number\n",
        f"PropagateResourceLimits=NONE\n{JOB}",
        f"PropagateResourceLimits=STACK\n{JOB}",
        f"PropagateResourceLimitsExcept=MEMLOCK\n{JOB}",
        f"#PropagateResourceLimits=ALL\n{SHELL}",
        JOB.replace("srun", "srun --propagate=NONE"),
    ],
)
def test_a_limit_that_slurm_does_not_pass_on_is_that_of_the_daemon_or_the_shell(text: str):
    found = explained(text).answer
    assert found.cause == "memlock-limit" and found.now[-1] == STEP
