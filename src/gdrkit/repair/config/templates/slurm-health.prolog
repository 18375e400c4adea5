#: title: drain a node on which GPUDirect RDMA is blocked before a job starts: Slurm's Prolog
#: file: /etc/slurm/gdrkit-prolog.sh
#: use: install as /etc/slurm/gdrkit-prolog.sh, mode 755, on every node; in slurm.conf Prolog=that path
#: assumed: gdr is installed as @GDR@ (--gdr sets it)
#: note: the job is requeued and held, unless SchedulerParameters has nohold_on_prolog_fail
#: lead: #!/bin/sh
## Only *blocked* and the codes that were named count. Unknown, a wrong argument, and a gdr that is missing, killed or too slow leave the node
## as it is: a check that cannot look must not empty a cluster.
## A Prolog must be quicker than MessageTimeout, 10 s by default: slurm.conf(5), Prolog. Neither it nor an Epilog
## may call Slurm's commands: slurm.schedmd.com/prolog_epilog.html; Slurm itself drains a node where one fails.
#? a job without GPUs does not need it
[ -n "${SLURM_JOB_GPUS-}" ] || exit 0
#? the exit code of gdr doctor: 2 drains, and any other leaves the node as it is
code=0
#? passive: it loads no module, sends nothing, and ends in time
line=$(@QUOTED_GDR@ doctor --line --deadline 5@ALSO@ 2>/dev/null) || code=$?
#? a gdr that is missing or broken says nothing: that is logged by slurmd, and drains no node
if [ -z "$line" ]; then printf 'gdrkit: gdr doctor failed: exit code %s\n' "$code" >&2; fi
#? unknown and wrong usage never drain a node
if [ "$code" -ne 2 ] || [ -z "$line" ]; then exit 0; fi
#? slurmd logs it
printf 'gdrkit: %s\n' "$line" >&2
#? Slurm drains the node
exit 1
