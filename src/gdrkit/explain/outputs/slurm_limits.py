"""Whether a job of Slurm has the locked-memory limit of the shell that submitted it.

Slurm propagates the limits of that shell unless its configuration, or the job, says otherwise:
slurm.conf(5), PropagateResourceLimits.
"""

from __future__ import annotations

from gdrkit.explain.lines.blocks import EVIDENCE
from gdrkit.explain.lines.transcript import TextLine
from gdrkit.formats.regex import regex

_SET = regex(r"\s*PropagateResourceLimits(?P<but>Except)?\s{0,40}=\s{0,40}(?P<names>[\w,()]{1,200})\s*")
"""A line of slurm.conf, or of `scontrol show config`, which prints `(null)` for what is not set."""
_STARTS = regex(r"(?:^|[\s;&|$])(?:srun|sbatch|salloc)\b")
_ENDS = regex(r"(?:srun|slurmstepd(?:-[\w.-]{1,64})?): (?:error|Job|Terminating)\b")
"""What Slurm prints in a job that fails: SchedMD/slurm src/srun/libsrun and src/slurmd/slurmstepd."""


def is_of_submitter(lines: tuple[TextLine, ...]) -> bool:
    """Whether the limit of a job is that of the shell: by the configuration that is shown, else by default,
    where a command starts a job, or Slurm reports its end."""
    shown = [found for line in lines if (found := _SET.fullmatch(line.text)) and found["names"] != "(null)"]
    if not shown:
        starts = [line.text for line in lines if line.kind == "typed" and _STARTS.search(line.text)]
        if starts:
            return not all("--propagate" in text for text in starts)
        return any(line.kind in EVIDENCE and _ENDS.match(line.text) for line in lines)
    names = set(shown[-1]["names"].upper().split(","))
    listed = not names.isdisjoint(("ALL", "MEMLOCK"))
    return listed is not bool(shown[-1]["but"])
