"""The job that a process belongs to, from its cgroup.

Sources: Slurm src/plugins/cgroup (`job_N/step_M`, also `slurmstepd.scope`); Kubernetes
pkg/kubelet/cm/cgroup_manager_linux.go (`kubepods...pod<uid>`, with `-` as `_` under systemd); a container's
id has 64 hexadecimal digits (OCI runtimes: docker-ID.scope, cri-containerd-ID.scope, crio-ID.scope).
"""

from __future__ import annotations

import re

from msgspec import Struct

from gdrkit.formats.regex import regex

_SLURM = regex(r"/job_(\d{1,12})(?:/step_([\w.+-]{1,32}))?(?=/|$)", re.MULTILINE | re.ASCII)
_POD = regex(r"\bpod([0-9a-f]{8}[-_](?:[0-9a-f]{4}[-_]){3}[0-9a-f]{12})\b", re.ASCII)
_CONTAINER = regex(r"(?:^|[/:-])([0-9a-f]{64})(?:\.scope)?(?=/|$)", re.MULTILINE | re.ASCII)
_UNIT = regex(r"/([\w.@:\\-]{1,100}\.(?:service|scope))(?=/|$)", re.MULTILINE | re.ASCII)

ID_SHOWN = 12
"""Digits of a container's id, as docker ps shows them."""


class Workload(Struct, frozen=True, kw_only=True):
    """What started a process: slurm, pod, container, unit, or "" where the cgroup does not show it."""

    kind: str = ""
    id: str = ""
    step: str = ""  # of a Slurm job
    container: str = ""

    @property
    def label(self) -> str:
        """A short name, such as `slurm 4711.0`."""
        step = f".{self.step}" if self.step else ""
        return f"{self.kind} {self.id}{step}" if self.kind else "no job"


def workload(cgroup: str, environment: dict[str, str]) -> Workload:
    """The workload of a process. Its environment decides only where the cgroup shows no job: Slurm may be
    configured without cgroups (slurm.conf, ProctrackType)."""
    found = _CONTAINER.search(cgroup)
    container = found[1][:ID_SHOWN] if found else ""
    if job := _SLURM.search(cgroup):
        return Workload(kind="slurm", id=job[1], step=job[2] or "", container=container)
    if pod := _POD.search(cgroup):
        return Workload(kind="pod", id=pod[1].replace("_", "-"), container=container)
    number = environment.get("SLURM_JOB_ID", "")
    if number.isascii() and number.isdigit() and len(number) < 13:
        step = environment.get("SLURM_STEP_ID", "")
        return Workload(kind="slurm", id=number, step=step if step.isascii() and step.isdigit() else "")
    if container:
        return Workload(kind="container", id=container, container=container)
    units = _UNIT.findall(cgroup)
    return Workload(kind="unit", id=units[-1]) if units else Workload()
