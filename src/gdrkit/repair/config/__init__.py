"""Configuration for machines that are set up declaratively: `gdr config KIND`."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from gdrkit.facts.driver_files import has_driver_container
from gdrkit.facts.virtual import scope
from gdrkit.repair.config import (
    boot_files,
    containers,
    declared,
    grafana,
    imex,
    nccl_env,
    operators,
    program_env,
)
from gdrkit.repair.config.output import TARGET, ConfigOutput, ConfigRefused
from gdrkit.repair.config.request import ConfigRequest, ask, other_system
from gdrkit.repair.config.template import filled
from gdrkit.repair.platforms.change import Change
from gdrkit.repair.platforms.immutable_systems import immutable

__all__ = ["KINDS", "ConfigKind", "ConfigOutput", "ConfigRefused", "ConfigRequest", "generate"]


class ConfigKind(Struct, frozen=True):
    """A kind of configuration, its forms (the first is the default), and the function that writes it."""

    name: str
    title: str
    write: Callable[[ConfigRequest], ConfigOutput | ConfigRefused]
    forms: tuple[str, ...] = ()
    platform: str = ""  # the only one that reads it
    systems: frozenset[str] = frozenset()  # of its nodes, as `Distribution.systems`
    of_host: tuple[str, ...] = ()  # forms that are files of a host, or run its Docker; "" if it has no forms


def _systemd(request: ConfigRequest) -> ConfigOutput | ConfigRefused:
    if request.form.startswith("export"):
        return filled("systemd", request.form, request)
    return boot_files.acs_systemd(request)


def _same_for_every_node(name: str, title: str, *forms: str) -> ConfigKind:
    """A kind whose forms are templates; the first is the default."""
    return ConfigKind(name, title, lambda request: filled(name, request.form or forms[0], request), forms)


KINDS = {
    kind.name: kind
    for kind in (
        ConfigKind(
            "modules-load",
            "load nvidia-peermem at boot (modules-load.d)",
            boot_files.modules_load,
            of_host=("",),
        ),
        ConfigKind("modprobe", "module parameters (modprobe.d)", boot_files.modprobe, of_host=("",)),
        ConfigKind(
            "gpu-operator",
            "patch for the GPU Operator's ClusterPolicy",
            operators.gpu_operator,
            operators.GPU_FORMS,
        ),
        ConfigKind(
            "network-operator", "NicClusterPolicy for the Network Operator", operators.network_operator
        ),
        ConfigKind(
            "machineconfig",
            "OpenShift MachineConfig",
            declared.machineconfig,
            platform="OpenShift",
            systems=declared.OPENSHIFT_NODES,
        ),
        ConfigKind(
            "butane",
            "the same MachineConfig, as Butane input",
            declared.butane,
            platform="OpenShift",
            systems=declared.OPENSHIFT_NODES,
        ),
        ConfigKind(
            "talos",
            "Talos modules, or an image schematic",
            declared.talos,
            declared.TALOS_FORMS,
            platform="Talos",
            systems=frozenset(("talos",)),
        ),
        ConfigKind("cloud-init", "user data for cloud-init", declared.cloud_init, of_host=("",)),
        ConfigKind(
            "nccl-env",
            "environment variables for NCCL",
            nccl_env.nccl_env,
            nccl_env.FORMS,
            of_host=("conf",),
        ),
        ConfigKind(
            "program-env",
            "environment variables for NVSHMEM, DeepEP, GIN, MNNVL, UCX, NIXL, Mooncake",
            program_env.program_env,
            program_env.FORMS,
        ),
        ConfigKind(
            "container",
            "devices, capabilities and limits of a container",
            containers.container,
            containers.FORMS,
            of_host=("docker",),
        ),
        ConfigKind(
            "imex",
            "IMEX domain of a rack, for NVLink between hosts",
            imex.imex,
            imex.FORMS,
            of_host=("nodes-config",),
        ),
        ConfigKind(
            "udev",
            "udev rule that clears ACS redirection between GPUs and NICs",
            boot_files.acs_udev,
            of_host=("",),
        ),
        ConfigKind(
            "systemd",
            "systemd unit that clears ACS redirection, or a service and timer for gdr export",
            _systemd,
            ("acs", "export-service", "export-timer"),
            of_host=("acs",),
        ),
        _same_for_every_node(
            "alerts", "Prometheus alerts on the metrics of gdr export", "rules", "prometheusrule"
        ),
        ConfigKind("grafana", "Grafana dashboard of the metrics of gdr export", grafana.grafana),
        _same_for_every_node(
            "slurm-health", "Slurm scripts that drain a blocked node", "health", "prolog", "epilog"
        ),
        _same_for_every_node("npd", "plugin for node-problem-detector", "config", "plugin"),
        _same_for_every_node(
            "daemonset", "DaemonSet that sets a node condition, or logs verdicts", "yaml", "image"
        ),
    )
}
"""Every kind, in the order of the help."""


def generate(name: str, request: ConfigRequest) -> ConfigOutput | ConfigRefused:
    """The configuration of a kind for a request, or why there is none."""
    kind = KINDS[name]
    if kind.platform and (other := other_system(request, kind.systems)):
        why = f"the node runs {other}, and {kind.platform} does not"
        return ConfigRefused(kind=name, why=why, instead=f"see what the node needs: {FIX}")
    return _of_image(kind, request) or _of_container(kind, request) or kind.write(request)


FIX = f"gdr fix {TARGET}"
FOR_PODS = {
    "container": "--form kubernetes",
    "nccl-env": "--form kubernetes",
    "imex": "--form compute-domain",
}
"""What is for jobs, and has a form for pods."""


def _of_image(kind: ConfigKind, request: ConfigRequest) -> ConfigRefused | None:
    """Why a node that boots an image takes no such files, and what it takes in their place."""
    system = None if ask(request, scope) == "container" else ask(request, immutable)
    if system is None:
        return None
    if request.path == "peermem" and (why := system.cannot.get(Change.PEERMEM)) and not kind.platform:
        return ConfigRefused(kind=kind.name, why=f"on {system.title}, {why}", instead="use dma-buf")
    form = request.form or next(iter(kind.forms), "")
    if form not in kind.of_host or kind.name in system.takes:
        return None
    own = "machineconfig" if system.operators else system.name
    written = f"gdr config {own} {TARGET}; " if own in KINDS else ""
    return ConfigRefused(
        kind=kind.name,
        why=f"the node runs {system.title}, which boots an image and does not read such files",
        instead=FOR_PODS.get(kind.name, f"{written}{FIX} says how each change is made there"),
    )


def _of_container(kind: ConfigKind, request: ConfigRequest) -> ConfigRefused | None:
    """Why a node whose driver an operator's container installs takes no files about modules."""
    loads = kind.name == "modules-load" and request.path == "peermem"
    if not (loads or kind.name == "modprobe") or not ask(request, has_driver_container):
        return None
    form = "--path peermem" if loads else "--form configmap"
    return ConfigRefused(
        kind=kind.name,
        why="the driver is in the GPU Operator's container, which does not read such files of the host",
        instead=f"gdr config gpu-operator {form} {TARGET}",
    )
