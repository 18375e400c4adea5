"""NVML in a separate process: one line requests a field, one line answers.

An earlier version read these fields and more (140 and 141, and all of them with other scopes) in the
process that also moved memory. That process ended with a segmentation fault in most of nine runs on two
H200s (driver 580.159.04). Without NVML it did not, and with only these four fields in a separate process
it never did. The cause is unknown; a crash here costs only a reading.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys

from gdrkit.agent.launch import isolated
from gdrkit.agent.native.nvml import NvmlError, nvml

_GONE = "the process that reads NVML has ended"


class NvmlProcess:
    """The process that reads NVML. Close it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            isolated("gdrkit.transport.measure.counters_process"),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def ask(self, address: str, field: int, scope: int) -> tuple[int | None, str]:
        """The field's value and ""; or None and the reason."""
        assert self._process.stdin and self._process.stdout
        try:
            self._process.stdin.write(f"{address} {field} {scope}\n".encode("ascii"))
            self._process.stdin.flush()
        except BrokenPipeError:
            return None, _GONE
        answer = self._process.stdout.readline().decode("utf-8", "replace")
        word, _, rest = answer.strip().partition(" ")
        if word == "value":
            return int(rest), ""
        return None, rest or _GONE

    def close(self) -> None:
        assert self._process.stdin and self._process.stdout
        with contextlib.suppress(BrokenPipeError):  # it ended first
            self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


def main() -> int:
    for line in sys.stdin:
        address, field, scope = line.split()
        try:
            answer = f"value {nvml().field(address, int(field), int(scope))}"
        except NvmlError as error:
            answer = f"error {error}"
        sys.stdout.write(answer.replace("\n", " ") + "\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
