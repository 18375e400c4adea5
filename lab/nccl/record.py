"""Reduces the output of on_gpus.py to what the model is compared with, the test's fixture.

`python -m lab.nccl.record JUDGE.json.xz FIXTURE.json.xz`. Kept for each job: seed or name, mode,
environment, the topology that NCCL dumped, and the lines with paths, pairs and network channels of each
rank's log. Names of hosts and their hashes are removed.
"""

from __future__ import annotations

import json
import lzma
import re
import sys
from pathlib import Path

from lab.nccl.generate import case
from lab.nccl.judge import Job
from lab.nccl.on_gpus import PLAIN_JOBS, shape_of

_KEPT = re.compile(r"^(GPU|NET)/\S+ :|GPU Direct RDMA (Enabled|Disabled) for GPU|\] via NET/")


def reduce(content: bytes) -> dict[str, object]:
    """The fixture: addresses, interfaces, version and jobs."""
    whole = json.loads(lzma.decompress(content))
    gpus, nets = whole["gpus"], whole["nets"]
    jobs = []
    for job in sorted(whole["jobs"], key=lambda job: (job["name"].isdigit(), job["name"])):
        name = job["name"]
        seeded = name.isdigit()
        made = case(int(name), shape_of(gpus, nets, int(name))) if seeded else None
        environment = made.environment if made else PLAIN_JOBS[name][1]
        ranks = [list(dict.fromkeys(line for line in lines if _KEPT.search(line))) for lines in job["logs"]]
        xml = re.sub(r' host_hash="[^"]*"', "", job["dump.xml"])
        jobs.append(Job(name, job["mode"], environment, xml, ranks)._asdict())
    versions = {
        match[1] for job in whole["jobs"] for lines in job["logs"] for line in lines
        if (match := re.search(r"NCCL version ([\d.]+)", line))
    }  # fmt: skip
    return {"version": versions.pop(), "gpus": gpus, "nets": nets, "jobs": jobs}


def jobs_in(content: bytes) -> tuple[str, list[Job]]:
    """The version and the jobs of a fixture."""
    fixture = json.loads(lzma.decompress(content))
    return fixture["version"], [Job(**job) for job in fixture["jobs"]]


def main() -> None:
    source, target = map(Path, sys.argv[1:])
    text = json.dumps(reduce(source.read_bytes()))
    target.write_bytes(lzma.compress(text.encode(), preset=9))


if __name__ == "__main__":
    main()
