"""Runs commands from argument lists, without a shell."""

from __future__ import annotations

import os
import shlex

from gdrkit.repair.apply.errors import ApplyError
from gdrkit.repair.apply.root_fs import RootFS

_SHOWN_LINES = 5
"""Last lines of a failed command's output that an error quotes."""
_ELSEWHERE = "not run: this is not the running machine"


def run_command(
    root: RootFS, argv: tuple[str, ...], in_root: tuple[str, ...] = (), *, may_fail: bool = False
) -> str:
    """Run a command: `argv` on the running machine, `in_root` on any other tree.

    Returns why it was not run; "" if it ran. Raises ApplyError if it failed and `may_fail` is false.
    """
    if not root.is_machine:
        if not in_root:
            return _ELSEWHERE
        argv = tuple(word.format(root=root.path) for word in in_root)
    code, output = run_captured(argv)
    if code and not may_fail:
        lines = "\n  ".join(output.strip().splitlines()[-_SHOWN_LINES:])
        raise ApplyError(f"{shlex.join(argv)}: exit code {code}" + (f"\n  {lines}" if lines else ""))
    return ""


def run_captured(argv: tuple[str, ...], stdin: bytes = b"") -> tuple[int, str]:
    """Exit code and output of a command; 127 if the command does not exist. No timeout: builds take long."""
    import subprocess

    environment = dict(os.environ, LC_ALL="C", DEBIAN_FRONTEND="noninteractive")
    environment["PATH"] = environment.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin"
    try:
        done = subprocess.run(
            argv, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, check=False
        )
    except OSError as error:
        return 127, f"{argv[0]}: {(error.strerror or str(error)).lower()}"
    return done.returncode, done.stdout.decode("utf-8", "replace")
