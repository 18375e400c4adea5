"""Commands, as a list of words and without a shell."""

from __future__ import annotations

import os
import shlex

from gdrkit.repair.apply.errors import ApplyError
from gdrkit.repair.apply.root_fs import RootFS

_SHOWN_LINES = 5
"""How much of a failed command's complaint is told."""
_ELSEWHERE = "not run: this is not the running machine"


def run_command(
    place: RootFS, argv: tuple[str, ...], in_root: tuple[str, ...] = (), *, may_fail: bool = False
) -> str:
    """Run a command, on the machine or, where it has a form for that, in a tree.

    Returns what was left out, and why; "" if it ran. Raises ApplyError if it failed.
    """
    if not place.is_machine:
        if not in_root:
            return _ELSEWHERE
        argv = tuple(word.format(root=place.root) for word in in_root)
    code, said = called(argv)
    if code and not may_fail:
        lines = "\n  ".join(said.strip().splitlines()[-_SHOWN_LINES:])
        raise ApplyError(f"{shlex.join(argv)}: exit code {code}" + (f"\n  {lines}" if lines else ""))
    return ""


def called(argv: tuple[str, ...], stdin: bytes = b"") -> tuple[int, str]:
    """Exit code and all that a command says; 127 where there is no such command. It waits as long as it
    takes: a build takes minutes."""
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
