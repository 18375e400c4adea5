"""A node's hardware in memory, from an outline of tests/evidence_builder/pci.py.

node = machine(outline, files={"proc/cpuinfo": BARE_METAL}, smi="...")
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gdrkit.node import Node
from tests.evidence_builder import pci, rdma
from tests.evidence_builder.tree import Tree
from tests.memory_host import MemoryHost

BARE_METAL = {
    "proc/cpuinfo": "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: fpu vme de pse\n",
    "proc/sys/kernel/osrelease": "6.8.0-45-generic\n",
    "sys/class/dmi/id/sys_vendor": "Supermicro\n",
    "sys/class/dmi/id/product_name": "SYS-821GE-TNHR\n",
    "sys/class/dmi/id/board_name": "X13DEG-OAD\n",
}
GUEST = BARE_METAL | {
    "proc/cpuinfo": "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: fpu vme hypervisor\n"
}
SMI, PROBE = ("nvidia-smi", "-q"), ("gdr", "probe", "cuda", "--json")

SERVER = """
0000:15:01.0 spr-root numa=0
  0000:16:00.0 pex89-up
    0000:17:00.0 pex89-down
      0000:1b:00.0 h100-sxm
    0000:17:01.0 pex89-down
      0000:18:00.0 cx7-ib rdma=mlx5_0
"""
"""One GPU and one NIC below one switch."""

SPARK = """
0000:00:00.0 gb10-root
  0000:01:00.0 cx7-spark rdma=rocep1s0f0 net=enp1s0f0np0 port_name=p0 guid=3c6d6603 state=DOWN rate=40
  0000:01:00.1 cx7-spark rdma=rocep1s0f1 net=enp1s0f1np1 port_name=p1 guid=3c6d6603 rate=200
0002:00:00.0 gb10-root
  0002:01:00.0 cx7-spark rdma=roceP2p1s0f0 net=enP2p1s0f0np0 port_name=p0 guid=3c6d6603 state=DOWN rate=40
  0002:01:00.1 cx7-spark rdma=roceP2p1s0f1 net=enP2p1s0f1np1 port_name=p1 guid=3c6d6603 rate=200
000f:00:00.0 gb10-gpu-root
  000f:01:00.0 gb10
"""


def machine(
    outline: str = SERVER,
    *,
    spec: Mapping[str, Any] | None = None,
    root: bool = True,
    files: Mapping[str, bytes | str] = BARE_METAL,
    commands: Mapping[tuple[str, ...], bytes | str] | None = None,
    without: tuple[str, ...] = (),
    complete: bool = True,
) -> Node:
    """A node with the devices of an outline.

    `without` are files and folders that were not collected. `complete`: all other missing files are known to
    be absent, as on a live machine."""
    tree = Tree()
    devices = pci.parse(outline)
    spec = {"iommu": "identity", **(spec or {})}
    pci.write(tree, devices, spec, root=root)
    rdma.write(tree, devices, spec)
    for path, content in files.items():
        tree.file(path, content)
    for path in without:
        tree.drop(path)
    host = Uncollected(
        tree.files, commands=commands or {}, links=tree.links, complete=complete, without=without
    )
    return Node(host)


class Uncollected(MemoryHost):
    """A host on which some paths were not collected, even if `complete`."""

    def __init__(self, *args: Any, without: tuple[str, ...], **options: Any) -> None:
        super().__init__(*args, **options)
        self.without = without

    def _error(self, path: str):  # type: ignore[no-untyped-def]
        complete = self.complete
        self.complete = complete and not any(path == p or path.startswith(p + "/") for p in self.without)
        try:
            return super()._error(path)
        finally:
            self.complete = complete


def probe(
    address: str, attributes: Mapping[int, int], *more: Mapping[str, object]
) -> dict[tuple[str, ...], str]:
    """A recorded probe of one GPU, as a command's output."""
    import json

    calls: list[Mapping[str, object]] = [
        {"call": "cuDeviceGetAttribute", "argument": str(k), "device": address, "result": 0, "value": v}
        for k, v in attributes.items()
    ]
    return {PROBE: json.dumps({"schema": "gdrkit.probe.cuda/1", "calls": [*calls, *more]})}
