"""What a saved topology shows for the configuration of NCCL."""

from __future__ import annotations

from gdrkit.fabric.topology.graph import SmiPath, Topology
from gdrkit.fabric.topology.paths import smi_paths
from gdrkit.facts.gpu_ids import COHERENT, INTEGRATED
from gdrkit.facts.rdma import DEVICE_NAME, Pair, RdmaPort
from gdrkit.repair.config.request import SavedMachine

ORDER = tuple(SmiPath)


def saved_machine(topology: Topology) -> SavedMachine:
    """The ports of a topology that are not known to be down, and each GPU's nearest ones.

    Without those that have a name of no kernel's: it would be written into settings."""
    nets = [
        net
        for net in topology.nets
        if DEVICE_NAME.fullmatch(net.device) and not net.is_down and not net.is_virtual
    ]
    nearest: list[tuple[Pair, str]] = []
    for gpu in topology.gpus:
        paths = [(net, smi_paths(topology, gpu, net)) for net in nets]
        known = [(ORDER.index(path[-1]), net.device, path[-1].value) for net, path in paths if path]
        best = min(known, default=(0, "", ""))[0]
        nearest += [(Pair(gpu.id, device), word) for far, device, word in known if far == best]
    devices = {
        found.device for gpu in topology.gpus if (found := topology.by_address.get(gpu.address)) is not None
    }
    return SavedMachine(
        ports=tuple(
            RdmaPort(
                net.device, net.number or 1, "ACTIVE", "LinkUp", net.rate_gbit_per_s or 0.0, net.link_layer
            )
            for net in nets
        ),
        nearest=tuple(nearest),
        coherent=not devices.isdisjoint(COHERENT),
        integrated=not devices.isdisjoint(INTEGRATED) or any(gpu.is_integrated for gpu in topology.gpus),
    )
