"""Messages of the containers that NVIDIA's GPU Operator and Network Operator run on a node."""

from __future__ import annotations

from gdrkit.messages.message import MessageTemplate

_SCRIPT = "gpu-driver-container ubuntu24.04/nvidia-driver"
_RELOAD = f"{_SCRIPT}, reload_nvidia_peermem()"

ROWS = (
    MessageTemplate(
        "gpu-operator",
        "failed to load nvidia-peermem module",
        ("operator-stub", "operator-ofed-changed", "module-unsigned", "module-unknown-key"),
        source=_RELOAD,
        module="nvidia_peermem",
        open_end=True,
    ),
    MessageTemplate(
        "gpu-operator",
        "nvidia-peermem module is not loaded",
        ("operator-stub", "operator-ofed-changed", "operator-module-missing", "operator-waits-for-ofed"),
        source=f"{_SCRIPT}, probe_nvidia_peermem()",
        module="nvidia_peermem",
        open_end=True,
    ),
    MessageTemplate(
        "gpu-operator",
        "waiting for mellanox ofed and nvidia drivers to be installed",
        ("operator-waits-for-ofed",),
        source=f"{_RELOAD}; every node prints it for a while as it starts",
        decides=False,
        open_end=True,
    ),
    MessageTemplate(
        "gpu-operator",
        "{what:nvidia-peermem driver is not ready|error validating nvidia-peermem driver installation}",
        ("operator-stub", "operator-ofed-changed", "operator-module-missing", "operator-waits-for-ofed"),
        source="NVIDIA/gpu-operator cmd/nvidia-validator/main.go",
        module="nvidia_peermem",
        open_end=True,
        sample="nvidia-peermem driver is not ready",
    ),
    MessageTemplate(
        "gpu-operator",
        "error validating MOFED driver installation",
        ("operator-waits-for-ofed",),
        source="NVIDIA/gpu-operator cmd/nvidia-validator/main.go: until /run/mellanox/drivers is ready",
        decides=False,
        open_end=True,
    ),
    MessageTemplate(
        "network-operator",
        "Module nvidia_peermem is used and will FAIL driver reload",
        ("peermem-blocks-ofed",),
        source="Mellanox/doca-driver-build entrypoint.sh, unload_blocking_modules()",
        open_end=True,
    ),
)
