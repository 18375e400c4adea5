"""IMEX, with which the hosts of a rack share GPU memory over NVLink."""

from __future__ import annotations

from gdrkit.programs.mnnvl.facts import rack_gpus
from gdrkit.repair.config.output import ConfigOutput, ConfigRefused, OutputLine
from gdrkit.repair.config.request import ConfigRequest, ask
from gdrkit.repair.config.template import filled

FORMS = ("compute-domain", "nodes-config")
NODES_CONFIG = "/etc/nvidia-imex/nodes_config.cfg"


def imex(request: ConfigRequest) -> ConfigOutput | ConfigRefused:
    """A ComputeDomain for Kubernetes, or the list of hosts for the daemon. Refused for a node without
    NVLink to other hosts."""
    if ask(request, rack_gpus) == ():
        return ConfigRefused(
            kind="imex", why="no GPU of this node is in a fabric with other hosts (no-mnnvl)"
        )
    return _nodes(request) if request.form == "nodes-config" else filled("imex", FORMS[0], request)


def _nodes(request: ConfigRequest) -> ConfigOutput | ConfigRefused:
    if not request.hosts:
        return ConfigRefused(
            kind="imex",
            why="no evidence of one node shows the addresses of the others",
            instead="name each host of the rack, this one too: --host 10.0.0.1 --host 10.0.0.2",
        )
    why = "each host of the domain, in the same order everywhere"
    return ConfigOutput(
        kind="imex",
        form="nodes-config",
        title="the hosts of an IMEX domain",
        file=NODES_CONFIG,
        use=f"install as {NODES_CONFIG} on every one of them; systemctl enable --now nvidia-imex; "
        "nvidia-imex-ctl -N shows each as READY",
        lines=tuple(OutputLine(host, why) for host in request.hosts),
        notes=("the daemons need one version, and their ports through the firewall",),
        commentable=False,
    )
