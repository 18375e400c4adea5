"""What a loaded NVIDIA driver shows: /proc/driver/nvidia, device nodes, nvidia-smi.

Formats: NVIDIA open-gpu-kernel-modules kernel-open/nvidia/nv-procfs.c; `nvidia-smi -q` of public reports."""

from __future__ import annotations

from machines import health, pci, rack
from machines.distance import own, refused
from machines.machine import Driver, Function, Machine
from machines.tree import Tree

_PARAMETERS = {
    "ResmanDebugLevel": "4294967295",
    "ModifyDeviceFiles": "1",
    "EnableMSI": "1",
    "EnableStreamMemOPs": "0",
    "PreserveVideoMemoryAllocations": "0",
    "DynamicPowerManagement": "3",
    "RegisterPCIDriver": "1",
    "EnablePCIERelaxedOrderingMode": "0",
    "EnableGpuFirmware": "18",
    "OpenRmEnableUnsupportedGpus": "1",
    "RegistryDwords": '""',
    "RmMsg": '""',
}
_LATER = {
    "EnableResizableBar": ((530, 30, 2), "0"),
    "DmaRemapPeerMmio": ((515,), "1"),
    "GrdmaPciTopoCheckOverride": ((570,), "0"),
    "CoherentGPUMemoryMode": ((580,), '""'),
}
_GENERATION = {"2.5": 1, "5.0": 2, "8.0": 3, "16.0": 4, "32.0": 5, "64.0": 6}

_ARCHITECTURES = {
    "volta": "Volta",
    "turing": "Turing",
    "ampere": "Ampere",
    "ada": "Ada Lovelace",
    "hopper": "Hopper",
    "blackwell": "Blackwell",
    "pascal": "Pascal",
}


def served(machine: Machine) -> list[Function]:
    """The GPUs that the driver has."""
    return [gpu for gpu in machine.gpus if gpu.bound == "nvidia"]


def write(tree: Tree, machine: Machine) -> None:
    """Write the driver's files, if it is loaded."""
    driver = machine.driver
    if driver is None or not driver.loaded:
        if driver:
            message = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n"
            argv = ("nvidia-smi", "-q")
            tree.command("sos_commands/gdr/nvidia-smi_-q", argv, "", 9, "failed", message)
        return
    arch, version = machine.kernel.arch, driver.running_version or driver.version
    kind = f"Open Kernel Module for {arch}" if driver.is_open else f"{arch} Kernel Module"
    tree.file(
        "proc/driver/nvidia/version",
        f"NVRM version: NVIDIA UNIX {kind}  {version}  Release Build  {driver.builder}  "
        "Wed Jan  7 22:33:56 UTC 2026\nGCC version:  gcc version 12.3.0\n",
    )
    parameters = dict(_PARAMETERS)
    parameters |= {name: value for name, (since, value) in _LATER.items() if driver.number >= since}
    parameters |= driver.parameters
    if left_out := [_uuid(minor) for minor, gpu in enumerate(served(machine)) if gpu.excluded]:
        parameters["ExcludedGpus"] = f'"{",".join(left_out)}"'
    tree.file(
        "proc/driver/nvidia/params", "".join(f"{name}: {value}\n" for name, value in parameters.items())
    )
    tree.file("proc/driver/nvidia/registry", 'Binary: ""\n')
    tree.folders.add("proc/driver/nvidia/capabilities")
    tree.folders.add("proc/driver/nvidia/gpus")
    for name in ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"):
        tree.file(f"dev/{name}", "")
    for minor, gpu in enumerate(served(machine)):
        tree.file(f"dev/nvidia{minor}", "")
        tree.file(f"proc/driver/nvidia/gpus/{gpu.address}/information", _information(gpu, minor, version))
        if machine.mig:
            tree.line(f"proc/driver/nvidia/capabilities/gpu{minor}/mig/gi1/access", "DeviceFileMinor: 3")
    if machine.imex:  # NVIDIA IMEX Service for NVLink Networks, guide: channels and configuration
        tree.file("dev/nvidia-caps-imex-channels/channel0", "")
        tree.file("etc/nvidia-imex/nodes_config.cfg", "10.0.0.1\n10.0.0.2\n")
    if attached := in_use(machine):
        tree.file("sys/kernel/debug/dma_buf/bufinfo", _buffers(driver, attached))
    _smi(tree, machine, driver)


