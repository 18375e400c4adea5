"""One of several equal NICs whose port has another link layer."""

from __future__ import annotations

from gdrkit.evidence import Confidence
from gdrkit.facts.port_width import lone
from gdrkit.facts.rdma import CLASS, RdmaDevice, below_one_switch, hardware_pairs, nics, ports
from gdrkit.node import Node
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.rdma_ports import board
from gdrkit.rules.rule import Failed, Layer, NotApplicable, Outcome, Passed, Status, rule


@rule(
    "link-layer-differs",
    Layer.FIRMWARE,
    per=nics,
    default_status=Status.WARNING,
    reported_by=(
        DecidingCommand("cat /sys/class/infiniband/*/ports/*/link_layer", "one line unlike the others"),
    ),
    cost="The GPU beside it is not on the fabric of the others.",
)
def link_layer_differs(node: Node, device: RdmaDevice) -> Outcome:
    """A GPU's NIC has another link layer than the equal NICs of the other GPUs.

    Cost: The port is up, but on another fabric: a collective over all GPUs reaches the other hosts' NICs of
    this rail only if theirs is set so, too. Else it fails, or waits for a connection.

    How to tell: `cat /sys/class/infiniband/*/ports/*/link_layer` or `ibstat` shows InfiniBand for all NICs
    of one board and Ethernet for this one, or the reverse.

    What to do: Compare with the same NIC of another host. To set it, `sudo mlxconfig -d <device> query |
    grep LINK_TYPE`, then `set LINK_TYPE_P1=1` for InfiniBand, 2 for Ethernet, and reboot. If the port is
    meant for another network, leave it out of jobs with NCCL_IB_HCA.

    Why: The link layer is a setting of the NIC's firmware. A replaced card comes with the factory's, and a
    reset of the settings brings that back.

    Source: NVIDIA MFT, mlxconfig, LINK_TYPE_P1; Linux drivers/infiniband/core/sysfs.c, link_layer_show().
    """
    beside_gpus = {pair.device for pair in hardware_pairs(node) if below_one_switch(node, pair)}
    if device.name not in beside_gpus:
        return NotApplicable("no GPU's own NIC")
    equals = (device, *(one for one in nics(node) if one.name in beside_gpus - {device.name}))
    active = {one: layers for one in equals if (layers := _active_layers(node, one))}
    if device not in active:
        return NotApplicable("no active port")
    seen = " and ".join(sorted(active[device]))
    if set(active.values()) == {active[device]}:
        return Passed(f"{seen}, as all of them")
    if not (own := board(node, device)):
        return NotApplicable("its driver does not name the board")
    alike = {one.name: layers for one, layers in active.items() if board(node, one) == own}
    if lone(alike) != device.name:
        return Passed(f"{seen}, one of {len(alike)} of its kind")
    usual = next(layers for name, layers in alike.items() if name != device.name)
    for port in ports(node, device.name):
        node.cite(f"{CLASS}/{device.name}/ports/{port.number}/link_layer", text=port.link_layer, line=1)
    node.cite("NICs of one board", text="one may have another purpose", confidence=Confidence.LIKELY)
    return Failed(
        seen=seen,
        expected=f"{' and '.join(sorted(usual))}, as {len(alike) - 1} other NICs of its board",
        subject=device.name,
    )


def _active_layers(node: Node, device: RdmaDevice) -> frozenset[str]:
    return frozenset(port.link_layer for port in ports(node, device.name) if port.state == "ACTIVE")
