"""A limit for the work of one prediction, as a configuration can make modprobe run for ever.

Install lines may call modprobe again, soft dependencies and aliases may name thousands of modules. A real
machine needs some tens of steps; one that needs more than the limit has no answer.
"""

from __future__ import annotations

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason

STEPS_LIMIT = 2000
STEP_BYTES = 1024
"""The length of a command line that counts as one more step."""


class Effort:
    """Counts the names that are looked up, the modules that are loaded and the commands that are run."""

    def __init__(self) -> None:
        self._left = STEPS_LIMIT

    def spend(self, steps: int = 1) -> None:
        """Count steps. Raises EvidenceMissing beyond the limit."""
        self._left -= steps
        if self._left < 0:
            source = f"modprobe.d: install, softdep or alias lines that take more than {STEPS_LIMIT} steps"
            ask = "grep -rE '^(install|softdep|alias)' /etc/modprobe.d /lib/modprobe.d"
            raise EvidenceMissing(Missing(source, MissingReason.UNDECIDED, ask))
