"""The files and output of a loaded NVIDIA driver: /proc/driver/nvidia, device nodes, nvidia-smi.

Formats: kernel-open/nvidia/nv-procfs.c; names of parameters and text of `nvidia-smi -q` as on two H200s
with 580.159.04, shortened to the fields about GPUDirect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.evidence_builder.modules import number
from tests.evidence_builder.pci import Device, link_of
from tests.evidence_builder.tree import Tree

PARAMETERS = {
    "ResmanDebugLevel": "4294967295",
    "RmLogonRC": "1",
    "ModifyDeviceFiles": "1",
    "DeviceFileUID": "0",
    "DeviceFileGID": "0",
    "DeviceFileMode": "438",
    "InitializeSystemMemoryAllocations": "1",
    "UsePageAttributeTable": "4294967295",
    "EnableMSI": "1",
    "EnablePCIeGen3": "0",
    "EnableStreamMemOPs": "0",
    "NvLinkDisable": "0",
    "PreserveVideoMemoryAllocations": "0",
    "DynamicPowerManagement": "3",
    "RegisterPCIDriver": "1",
    "EnablePCIERelaxedOrderingMode": "0",
    "EnableResizableBar": "0",
    "EnableGpuFirmware": "18",
    "OpenRmEnableUnsupportedGpus": "1",
    "DmaRemapPeerMmio": "1",
    "GrdmaPciTopoCheckOverride": "0",
    "CoherentGPUMemoryMode": '""',
    "RegistryDwords": '""',
    "RmMsg": '""',
}
SINCE = {
    "GrdmaPciTopoCheckOverride": (570,),
    "CoherentGPUMemoryMode": (580,),
    "EnableResizableBar": (530, 30, 2),
}
GENERATION = {"2.5": 1, "5.0": 2, "8.0": 3, "16.0": 4, "32.0": 5}


def gpus(devices: tuple[Device, ...]) -> list[Device]:
    """The NVIDIA GPUs among a node's devices."""
    return [d for d in devices if d.ids[0] == 0x10DE and d.part.class_code >> 16 == 3]


def write(tree: Tree, devices: tuple[Device, ...], spec: Mapping[str, Any]) -> None:
    """Write the files of a loaded driver. `spec`: the node's [driver] with `arch`."""
    version, arch = spec["version"], spec["arch"]
    kind = (
        "NVIDIA UNIX Open Kernel Module for " + arch
        if spec["flavour"] == "open"
        else f"NVIDIA UNIX {arch} Kernel Module"
    )
    builder = spec.get("builder", "(dvs-builder@U22-I3-AE18-23-3)")
    built = spec.get("built", "Wed Jan  7 22:33:56 UTC 2026")
    tree.file(
        "proc/driver/nvidia/version",
        f"NVRM version: {kind}  {version}  Release Build  {builder}  {built}\n"
        f"GCC version:  {spec.get('gcc', 'gcc version 13.3.0 (Ubuntu 13.3.0-6ubuntu2~24.04)')}\n",
    )
    parameters = {
        name: value for name, value in PARAMETERS.items() if number(version) >= SINCE.get(name, (0,))
    } | spec.get("parameters", {})
    tree.file(
        "proc/driver/nvidia/params", "".join(f"{name}: {value}\n" for name, value in parameters.items())
    )
    tree.file("proc/driver/nvidia/registry", 'Binary: ""\n')
    tree.folder("proc/driver/nvidia/capabilities")
    for name in ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"):
        tree.file(f"dev/{name}", "")
    for minor, gpu in enumerate(gpus(devices)):
        if gpu.attributes.get("driver", "nvidia") != "nvidia":
            continue
        tree.file(f"dev/nvidia{minor}", "")
        tree.file(f"proc/driver/nvidia/gpus/{gpu.address}/information", _information(gpu, minor, version))
    if spec.get("smi", True):
        tree.file("sos_commands/nvidia/nvidia-smi_-q", smi(devices, spec))


def product(gpu: Device) -> str:
    """The marketing name of a GPU."""
    return gpu.part.name


def _information(gpu: Device, minor: int, version: str) -> str:
    rows = {
        "Model:": product(gpu),
        "IRQ:": str(40 + minor),
        "GPU UUID:": f"GPU-00000000-0000-0000-0000-{minor:012d}",
        "Video BIOS:": "??.??.??.??.??",
        "Bus Type:": "PCIe",
        "DMA Size:": "52 bits",
        "DMA Mask:": "0xfffffffffffff",
        "Bus Location:": gpu.address,
        "Device Minor:": str(minor),
        "GPU Firmware:": version,
        "GPU Excluded:": "No",
    }
    return "".join(f"{name:<12}\t {value}\n" for name, value in rows.items())


