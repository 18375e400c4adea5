"""Compile NVIDIA's resource-manager structures at each tag of a checkout of the open kernel modules, and
write sizes, offsets and numbers: the independent source for the offsets in `agent/probe/rm_probe.py`.

    python tools/rm_abi.py path/to/open-gpu-kernel-modules [TAG...] > tests/agent/probe/rm_abi.json

Without tags: the oldest and the newest of every branch. The headers are only read; none is stored.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

INCLUDES = (
    "kernel-open/common/inc",
    "src/common/sdk/nvidia/inc",
    "src/nvidia/arch/nvalloc/unix/include",
)

HEADERS = (
    "nv-ioctl.h", "nv_escape.h", "nvos.h", "class/cl0000.h", "class/cl0080.h", "class/cl2080.h",
    "class/cl503c.h", "ctrl/ctrl0000/ctrl0000gpu.h",
)  # fmt: skip

NUMBERS = (
    "NV_IOCTL_MAGIC", "NV_ESC_CARD_INFO", "NV_ESC_REGISTER_FD", "NV_ESC_RM_FREE", "NV_ESC_RM_CONTROL",
    "NV_ESC_RM_ALLOC", "NV01_ROOT_CLIENT", "NV01_DEVICE_0", "NV20_SUBDEVICE_0", "NV50_THIRD_PARTY_P2P",
    "NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2",
    "NV503C_ALLOC_PARAMETERS_FLAGS_TYPE_PROPRIETARY", "NV503C_ALLOC_PARAMETERS_FLAGS_TYPE_BAR1",
    "NV503C_ALLOC_PARAMETERS_FLAGS_TYPE_NVLINK",
)  # fmt: skip

FIELDS = {
    "nv_ioctl_card_info_t": (
        "valid", "pci_info.domain", "pci_info.bus", "pci_info.slot", "pci_info.function", "gpu_id",
        "fb_size", "minor_number",
    ),
    "nv_ioctl_register_fd_t": ("ctl_fd",),
    "NVOS00_PARAMETERS": ("hRoot", "hObjectParent", "hObjectOld", "status"),
    "NVOS21_PARAMETERS": ("hRoot", "hObjectParent", "hObjectNew", "hClass", "pAllocParms", "status"),
    "NVOS54_PARAMETERS": ("hClient", "hObject", "cmd", "flags", "params", "paramsSize", "status"),
    "NV0080_ALLOC_PARAMETERS": ("deviceId", "hClientShare", "vaMode"),
    "NV2080_ALLOC_PARAMETERS": ("subDeviceId",),
    "NV503C_ALLOC_PARAMETERS": ("flags",),
    "NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS": ("gpuId", "deviceInstance", "subDeviceInstance"),
}  # fmt: skip


def main(words: list[str]) -> int:
    checkout, tags = words[0], words[1:] or branches(words[0])
    layouts = {tag: layout(checkout, tag) for tag in tags}
    json.dump({"tags": tags, "runs": runs(layouts)}, sys.stdout, indent=1)
    sys.stdout.write("\n")
    return 0


def branches(checkout: str) -> list[str]:
    """The oldest and the newest tag of every branch, by number."""
    found: dict[int, list[tuple[int, ...]]] = {}
    for tag in git(checkout, "tag").decode().split():
        if re.fullmatch(r"\d+(\.\d+)+", tag):
            number = tuple(map(int, tag.split(".")))
            found.setdefault(number[0], []).append(number)
    ends = [end for _, tags in sorted(found.items()) for end in dict.fromkeys((min(tags), max(tags)))]
    return [f"{end[0]}." + ".".join(f"{part:02}" for part in end[1:]) for end in ends]


def layout(checkout: str, tag: str) -> dict[str, int]:
    """Every size, offset and number at one tag, as the compiler computes them."""
    with tempfile.TemporaryDirectory() as folder:
        archive = git(checkout, "archive", tag, *INCLUDES)
        subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
        source, program = Path(folder, "abi.c"), Path(folder, "abi")
        source.write_text(program_text())
        includes = [f"-I{folder}/{path}" for path in INCLUDES]
        # NV_UNIX as the module's own Kbuild defines it
        subprocess.run(
            ["cc", "-w", "-DNV_UNIX", "-DNVCPU_X86_64", *includes, "-o", program, source], check=True
        )
        printed = subprocess.run([program], capture_output=True, check=True, text=True).stdout
    return {name: int(value) for name, value in (line.split() for line in printed.splitlines())}


def program_text() -> str:
    lines = ["#include <stdio.h>", "#include <stddef.h>", *(f"#include <{header}>" for header in HEADERS)]
    lines.append("int main(void) {")
    for number in NUMBERS:
        lines += [f"#ifdef {number}", f'printf("{number} %lld\\n", (long long)({number}));', "#endif"]
    for struct, fields in FIELDS.items():
        lines.append(f'printf("{struct} %zu\\n", sizeof({struct}));')
        lines += [f'printf("{struct}.{f} %zu\\n", offsetof({struct}, {f}));' for f in fields]
    return "\n".join([*lines, "return 0; }", ""])


def runs(layouts: dict[str, dict[str, int]]) -> list[dict[str, object]]:
    """Ranges of consecutive tags with equal numbers."""
    found: list[dict[str, object]] = []
    for tag, numbers in layouts.items():
        if found and found[-1]["numbers"] == numbers:
            found[-1]["until"] = tag
        else:
            found.append({"since": tag, "until": tag, "numbers": numbers})
    return found


def git(checkout: str, *words: str) -> bytes:
    return subprocess.run(["git", "-C", checkout, *words], capture_output=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
