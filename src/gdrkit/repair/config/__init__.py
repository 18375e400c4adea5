"""Configuration for machines that nobody mends by hand: `gdr config KIND`."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from gdrkit.repair.config import boot_files, declared, nccl_env, operators
from gdrkit.repair.config.output import ConfigOutput, ConfigRefused
from gdrkit.repair.config.request import ConfigRequest

__all__ = ["KINDS", "ConfigKind", "ConfigOutput", "ConfigRefused", "ConfigRequest", "generate"]


class ConfigKind(Struct, frozen=True):
    """A kind of configuration: what it is, its forms (the first is the default), and who writes it."""

    name: str
    title: str
    write: Callable[[ConfigRequest], ConfigOutput | ConfigRefused]
    forms: tuple[str, ...] = ()


KINDS = {
    kind.name: kind
    for kind in (
        ConfigKind(
            "modules-load", "nvidia-peermem at each boot, for modules-load.d", boot_files.modules_load
        ),
        ConfigKind("modprobe", "module parameters, for modprobe.d", boot_files.modprobe),
        ConfigKind(
            "gpu-operator",
            "a patch of the GPU Operator's policy",
            operators.gpu_operator,
            operators.GPU_FORMS,
        ),
        ConfigKind("network-operator", "a NicClusterPolicy", operators.network_operator),
        ConfigKind("machineconfig", "an OpenShift MachineConfig", declared.machineconfig),
        ConfigKind("butane", "the same, for butane", declared.butane),
        ConfigKind("talos", "Talos: modules, or an image's schematic", declared.talos, declared.TALOS_FORMS),
        ConfigKind("cloud-init", "user data for cloud-init", declared.cloud_init),
        ConfigKind("nccl-env", "NCCL's environment", nccl_env.nccl_env, nccl_env.FORMS),
        ConfigKind("udev", "ACS between GPUs and NICs, by a udev rule", boot_files.acs_udev),
        ConfigKind("systemd", "ACS between GPUs and NICs, by a systemd unit", boot_files.acs_systemd),
    )
}
"""Every kind, in the order of the help."""


def generate(name: str, request: ConfigRequest) -> ConfigOutput | ConfigRefused:
    """The text of a kind for a request, or why there is none."""
    return KINDS[name].write(request)
