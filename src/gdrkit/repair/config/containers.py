"""What a container needs for the direct path: devices, locked memory, capabilities."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gdrkit.node import Node
from gdrkit.programs.mnnvl.facts import CHANNELS, rack_gpus
from gdrkit.repair.config.output import ConfigOutput, ConfigRefused, OutputLine
from gdrkit.repair.config.request import ConfigRequest, ask
from gdrkit.repair.config.yaml_writer import Field, Items, Value, lines

FORMS = ("docker", "kubernetes")
GDRDRV = "dev/gdrdrv"
RDMA_CM = "dev/infiniband/rdma_cm"


class Need(Struct, frozen=True, kw_only=True):
    """One thing that a container is given, and why."""

    docker: str  # the option of docker run
    why: str
    variable: tuple[str, str] = ("", "")  # by which NVIDIA's container toolkit gives it
    resource: tuple[str, Value] = ("", "")  # a limit of the pod
    capability: str = ""


RDMA = Need(
    docker="--device=/dev/infiniband",
    why="RDMA devices: sysfs shows those of the host, but opening one needs its device file",
    resource=("rdma/rdma_shared_device_a", 1),
)
LOCKED = Need(
    docker="--ulimit=memlock=-1",
    why="registered memory is locked, and the usual limit is 64 KiB to 8 MiB",
    capability="IPC_LOCK",
)
GDRCOPY = Need(
    docker="--device=/dev/gdrdrv",
    why="GDRCopy, with which programs read short messages; some transports need it",
    variable=("NVIDIA_GDRCOPY", "enabled"),
)
IMEX = Need(
    docker=f"--device=/{CHANNELS}/channel0",
    why="an IMEX channel: without one, NVLink to other hosts cannot be used",
)
"""Sources: docker-run(1); Linux include/uapi/linux/resource.h, MLOCK_LIMIT; k8s-rdma-shared-dev-plugin,
README; NVIDIA/nvidia-container-toolkit internal/config/features.go, NVIDIA_GDRCOPY; NVIDIA IMEX guide."""


def needs(request: ConfigRequest) -> Iterator[Need]:
    """What a container needs on this node: devices that the node does not have are left out."""
    yield RDMA
    yield LOCKED
    if ask(request, lambda node: node.exists(GDRDRV)):
        yield GDRCOPY
    if ask(request, rack_gpus):
        yield IMEX


NO_NODE = "the node has neither GDRCopy nor NVLink to other hosts"


def container(request: ConfigRequest) -> ConfigOutput | ConfigRefused:
    """Options for docker run, or a patch for a pod."""
    found = tuple(needs(request))
    is_docker = (request.form or "docker") == "docker"
    return ConfigOutput(
        kind="container",
        form="docker" if is_docker else "kubernetes",
        title="devices and limits of a container for the direct path",
        file="container-options.sh" if is_docker else "pod-patch.yaml",
        use='source it in bash; docker run "${gdr_options[@]}" IMAGE'
        if is_docker
        else "merge it into the template of the pod; main is the container's name",
        lines=_docker(found) if is_docker else _pod(found),
        assumed=() if request.node is not None else (NO_NODE,),
        notes=tuple(_notes(request, found, is_docker)),
        always_explained=True,
    )


def _docker(found: tuple[Need, ...]) -> tuple[OutputLine, ...]:
    every = (Need(docker="--gpus=all", why="the GPUs, by NVIDIA's container toolkit"), *found)
    options = (OutputLine(f"  {need.docker}", need.why) for need in every)
    return OutputLine("gdr_options=("), *options, OutputLine(")")


CLAIM = "imex-channel"
TEMPLATE = "gdrkit-imex-channel"
WHY_TEMPLATE = "as the ComputeDomain names it: gdr config imex"
IMEX_CLAIM = Field("claims", Items(((Field("name", CLAIM),),)), IMEX.why)


def _pod(found: tuple[Need, ...]) -> tuple[OutputLine, ...]:
    limits = tuple(Field(*need.resource, need.why) for need in found if need.resource[0])
    capabilities = tuple(need for need in found if need.capability)
    variables = tuple(
        (Field("name", need.variable[0], need.why), Field("value", need.variable[1]))
        for need in found
        if need.variable[0]
    )
    claims = (IMEX_CLAIM,) if IMEX in found else ()
    names = Items(tuple(need.capability for need in capabilities))
    add = Field("add", names, "; ".join(need.why for need in capabilities))
    main = [
        Field("name", "main"),
        Field("securityContext", (Field("capabilities", (add,)),)),
        Field("resources", (*claims, Field("limits", limits))),
    ]
    if variables:
        main.append(Field("env", Items(variables)))
    spec = [Field("containers", Items((tuple(main),)))]
    if claims:
        claim = (Field("name", CLAIM, IMEX.why), Field("resourceClaimTemplateName", TEMPLATE, WHY_TEMPLATE))
        spec.append(Field("resourceClaims", Items((claim,))))
    return lines((Field("spec", tuple(spec)),))


def _notes(request: ConfigRequest, found: tuple[Need, ...], is_docker: bool) -> Iterator[str]:
    if ask(request, _has_no_rdma_cm):
        yield f"the node has no /{RDMA_CM}: load rdma_ucm for programs that use RDMA connections by address"
    if is_docker:
        yield "enroot and pyxis give the RDMA devices by MELLANOX_VISIBLE_DEVICES=all in the environment"
    else:
        yield "the name of the resource is that of the device plugin: gdr config network-operator writes it"
        if GDRCOPY in found:
            yield "NVIDIA_GDRCOPY works with NVIDIA's container runtime"
    yield "network interfaces of RoCE must be in the container too: --network=host, or a second network"
    yield (
        "GPU kernels that ring the NIC's doorbell need PeerMappingOverride=1 of the host's driver, or "
        "CAP_SYS_ADMIN here: gdr doctor --consumer nvshmem"
    )


def _has_no_rdma_cm(node: Node) -> bool:
    return not node.exists(RDMA_CM)
