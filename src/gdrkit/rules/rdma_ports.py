"""RDMA devices without a direct path, or with a slow one: ports down or on one lane, software."""

from __future__ import annotations

from gdrkit.evidence import Confidence
from gdrkit.facts.port_width import lone_slow, port_lanes
from gdrkit.facts.rdma import (
    CLASS,
    RdmaDevice,
    RdmaPort,
    is_virtual_function,
    nics,
    ports,
    rdma_devices,
)
from gdrkit.node import Node, if_absent, if_missing
from gdrkit.rules.capabilities import REGISTRATION
from gdrkit.rules.deciding_command import DEVINFO, DecidingCommand
from gdrkit.rules.no_rdma_device import nic_expected
from gdrkit.rules.rule import WIRE, Failed, Layer, NotApplicable, Outcome, Passed, rule


@rule(
    "port-down",
    Layer.HARDWARE,
    per=rdma_devices,
    takes=(WIRE,),
    whole_machine=True,
    reported_by=(DecidingCommand(DEVINFO, "`PORT_DOWN` or `PORT_INIT`"),),
    cost="Nothing passes through this device.",
)
def port_down(node: Node, device: RdmaDevice) -> Outcome:
    """No port of the RDMA device is active.

    Cost: Nothing passes through this device. Each GPU is judged at its nearest device with an active port,
    so a device that is down costs only its own share.

    How to tell: `cat /sys/class/infiniband/<device>/ports/*/state` does not show `4: ACTIVE` for any port.
    The rate of a port that is down (often 40 Gb/sec) means nothing.

    What to do: `ibstat` or `rdma link` shows the state of the port.

    1. On Ethernet, if `ip link show` does not say UP, start the port: `sudo ip link set <interface> up`. On
       InfiniBand, if its physical state is Disabled: `sudo ibportstate -C <device> -D 0 <port> enable`.
    2. If it stays down, check the cable: `sudo mlxlink -d <device>` reports what is wrong, and the kernel
       log may (`Port module event`). After `Power budget exceeded` the NIC keeps the module off: connect
       the card's own power cable, or use a slot with more power or a module that needs less.
    3. On InfiniBand in state INIT, look at the other ports of the same fabric. If one is ACTIVE, there is a
       subnet manager, whose log says why it leaves this port out: do not start another. If none is, start
       one, in the switch or on one host (opensm). On iWARP, give the interface an IPv4 address.
    4. A ConnectX that can do both (VPI) is set to one link layer. If its port is InfiniBand, in physical
       state Polling, and the other end is Ethernet, neither answers the other. So it is if one of several
       NICs of its kind differs in `cat /sys/class/infiniband/*/ports/*/link_layer`. `sudo mlxconfig -d
       <device> query | grep LINK_TYPE` shows the setting; `set LINK_TYPE_P1=1` instead of `query` is
       InfiniBand, 2 Ethernet; then reboot.

    Why: There is no cable, the port or the switch port is turned off, the NIC is set to another link layer
    than the other end, or, in state INIT, no subnet manager has set the port up: the fabric has none, or it
    leaves the port out. On Ethernet the physical state Disabled shows no more than that there is no link. A
    second port without a cable is normal.

    Source: Linux drivers/infiniband/core/sysfs.c, state_show(), and device.c, iw_query_port();
    drivers/infiniband/hw/mlx5/main.c, mlx5_query_port_roce(); InfiniBand specification, 14.2.5.6; NVIDIA
    MFT manual, mlxconfig; ibhosts(8).
    """
    found = ports(node, device.name)
    active = [port for port in found if port.state == "ACTIVE"]
    others = [f"port {port.number} is {port.state}" for port in found if port.state != "ACTIVE"]
    if active:
        numbers = ", ".join(str(port.number) for port in active)
        return Passed("; ".join([f"port {numbers} is ACTIVE", *others]))
    return Failed(
        seen=", ".join(others) or "no port",
        expected="an ACTIVE port",
        subject=device.name,
        advice=" ".join(
            f"Port {port.number} of {device.name} is {port.state}: {_waits_for(node, device, port)}"
            for port in found
        ),
    )


