"""Configuration for machines that nobody mends by hand: `gdr config KIND`. PURE."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from gdrkit.repair.config import boot_files, declared, nccl_env, operators
from gdrkit.repair.config.output import Output, Refused
from gdrkit.repair.config.request import Request

__all__ = ["KINDS", "Kind", "Output", "Refused", "Request", "generate"]


class Kind(Struct, frozen=True):
    """A kind of configuration: what it is, its forms (the first is the default), and who writes it."""

    name: str
    title: str
    write: Callable[[Request], Output | Refused]
    forms: tuple[str, ...] = ()


KINDS = {
    kind.name: kind
    for kind in (
        Kind("modules-load", "nvidia-peermem at each boot, for modules-load.d", boot_files.modules_load),
        Kind("modprobe", "module parameters, for modprobe.d", boot_files.modprobe),
        Kind(
            "gpu-operator",
            "a patch of the GPU Operator's policy",
            operators.gpu_operator,
            operators.GPU_FORMS,
        ),
        Kind("network-operator", "a NicClusterPolicy", operators.network_operator),
        Kind("machineconfig", "an OpenShift MachineConfig", declared.machineconfig),
        Kind("butane", "the same, for butane", declared.butane),
        Kind("talos", "Talos: modules, or an image's schematic", declared.talos, declared.TALOS_FORMS),
        Kind("cloud-init", "user data for cloud-init", declared.cloud_init),
        Kind("nccl-env", "NCCL's environment", nccl_env.nccl_env, nccl_env.FORMS),
        Kind("udev", "ACS between GPUs and NICs, by a udev rule", boot_files.acs_udev),
        Kind("systemd", "ACS between GPUs and NICs, by a systemd unit", boot_files.acs_systemd),
    )
}
"""Every kind, in the order of the help."""


def generate(name: str, request: Request) -> Output | Refused:
    """The text of a kind for a request, or why there is none."""
    return KINDS[name].write(request)
