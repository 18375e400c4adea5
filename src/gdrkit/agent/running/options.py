"""The options of the probe: what it leaves out, and what it looks at only if asked to."""

FEW_PAIRS = "--few-pairs"
"""Leave out queue pairs if they are many: to list one is a firmware command."""
PROGRAMS = "--programs"
"""Tell only which libraries processes map: no rates, so that nothing is waited for."""
RAS = "--ras"
"""Ask NCCL: that starts a collective of all processes of the job."""
RAS_DIAGNOSTICS = "--ras-diagnostics"
"""Ask NCCL for its diagnostics too, which takes each process of the job some seconds."""
RAS_DIAGNOSTICS_S = 25.0
"""How long they are waited for: up to 11 s of lspci, dmesg and rdma_topo in each process, each with 2 s to
be stopped, and 10 s of the collective. Source: NCCL src/ras/diagnostics_pci.cc, ras_internal.h."""