def _waits_for(node: Node, device: RdmaDevice, port: RdmaPort) -> str:
    """What a port in this state waits for. Source: InfiniBand specification, 14.2.5.6, PortState."""
    if port.state in ("INIT", "ARMED"):
        return _waits_for_set_up(node, port)
    if other := if_missing("", _siblings_layer, node, device, port):
        return (
            f"it is set to {port.link_layer}, and active ports of other NICs of its kind to {other}: "
            "that is the likely cause. "
            f"`sudo mlxconfig -d {device.pci_address or device.name} query | grep LINK_TYPE` shows it; "
            f"`set LINK_TYPE_P{_port_of_card(device, port)}={_LINK_TYPES[other]}` instead of `query` and a "
            "reboot change it."
        )
    link = (
        "there is no link. Check the cable and the port at its other end: "
        f"`sudo mlxlink -d {port.device}` says what is wrong."
    )
    if port.physical_state == "Polling" and port.link_layer == "InfiniBand":
        return f"{POLLS}. {link[0].upper()}{link[1:]}{_of_vpi(node, device, port)}"
    if port.physical_state != "Disabled":
        return link
    if port.link_layer != "Ethernet":
        return f"it is turned off. `sudo ibportstate -C {port.device} -D 0 {port.number} enable` starts it."
    # mlx5_query_port_roce(), irdma_query_port() and others show Disabled for a link without carrier as well
    names = f"/sys/class/infiniband/{port.device}/device/net"
    return (
        f"it is turned off, or {link} `ip link show NAME` with the name in {names} shows which: without UP, "
        "`sudo ip link set NAME up` starts it."
    )


POLLS = "in physical state Polling it looks for a partner, and none answers"
"""Source: InfiniBand specification, volume 2, 5.6, link training state machine."""


def _of_vpi(node: Node, device: RdmaDevice, port: RdmaPort) -> str:
    """What else a ConnectX port without a partner may be, where no other port shows an InfiniBand fabric."""
    if not device.driver.startswith("mlx5") and not device.name.startswith("mlx5"):
        return ""
    if _active_infiniband(node):
        return ""
    return (
        " A partner that speaks Ethernet never answers: if the switch or the card at the other end is one of"
        f" Ethernet, `sudo mlxconfig -d {device.pci_address or device.name} query | grep LINK_TYPE` shows"
        f" whether the card can change, and `set LINK_TYPE_P{_port_of_card(device, port)}=2` instead of"
        " `query` and a reboot change it."
    )


def _waits_for_set_up(node: Node, port: RdmaPort) -> str:
    """What a port whose cable works waits for. A second subnet manager may disturb a fabric that runs, so
    none is to be started where another port shows that there is one."""
    if port.link_layer == "Ethernet":  # iw_query_port() shows INIT for an interface without an IPv4 address
        names = f"/sys/class/infiniband/{port.device}/device/net"
        return (
            f"the cable works. iWARP waits for an IPv4 address of its interface, whose name is in {names}."
        )
    if port.state == "ARMED":
        return (
            "the cable works. A subnet manager has begun to set the port up: its log says what it waits for."
        )
    words = "the cable works, but no subnet manager has set the port up."
    if not (active := _active_infiniband(node)):
        return (
            f"{words} If a port of another node in its fabric is ACTIVE, there is one: its log says why it "
            "leaves this port out. If none is, start one, in the switch or on one host (opensm)."
        )
    more = f" and {len(active) - 1} more" if len(active) > 1 else ""
    return (
        f"{words} One has set up {active[0]}{more}: in the same fabric do not start another, its log says "
        "why it leaves this port out. Rails may be separate fabrics; then that of this port needs its own. "
        f"`sudo ibhosts -C {port.device} -P {port.number}` lists the hosts of its fabric."
    )


