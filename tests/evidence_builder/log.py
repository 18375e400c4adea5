"""A kernel log: messages of the boot, messages of modules as they load, and the node's own lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.evidence_builder.install import Build
from tests.evidence_builder.kernel import version_line


def text(spec: Mapping[str, Any], loaded: list[Build]) -> str:
    """dmesg of this boot, complete from its first line. `spec`: the whole node.

    Source of the wording: init/main.c, security/lockdown/lockdown.c, kernel/module/main.c,
    drivers/infiniband/hw/mlx5/main.c, kernel-open/nvidia/nv.c."""
    kernel, trust = spec["kernel"], spec.get("trust", {})
    lines = [(0.0, version_line(kernel)), (0.0, f"Command line: {kernel['cmdline']}")]
    if kernel.get("arch") == "aarch64":
        lines[1] = (0.0, f"Kernel command line: {kernel['cmdline']}")
    if trust.get("secure_boot") and not trust.get("shim_validation_off"):
        lines.append((0.0, "secureboot: Secure boot enabled"))
        lines.append((0.0, "Kernel is locked down from EFI Secure Boot mode; see man kernel_lockdown.7"))
    elif trust.get("efi", True):
        lines.append((0.0, "secureboot: Secure boot disabled"))
    for key in trust.get("builtin", []):
        lines.append((1.2, f"Loaded X.509 cert '{key}: {spec['key_ids'][key]}'"))
    foreign = [build for build in loaded if not build.folder.startswith("kernel/drivers")]
    clock = 6.0
    for index, build in enumerate(foreign):
        name = build.shape.name
        if index == 0:
            if build.shape.license == "NVIDIA":
                lines.append((clock, f"{name}: module license 'NVIDIA' taints kernel."))
                lines.append((clock, "Disabling lock debugging due to kernel taint"))
            lines.append((clock, f"{name}: loading out-of-tree module taints kernel."))
        if (not build.signer or not build.trusted) and not any("verification failed" in t for _, t in lines):
            message = "module verification failed: signature and/or required key missing - tainting kernel"
            lines.append((clock, f"{name}: {message}"))
        clock += 0.25
    driver = spec.get("driver", {})
    if any(build.shape.name == "nvidia" for build in loaded):
        arch = kernel.get("arch", "x86_64")
        kind = f"Open Kernel Module for {arch}" if driver["flavour"] == "open" else f"{arch} Kernel Module"
        lines.append((clock, f"NVRM: loading NVIDIA UNIX {kind}  {driver['version']}"))
    own = spec.get("log", {}).get("lines", [])
    lines += [(clock + 20 + at, line) for at, line in enumerate(own)]
    return "".join(f"[{seconds:12.6f}] {line}\n" for seconds, line in lines)
