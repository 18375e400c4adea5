"""The kinds of rows in the table of what is collected: files, folders, commands and probes."""

from __future__ import annotations

import re
from typing import NamedTuple, Tuple

KIB, MIB = 1 << 10, 1 << 20


class FileSource(NamedTuple):
    """Files by pattern. If a folder has to be listed to find the matches, the manifest lists its names."""

    pattern: str
    why: str
    limit_bytes: int = 64 * KIB
    reduce: str = ""  # the function in reductions.py that reduces it
    listed: bool = True  # False: try each choice, and record each one that is absent
    addresses: bool = True  # False: --anonymize replaces names only (certificates, keys)
    private: bool = False  # record no other names of these folders: other users, other pods


class FolderSource(NamedTuple):
    """A folder with everything below it; only names if `limit_bytes` is 0."""

    path: str
    why: str
    depth: int = 4
    limit_bytes: int = 64 * KIB
    without: Tuple[str, ...] = ()  # names of folders that are not entered


class CommandSource(NamedTuple):
    """A command. Its output goes where sos puts it: sos_commands/<plugin>/<arguments joined by _>.

    One with <net> among its arguments is run for the network interface of each RDMA device."""

    argv: Tuple[str, ...]
    why: str
    plugin: str = "gdr"  # the plugin of sos that runs the same command
    timeout_s: float = 10.0  # nvidia-smi on 8 GPUs without persistence mode takes up to 5 s
    limit_bytes: int = 4 * MIB
    reduce: str = ""
    addresses: bool = True
    instead_of: str = ""  # run only if that file is missing, or does not start at boot

    @property
    def file(self) -> str:
        """Source: sos report/plugins/__init__.py, _mangle_command()."""
        words = re.sub(r"[^\w\-./]+", "_", " ".join(self.argv)).replace("/", ".").strip(" ._-")
        return f"sos_commands/{self.plugin}/{words}"


class ProbeSource(NamedTuple):
    """A script of gdrkit.agent.probe, run by this Python in a separate process."""

    argv: Tuple[str, ...]  # the command with the same output
    script: str
    file: str
    why: str
    timeout_s: float = 10.0
    asks_driver: bool = True  # False: it asks no more than nvidia-smi, so --no-probe does not leave it out