def _active_infiniband(node: Node) -> list[str]:
    """The devices with an active InfiniBand port, which only a subnet manager makes one."""
    return [
        device.name
        for device in rdma_devices(node)
        if any(
            port.state == "ACTIVE" and port.link_layer == "InfiniBand"
            for port in if_missing((), ports, node, device.name)
        )
    ]


_LINK_TYPES = {"InfiniBand": 1, "Ethernet": 2}
"""The values of LINK_TYPE_P1 and LINK_TYPE_P2. Source: NVIDIA MFT manual, mlxconfig, VPI settings."""


def _siblings_layer(node: Node, device: RdmaDevice, port: RdmaPort) -> str:
    """The link layer that all active ports of NICs of the same board have, if this port has another; ""
    otherwise. Only ConnectX can change it, and a card for storage may be of another board."""
    alike = [
        other
        for other in rdma_devices(node)
        if other.name != device.name and device.board_id and other.board_id == device.board_id
    ]
    layers = {one.link_layer for other in alike for one in ports(node, other.name) if one.state == "ACTIVE"}
    found = layers.pop() if len(layers) == 1 else ""
    changeable = device.driver.startswith("mlx5") and found in _LINK_TYPES and port.link_layer in _LINK_TYPES
    return found if changeable and found != port.link_layer else ""


def _port_of_card(device: RdmaDevice, port: RdmaPort) -> int:
    """The number of a port on its card: mlx5 has a function for each port, with one port of its own."""
    function = device.pci_address.rpartition(".")[2]
    return int(function) + 1 if function in ("0", "1") else port.number


@rule(
    "port-on-one-lane",
    Layer.HARDWARE,
    per=rdma_devices,
    slows=(WIRE,),
    reported_by=(DecidingCommand("cat /sys/class/infiniband/*/ports/*/rate", "`(1X `"),),
    cost="The port carries the rate of one lane: a quarter of what the cable could.",
)
def port_on_one_lane(node: Node, device: RdmaDevice) -> Outcome:
    """An InfiniBand port runs on one lane of its cable.

    Cost: The port carries the rate of one lane, and nothing reports an error.

    How to tell: `cat /sys/class/infiniband/<device>/ports/*/rate` prints `(1X ...)`. A port in use has four
    lanes, or two where a cable is split between two ports. On Ethernet one lane is an ordinary cable.

    What to do: Reseat or clean both ends of the cable, and try another cable, module or switch port.
    `sudo mlxlink -d <device>` shows the lanes; `sudo ibportstate -C <device> -D 0 <port> query` shows in
    LinkWidthEnabled whether someone allowed no more than one.

    Why: If lanes fail as the link is trained, InfiniBand goes on with fewer. Dirt, a bent pin or a bad
    cable is enough.

    Source: Linux drivers/infiniband/core/sysfs.c, rate_show(); include/rdma/ib_verbs.h, enum ib_port_width;
    ibportstate(8).
    """
    active = [
        port
        for port in ports(node, device.name)
        if port.state == "ACTIVE" and port.link_layer == "InfiniBand"
    ]
    if not active:
        return NotApplicable("no active InfiniBand port")
    lanes = {port: port_lanes(node, device.name, port.number) for port in active}
    single = next((port for port, count in lanes.items() if count == 1), None)
    if single is None:
        return Passed(", ".join(f"port {port.number} has {count} lanes" for port, count in lanes.items()))
    return Failed(
        seen=f"port {single.number} has 1 lane, {single.rate_gbit_per_s:g} Gbit/s",
        expected="4 lanes, or 2 of a split cable",
        subject=device.name,
    )


