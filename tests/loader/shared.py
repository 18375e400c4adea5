"""What the tests of predictions share: expected words, and the modules of the peermem family."""

from __future__ import annotations

from tests.kernel_tree import KERNEL_SYMBOLS, KernelTree
from tests.module_builder import build_module

OUT_OF_TREE = "x: loading out-of-tree module taints kernel."
UNVERIFIED = "x: module verification failed: signature and/or required key missing - tainting kernel"
TAINTS = (OUT_OF_TREE, UNVERIFIED)
TAINTED = str(1 << 12 | 1 << 13)


def could_not(error: str, module: str = "x") -> tuple[str, ...]:
    return (f"modprobe: ERROR: could not insert '{module}': {error}",)


def stub(name: str = "x", **shape: object) -> bytes:
    """nvidia-peermem built without the peer-memory API."""
    trivial = {
        "__fentry__": KERNEL_SYMBOLS["__fentry__"].crc,
        "param_ops_int": KERNEL_SYMBOLS["param_ops_int"].crc,
    }
    parameters = {"peerdirect_support": "int", "persistent_api_support": "int"}
    return build_module(name, imports=trivial, parameters=parameters, license="Dual BSD/GPL", **shape)  # type: ignore[arg-type]


def full(tree: KernelTree, loaded: str | None = "OE") -> KernelTree:
    """The full nvidia-peermem, its driver and an RDMA core with the API."""
    tree.module("nvidia", exports={"nvidia_p2p_get_pages": 1}, license="Dual MIT/GPL", loaded=loaded)
    tree.module("ib_core", exports={"ib_register_peer_memory_client": 2}, loaded=loaded)
    return tree.module(
        "nvidia_peermem",
        file="nvidia-peermem.ko",
        imports={"nvidia_p2p_get_pages": 1, "ib_register_peer_memory_client": 2},
        parameters={"peerdirect_support": "int"},
        depends=("nvidia", "ib_core"),
    )
