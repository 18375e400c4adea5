"""What a direct path is called, and what a GPU gains by it, for people."""

from __future__ import annotations

from msgspec import Struct

PATH_NAMES = {
    "dmabuf": "dma-buf",
    "peermem": "nvidia-peermem",
    "efa-p2p": "EFA's own peer-to-peer",
    "nvlink": "NVLink",
    "cpu-mapped": "gdrdrv",
    "nvidia-fs": "nvidia-fs",
    "p2pdma": "the kernel's P2PDMA",
}


class Gain(Struct, frozen=True):
    """What a path is for: of one GPU, of several, and as a sentence about GPU memory."""

    one: str
    many: str
    memory: str
    note: str = ""  # what else a line about a program says


_NETWORK = Gain(
    "reaches its NIC directly", "reach their NIC directly", "GPU memory reaches the network directly"
)
_STORAGE = Gain(
    "receives data from storage directly",
    "receive data from storage directly",
    "storage reaches GPU memory directly",
    "storage alone, not the network",
)
_GAINS = {
    "nvlink": Gain(
        "reaches the hosts of its rack directly",
        "reach the hosts of their rack directly",
        "GPU memory reaches the network directly",
    ),
    "cpu-mapped": Gain(
        "can be mapped by the CPU",
        "can be mapped by the CPU",
        "the CPU reaches GPU memory directly",
        "for the CPU alone, not a path to the network",
    ),
    "nvidia-fs": _STORAGE,
    "p2pdma": _STORAGE,
}


def gain(path: str) -> Gain:
    """What a GPU gains by a path; an unknown one is taken for one to the network."""
    return _GAINS.get(path, _NETWORK)
