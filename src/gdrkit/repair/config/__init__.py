"""Configuration for machines that are set up declaratively: `gdr config KIND`."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

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
from gdrkit.repair.config.output import ConfigOutput, ConfigRefused
from gdrkit.repair.config.request import ConfigRequest, other_system
from gdrkit.repair.config.template import filled

__all__ = ["KINDS", "ConfigKind", "ConfigOutput", "ConfigRefused", "ConfigRequest", "generate"]


class ConfigKind(Struct, frozen=True):
    """A kind of configuration, its forms (the first is the default), and the function that writes it."""

    name: str
    title: str
    write: Callable[[ConfigRequest], ConfigOutput | ConfigRefused]
    forms: tuple[str, ...] = ()
    platform: str = ""  # the only one that reads it
    systems: frozenset[str] = frozenset()  # of its nodes, as `Distribution.systems`


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
        ConfigKind("modules-load", "load nvidia-peermem at boot (modules-load.d)", boot_files.modules_load),
        ConfigKind("modprobe", "module parameters (modprobe.d)", boot_files.modprobe),
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
        ConfigKind("cloud-init", "user data for cloud-init", declared.cloud_init),
        ConfigKind("nccl-env", "environment variables for NCCL", nccl_env.nccl_env, nccl_env.FORMS),
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
        ),
        ConfigKind("imex", "IMEX domain of a rack, for NVLink between hosts", imex.imex, imex.FORMS),
        ConfigKind(
            "udev", "udev rule that clears ACS redirection between GPUs and NICs", boot_files.acs_udev
        ),
        ConfigKind(
            "systemd",
            "systemd unit that clears ACS redirection, or a service and timer for gdr export",
            _systemd,
            ("acs", "export-service", "export-timer"),
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
        return ConfigRefused(
            kind=name,
            why=f"the node runs {other}, and {kind.platform} does not",
            instead="see what the node needs: gdr fix",
        )
    return kind.write(request)
