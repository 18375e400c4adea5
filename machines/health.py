"""GPUs and NICs that are there and do not work: what the kernel's log says of them, and what it means.

Xids: NVIDIA's Xid catalogue (docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html), whose immediate
action is in `action`; texts from open-gpu-kernel-modules 595.45.04, beside each. RESTART_APP ends a process
alone. NICs: Linux drivers/net/ethernet/mellanox/mlx5/core/health.c and main.c, 6.11."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from machines.machine import Function, Machine


class Xid(NamedTuple):
    """One kind of Xid, with the text behind its number."""

    number: int
    text: str
    action: str  # the catalogue's immediate action: RESET_GPU, RESTART_BM, RESTART_APP, IGNORE
    since: int = 0  # the first branch of the driver that logs it
    architectures: tuple[str, ...] = ()  # empty: all


_RECENT = ("ampere", "ada", "hopper", "blackwell")
_NOBODY = "pid='<unknown>', name=<unknown>, "
_SOMEBODY = "pid=41234, name=python3, "
XIDS = {
    # osinit.c, osHandleGpuLost()
    "off the bus": Xid(79, f"{_NOBODY}GPU has fallen off the bus.", "RESTART_BM"),
    "double bit error": Xid(
        # docs.nvidia.com/deploy/dynamic-page-retirement/visibility.html; WORKFLOW_XID_48 ends in a reset
        48, f"{_NOBODY}An uncorrectable double bit error (DBE) has been detected on GPU", "RESET_GPU",
    ),
    "uncontained": Xid(  # kern_gpu_error_cont_ga100.c, gpuGenerateErrorLog_GA100()
        95, f"{_SOMEBODY}Uncontained: LTC TAG (0x2, 0x1). RST: Yes, D-RST: No", "RESET_GPU", 470, _RECENT
    ),
    "GSP silent": Xid(  # kernel_gsp.c, _kgspLogXid119()
        119,
        f"{_SOMEBODY}Timeout after 45s of waiting for RPC response from GPU0 GSP! Expected function 76 "
        "(GSP_RM_CONTROL) sequence 4711 (0x20800a4c 0x18).",
        "RESET_GPU", 525, _RECENT,
    ),
    "GSP crashed": Xid(  # kernel_gsp_tu102.c, kgspHealthCheck_TU102(); the text is of public reports
        120, f"{_NOBODY}GSP task exception: load access fault (cause:0x5) @ pc:0x4b5f1c", "RESET_GPU", 525,
        _RECENT,
    ),
    "ECC escape": Xid(  # kern_gpu_tu102.c, gpuCheckEccCounts_TU102()
        140,
        f"{_NOBODY}An uncorrectable ECC error detected (possible firmware handling failure) DRAM:1, LTC:0, "
        "MMU:0, PCIE:0",
        "RESET_GPU", 535, _RECENT,
    ),
    "initialization": Xid(  # kern_fsp_gh100.c, kfspWaitForSecureBoot_GH100(); marked for reset there
        143,
        f"{_NOBODY}Error status 0x65 while polling for FSP boot complete, 0x0, 0x0, 0x0, 0x0, 0x0",
        "RESET_GPU", 550, ("hopper", "blackwell"),
    ),
    "told to reset": Xid(  # gpu.c, _gpuRefreshRecoveryActionInLock() and _gpuRecoveryActionName()
        154, f"{_NOBODY}GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
        "RESET_GPU", 570, _RECENT,
    ),
    "told to reboot": Xid(
        154, f"{_NOBODY}GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
        "RESTART_BM", 570, _RECENT,
    ),
    "told to drain": Xid(
        154, f"{_NOBODY}GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)", "RESET_GPU",
        570, _RECENT,
    ),
}  # fmt: skip
"""Those after which the GPU's memory is of no use until the GPU or the node is reset."""
OF_A_PROCESS = (
    Xid(13, f"{_SOMEBODY}Graphics SM Warp Exception on (GPC 3, TPC 1, SM 0): Out Of Range Address",
        "RESTART_APP"),
    Xid(31, f"{_SOMEBODY}Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 faulted @ "
        "0x7f12_34500000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ", "RESTART_APP"),
    Xid(43, f"{_SOMEBODY}Ch 00000008", "RESTART_APP"),
    Xid(45, f"{_SOMEBODY}Ch 00000008", "RESTART_APP"),
    Xid(94, f"{_SOMEBODY}Contained: CE User Channel (0x9). RST: No, D-RST: No", "RESTART_APP", 470, _RECENT),
)  # fmt: skip
"""Those that end a process: the GPU can be used again at once."""


def xid_line(gpu: Function, xid: Xid) -> str:
    """The line of the kernel's log: kernel_rc.c, krcReportXid()."""
    return f"NVRM: Xid (PCI:{gpu.address.rpartition('.')[0]}): {xid.number}, {xid.text}"


