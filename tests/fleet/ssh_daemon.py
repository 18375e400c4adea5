"""An OpenSSH server on loopback, with keys, configuration and known hosts of its own."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.fleet.daemons import Daemons, free_port, services, user
from tests.system_programs import program

needs_sshd = services("sshd", "ssh", "ssh-keygen")
SERVER = """Port {port}
ListenAddress 127.0.0.1
ListenAddress ::1
HostKey {folder}/host
PidFile none
AuthorizedKeysFile {folder}/user.pub
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
MaxStartups 200
MaxSessions 200
LogLevel ERROR
AcceptEnv GDR_NODE
ForceCommand {folder}/as-node
"""
CLIENT = """Host *
  Port {port}
  User {user}
  IdentityFile {folder}/user
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known_hosts
  GlobalKnownHostsFile none
  HostName 127.0.0.1
  HostKeyAlias node
"""
AS_NODE = """#!/bin/sh
if [ -d {folder}/nodes/"$GDR_NODE"/bin ]; then PATH={folder}/nodes/$GDR_NODE/bin; fi
HOME={folder}/nodes/$GDR_NODE SHLVL=0 exec /bin/bash -c "$SSH_ORIGINAL_COMMAND"
"""
"""What sshd does for a user whose shell is bash: a node has its own home and its own programs."""
PROGRAM = """#!/bin/sh
exec {ssh} -F {folder}/config "$@"
"""
"""ssh itself; only its configuration is another one than the user's, which no variable names."""


class Server:
    """A running server, and the folder whose `bin/ssh` reaches it."""

    def __init__(self, daemons: Daemons, port: int) -> None:
        self.daemons, self.folder, self.port = daemons, daemons.folder, port
        self.environment: Mapping[str, str] = {
            **os.environ,
            "PATH": f"{self.folder}/bin:{os.environ['PATH']}",
        }

    def node(self, name: str, programs: Mapping[str, str] | None = None) -> Path:
        """The home of a node. With `programs`, shell scripts, nothing else is installed on it."""
        home = self.folder / "nodes" / name
        home.mkdir(parents=True)
        for called, script in (programs or {}).items():
            (home / "bin").mkdir(exist_ok=True)
            (home / "bin" / called).write_text(f"#!/bin/sh\n{script}\n")
            (home / "bin" / called).chmod(0o755)
        return home

    def configure(self, hosts: Mapping[str, str]) -> None:
        """The client's entries for hosts, before those for all: ssh_config(5) takes the first value."""
        special = [
            f"Host {name}\n  SetEnv GDR_NODE={name.replace(':', '-')}\n{lines}"
            for name, lines in hosts.items()
        ]
        general = CLIENT.format(port=self.port, user=user(), folder=self.folder)
        (self.folder / "config").write_text("\n".join((*special, general)))


@contextmanager
def server() -> Iterator[Server]:
    """A server that knows one key of the user, and a client for which every name is this server."""
    with tempfile.TemporaryDirectory(prefix="gdr-sshd-") as name, Daemons(Path(name)) as daemons:
        folder, port = daemons.folder, free_port()
        for key in ("host", "user"):
            subprocess.run(
                [program("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True
            )
        (folder / "server.conf").write_text(SERVER.format(port=port, folder=folder))
        public = " ".join((folder / "host.pub").read_text().split()[:2])
        (folder / "known_hosts").write_text(f"node {public}\n")
        (folder / "bin").mkdir()
        _script(folder / "bin/ssh", PROGRAM.format(ssh=program("ssh"), folder=folder))
        _script(folder / "as-node", AS_NODE.format(folder=folder))
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # sshd(8): its empty folder
        running = Server(daemons, port)
        running.configure({})
        # sshd starts itself again for each connection: the path is absolute.
        daemons.start("sshd", program("sshd"), "-D", "-e", "-f", folder / "server.conf")
        probe = ["ssh", "node", "-o", "BatchMode=yes", "true"]
        daemons.until(
            lambda: (
                subprocess.run(probe, env=running.environment, capture_output=True, check=False).returncode
                == 0
            )
        )
        yield running


def _script(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)
