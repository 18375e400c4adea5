"""Topologies: where GPUs and NICs hang."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from machines.hardware import GPUS, NICS
from machines.machine import Function

Layout = Callable[[random.Random, str, str], list[Function]]
_SPREAD = (0x15, 0x38, 0x4C, 0x5B, 0x97, 0xB5, 0xCB, 0xDA)


class _Builder:
    """Functions under construction; names devices in the order in which they are added."""

    def __init__(self, domain: int = 0) -> None:
        self.functions: list[Function] = []
        self.domain = domain
        self.devices = 0

    def add(
        self,
        bus: int,
        slot: int,
        part: str,
        above: Function | None = None,
        numa: int = 0,
        function: int = 0,
        **more: object,
    ) -> Function:
        address = f"{self.domain:04x}:{bus:02x}:{slot:02x}.{function:x}"
        made = Function(address, part, above.address if above else "", numa)
        for name, value in more.items():
            setattr(made, name, value)
        if part in NICS and "rdma" not in more:
            self.name(made)
        self.functions.append(made)
        return made

    def name(self, nic: Function) -> None:
        product = NICS[nic.part]
        if nic.part == "EFA":
            nic.rdma = f"rdmap{int(nic.address[5:7], 16)}s0"
        else:
            nic.rdma = f"mlx5_{self.devices}"
            nic.net = f"{'ens' if product.ethernet else 'ib'}{self.devices}np0"
        self.devices += 1

    def bond(self, first: Function, number: int) -> None:
        """A second port of the card, bonded with the first: mlx5's LAG has one RDMA device for both."""
        first.rdma, first.bond = f"mlx5_bond_{number}", f"bond{number}"
        second = replace(first, address=first.address[:-1] + "1", rdma="", port_name="p1")
        second.net = f"{first.net}b"
        self.functions.append(second)

    def switch(
        self, bus: int, root: str, numa: int, kinds: str = "switch"
    ) -> Callable[[int, str], Function]:
        """A switch below a root port; returns what adds one device below it."""
        port = self.add(bus, 1, root, numa=numa)
        up = self.add(bus + 1, 0, f"{kinds}-up", port, numa)

        def below(index: int, part: str) -> Function:
            down = self.add(bus + 2, index, f"{kinds}-down", up, numa)
            return self.add(bus + 3 + index, 0, part, down, numa)

        return below


