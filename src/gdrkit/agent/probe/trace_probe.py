"""Follow registrations of memory with RDMA devices, and print lines of JSON as they happen.

The script needs only Python 3.8 and its standard library, and root. It leaves nothing behind: see
`gdrkit.agent.running.trace`. It ends with the process that started it, or after the seconds of its argument.
"""

from __future__ import annotations

import json
import signal
import sys
from typing import Any, Mapping

from ..running.trace import follow, raise_limit


def main() -> int:
    """Follow until the time is over or the reader has gone; returns 0, or 1 if nothing can be followed."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # it removes its probes first
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else float("inf")
    try:
        raise_limit()
        follow(_emit, seconds)
    except BrokenPipeError:
        return 0
    except OSError as error:
        _emit({"error": error.strerror or str(error)})
        return 1
    return 0


def _emit(row: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(row) + "\n")
    sys.stdout.flush()
