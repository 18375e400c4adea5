"""The programs through which a cluster is asked: kubectl, and those of Slurm."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from gdrkit.agent.launch import program_path
from gdrkit.agent.output_file import temporary_file
from gdrkit.agent.pipes import output_of
from gdrkit.evidence.errors import TargetError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess

OUTPUT_LIMIT_BYTES = 512 << 20
"""What a program may print: a node of Kubernetes has up to 50 KB, most of it names of images."""
ERRORS_LIMIT_BYTES = 4 << 20


def call(
    words: Sequence[str],
    called: str,
    limit_s: float,
    *,
    given: bytes = b"",
    started: Callable[[subprocess.Popen[bytes]], None] = lambda child: None,
) -> tuple[int, bytes, str]:
    """The exit code, the output and the errors of a program, which gets `given` on its standard input.

    `called` is its name in a TargetError, which is raised if it does not start, does not end or prints too
    much. Raises FileNotFoundError."""
    import subprocess

    with temporary_file() as source, temporary_file() as errors:
        source.write(given)
        source.seek(0)
        command = [program_path(words[0]), *words[1:]]
        try:
            child = subprocess.Popen(
                command, stdin=source, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
            )
        except OSError as error:
            raise TargetError(f"{called} cannot be started: {error.strerror}") from None
        started(child)
        try:
            code, output = output_of(child, OUTPUT_LIMIT_BYTES, time.monotonic() + limit_s)
        except TimeoutError:
            raise TargetError(f"{called} did not end within {limit_s:g} s") from None
        except OverflowError:
            raise TargetError(f"{called} printed more than {OUTPUT_LIMIT_BYTES >> 20} MiB") from None
        errors.seek(0)
        return code, output, errors.read(ERRORS_LIMIT_BYTES).decode("utf-8", "replace")


def last_line(text: str) -> str:
    """The last line that a program printed, as the reason why it failed; "" if it printed nothing."""
    lines = text.strip().splitlines()
    return lines[-1].strip() if lines else ""
