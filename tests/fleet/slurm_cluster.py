"""A Slurm cluster on this machine: munged, slurmctld and a slurmd for each node, on loopback."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.fleet.daemons import ADDRESS, Daemons, free_port, services, user

NODES = ("d1", "d2", "d3", "d4", "d5")
needs_slurm = services("munged", "slurmctld", "slurmd", "srun")
CONFIG = """ClusterName=gdr
SlurmctldHost={host}({address})
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
MailProg=/bin/true
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=2
SchedulerParameters=sched_min_interval=0
"""
"""slurm.conf(5). Jobs of one user share the cores of a node, of which this has more than the machine."""


class Cluster:
    """A running cluster."""

    def __init__(self, daemons: Daemons) -> None:
        self.daemons, self.config = daemons, daemons.folder / "slurm.conf"
        self.environment: Mapping[str, str] = {**os.environ, "SLURM_CONF": str(self.config)}

    def start_node(self, node: str) -> None:
        # The path is absolute: with a relative one slurmctld ends after a minute.
        self.daemons.start(node, "slurmd", "-D", "-N", node, "-f", self.config)

    def run(self, *words: str) -> str:
        """What a program of Slurm prints."""
        return subprocess.run(
            words, env=self.environment, capture_output=True, text=True, timeout=60, check=False
        ).stdout

    def steps(self) -> list[str]:
        """The nodes of the job steps that run."""
        return self.run("squeue", "--steps", "--noheader", "--format=%N").split()


@contextmanager
def cluster(nodes: Sequence[str] = NODES) -> Iterator[Cluster]:
    """A cluster with two partitions: all nodes, and `h100` with the last one."""
    with tempfile.TemporaryDirectory(prefix="gdr-slurm-") as name, Daemons(Path(name)) as daemons:
        folder = daemons.folder
        key = folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        daemons.start(
            "munged", "munged", "--foreground", "--force", f"--key-file={key}",
            *(f"--{what}={folder}/munge.{end}" for what, end in (
                ("socket", "socket"), ("pid-file", "pid"), ("log-file", "log"), ("seed-file", "seed"))),
        )  # fmt: skip
        host = socket.gethostname()
        config = CONFIG.format(host=host, address=ADDRESS, port=free_port(), user=user(), folder=folder)
        for node in nodes:
            (folder / node).mkdir()
            config += f"NodeName={node} NodeHostname={host} NodeAddr={ADDRESS} Port={free_port()} CPUs=8\n"
        config += (
            f"PartitionName=all Nodes={','.join(nodes)} Default=YES\nPartitionName=h100 Nodes={nodes[-1]}\n"
        )
        (folder / "slurm.conf").write_text(config)
        (folder / "state").mkdir()
        daemons.until((folder / "munge.socket").exists)
        running = Cluster(daemons)
        daemons.start("slurmctld", "slurmctld", "-D", "-c", "-f", running.config)
        for node in nodes:
            running.start_node(node)
        daemons.until(
            lambda: set(running.run("sinfo", "--noheader", "--Node", "--format=%T").split()) == {"idle"}
        )
        yield running
        running.run("scancel", f"--user={user()}")
        daemons.until(lambda: not running.steps())
