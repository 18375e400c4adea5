"""Runs commands from argument lists, without a shell, and without the caller's environment."""

from __future__ import annotations

import contextlib
import os
import posixpath
import shlex
import shutil
import time
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from gdrkit.agent.output_file import temporary_folder
from gdrkit.agent.pipes import end_group, receive, send, terminate_group
from gdrkit.repair.apply.errors import ApplyError
from gdrkit.repair.apply.root_fs import RootFS
from gdrkit.repair.platforms.action import Action, Procedure, RunCommand
from gdrkit.repair.platforms.command_shapes import FOLDERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess

SEARCH_PATH = ":".join(FOLDERS)
ENVIRONMENT = {
    "PATH": SEARCH_PATH, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive", "HOME": "/root", "TERM": "dumb",
}  # fmt: skip
"""All that a command sees: LD_PRELOAD, PYTHONPATH or the PATH of another user could run that user's code."""
_SHOWN_LINES = 5
"""Last lines of a failed command's output that an error quotes."""
LIMIT_S = 7200.0
"""How long a command may take. Chosen, not measured: a package manager downloads, and builds modules for
each kernel, but what was stopped or waits for an answer never ends."""
OUTPUT_LIMIT_BYTES = 256 << 20
"""A build of a driver prints a few MB for each kernel."""
ENDING_S = 30.0
"""How long one that is asked to end may take: dpkg finishes the file that it writes."""
TIMED_OUT = 124
"""The exit code of one that took too long, as of timeout(1)."""
_ELSEWHERE = "not run: this is not the running machine"


def find(name: str) -> str | None:
    """The absolute path of a program, whether `name` has a folder or not; None if it is not installed."""
    folder, base = posixpath.split(name)
    return shutil.which(base, path=SEARCH_PATH) if not folder or folder in SEARCH_PATH.split(":") else None


def with_programs(procedure: Procedure) -> Procedure:
    """The same procedure with absolute names of the programs that are installed."""
    return replace(procedure, actions=tuple(map(_with_programs, procedure.actions)))


def _with_programs(action: Action) -> Action:
    if not isinstance(action, RunCommand):
        return action
    undo = tuple(map(_absolute, action.undo))
    return replace(action, argv=_absolute(action.argv), undo=undo, in_root=_absolute(action.in_root))


def _absolute(argv: tuple[str, ...]) -> tuple[str, ...]:
    return (find(argv[0]) or argv[0], *argv[1:]) if argv else argv


def run_command(root: RootFS, action: RunCommand) -> str:
    """Run a command: `argv` on the running machine, `in_root` on any other tree.

    Returns why it was not run; "" if it ran. Raises ApplyError if it failed and may not.
    """
    argv = action.argv if root.is_machine else action.in_root
    if not argv:
        return _ELSEWHERE
    if root.is_machine:
        code, output = run_captured(argv)
    else:
        with _pinned(root, [posixpath.dirname(pattern) for pattern in action.touches]) as base:
            code, output = run_captured(tuple(base if word == "{root}" else word for word in argv))
        output = output.replace(base, root.path)
    if code and not action.may_fail:
        lines = "\n  ".join(output.strip().splitlines()[-_SHOWN_LINES:])
        raise ApplyError(f"{shlex.join(argv)}: exit code {code}" + (f"\n  {lines}" if lines else ""))
    return ""


@contextlib.contextmanager
def _pinned(root: RootFS, folders: Iterable[str]) -> Iterator[str]:
    """A folder that stands for the tree: it has only these folders of it, as links to their descriptors.

    A program follows the links of a path by itself, also out of the tree, and whoever may write to the tree
    can make a folder a link at any moment. kmod looks below /lib or /usr/lib, as it was built. Raises
    ApplyError."""
    import tempfile

    with (
        tempfile.TemporaryDirectory(prefix="gdr-fix-", dir=temporary_folder()) as base,
        contextlib.ExitStack() as opened,
    ):
        os.symlink(".", f"{base}/usr")
        for folder in dict.fromkeys(folders):
            try:
                descriptor = opened.enter_context(root.folder(folder))
            except OSError as error:
                raise ApplyError(
                    f"{root.path}{folder}: {(error.strerror or str(error)).lower()}",
                    "if a link on the way leads out of the tree, replace it by a folder",
                ) from None
            link = base + folder.removeprefix("/usr")
            os.makedirs(posixpath.dirname(link), exist_ok=True)
            os.symlink(f"/proc/{os.getpid()}/fd/{descriptor}", link)
        yield base


def run_captured(argv: tuple[str, ...], stdin: bytes = b"") -> tuple[int, str]:
    """Exit code and output of a command; 127 if it does not exist, 124 if it was ended at a limit.

    What it started in its own session has ended too, whatever ends this call."""
    import subprocess

    program = find(argv[0])
    if program is None:
        return 127, f"{argv[0]}: not found in {SEARCH_PATH}"
    try:
        child = subprocess.Popen(
            (program, *argv[1:]), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=ENVIRONMENT, cwd="/", start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        return 127, f"{argv[0]}: {(error.strerror or str(error)).lower()}"
    try:
        return _finished(child, stdin, time.monotonic() + LIMIT_S)
    except TimeoutError:
        return TIMED_OUT, f"{argv[0]}: ended, since it had taken {LIMIT_S / 60:g} minutes"
    except OverflowError:
        return TIMED_OUT, f"{argv[0]}: ended, since it had printed {OUTPUT_LIMIT_BYTES >> 20} MiB"


def _finished(child: subprocess.Popen[bytes], stdin: bytes, deadline: float) -> tuple[int, str]:
    """The exit code and the output of a command. Raises TimeoutError and OverflowError.

    One that does not end by itself is asked to before it is killed: half a package is worse than none."""
    import subprocess

    assert child.stdin and child.stdout
    try:
        with contextlib.suppress(BrokenPipeError):  # it does not read
            send(child.stdin, stdin, deadline)
        child.stdin.close()
        output = receive(child.stdout, OUTPUT_LIMIT_BYTES, deadline)
        return child.wait(max(0.0, deadline - time.monotonic())), output.decode("utf-8", "replace")
    except subprocess.TimeoutExpired:
        raise TimeoutError from None
    finally:
        if child.poll() is None:
            terminate_group(child)
            end_group(child, ENDING_S)
        child.stdout.close()
