"""Data Direct: a second path from a ConnectX-8 to a coherent GPU."""

from __future__ import annotations

from gdrkit.facts.gpu import is_coherent
from gdrkit.facts.pci import PciDevice, bound_driver, device_at, devices, gpus
from gdrkit.facts.rdma import RdmaDevice, nic_address, nics
from gdrkit.node import Node, each_known, fact, seek
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.rule import DMABUF, Failed, Layer, NotApplicable, Outcome, Passed, rule

MELLANOX, CONNECTX_8, DATA_DIRECT = "15b3", "1023", "2100"
"""pci.ids, CX8 Family; Linux drivers/infiniband/hw/mlx5/data_direct.c, mlx5_data_direct_pci_table."""


@fact
def data_direct_functions(node: Node) -> tuple[PciDevice, ...]:
    """The PCI functions through which ConnectX-8 cards reach GPUs below the same switch."""
    return tuple(d for d in devices(node) if (d.vendor, d.device) == (MELLANOX, DATA_DIRECT))


@rule(
    "data-direct-missing",
    Layer.RDMA,
    per=nics,
    slows=(DMABUF,),
    reported_by=(DecidingCommand("lspci -k -d 15b3:2100", "no function, or none that mlx5_ib drives"),),
    cost="Traffic to the GPU goes through the CPU's fabric instead of the switch that both share.",
    references=("https://docs.kernel.org/networking/device_drivers/ethernet/mellanox/mlx5/",),
)
def data_direct_missing(node: Node, device: RdmaDevice) -> Outcome:
    """A ConnectX-8 next to a coherent GPU has no working Data Direct function.

    Cost: A PCIe mapping of GPU memory cannot be used; the data crosses the CPU.

    How to tell: The machine has a ConnectX-8 (15b3:1023) and a GPU joined to its CPU by NVLink-C2C (GH200,
    GB200, GB300), but `lspci -k -d 15b3:2100` lists no function, or none that mlx5_ib drives.

    What to do: Run `sudo rdma_topo check` (rdma-core of October 2025 or newer); it reports what is wrong.
    Then install a newer kernel or DOCA-OFED, or enable Data Direct in the NIC's firmware.

    Why: On these machines the NIC's ordinary function is attached to the CPU. A second function, below the
    switch that it shares with the GPU, carries GPU traffic. It is disabled in firmware, or mlx5_ib is older
    than the one of Linux 6.12 or its OFED counterpart.

    Source: Linux drivers/infiniband/hw/mlx5/data_direct.c; rdma-core kernel-boot/rdma_topo.
    """
    nic = device_at(node, nic_address(node, device.name))
    if (nic.vendor, nic.device) != (MELLANOX, CONNECTX_8):
        return NotApplicable("not a ConnectX-8")
    if seek(gpus(node), lambda gpu: is_coherent(node, gpu)) is None:
        return NotApplicable("no GPU is coherent with its CPU")
    found = data_direct_functions(node)
    if seek(found, lambda function: bool(bound_driver(node, function.address))) is not None:
        driven = each_known(lambda function: (function.address, bound_driver(node, function.address)), found)
        return Passed(", ".join(address for address, driver in driven if driver))
    seen = f"{found[0].address} without a driver" if found else "no function 15b3:2100"
    return Failed(seen=seen, expected="a function 15b3:2100 driven by mlx5_ib", subject=device.name)
