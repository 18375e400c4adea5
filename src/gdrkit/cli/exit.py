"""Exit codes. 0 to 3 are the verdict; 64 and above are those of sysexits.h."""

from __future__ import annotations

OK, WARNING, BLOCKED, UNKNOWN = 0, 1, 2, 3
USAGE, NO_INPUT, INTERNAL, NO_OUTPUT = 64, 66, 70, 74
BUSY, NO_PERMISSION, INTERRUPTED = 75, 77, 130

STYLES = {
    "gdr": {OK: 0, WARNING: 1, BLOCKED: 2, UNKNOWN: 3},
    # Monitoring Plugins guidelines: OK, WARNING, CRITICAL, UNKNOWN
    "nagios": {OK: 0, WARNING: 1, BLOCKED: 2, UNKNOWN: 3},
    # node-problem-detector, custom plugin monitor: 0 OK, 1 NonOK, anything else unknown
    "npd": {OK: 0, WARNING: 0, BLOCKED: 1, UNKNOWN: 2},
    # slurm.conf, Prolog: a nonzero exit code drains the node, which an unknown verdict must not do
    "slurm": {OK: 0, WARNING: 0, BLOCKED: 1, UNKNOWN: 0},
}
"""The exit codes that other programs expect for the same verdict."""
