"""The options of the probe: what it leaves out, and what it looks at only if asked to."""

FEW_PAIRS = "--few-pairs"
"""Leave out queue pairs if they are many: to list one is a firmware command."""
PROGRAMS = "--programs"
"""Tell only which libraries processes map: no rates, so that nothing is waited for."""
RAS = "--ras"
"""Ask NCCL: that starts a collective of all processes of the job."""
