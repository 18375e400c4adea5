"""RDMA devices that carry nothing: ports that are down, devices made by software."""

from __future__ import annotations

from gdrkit.facts.rdma import RdmaDevice, ports, rdma_devices
from gdrkit.node import Node
from gdrkit.rules.deciding_command import DEVINFO, DecidingCommand
from gdrkit.rules.rule import REGISTRATION, WIRE, Failed, Layer, Outcome, Passed, rule


@rule(
    "port-down",
    Layer.HARDWARE,
    per=rdma_devices,
    takes=(WIRE,),
    whole_machine=True,
    reported_by=(DecidingCommand(DEVINFO, "`PORT_DOWN`"),),
    cost="Nothing goes through this device.",
)
def port_down(node: Node, device: RdmaDevice) -> Outcome:
    """No port of the RDMA device is active.

    Cost: Each GPU is judged at its nearest device with an active port, so that a device which is down costs
    only its own share.

    How to tell: Every /sys/class/infiniband/<device>/ports/*/state says something else than `4: ACTIVE`.
    The rate of a port that is down (often 40 Gb/sec) means nothing.

    What to do: `ibstat` or `rdma link` show the state, `ip link set <interface> up` starts an Ethernet port,
    `mlxlink -d <device>` says what the cable lacks; INIT on InfiniBand asks for opensm or the switch's
    manager.

    Why: No cable, a switch port that is off, or, where the state is INIT, no subnet manager on the fabric. A
    second port without a cable is normal.

    Source: Linux drivers/infiniband/core/sysfs.c, state_show(); InfiniBand specification, 14.2.5.6.
    """
    found = ports(node, device.name)
    active = [port for port in found if port.state == "ACTIVE"]
    others = [f"port {port.number} is {port.state}" for port in found if port.state != "ACTIVE"]
    if active:
        numbers = ", ".join(str(port.number) for port in active)
        return Passed("; ".join([f"port {numbers} is ACTIVE", *others]))
    return Failed(
        seen=", ".join(others) or "no port",
        expected="a port that is ACTIVE",
        subject=device.name,
    )


@rule(
    "rdma-device-software",
    Layer.HARDWARE,
    per=rdma_devices,
    takes=REGISTRATION,
    permanent=REGISTRATION,
    cost="The CPU copies every byte that this device sends.",
    references=("https://man7.org/linux/man-pages/man8/rdma-link.8.html",),
)
def rdma_device_software(node: Node, device: RdmaDevice) -> Outcome:
    """The RDMA device is made by software (Soft-RoCE or Soft-iWARP).

    Cost: No direct path through it, and the CPU's time.

    How to tell: The device lies below /sys/devices/virtual, or is called rxe or siw.

    What to do: None for this device. It is good for trying programs out. `rdma link delete <device>`
    removes it.

    Why: rdma_rxe and siw play an RDMA device on top of any network interface. The CPU reads the memory and
    sends it; no device does.

    Source: Linux drivers/infiniband/sw/rxe and sw/siw.
    """
    if device.virtual:
        return Failed(
            seen="an RDMA device made by software",
            expected="a NIC that reads memory itself",
            subject=device.name,
        )
    return Passed(f"a PCI device, {device.pci_address}" if device.pci_address else "not rxe or siw")