def in_use(machine: Machine) -> list[Function]:
    """The NICs that have GPU memory attached: each GPU's own ones, if a job runs that uses dma-buf."""
    exports = machine.driver is not None and machine.driver.loaded and machine.driver.is_open
    imports = machine.rdma_driver_loaded and machine.imports_dmabuf(machine.running_stack)
    if machine.running_stack == machine.inbox_tag and not machine.kernel.odp:
        imports = False  # mlx5_ib_reg_user_mr_dmabuf() of Linux answers EOPNOTSUPP
    if machine.in_use != "dmabuf" or not (exports and imports):
        return []
    usable = [gpu for gpu in served(machine) if gpu.gpu and gpu.gpu.kind not in ("consumer", "integrated")]
    usable = [gpu for gpu in usable if health.works(gpu) and not gpu.excluded]
    hardware = [nic for nic in machine.nics if nic.nic]
    near = [
        nic
        for gpu in (usable if hardware else [])
        for nic in own(machine, gpu, hardware)
        if not refused(machine, gpu, [nic])  # nv-dmabuf.c, nv_dma_buf_attach()
    ]
    return list({nic.address: nic for nic in near if nic.state == "ACTIVE"}.values())


def _buffers(driver: Driver, nics: list[Function]) -> str:
    """dma_buf_debug_show() of Linux drivers/dma-buf/dma-buf.c. The exporter's name changed in 580.65.06."""
    name = "nv_dmabuf" if driver.number >= (580, 65, 6) else "nvidia"
    head = "size    \tflags   \tmode    \tcount   \texp_name\tino     \tname\n"
    lines = ["\nDma-buf Objects:", head.rstrip("\n")]
    for nic in nics:
        lines += [f"02097152\t00000002\t00080007\t00000002\t{name}\t00000004\t<none>"]
        lines += ["\tAttached Devices:", f"\t{nic.address}", "Total 1 devices attached", ""]
    return "\n".join([*lines, f"Total {len(nics)} objects, {2097152 * len(nics)} bytes", ""])


def _uuid(minor: int) -> str:
    return f"GPU-00000000-0000-0000-0000-{minor:012d}"


def _information(gpu: Function, minor: int, version: str) -> str:
    assert gpu.gpu
    rows = {
        "Model": gpu.gpu.name,
        "IRQ": 40 + minor,
        "GPU UUID": _uuid(minor),
        "Video BIOS": "??.??.??.??.??",
        "Bus Type": "PCIe",
        "DMA Size": "52 bits",
        "DMA Mask": "0xfffffffffffff",
        "Bus Location": gpu.address,
        "Device Minor": minor,
        "GPU Firmware": version,
        "GPU Excluded": "Yes" if gpu.excluded else "No",
    }
    return "".join(f"{name + ':':<12}\t {value}\n" for name, value in rows.items())


def _smi(tree: Tree, machine: Machine, driver: Driver) -> None:
    argv = ("nvidia-smi", "-q")
    version = driver.running_version or driver.version
    if driver.library_version and driver.library_version != version:
        message = "Failed to initialize NVML: Driver/library version mismatch\n"
        tree.command("sos_commands/gdr/nvidia-smi_-q", argv, "", 18, "failed", message)
        return
    gpus = [gpu for gpu in served(machine) if not gpu.excluded]
    if lost := next((gpu for gpu in gpus if not gpu.answers or gpu.ill == "off the bus"), None):
        # NVIDIA's nvidia-smi manual, "Return value": 15, a GPU has fallen off the bus
        message = f"Unable to determine the device handle for GPU {lost.address}: GPU is lost.  "
        message += "Reboot the system to recover this GPU\n"
        tree.command("sos_commands/gdr/nvidia-smi_-q", argv, "", 15, "failed", message)
        return
    lines = ["", "==============NVSMI LOG==============", ""]
    head = {
        "Timestamp": "Fri Nov 20 16:02:10 2026",
        "Driver Version": version,
        "CUDA Version": _cuda(driver),
    }
    lines += [f"{name:<42}: {value}" for name, value in head.items()]
    lines += ["", f"{'Attached GPUs':<42}: {len(gpus)}"]
    for minor, gpu in enumerate(gpus):
        lines += _smi_gpu(machine, gpu, minor, version)
    tree.command("sos_commands/gdr/nvidia-smi_-q", argv, "\n".join(lines) + "\n")
    memory = ["", f"{'Attached GPUs':<42}: {len(gpus)}"]
    for gpu in gpus:
        memory += ["", f"GPU {_bus(gpu)}", *_memory(gpu)]
    tree.command(
        "sos_commands/gdr/nvidia-smi_-q_-d_MEMORY",
        ("nvidia-smi", "-q", "-d", "MEMORY"),
        "\n".join(memory) + "\n",
    )
    state = "ON" if machine.confidential else "OFF"
    tree.command(
        "sos_commands/gdr/nvidia-smi_conf-compute_-f",
        ("nvidia-smi", "conf-compute", "-f"),
        f"CC status: {state}\n",
    )