def rails(random: random.Random, gpu: str, nic: str, cpu: str = "intel") -> list[Function]:
    """One switch for each GPU with its NIC, as in DGX and HGX machines, and perhaps a NIC for storage."""
    count = random.choice((1, 1, 2, 2, 2, 4, 4, 8))
    made = _Builder()
    bonded = NICS[nic].ethernet and NICS[nic].driver == "mlx5_core" and random.random() < 0.2
    for index in range(count):
        below = made.switch(_SPREAD[index], cpu, index * 2 // count if count > 1 else 0)
        first = below(0, nic)
        below(1, gpu)
        if bonded:
            made.bond(first, index)
    if random.random() < 0.4:
        root = made.add(0x05, 1, cpu)
        made.add(0x06, 0, "CX6 Dx", root, rate=100)
    return made.functions


def shared_switches(random: random.Random, gpu: str, nic: str, cpu: str = "intel") -> list[Function]:
    """Two GPUs and one NIC, or one GPU and two NICs, below each switch."""
    made = _Builder()
    groups = random.choice((1, 2, 4))
    two_nics = random.random() < 0.4
    for index in range(groups):
        below = made.switch(_SPREAD[index], cpu, index * 2 // groups if groups > 1 else 0)
        for at, part in enumerate((nic, nic, gpu) if two_nics else (nic, gpu, gpu)):
            below(at, part)
    return made.functions


def coherent(random: random.Random, gpu: str, nic: str, cpu: str = "grace") -> list[Function]:
    """Grace with Hopper or Blackwell: GPU and NIC at root ports of one processor."""
    made = _Builder()
    for socket in range(1 if gpu == "GH200" else random.choice((1, 2))):
        made.domain = 16 * socket
        made.add(3, 0, nic, made.add(0, 0, "grace", numa=socket), socket)
        made.domain = 16 * socket + 8
        made.add(1, 0, gpu, made.add(0, 0, "grace", numa=socket), socket)
    return made.functions


def spark(random: random.Random, gpu: str, nic: str, cpu: str = "gb10") -> list[Function]:
    """A DGX Spark or a relative: one card on two links, each port on both."""
    made = _Builder()
    names = (
        ("rocep1s0f0", "enp1s0f0np0"),
        ("rocep1s0f1", "enp1s0f1np1"),
        ("roceP2p1s0f0", "enP2p1s0f0np0"),
        ("roceP2p1s0f1", "enP2p1s0f1np1"),
    )
    for link in range(2):
        made.domain = 2 * link
        root = made.add(0, 0, "gb10")
        for port in range(2):
            rdma, net = names[2 * link + port]
            made.add(
                1,
                0,
                "CX7 Spark",
                root,
                function=port,
                rdma=rdma,
                net=net,
                card="spark",
                state="ACTIVE" if port == 0 else "DOWN",
                port_name=f"p{port}",
            )
    made.domain = 15
    made.add(1, 0, "GB10", made.add(0, 0, "gb10-gpu"))
    return made.functions


def vm_switch(random: random.Random, gpu: str, nic: str, cpu: str = "qemu") -> list[Function]:
    """A virtual machine whose hypervisor keeps GPU and NIC below one emulated switch."""
    made = _Builder()
    made.add(0, 4, "virtio-net", net="eth0")
    for index in range(random.choice((1, 2, 4))):
        below = made.switch(0x10 + 0x10 * index, "qemu", 0, "qemu")
        below(0, gpu)
        below(1, nic)
    return made.functions


def vm_flat(random: random.Random, gpu: str, nic: str, cpu: str = "qemu") -> list[Function]:
    """A virtual machine that shows every device at a root port of its own."""
    made = _Builder()
    made.add(0, 4, "virtio-net", net="eth0")
    count = random.choice((1, 1, 2, 2, 8))
    for index in range(count):
        made.add(0x10 + index, 0, gpu, made.add(0, 8 + index, "qemu"))
    for index in range(count):
        made.add(0x20 + index, 0, nic, made.add(0, 16 + index, "qemu"))
    return made.functions


def mixed(random: random.Random, gpu: str, nic: str, cpu: str = "intel") -> list[Function]:
    """Accelerators with a display card beside them."""
    functions = rails(random, gpu, nic, cpu)
    made = _Builder()
    card = "RTX 5090" if GPUS[gpu].open_only else random.choice(("RTX 3090", "RTX 4090"))
    made.add(0x02, 0, card, made.add(0x01, 2, cpu))
    return [*functions, *made.functions]


PLATFORMS: dict[str, tuple[Callable[..., list[Function]], tuple[str, ...], tuple[str, ...]]] = {
    # layout, processors, GPUs that it may have (empty: any of the ordinary ones)
    "rails": (rails, ("intel", "amd"), ()),
    "shared switches": (shared_switches, ("intel", "amd"), ()),
    "Arm server": (rails, ("altra",), ("A100 PCIe", "L40S", "H100 PCIe")),
    "coherent": (coherent, ("grace",), ("GH200", "GB200")),
    "VM with a switch": (vm_switch, ("qemu",), ("A100", "H100", "H200", "L40S")),
    "VM, flat": (vm_flat, ("qemu",), ("A100", "H100", "H200")),
    "display card beside": (mixed, ("intel", "amd"), ("A100", "H100", "L40S", "RTX PRO 6000", "B200")),
    "AWS": (vm_flat, ("qemu",), ("A100", "H100", "H200")),
    "Spark": (spark, ("gb10",), ("GB10",)),
}
ORDINARY_GPUS = (
    "V100",
    "T4",
    "A100",
    "A100 PCIe",
    "L40S",
    "H100",
    "H100 PCIe",
    "H200",
    "B200",
    "RTX A6000",
    "RTX PRO 6000",
)
ORDINARY_NICS = ("CX4 Lx", "CX5", "CX6", "CX6 Dx", "CX7 IB", "CX7", "CX8", "BF3 NIC", "BF3 DPU")
