"""Machines without an RDMA device."""

from __future__ import annotations

from gdrkit.evidence import EvidenceMissing
from gdrkit.facts.expectation import expectation
from gdrkit.facts.expected_gpu import is_data_centre, number_of_missing_gpus, sign_of_gpu
from gdrkit.facts.pci import PciDevice, devices, gpus
from gdrkit.facts.rdma import rdma_devices
from gdrkit.facts.unused_nics import is_rdma_nic
from gdrkit.facts.verbs_kernel import VERBS_MODULES
from gdrkit.facts.virtual import is_wsl, scope, virtual_machine
from gdrkit.node import Node, if_missing, seek
from gdrkit.rules.deciding_command import DEVINFO, DecidingCommand
from gdrkit.rules.gpu_passed_through import all_passed_through, is_passed_through
from gdrkit.rules.rule import WIRE, Failed, Layer, NotApplicable, Outcome, Passed, rule, the_node

NONE_EXPECTED = "gdr doctor --expect FILE with nics = 0"
"""How the user says that a machine has no NIC."""
CONNECTX_3 = ("1003", "1007")
"""PCI IDs of ConnectX-3 and ConnectX-3 Pro: pci.ids, MT27500 and MT27520."""


@rule(
    "no-rdma-device",
    Layer.HARDWARE,
    per=the_node,
    takes=(WIRE,),
    permanent=(WIRE,),
    whole_machine=True,
    reported_by=(DecidingCommand(DEVINFO, "`No IB devices found`, on the host"),),
    cost="All traffic goes through sockets.",
    references=("https://docs.kernel.org/infiniband/",),
)
def no_rdma_device(node: Node, subject: str) -> Outcome:
    """This machine has no RDMA device.

    Cost: NCCL uses sockets: on two H200s, over the loopback device, 3.5 GB/s instead of 36 GB/s.

    How to tell: `ls /sys/class/infiniband` lists nothing, or the folder does not exist.

    What to do: If `lspci` shows a ConnectX, run `sudo modprobe mlx5_ib`, then check with `rdma system`
    whether RDMA devices are limited to one network namespace. A ConnectX-3 needs mlx4_ib; MLNX_OFED 5.1 and
    newer do not support the card: remove MLNX_OFED, and use the kernel's own driver. If this is a container,
    start it with the RDMA device. Otherwise, install a NIC that supports RDMA. If the machine should have
    none, say so: `gdr doctor --expect FILE`, where the file has the line `nics = 0`.

    Why: No NIC supports RDMA, or its driver created no RDMA device: mlx5_ib is not loaded, RoCE is turned
    off in firmware, or the device is in another network namespace. A machine with a GPU for the data centre
    is meant to have a NIC, and so is a server with professional GPUs: there, the machine is blocked. On a
    workstation, nothing is wrong. On Google's A3 High and A3 Mega the direct path is GPUDirect-TCPX or
    TCPXO, by Google's plugin for NCCL and its receive daemon beside the job: only a job shows it. RDMA needs
    A3 Ultra or A4.

    Source: Linux drivers/infiniband/core/device.c; NVIDIA Data Center Drivers, "Supported products", for the
    kinds of GPUs; MLNX_OFED release notes, 5.3-1.0.0.1, for ConnectX-3; Google Kubernetes Engine, "Maximize
    GPU network bandwidth".
    """
    seen = "no RDMA device"
    try:
        found = rdma_devices(node)
    except EvidenceMissing:
        from gdrkit.facts.rdma_hardware import lacks_rdma_hardware  # reads the text of lspci

        if not if_missing(False, lacks_rdma_hardware, node):
            raise
        found, seen = (), "no NIC that supports RDMA in the list of lspci"
    if found:  # rdma-device-software reports those that are software
        return Passed(", ".join(device.name for device in found))
    if not expectation(node).content.nics and all_passed_through(node):
        return NotApplicable("every GPU belongs to a virtual machine, which has NICs of its own or none")
    dormant = _dormant(node)
    if dormant is not None and expectation(node).content.nics != 0:
        own = "mlx4_ib" if dormant.device in CONNECTX_3 else "mlx5_ib"
        module = VERBS_MODULES.get(dormant.driver, own)
        return Failed(
            seen=f"a NIC at {dormant.address} (driver {dormant.driver or 'none'}), but no RDMA device",
            expected=f"an RDMA device created by {module}",
            subject=dormant.address,
            permanent=frozenset(),
        )
    return _none(node, seen)