def _cuda(driver: Driver) -> str:
    versions = {
        470: "11.4",
        525: "12.0",
        535: "12.2",
        550: "12.4",
        560: "12.6",
        570: "12.8",
        575: "12.9",
        580: "13.0",
    }
    return versions.get(driver.branch, "13.1")


def _bus(gpu: Function) -> str:
    domain, bus, rest = gpu.address.split(":")
    return f"{domain.upper():0>8}:{bus.upper()}:{rest.upper()}"


def bar1(gpu: Function) -> int:
    """The size of BAR1 in MiB."""
    assert gpu.gpu
    return gpu.gpu.bar1_mib if gpu.bar1_mib < 0 else gpu.bar1_mib


def _memory(gpu: Function) -> list[str]:
    assert gpu.gpu
    integrated = gpu.gpu.kind == "integrated"
    size = bar1(gpu)
    free = size - 1 if gpu.bar1_free_mib < 0 else gpu.bar1_free_mib
    rows = [
        ("    FB Memory Usage", ""),
        ("        Total", "N/A" if integrated else "81559 MiB"),
        ("        Used", "N/A" if integrated else "0 MiB"),
        ("        Free", "N/A" if integrated else "81005 MiB"),
        ("    BAR1 Memory Usage", ""),
        ("        Total", f"{size} MiB" if size else "N/A"),
        ("        Used", f"{size - free} MiB" if size else "N/A"),
        ("        Free", f"{free} MiB" if size else "N/A"),
    ]
    return [f"{name:<42}: {value}" if value else name for name, value in rows]


def _recovery(gpu: Function, branch: int) -> list[tuple[str, object]]:
    """What the driver asks for: nvml.h, nvmlDeviceGpuRecoveryAction_t; GPU memory error management guide,
    "Error Recovery and Response Flags"."""
    xid = health.XIDS.get(gpu.ill)
    drain = gpu.ill == "told to drain"
    reset = xid is not None and xid.action == "RESET_GPU"
    words = "Drain and Reset" if drain else "Reset" if reset else "Reboot" if xid else "None"
    if branch >= 570:
        return [("    GPU Recovery Action", words)]
    return [
        ("    GPU Reset Status", ""),
        ("        Reset Required", "Yes" if reset else "No"),
        ("        Drain and Reset Recommended", "Yes" if drain else "No"),
    ]


def _smi_gpu(machine: Machine, gpu: Function, minor: int, version: str) -> list[str]:
    product = gpu.gpu
    assert product
    now, most = pci.links(gpu)
    consumer = product.kind == "consumer"
    virtual = "None"
    if machine.virtual:
        virtual = "VGPU" if product.kind == "vgpu" else "Pass-Through"
    ats = "ATS" if product.coherent or product.kind == "integrated" else "None"
    can_mig = product.architecture in ("hopper", "blackwell") or product.name.startswith("NVIDIA A100")
    mig = ("Enabled" if machine.mig else "Disabled") if can_mig and not consumer else "N/A"
    rows: list[tuple[str, object]] = [
        ("    Product Name", product.name),
        ("    Product Brand", "GeForce" if consumer else "NVIDIA"),
        ("    Product Architecture", _ARCHITECTURES[product.architecture]),
        ("    Persistence Mode", "Enabled"),
        ("    Addressing Mode", ats),
        ("    MIG Mode", ""),
        ("        Current", mig),
        ("        Pending", mig),
        ("    Minor Number", minor),
        ("    GPU C2C Mode", "Enabled" if product.coherent else "Disabled"),
        ("    GPU Virtualization Mode", ""),
        ("        Virtualization Mode", virtual),
        ("        Host VGPU Mode", "N/A"),
        *_recovery(gpu, int(version.split(".")[0])),
        ("    GSP Firmware Version", version),
        ("    PCI", ""),
        ("        Bus Id", _bus(gpu)),
        ("        GPU Link Info", ""),
        ("            PCIe Generation", ""),
        ("                Max", _GENERATION[most[0]]),
        ("                Current", _GENERATION[now[0]]),
        ("            Link Width", ""),
        ("                Max", f"{most[1]}x"),
        ("                Current", f"{now[1]}x"),
    ]
    if int(version.split(".")[0]) >= 550:
        rows += rack.fabric_rows(gpu)
    lines = ["", f"GPU {_bus(gpu)}"] + [
        f"{name:<42}: {value}" if value != "" else name for name, value in rows
    ]
    protected = "79872 MiB" if machine.confidential else "0 MiB"
    return [
        *lines,
        *_memory(gpu),
        "    Conf Compute Protected Memory Usage",
        f"{'        Total':<42}: {protected}",
    ]
