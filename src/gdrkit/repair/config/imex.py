"""IMEX, with which the hosts of a rack share GPU memory over NVLink."""

from __future__ import annotations

from gdrkit.programs.mnnvl.facts import rack_gpus
from gdrkit.repair.config.containers import TEMPLATE
from gdrkit.repair.config.output import ConfigOutput, ConfigRefused, OutputLine
from gdrkit.repair.config.request import ConfigRequest, ask
from gdrkit.repair.config.yaml_writer import Field, lines

FORMS = ("compute-domain", "nodes-config")
NODES_CONFIG = "/etc/nvidia-imex/nodes_config.cfg"


def imex(request: ConfigRequest) -> ConfigOutput | ConfigRefused:
    """A ComputeDomain for Kubernetes, or the list of hosts for the daemon. Refused for a node without
    NVLink to other hosts."""
    if ask(request, rack_gpus) == ():
        return ConfigRefused(
            kind="imex", why="no GPU of this node is in a fabric with other hosts (no-mnnvl)"
        )
    return _nodes(request) if request.form == "nodes-config" else _domain(request)


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


def _domain(request: ConfigRequest) -> ConfigOutput:
    del request
    why_nodes = "0: the pods that claim a channel make the domain; older drivers wait for this many hosts"
    channel = Field("channel", (Field("resourceClaimTemplate", (Field("name", TEMPLATE, WHY_NAME),)),))
    return ConfigOutput(
        kind="imex",
        form="compute-domain",
        title="ComputeDomain of NVIDIA's DRA driver: one for each job",
        file="compute-domain.yaml",
        use="kubectl apply -f compute-domain.yaml, in the namespace of the job; its pods claim a channel as "
        "gdr config container --form kubernetes shows",
        lines=lines(
            (
                Field("apiVersion", "resource.nvidia.com/v1beta1"),
                Field("kind", "ComputeDomain"),
                Field("metadata", (Field("name", "gdrkit"),)),
                Field("spec", (Field("numNodes", 0, why_nodes), channel)),
            )
        ),
        notes=(
            "the DRA driver starts the IMEX daemon itself: disable nvidia-imex of the host",
            "all pods of the job must be in one clique: the label nvidia.com/gpu.clique of their nodes",
        ),
    )


WHY_NAME = "the driver makes this template; pods name it to get /dev/nvidia-caps-imex-channels/channel0"