def logs(machine: Machine, gpu: Function, xid: Xid) -> bool:
    """Whether this machine's driver can log such an Xid of this GPU."""
    known = gpu.gpu is not None and (not xid.architectures or gpu.gpu.architecture in xid.architectures)
    return known and machine.branch >= xid.since


NIC_LOGS = {
    "slot unavailable": (
        "poll_health:852:(pid 0): Fatal error 1 detected",
        "print_health_info:425:(pid 0): PCI slot is unavailable",
        "mlx5_health_try_recover:331:(pid 812): handling bad device here",
        "mlx5_health_try_recover:335:(pid 812): health recovery flow aborted, PCI reads still not working",
    ),
    "firmware silent": (
        "poll_health:833:(pid 0): device's health compromised - reached miss count",
        "print_health_info:430:(pid 0): Health issue observed, firmware internal error, severity(3) ERROR:",
        "mlx5_health_try_recover:331:(pid 812): handling bad device here",
        "mlx5_health_try_recover:338:(pid 812): starting health recovery flow",
        "mlx5_health_try_recover:340:(pid 812): health recovery failed",
    ),
    "firmware never up": (
        "wait_fw_init:199:(pid 640): Waiting for FW pre-initializing, timeout abort in 100s (0xffffffff)",
        "mlx5_function_enable:1173:(pid 640): Firmware over 120000 MS in pre-initializing state, aborting",
        "probe_one:1985:(pid 640): mlx5_init_one failed with error code -110",
    ),
}
"""What mlx5 logs of a function that it has given up: mlx5_disable_device() takes its RDMA device and its
interface away, and where the probe failed no driver has it either."""
RECOVERED = (
    "poll_health:833:(pid 0): device's health compromised - reached miss count",
    "mlx5_health_try_recover:331:(pid 812): handling bad device here",
    "mlx5_health_try_recover:338:(pid 812): starting health recovery flow",
    "mlx5_health_try_recover:344:(pid 812): health recovery succeeded",
)
SLOW_START = (
    "wait_fw_init:199:(pid 640): Waiting for FW initialization, timeout abort in 98s (0x80000000)",
    "firmware version: 28.43.2026",
)
MINOR = ("print_health_info:430:(pid 0): Health issue observed, High temperature, severity(6) INFO:",)

REFUSED = "refused"
"""The kind of a GPU that the driver's probe routine failed for."""


def nic_lines(nic: Function, lines: Iterable[str]) -> list[str]:
    """Lines of mlx5 about one function."""
    return [f"mlx5_core {nic.address}: {line}" for line in lines]


def probe_failed(machine: Machine, device: Function, driver: str, error: int) -> str:
    """The line of drivers/base/dd.c, call_driver_probe(), whose words changed in Linux 6.11."""
    if machine.kernel.number >= (6, 11):
        return f"{driver} {device.address}: probe with driver {driver} failed with error {error}"
    return f"{driver}: probe of {device.address} failed with error {error}"


def works(gpu: Function) -> bool:
    """Whether a program can use a GPU that the host's driver should have."""
    joined = gpu.switches is None or gpu.switches.complete
    return gpu.answers and not gpu.ill and joined


def withheld(gpu: Function) -> bool:
    """Whether somebody keeps a GPU from the host's programs on purpose: that is no fault."""
    return gpu.excluded or gpu.bound == "vfio-pci"


def given_up(machine: Machine) -> list[Function]:
    """The NICs that mlx5 has given up."""
    return [function for function in machine.functions if function.nic and function.ill in NIC_LOGS]


def log(machine: Machine) -> tuple[list[str], list[str]]:
    """The lines about devices that do not work: before the driver is loaded, and after."""
    before, after = [], []
    refused = [gpu for gpu in machine.gpus if gpu.ill == REFUSED]
    for gpu in refused:
        before += _refusal(machine, gpu)
    if refused:  # nv.c, nv_module_init()
        before.append(f"NVRM: The NVIDIA probe routine failed for {len(refused)} device(s).")
    for function in machine.functions:
        if function.ill in XIDS:
            after.append(xid_line(function, XIDS[function.ill]))
        if function.ill in NIC_LOGS:
            after += nic_lines(function, NIC_LOGS[function.ill])
        if function.ill == "firmware never up":
            after.append(probe_failed(machine, function, "mlx5_core", -110))
    return before, after


def _refusal(machine: Machine, gpu: Function) -> list[str]:
    """Why the probe routine failed: nv-pci.c, nv_pci_validate_bars(); osapi.c, rm_is_supported_device()."""
    failed = probe_failed(machine, gpu, "nvidia", -1)
    if gpu.bar1_mib == 0:
        return [
            "NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:",
            f"NVRM: BAR1 is 0M @ 0x0 (PCI:{gpu.address})",
            failed,
        ]
    assert gpu.gpu
    return [
        f"NVRM: The NVIDIA GPU {gpu.address}",
        f"NVRM: (PCI ID: 10de:{gpu.gpu.device:04x}) installed in this system has",
        "NVRM: fallen off the bus and is not responding to commands.",
        failed,
    ]
