"""Commands that start gdrkit elsewhere: in a Python of its own here, or on a node that ssh reaches.

Neither may run what is not ours: a Python that is started as `python -m` imports from the current folder
first, ssh takes a host that begins with a dash for an option (CVE-2017-1000117 in others), and an empty
entry of PATH is the current folder (POSIX 8.3).
"""

from __future__ import annotations

import os
import re
import sys
from typing import List, Tuple

CONNECT_TIMEOUT_S = 10
"""A machine behind a switch that drops packets never answers."""

_USER, _HOST = r"[\w.][\w.@+-]*", r"[\w.][\w.-]*|\[[\w:.%]+\]|[0-9A-Fa-f]*:[\w:.%]+"
DESTINATION = re.compile(rf"(?:(?P<user>{_USER})@)?(?P<host>{_HOST})", re.ASCII)
"""[user@]host: a name, or an address; no part of it begins with a dash."""

_OPTIONS = (
    *("-a", "-x", "-T"),  # no agent, no X11, no terminal for the node to use
    *("-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT_TIMEOUT_S}", "-o", "ServerAliveInterval=15"),
    *("-o", "ClearAllForwardings=yes", "-o", "PermitLocalCommand=no"),
)
"""ssh_config(5): whatever the user's configuration sets for this host."""

_RUN = """import sys
from importlib import import_module
sys.path.append(sys.argv.pop(1))
sys.exit(import_module(sys.argv.pop(1)).main())
"""


def isolated(module: str) -> List[str]:
    """The words that run main() of a module of gdrkit in another Python.

    -I: neither the current folder nor PYTHON* of the environment counts (python(1))."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return [sys.executable, "-I", "-c", _RUN, os.path.dirname(package), module]


def program_path(name: str) -> str:
    """The path of a program in the absolute folders of PATH. Raises FileNotFoundError."""
    from shutil import which

    path = which(name, path=os.pathsep.join(filter(os.path.isabs, os.get_exec_path())))
    if path is None:
        raise FileNotFoundError(2, "not installed", name)
    return path


def is_destination(text: str) -> bool:
    """Whether a text names a host, and perhaps a user, for ssh."""
    return DESTINATION.fullmatch(text) is not None


def ssh(destination: str, command: str, port: str = "") -> List[str]:
    """The words of ssh that run a shell command on [user@]host. Raises ValueError for what names no host."""
    match = DESTINATION.fullmatch(destination)
    if match is None:
        raise ValueError(f"not a host that ssh can reach: {destination!r}")
    ports: Tuple[str, ...] = ("-p", port) if port else ()
    users: Tuple[str, ...] = ("-l", match["user"]) if match["user"] else ()
    return ["ssh", *_OPTIONS, *ports, *users, "--", match["host"].strip("[]"), command]