def smi(devices: tuple[Device, ...], spec: Mapping[str, Any]) -> str:
    """The output of `nvidia-smi -q`, with its fields in order."""
    found = gpus(devices)
    lines = ["", "==============NVSMI LOG==============", ""]
    lines += [
        f"{name:<55}: {value}"
        for name, value in (
            ("Timestamp", "Fri Nov 20 16:02:10 2026"),
            ("Driver Version", spec["version"]),
            ("CUDA Version", spec.get("cuda", "13.0")),
        )
    ]
    lines += ["", f"{'Attached GPUs':<55}: {len(found)}"]
    for minor, gpu in enumerate(found):
        lines += _smi_gpu(gpu, minor, spec) if gpu.attributes.get("answers") != "no" else [_lost(gpu)]
    return "\n".join(lines) + "\n"


def _lost(gpu: Device) -> str:
    """What is printed in place of a GPU that does not answer, as public reports of Xid 79 have it."""
    return (
        f"Unable to determine the device handle for GPU {gpu.address.upper()}: GPU is lost.  Reboot the "
        "system to recover this GPU"
    )


def _smi_gpu(gpu: Device, minor: int, spec: Mapping[str, Any]) -> list[str]:
    domain, bus, rest = gpu.address.split(":")
    link = link_of(gpu)
    vendor, device, subvendor, subdevice = gpu.ids
    aperture = max((mib for index, mib, _ in gpu.part.bars if index in (1, 2)), default=0)
    name = product(gpu)
    says = spec.get("smi_fields", {})
    memory = says.get("memory", "81559 MiB")
    brand = "GeForce" if "GeForce" in name else "NVIDIA"
    mig = says.get("mig", "N/A" if brand == "GeForce" else "Disabled")
    conf = says.get("confidential_compute", "N/A" if memory == "N/A" else "0 MiB")
    fields: list[tuple[int, str, str]] = [
        (4, "Product Name", name),
        (4, "Product Brand", says.get("brand", brand)),
        (4, "Persistence Mode", "Enabled"),
        (4, "Addressing Mode", says.get("addressing", "None")),
        (4, "MIG Mode", ""),
        (8, "Current", mig),
        (8, "Pending", mig),
        (4, "Minor Number", str(minor)),
        (4, "GPU C2C Mode", says.get("c2c", "Disabled")),
        (4, "GPU Virtualization Mode", ""),
        (8, "Virtualization Mode", says.get("virtualization", "None")),
        (8, "Host VGPU Mode", "N/A"),
        (4, "GSP Firmware Version", spec["version"]),
        (4, "PCI", ""),
        (8, "Bus", f"0x{bus.upper()}"),
        (8, "Device", f"0x{rest.split('.')[0].upper()}"),
        (8, "Domain", f"0x{domain.upper()}"),
        (8, "Device Id", f"0x{device:04X}{vendor:04X}"),
        (8, "Bus Id", f"{domain.upper():>08}:{bus.upper()}:{rest.upper()}"),
        (8, "Sub System Id", f"0x{subdevice:04X}{subvendor:04X}"),
        (8, "GPU Link Info", ""),
        (12, "PCIe Generation", ""),
        (16, "Max", str(GENERATION[link.max_speed]) if link else "N/A"),
        (16, "Current", str(GENERATION[link.current_speed]) if link else "N/A"),
        (12, "Link Width", ""),
        (16, "Max", f"{link.max_width}x" if link else "N/A"),
        (16, "Current", f"{link.current_width}x" if link else "N/A"),
        (4, "FB Memory Usage", ""),
        (8, "Total", memory),
        (8, "Used", "N/A" if memory == "N/A" else "0 MiB"),
        (4, "BAR1 Memory Usage", ""),
        (8, "Total", f"{aperture} MiB" if aperture else "N/A"),
        (8, "Used", "1 MiB" if aperture else "N/A"),
        (8, "Free", f"{aperture - 1} MiB" if aperture else "N/A"),
        (4, "Conf Compute Protected Memory Usage", ""),
        (8, "Total", conf),
        (4, "Compute Mode", "Default"),
    ]
    lines = ["", f"GPU {domain.upper():>08}:{bus.upper()}:{rest.upper()}"]
    for indent, key, value in fields:
        width = 55 - indent
        lines.append(" " * indent + (f"{key:<{width}}: {value}" if value else key))
    return lines
