"""Which settings hold in a container: what one template sets does not hold in another one."""

from __future__ import annotations

import pytest

from gdrkit.repair.config.check import check

HCA = "- {name: NCCL_IB_HCA, value: mlx5}"
MISSING = "warning rdma-device-not-in-container"


def job(kind: str, launcher: str, worker: str = "", spec: str = "") -> str:
    """A leader without a GPU, and a worker with one and without an RDMA device."""
    lines = [f"apiVersion: x/v1\nkind: {kind}\nmetadata: {{name: a}}\nspec:", *spec.splitlines()]
    for name, more in (("leader", launcher), ("worker", worker)):
        gpu = ["resources: {limits: {nvidia.com/gpu: 1}}"] if name == "worker" else []
        lines += [
            f"  {name}:",
            "    template:",
            "      spec:",
            "        containers:",
            "        - name: main",
        ]
        lines += [f"          {line}" for line in (*gpu, *more.splitlines())]
    return "\n".join(lines) + "\n"


def missing(text: str) -> bool:
    found = {f"{fault.severity} {fault.code}" for fault in check(text.encode(), "job.yaml").faults}
    return MISSING in found


RUN = "command: [bash, -c, 'mpirun -np 2 {0} train']"


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        (job("LeaderWorkerSet", "", f"env:\n{HCA}"), True),
        (job("LeaderWorkerSet", f"env:\n{HCA}"), False),
        (job("RayCluster", "command: [bash, -c, 'export NCCL_IB_HCA=mlx5; ray start --head']"), False),
        (job("RayJob", "", spec="  runtimeEnvYAML: |\n    env_vars:\n      A: NCCL_IB_HCA=mlx5"), True),
        (job("MPIJob", f"env:\n{HCA}\n{RUN.format('')}"), False),
        (job("MPIJob", f"env:\n{HCA}\n{RUN.format('-x NCCL_IB_HCA')}"), True),
        (job("MPIJob", RUN.format("-x NCCL_IB_HCA=mlx5")), True),
        (job("MPIJob", f"env:\n{HCA}\n{RUN.format('')}", spec="  mpiImplementation: Intel"), True),
        (job("MPIJob", f"env:\n{HCA}\n{RUN.format('')}", spec="  mpiImplementation: OpenMPI"), False),
    ],
)
def test_settings_hold_where_their_template_or_a_launcher_sets_them(text, holds):
    assert missing(text) is holds


def test_a_worker_that_turns_rdma_off_misses_no_device_whatever_its_leader_sets():
    off = "- {name: NCCL_IB_DISABLE, value: '1'}"
    assert not missing(job("LeaderWorkerSet", f"env:\n{HCA}", f"env:\n{HCA}\n{off}"))
    assert missing(job("LeaderWorkerSet", f"env:\n{HCA}\n{off}", f"env:\n{HCA}"))
