"""Configuration for machines that are set up declaratively: `gdr config KIND`."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from gdrkit.repair.config import (
    boot_files,
    containers,
    declared,
    imex,
    metrics_files,
    nccl_env,
    node_problem,
    operators,
    program_env,
    slurm_health,
)
from gdrkit.repair.config.output import ConfigOutput, ConfigRefused
from gdrkit.repair.config.request import ConfigRequest

__all__ = ["KINDS", "ConfigKind", "ConfigOutput", "ConfigRefused", "ConfigRequest", "generate"]


class ConfigKind(Struct, frozen=True):
    """A kind of configuration, its forms (the first is the default), and the function that writes it."""

    name: str
    title: str
    write: Callable[[ConfigRequest], ConfigOutput | ConfigRefused]
    forms: tuple[str, ...] = ()


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
        ConfigKind("machineconfig", "OpenShift MachineConfig", declared.machineconfig),
        ConfigKind("butane", "the same MachineConfig, as Butane input", declared.butane),
        ConfigKind("talos", "Talos modules, or an image schematic", declared.talos, declared.TALOS_FORMS),
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
            metrics_files.systemd,
            metrics_files.SYSTEMD_FORMS,
        ),
        ConfigKind(
            "alerts",
            "Prometheus alerts on the metrics of gdr export",
            metrics_files.alerts,
            metrics_files.ALERT_FORMS,
        ),
        ConfigKind(
            "slurm-health",
            "Slurm scripts that drain a blocked node",
            slurm_health.slurm_health,
            slurm_health.FORMS,
        ),
        ConfigKind("npd", "plugin for node-problem-detector", node_problem.npd, node_problem.FORMS),
        ConfigKind(
            "daemonset", "DaemonSet that sets a node condition in Kubernetes", node_problem.daemonset
        ),
    )
}
"""Every kind, in the order of the help."""


def generate(name: str, request: ConfigRequest) -> ConfigOutput | ConfigRefused:
    """The configuration of a kind for a request, or why there is none."""
    return KINDS[name].write(request)
