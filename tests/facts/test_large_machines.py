"""Evidence with more GPUs and NICs than any machine has: one clear line, in bounded time and memory."""

from __future__ import annotations

import pytest

from gdrkit.diagnosis import diagnose
from gdrkit.evidence.errors import TargetError
from gdrkit.facts.rdma import pairs
from gdrkit.node import Node
from tests.memory_host import MemoryHost
from tests.work import within


class FlatHost(MemoryHost):
    """A made-up machine: all GPUs and NICs below one host bridge. Folders are listed from a table."""

    def __init__(self, gpus: int, nics: int) -> None:
        super().__init__()
        self.names: dict[str, list[str]] = {"sys/bus/pci/devices": [], "sys/class/infiniband": []}
        for index in range(gpus + nics):
            address = f"{index >> 8:04x}:{index & 255:02x}:00.0"
            folder = f"sys/devices/pci{address[:4]}:00/{address}"
            self.links[f"sys/bus/pci/devices/{address}"] = folder
            self.names["sys/bus/pci/devices"].append(address)
            kind = (
                "PCI_CLASS=30200\nPCI_ID=10DE:2330" if index < gpus else "PCI_CLASS=20700\nPCI_ID=15B3:1021"
            )
            self.files[f"sys/bus/pci/devices/{address}/uevent"] = kind.encode()
            if index >= gpus:
                name = f"mlx5_{index - gpus}"
                self.links[f"sys/class/infiniband/{name}"] = f"{folder}/infiniband/{name}"
                self.names["sys/class/infiniband"].append(name)

    def resolve(self, path: str) -> str:
        return self.links.get(path, path)

    def exists(self, path: str) -> bool:
        return path in self.files

    def list(self, path: str) -> tuple[str, ...]:
        if path not in self.names:
            raise self._error(path)
        return tuple(self.names[path])


@pytest.mark.parametrize(
    ("gpus", "nics", "line"),
    [
        (120, 120, "120 GPUs and 120 RDMA devices"),
        (256, 256, "256 GPUs and 256 RDMA devices"),
        (4000, 4000, "are more than one machine has"),
        (1, 4000, "4000 RDMA devices"),
        (4000, 1, "4000 GPUs"),
    ],
)
def test_more_than_any_machine_has_is_refused_at_once(gpus: int, nics: int, line: str) -> None:
    with within(30), pytest.raises(TargetError, match=line) as error:
        diagnose(FlatHost(gpus, nics))
    assert "more than one machine has" in str(error.value) and error.value.hint


def test_the_largest_machine_that_is_accepted() -> None:
    assert len(pairs(Node(FlatHost(64, 64)))) == 4096
