"""Every output of `gdr config`, for requests without a node and for nodes of tests/evidence."""

from __future__ import annotations

import functools

from msgspec.structs import replace

from gdrkit.evidence.target import open_host
from gdrkit.facts.machine import Distribution, distribution
from gdrkit.node import Node
from gdrkit.repair.config import KINDS, ConfigKind, ConfigOutput, ConfigRequest, generate
from tests.evidence_nodes import laid_down

NODES = ("acs-redirect", "dgx-a100-proprietary", "volta-proprietary", "gh200", "spark-two-cables",
         "iommu-translating", "talos", "gpu-operator-stub", "h200-vm")  # fmt: skip
PROGRAMS = ("deepep", "mnnvl", "mooncake", "nccl-gin", "nixl", "nvshmem", "ucx")
PARAMETERS = (("nvidia-peermem", "persistent_api_support", "0"), ("nvidia", "NVreg_EnableResizableBar", "1"))


@functools.cache
def node(name: str) -> Node:
    """A node of tests/evidence."""
    return Node(open_host(str(laid_down(name))))


def requests() -> dict[str, ConfigRequest]:
    """Requests without a node, by name."""
    return {
        "plain": ConfigRequest(),
        "dmabuf": ConfigRequest(path="dmabuf"),
        "peermem": ConfigRequest(path="peermem"),
        "peermem-host-ofed": ConfigRequest(path="peermem", ofed="host"),
        "parameters": ConfigRequest(path="peermem", parameters=PARAMETERS),
        "oldest": ConfigRequest(path="peermem", operator_version="v25.3.4", driver_version="580.159.04"),
        "interface": ConfigRequest(path="peermem", interface="eth0"),
    }


def requests_of(kind: str) -> dict[str, ConfigRequest]:
    """Requests that make a difference to one kind only."""
    if kind == "imex":
        return {"rack": ConfigRequest(hosts=("10.0.0.1", "10.0.0.2"))}
    if kind != "program-env":
        return {}
    peermem = ConfigRequest(consumer="mooncake", path="peermem")
    return {"mooncake-peermem": peermem, **{name: ConfigRequest(consumer=name) for name in PROGRAMS}}


def on_platform(kind: ConfigKind, request: ConfigRequest) -> ConfigRequest:
    """The request for a node as it would be with a system of the platform that reads the kind."""
    if request.node is None or not kind.platform:
        return request
    return replace(request, node=_with_system_of(kind.platform, request.node))


@functools.cache
def _with_system_of(platform: str, node: Node) -> Node:
    """One node for all forms, which is judged once."""
    system = "rhel" if platform == "OpenShift" else "talos"
    made = distribution.becomes(Distribution(system, "", (), system, "coreos"))
    return node.after(platform, [made])


def outputs() -> dict[str, ConfigOutput]:
    """The output of each kind in each form for each request, without refusals."""
    found = {}
    every = [(name, request) for name, request in requests().items()]
    every += [(name, ConfigRequest(node=node(name))) for name in NODES]
    for kind in KINDS.values():
        named = [*every, *requests_of(kind.name).items()]
        for form in kind.forms or ("",):
            for name, request in named:
                request = on_platform(kind, request)
                if kind.name == "network-operator" and request.operator_version:
                    name, version = "network-oldest", "v25.7.0"
                else:
                    version = request.operator_version
                options = {**{f: getattr(request, f) for f in request.__struct_fields__}, "form": form,
                        "operator_version": version}  # fmt: skip
                output = generate(kind.name, ConfigRequest(**options))
                if isinstance(output, ConfigOutput):
                    found[f"{kind.name}:{form or 'only'}:{name}"] = output
    return found


OUTPUTS = outputs()
IDS = sorted(
    {
        (*name.split(":")[:2], output.lead, output.lines): name for name, output in reversed(OUTPUTS.items())
    }.values()
)
"""Of outputs with the same lines, only the first."""
NOT_YAML = ("modules-load", "modprobe", "udev", "systemd", "slurm-health")


def is_yaml(name: str) -> bool:
    """Whether an output is YAML, which JSON patches are too."""
    kind, form, _ = name.split(":")
    return kind not in NOT_YAML and form not in (
        "shell",
        "conf",
        "slurm",
        "plugin",
        "docker",
        "nodes-config",
    )


YAML_IDS = [name for name in IDS if is_yaml(name)]


def names_of(kind: str, form: str = "") -> list[str]:
    """The names of the outputs of one kind."""
    return [name for name in IDS if name.startswith(f"{kind}:{form}")]
