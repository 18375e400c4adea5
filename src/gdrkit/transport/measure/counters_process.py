"""NVML in a separate process: one line requests a field, one line answers.

An earlier version read these fields and more (140 and 141, and all of them with other scopes) in the
process that also moved memory. That process ended with a segmentation fault in most of nine runs on two
H200s (driver 580.159.04). Without NVML it did not, and with only these four fields in a separate process
it never did. The cause is unknown; a crash here costs only a reading.
"""

from __future__ import annotations

import subprocess
import sys
import time

from gdrkit.agent.launch import isolated
from gdrkit.agent.native.nvml import NvmlError, nvml
from gdrkit.agent.pipes import kill_group, receive, send

ANSWER_S = 30.0
"""How long an answer may take. The first starts Python and initialises NVML, which may load a driver."""
_ANSWER_BYTES = 1 << 12
_GONE = "the process that reads NVML has ended"


class NvmlProcess:
    """The process that reads NVML. Close it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            isolated("gdrkit.transport.measure.counters_process"),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        self._gone = ""

    def ask(self, address: str, field: int, scope: int) -> tuple[int | None, str]:
        """The field's value and ""; or None and the reason."""
        assert self._process.stdin and self._process.stdout
        if self._gone:
            return None, self._gone
        deadline = time.monotonic() + ANSWER_S
        question = f"{address} {field} {scope}\n".encode("ascii")
        try:
            send(self._process.stdin, question, deadline)
            answer = receive(self._process.stdout, _ANSWER_BYTES, deadline, until=b"\n")
        except (BrokenPipeError, OverflowError):
            answer = b""
        except TimeoutError:
            self._gone = f"the process that reads NVML did not answer within {ANSWER_S:g} s"
            kill_group(self._process)
            return None, self._gone
        word, _, rest = answer.decode("utf-8", "replace").strip().partition(" ")
        if word == "value":
            return int(rest), ""
        return None, rest or _GONE

    def close(self) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.stdout.close()
        kill_group(self._process)  # it only reads


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