@rule(
    "port-slower-than-others",
    Layer.HARDWARE,
    per=nics,
    slows=(WIRE,),
    reported_by=(DecidingCommand("cat /sys/class/infiniband/*/ports/*/rate", "one rate below the others"),),
    cost="A collective over all NICs is as slow as this one.",
)
def port_slower_than_others(node: Node, device: RdmaDevice) -> Outcome:
    """An active port is slower than all the others of its kind.

    Cost: The GPUs that use the NIC have that rate, and a collective over all of them waits for it. Nothing
    reports an error.

    How to tell: `cat /sys/class/infiniband/*/ports/*/rate`, `ibstat` or `ibv_devinfo -v` shows the same rate
    for all NICs of one board but this one.

    What to do: `sudo mlxlink -d <device>` shows the speed and the lanes, and those that each end allows.
    Reseat or clean both ends of the cable, try another cable or module, and look at the speed that the
    switch port is set to. If the port is built so, such as one for storage, nothing has to be done.

    Why: Ports agree on the best rate that both ends and the cable allow. A module or a cable of an older
    generation, a switch port with a lower speed, or lanes that fail lower it.

    Source: InfiniBand specification, 14.2.5.6; Linux drivers/infiniband/core/sysfs.c, rate_show().
    """
    rates = {one.name: rate for one in nics(node) if (rate := _rate(node, one))}
    if device.name not in rates:
        return NotApplicable("no active port")
    if any(_has_one_lane(node, port) for port in ports(node, device.name)):
        return NotApplicable("it runs on one lane, which port-on-one-lane reports")
    kinds = {one.name: _kind(node, one) for one in nics(node) if one.name in rates}
    kind = kinds[device.name]
    if not kind[0]:
        return NotApplicable("its driver does not name the board")
    alike = {name: rates[name] for name in kinds if kinds[name] == kind}
    own = f"{rates[device.name]:g} Gbit/s"
    if lone_slow(alike) != device.name:
        return Passed(f"{own}, one of {len(alike)} of its kind")
    others = max(alike.values())
    for port in ports(node, device.name):
        path = f"{CLASS}/{device.name}/ports/{port.number}/rate"
        node.cite(path, text=f"{port.rate_gbit_per_s:g}", line=1)
    node.cite("NICs of one board", text="one may have another purpose", confidence=Confidence.LIKELY)
    return Failed(
        seen=own,
        expected=f"{others:g} Gbit/s, as {len(alike) - 1} other NICs of its board have",
        subject=device.name,
    )


def _rate(node: Node, device: RdmaDevice) -> float:
    """The best rate of a device's active ports; 0 without any, and for a virtual function, which shares the
    port of another one."""
    if if_missing(False, is_virtual_function, node, device.name):
        return 0.0
    active = (port.rate_gbit_per_s for port in ports(node, device.name) if port.state == "ACTIVE")
    return max(active, default=0.0)


def _kind(node: Node, device: RdmaDevice) -> tuple[str, frozenset[str]]:
    """The board of a NIC and the link layers of its ports."""
    return board(node, device), frozenset(port.link_layer for port in ports(node, device.name))


def board(node: Node, device: RdmaDevice) -> str:
    """The board of a NIC; "" if its driver does not name it."""
    return device.board_id or if_absent("", node.text, f"{CLASS}/{device.name}/board_id").strip()


def _has_one_lane(node: Node, port: RdmaPort) -> bool:
    single = port.state == "ACTIVE" and port.link_layer == "InfiniBand"
    return single and if_missing(0, port_lanes, node, port.device, port.number) == 1


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
    """The RDMA device is implemented in software (Soft-RoCE or Soft-iWARP).

    Cost: There is no direct path through it, and it uses CPU time.

    How to tell: The device is below /sys/devices/virtual, or is called rxe or siw.

    What to do: Nothing makes this device direct; use it only to try programs out. `sudo rdma link delete
    <device>` removes it. A machine with a GPU for the data centre and no other RDMA device is blocked: it
    needs a NIC.

    Why: rdma_rxe and siw emulate an RDMA device on top of any network interface. The CPU reads the memory
    and sends it; no device does.

    Source: Linux drivers/infiniband/sw/rxe and sw/siw.
    """
    if device.virtual:
        return Failed(
            seen="an RDMA device implemented in software",
            expected="a NIC that reads memory itself",
            subject=device.name,
            permanent=frozenset() if not nics(node) and if_missing(False, nic_expected, node) else None,
        )
    return Passed(f"a PCI device, {device.pci_address}" if device.pci_address else "not rxe or siw")
