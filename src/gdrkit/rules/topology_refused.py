"""Pairs of GPU and NIC that the NVIDIA driver refuses to map for each other."""

from __future__ import annotations

from gdrkit.evidence import EvidenceAbsent
from gdrkit.facts.driver import driver_parameters, driver_version
from gdrkit.facts.driver_log import last_line_if_any
from gdrkit.facts.gpu import is_coherent
from gdrkit.facts.newest_read import cite_if_newer
from gdrkit.facts.pci import devices, gpu_at
from gdrkit.facts.rdma import Pair, below_common_bridge, nic_address, pairs
from gdrkit.facts.virtual import virtual_machine
from gdrkit.formats.versions import numbers
from gdrkit.node import Node, if_missing
from gdrkit.rules.capabilities import REGISTRATION
from gdrkit.rules.deciding_command import DMESG, DecidingCommand
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import Failed, Layer, NotApplicable, Outcome, Passed, rule

FIRST_WITH_CHECK = (580, 65, 6)
"""First tag in which rm_p2p_dma_map_pages and nv-dmabuf.c ask nv_grdma_pci_topology_supported()."""

CHIPSETS = {
    "10de": ("22b1", "22b2", "22b3", "22b4", "22b8", "22b9"),
    "1def": ("e000", "e00d", "e00e", "e010", "e100", "e110", *(f"e20{n}" for n in range(8))),
}
"""Host bridges that forward no peer traffic: NVIDIA Grace (TH500), Ampere Altra, AmpereOne-160.
Source: open-gpu-kernel-modules src/nvidia/arch/nvalloc/common/inc/nvcst.h and unix/src/osinit.c,
_checkP2pChipsetSupport(); 1def is Ampere Computing's vendor id."""

PARAMETER = "GrdmaPciTopoCheckOverride"
WITHOUT_OPTION = (
    "Put the NIC below the GPU's PCIe switch. This driver has no option that disables the check; R580 has "
    "one, at your own risk."
)
REFUSED = (
    r"nv_dma_map -- error -524 while calling nvidia_p2p_dma_map_pages"
    r"|NVRM: dma-buf attach failed: PCI topology not supported for dma-buf"
)


@rule(
    "topology-refused",
    Layer.DRIVER,
    per=pairs,
    takes=REGISTRATION,
    at_registration=True,
    reported_by=(
        DecidingCommand(
            DMESG, "`PCI topology not supported for dma-buf`, or error -524, on 580.65.06 or newer"
        ),
    ),
    remedies=(RemedyName.OVERRIDE_TOPOLOGY_CHECK,),
    cost="Registration of GPU memory fails for this pair; data passes through host memory.",
    references=("https://github.com/NVIDIA/open-gpu-kernel-modules",),
)
def topology_refused(node: Node, pair: Pair) -> Outcome:
    """The driver refuses to map this GPU's memory for this NIC, because no PCIe bridge is above both.

    Cost: Neither direct path works for this pair. Pairs below one PCIe switch are not affected.

    How to tell: The host has NVIDIA Grace, Ampere Altra or AmpereOne-160, the GPU is not coherent with it,
    and no bridge is above both devices. Registering GPU memory fails; the kernel log says
    `nvidia-peermem nv_dma_map -- error -524 while calling nvidia_p2p_dma_map_pages()` or
    `NVRM: dma-buf attach failed: PCI topology not supported for dma-buf`.

    What to do: Put the NIC and the GPU below one PCIe switch, or use pairs that already are. Where
    `/proc/driver/nvidia/params` lists GrdmaPciTopoCheckOverride, the module option
    `options nvidia NVreg_GrdmaPciTopoCheckOverride=1` disables the check at your own risk; the value 2
    refuses all pairs. Drivers from 595.91.07 on have the check, but not the option.

    Why: These chipsets cannot pass traffic from one root port to another, and from 580.65.06 on the driver
    checks for them. On x86 it does not check; in a virtual machine with the GPU passed through it allows
    every pair.

    Source: open-gpu-kernel-modules kernel-open/nvidia/nv-pci.c, nv_grdma_pci_topology_supported(), to
    615.71.09; nv-reg.h and NVIDIA/aicr pull request 2459 for the option.
    """
    gpu = gpu_at(node, pair.gpu)
    try:
        version = driver_version(node)
        nic = nic_address(node, pair.device)
    except EvidenceAbsent:
        return NotApplicable("no driver is loaded, or the RDMA device is software")
    if gpu is None or numbers(version) < FIRST_WITH_CHECK:
        return NotApplicable(f"driver {version} has no such check")
    cite_if_newer(node, "NVIDIA driver", version)
    override = _override(node)
    chipset = _chipset(node)
    if override != "2" and not chipset:
        return NotApplicable("the driver does not check on this chipset")
    if is_coherent(node, gpu):
        return NotApplicable("the GPU is coherent with its CPU")
    if override == "1":
        return Passed(f"{PARAMETER} is 1")
    if override == "2":
        return _failed(node, pair, f"{PARAMETER} is 2", f"{PARAMETER} 0")
    shared = below_common_bridge(node, pair.gpu, nic)[0]
    if shared:
        return Passed(f"{shared[-1]} is above both")
    if virtual_machine(node) != "none":
        return NotApplicable("the driver does not check a GPU that is passed through")
    return _failed(node, pair, f"no bridge above both, host bridge {chipset}", "a PCIe switch above both")


def _failed(node: Node, pair: Pair, seen: str, expected: str) -> Failed:
    line = last_line_if_any(node, REFUSED)
    return Failed(
        seen=f"{seen}; kernel log: {line.text}" if line else seen,
        expected=expected,
        subject=f"{pair.gpu} {pair.device}",
        advice="" if if_missing(True, _has_option, node) else WITHOUT_OPTION,
    )


def _has_option(node: Node) -> bool:
    return PARAMETER in driver_parameters(node)


def _override(node: Node) -> str:
    """The value in force; the default if the file was not collected."""
    return if_missing("0", lambda: driver_parameters(node).get(PARAMETER, "0"))


def _chipset(node: Node) -> str:
    """The first host bridge that is in CHIPSETS, as vendor:device; "" if there is none."""
    for device in devices(node):
        if device.device in CHIPSETS.get(device.vendor, ()):
            return f"{device.vendor}:{device.device}"
    return ""