def _none(node: Node, seen: str) -> Failed:
    """Blocked where a NIC is expected, or may be outside of this container; else no fault. Permanent where
    Google's plugin for NCCL, which uses no verbs, is the direct path."""
    wanted = expectation(node)
    number = f"nics = {wanted.content.nics}, by {wanted.file}"
    if wanted.content.nics == 0:
        advice = "Nothing: this machine is as expected."
        return Failed(
            seen=f"{seen}, as expected", expected=number, subject="node", as_expected=True, advice=advice
        )
    if wanted.content.nics:
        return Failed(seen=seen, expected=number, subject="node", permanent=frozenset())
    if _is_google_a3(node):
        return Failed(
            seen=f"{seen} on Google's A3 High or A3 Mega, by design",
            expected="A3 Ultra or A4, for RDMA",
            subject="node",
            cost="Programs that use verbs have no network; NCCL uses sockets, unless the job loads "
            "Google's plugin.",
            advice="Nothing on this machine: here NCCL reaches GPU memory by GPUDirect-TCPX (A3 High) or "
            "TCPXO (A3 Mega), Google's plugin with a receive daemon beside the job, and no program does by "
            "verbs. Only a job shows whether it uses the plugin: `NCCL_DEBUG=INFO <command of a job>`. RDMA "
            "needs A3 Ultra or A4.",
        )
    reason = _reason_for_a_nic(node)
    if reason:
        return Failed(
            seen=f"{seen} beside {reason}",
            expected=f"at least one, or {NONE_EXPECTED}",
            subject="node",
            advice="Install a NIC that supports RDMA, or give the container or virtual machine one. If it "
            "should have none, say so: `gdr doctor --expect FILE`, where the file has the line `nics = 0`.",
            permanent=frozenset(),
        )
    return Failed(
        seen=seen,
        expected="at least one in /sys/class/infiniband",
        subject="node",
        advice=_FOR_ITSELF if if_missing(False, _works_for_itself, node) else "",
        permanent=frozenset((WIRE,)) if _is_host(node) else frozenset(),
    )


_FOR_ITSELF = (
    "Nothing: the GPUs of one machine need no NIC among themselves. To send their memory to another "
    "machine, install a NIC that supports RDMA, such as a ConnectX."
)


def _works_for_itself(node: Node) -> bool:
    """Whether this is a machine of its own with GPUs. Its list of PCI devices shows no NIC for RDMA then:
    one without an RDMA device is reported before."""
    return bool(gpus(node)) and _is_host(node) and virtual_machine(node) == "none"


_H100_SXM = "2330"  # pci.ids: GH100 [H100 SXM5 80GB]


def _is_google_a3(node: Node) -> bool:
    """Whether this is an A3 machine without RDMA: High, Mega or Edge. False also if that is not known.

    Source: Google Compute Engine, "GPU machine types": H100s are in these alone, and their network is gVNIC;
    A3 Ultra has H200s. The firmware names no machine type."""
    found = if_missing((), gpus, node)
    if not found or any(gpu.device_id != _H100_SXM for gpu in found):
        return False
    return if_missing("", virtual_machine, node) == "google"


def nic_expected(node: Node) -> bool:
    """Whether the machine is meant to have a NIC: an expectation says so, or its GPUs do."""
    wanted = expectation(node).content.nics
    return bool(not _is_google_a3(node) and _reason_for_a_nic(node)) if wanted is None else wanted > 0


def _reason_for_a_nic(node: Node) -> str:
    """What a NIC is expected beside; "" if the machine is not known to be meant for one."""
    if is_wsl(node):
        return ""
    if not gpus(node):
        return "the GPU that is expected" if number_of_missing_gpus(node) or sign_of_gpu(node) else ""
    own = tuple(gpu for gpu in gpus(node) if not is_passed_through(node, gpu))
    if seek(own, lambda gpu: is_data_centre(node, gpu)) is not None:
        return "a data-centre GPU"
    return ""


def _dormant(node: Node) -> PciDevice | None:
    """A NIC whose driver could create an RDMA device; None also if the PCI devices are unknown."""
    return next((device for device in if_missing((), devices, node) if is_rdma_nic(device)), None)


def _is_host(node: Node) -> bool:
    """In a container the device may be in another network namespace: rdma-system(8), exclusive mode."""
    return if_missing(True, lambda: scope(node) == "host")
