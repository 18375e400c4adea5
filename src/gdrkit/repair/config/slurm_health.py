"""Scripts that Slurm runs on each node: a HealthCheckProgram, a Prolog and an Epilog.

Only *blocked* counts. Unknown, a wrong argument, and a gdr that is missing, killed or too slow leave the
node as it is: a check that cannot look must not empty a cluster.
"""

from __future__ import annotations

import shlex

from gdrkit.repair.config.output import ConfigOutput, annotated
from gdrkit.repair.config.request import ConfigRequest

FORMS = ("health", "prolog", "epilog")
HEALTH_DEADLINE_S = 30
"""slurmd kills a HealthCheckProgram after 60 s: slurm.conf(5), HealthCheckProgram."""
JOB_DEADLINE_S = 5
"""A Prolog must be quicker than MessageTimeout, 10 s by default: slurm.conf(5), Prolog."""

REASONS = {
    "PATH=": "slurmd starts it with an empty environment",
    "export PATH": "for the programs that it starts",
    "node=": "the name that Slurm knows the node by",
    "code=0": "the exit code of gdr doctor: 2 is blocked, all others are none of that",
    "line=$": "passive: it loads no module, sends nothing, and ends in time",
    'if [ "$code"': "unknown, wrong usage, and a gdr that is missing or killed never drain a node",
    "shown=": "if Slurm does not answer, slurmd logs the error",
    "state=${shown": "such as IDLE+DRAIN",
    "case $node": "to scontrol, ALL is every node, and a name with brackets or commas is a list",
    "case": "a node that is drained or down already keeps its reason",
    "scontrol update": "running jobs go on; an administrator resumes the node",
    '[ -n "${SLURM_JOB_GPUS': "a job without GPUs does not need it",
    "printf": "slurmd logs it",
    "exit 1": "Slurm drains the node",
}


def slurm_health(request: ConfigRequest) -> ConfigOutput:
    """A script of one of the forms."""
    form = request.form or FORMS[0]
    title, use, text = _health(request) if form == "health" else _of_job(request, form)
    return ConfigOutput(
        kind="slurm-health",
        form=form,
        title=title,
        file=f"/etc/slurm/gdrkit-{form}.sh",
        use=use,
        lead="#!/bin/sh",
        lines=annotated(text, REASONS),
        assumed=(request.gdr_assumed,),
        notes=NOTES[form],
    )


NOTES = {
    "health": (
        "slurm.conf names one HealthCheckProgram: if yours is another script, call this one from it",
        "it drains, and never resumes: scontrol update NodeName=... State=RESUME",
    ),
    "prolog": ("the job is requeued and held, unless SchedulerParameters has nohold_on_prolog_fail",),
    "epilog": (),
}


def _judge(request: ConfigRequest, deadline_s: int) -> str:
    return (
        "code=0\n"
        f"line=$({shlex.quote(request.gdr)} doctor --line --deadline {deadline_s} 2>/dev/null) || code=$?\n"
        'if [ "$code" -ne 2 ] || [ -z "$line" ]; then exit 0; fi\n'
    )


def _health(request: ConfigRequest) -> tuple[str, str, str]:
    use = (
        "install as /etc/slurm/gdrkit-health.sh, mode 755, on every node; in slurm.conf "
        "HealthCheckProgram=/etc/slurm/gdrkit-health.sh and HealthCheckInterval=300"
    )
    text = (
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/slurm/bin\n"
        "export PATH\n"
        "node=${SLURMD_NODENAME:-$(hostname -s)}\n"
        'case $node in [Aa][Ll][Ll] | *[!A-Za-z0-9._-]* | "") exit 1 ;; esac\n'
        f"{_judge(request, HEALTH_DEADLINE_S)}"
        'shown=$(scontrol --oneliner show node "$node") || exit 1\n'
        'state=${shown#* State=}\n'
        'state=${state%% *}\n'
        'case $state in *DRAIN* | *DOWN* | *FAIL*) exit 0 ;; esac\n'
        'scontrol update NodeName="$node" State=DRAIN Reason="gdrkit: $line"\n'
    )  # fmt: skip
    return "drain a node on which GPUDirect RDMA is blocked: Slurm's HealthCheckProgram", use, text


def _of_job(request: ConfigRequest, form: str) -> tuple[str, str, str]:
    """A Prolog or an Epilog. Neither may call Slurm's commands: slurm.schedmd.com/prolog_epilog.html; Slurm
    itself drains a node where one fails."""
    name = form.capitalize()
    use = f"install as /etc/slurm/gdrkit-{form}.sh, mode 755, on every node; in slurm.conf {name}=that path"
    text = (
        '[ -n "${SLURM_JOB_GPUS-}" ] || exit 0\n'
        f"{_judge(request, JOB_DEADLINE_S)}"
        "printf 'gdrkit: %s\\n' \"$line\" >&2\n"
        "exit 1\n"
    )
    when = "before a job starts" if form == "prolog" else "after a job has ended"
    return f"drain a node on which GPUDirect RDMA is blocked {when}: Slurm's {name}", use, text
