"""The job in a cgroup, in the forms that runtimes write."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.jobs.running.workload import workload

UID = "0f8fad5b-d9cb-469f-a165-70867728950e"
CONTAINER = "4c01db0b339c" + "a" * 52


@pytest.mark.parametrize(
    ("cgroup", "label", "container"),
    [
        ("0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0\n", "slurm 4711.0", ""),
        ("9:cpuset:/slurm/uid_1000/job_4711/step_batch\n1:name=systemd:/x\n", "slurm 4711.batch", ""),
        ("0::/slurm_node17/job_12\n", "slurm 12", ""),
        (f"0::/kubepods/burstable/pod{UID}/{CONTAINER}\n", f"pod {UID}", "4c01db0b339c"),
        (
            f"0::/kubepods-pod{UID.replace('-', '_')}.slice/cri-containerd-{CONTAINER}.scope\n",
            f"pod {UID}", "4c01db0b339c",
        ),
        (f"0::/system.slice/docker-{CONTAINER}.scope\n", "container 4c01db0b339c", "4c01db0b339c"),
        (f"12:memory:/docker/{CONTAINER}\n", "container 4c01db0b339c", "4c01db0b339c"),
        ("0::/user.slice/user-0.slice/session-3.scope\n", "unit session-3.scope", ""),
        ("0::/\n", "no job", ""),
        ("", "no job", ""),
        ("0::/job_x/step_0\n", "no job", ""),
        (f"0::/podx{UID}\n", "no job", ""),
        (f"0::/docker/{CONTAINER}a\n", "no job", ""),
    ],
)  # fmt: skip
def test_a_cgroup_names_the_job(cgroup, label, container):
    found = workload(cgroup, {})

    assert (found.label, found.container) == (label, container)


def test_slurm_without_cgroups_is_seen_in_the_environment_only_if_the_cgroup_shows_no_job():
    environment = {"SLURM_JOB_ID": "8", "SLURM_STEP_ID": "1"}

    assert workload("0::/\n", environment).label == "slurm 8.1"
    assert workload("0::/job_7/step_0\n", environment).label == "slurm 7.0"
    assert workload("0::/\n", {"SLURM_JOB_ID": "8\x1b[2J"}).label == "no job"


@given(st.text(max_size=300))
def test_any_cgroup_has_a_label_of_one_line(cgroup):
    assert "\n" not in workload(cgroup, {}).label
