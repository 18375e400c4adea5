"""Pairs of DGX Sparks, as rows and as machines of the generator."""

from __future__ import annotations

import copy
import random

from machines.machine import Machine

from gdrkit.fleet.document import CabledPort, NodeRow, NodeSetting, Standing
from machines import draw

LINK = 126.0
PORTS = (
    ("rocep1s0f0", "enp1s0f0np0", "p0", 0), ("roceP2p1s0f0", "enP2p1s0f0np0", "p0", 2),
    ("rocep1s0f1", "enp1s0f1np1", "p1", 0), ("roceP2p1s0f1", "enP2p1s0f1np1", "p1", 2),
)  # fmt: skip


def spark(name: str, *, up: str = "p1", nets: str = "100 101", **fields: object) -> NodeRow:
    """The row of a Spark whose ports `up` are up; `nets` has a network for each device that is, in order:
    `-` for no address, `?` for one that is not known."""
    host = 10 + ord(name[-1]) - ord("a")
    given = iter(nets.split())
    ports = []
    for number, (device, interface, port, domain) in enumerate(PORTS):
        at = {"device": device, "interface": interface, "name": port, "bus": f"000{domain}:01:00"}
        mac = f"4c:bb:47:00:00:{host:x}{number}"
        if port not in up:
            ports.append(CabledPort(**at, state="DOWN", rate_gbit_per_s=40, mac=mac))
            continue
        net = next(given)
        addresses = {"-": (), "?": None}.get(net, (f"192.168.{net}.{host}/24",))
        values = {
            "rate_gbit_per_s": 200.0, "link": "32 GT/s x4", "link_gbit_per_s": LINK, "mtu": 9000, "gid": 3,
            "mac": mac, "addresses": addresses, **fields,
        }  # fmt: skip
        ports.append(CabledPort(**at, state="ACTIVE", **values))
    settings = (NodeSetting(name="NCCL_IB_HCA", value=f"={up}", why="both devices of a cable"),)
    return NodeRow(
        name=name, target=name, standing=Standing.IMPOSSIBLE, ports=tuple(ports), settings=settings,
        summary="gpu-integrated",
    )  # fmt: skip


def two_sparks() -> tuple[Machine, Machine]:
    """A pair with a cable between the first ports."""
    return spark_machine("spark-a", 0), spark_machine("spark-b", 1)


def spark_machine(name: str, number: int) -> Machine:
    """A Spark of the generator, with a cable in its first port."""
    machine = copy.deepcopy(draw.machine(1, random.Random("spark 1"), "Spark"))
    machine.name, machine.number = name, number
    return machine
