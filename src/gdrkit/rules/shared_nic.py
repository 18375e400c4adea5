"""One NIC that appears as several RDMA devices."""

from __future__ import annotations

from gdrkit.evidence.quoting import quoted
from gdrkit.facts.gpu import has_gb10
from gdrkit.facts.rdma import (
    CLASS,
    RdmaDevice,
    is_virtual_function,
    nic_address,
    nics,
    phys_port_name,
    ports,
)
from gdrkit.facts.supplied import not_collected
from gdrkit.node import Node, if_missing
from gdrkit.rules.rule import Failed, Layer, NotApplicable, Outcome, Passed, rule, the_node


@rule(
    "shared-nic",
    Layer.PCIE,
    per=the_node,
    whole_machine=True,
    cost="The rates of these devices must not be added up.",
    references=("https://github.com/NVIDIA/dgx-spark-playbooks",),
)
def shared_nic(node: Node, subject: str) -> Outcome:
    """One NIC appears as several RDMA devices on several PCIe links.

    Cost: None, if you know about it: one cable makes several devices active, and each reports the rate of
    that same cable. On a Spark, about 200 Gbit/s per direction is the total, with one cable or two.

    How to tell: `grep . /sys/class/infiniband/*/sys_image_guid` shows the same GUID for RDMA devices on
    different PCI buses. A DGX Spark has four RDMA devices, two physical ports (p0 and p1, each twice), and
    one ConnectX-7 on two links of four lanes.

    What to do: Nothing is broken. Use one device of each link (NCCL_IB_HCA), and count each physical port
    once.

    Why: Multi-host and socket-direct adapters have several links to the machine; each link shows every port.

    Source: InfiniBand specification, SystemImageGUID; Linux Documentation/ABI/testing/sysfs-class-net,
    phys_port_name; NVIDIA DGX Spark playbooks.
    """
    whole = [device for device in nics(node) if not _is_virtual(node, device)]
    if len(whole) < 2:
        return NotApplicable("at most one RDMA device")
    for group in _cards(node, whole):
        buses = {device.pci_address[:7] for device in group}
        if len(buses) > 1:
            names = if_missing("", _names, node, group)
            return Failed(
                seen=f"{len(group)} RDMA devices on {len(buses)} PCIe links, one NIC{names}",
                expected="each physical port counted once",
                subject=" ".join(device.name for device in group),
            )
    for device in whole:
        nic_address(node, device.name)
        if not device.sys_image_guid:
            path = f"{CLASS}/{device.name}/sys_image_guid"
            raise not_collected(path, f"cat {quoted(f'/{path}')}")
    return Passed("every NIC has one PCIe link")


def _cards(node: Node, devices: list[RdmaDevice]) -> list[list[RdmaDevice]]:
    """Devices by card. A machine with a GB10 has one NIC, whatever its GUIDs: DGX Spark User Guide."""
    with_address = [device for device in devices if device.pci_address]
    if if_missing(False, has_gb10, node):
        return [[d for d in with_address if d.driver in ("mlx5_core", "")]]
    cards: dict[str, list[RdmaDevice]] = {}
    for device in with_address:
        if device.sys_image_guid.strip("0:"):
            cards.setdefault(device.sys_image_guid, []).append(device)
    return list(cards.values())


def _names(node: Node, group: list[RdmaDevice]) -> str:
    """The names of the physical ports, as their network interfaces report them."""
    names = {phys_port_name(node, d.name, port.number) for d in group for port in ports(node, d.name)}
    return f" with ports {', '.join(sorted(names))}"


def _is_virtual(node: Node, device: RdmaDevice) -> bool:
    return if_missing(False, is_virtual_function, node, device.name)
