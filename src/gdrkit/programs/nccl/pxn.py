"""PXN: a GPU sends through another one of the node, over NVLink, because that one is near the NIC.

NCCL then tests the distance of the other GPU, in both directions: src/graph/paths.cc, ncclTopoComputePaths()
and ncclTopoCheckGdr(). So a pair that is too far apart is direct all the same."""

from __future__ import annotations

from collections.abc import Callable

from gdrkit.evidence import EvidenceMissing
from gdrkit.facts.nvlink import joined_by_nvlink
from gdrkit.facts.pci import PciGpu, gpu_at, gpus
from gdrkit.facts.rdma import Pair
from gdrkit.formats.whole_number import integer
from gdrkit.node import Node
from gdrkit.programs.environment import Environment
from gdrkit.programs.nccl.releases import release
from gdrkit.programs.nccl.settings import gdr_level
from gdrkit.rules.driver_not_loaded import driver_not_loaded
from gdrkit.rules.unusable import unusable_gpu


def sender(
    node: Node, pair: Pair, version: str, settings: Environment, is_near: Callable[[Pair], bool]
) -> PciGpu | None:
    """The GPU that would send for the one of a pair; None without one.

    Raises EvidenceMissing if NVLink to all GPUs that are near the NIC is absent or not known."""
    gpu = gpu_at(node, pair.gpu)
    if gpu is None or "PXN" not in release(version).order or _is_off(settings):
        return None
    missing: EvidenceMissing | None = None
    for other in gpus(node):
        if other == gpu or _is_lost(node, other) or not is_near(Pair(other.address, pair.device)):
            continue
        try:
            if joined_by_nvlink(node, gpu, other):
                return other
        except EvidenceMissing as error:
            missing = missing or error
    if missing is not None:
        raise missing
    return None


def _is_lost(node: Node, gpu: PciGpu) -> bool:
    """Whether no program can use this GPU alone; that the driver is not loaded has a rule of its own, for
    all of them."""
    return unusable_gpu(node, gpu) not in (None, driver_not_loaded.code)


def serves_at_cpu(version: str, settings: Environment) -> bool:
    """Whether a GPU sends for others through a NIC at the CPU that it is coherent with: NCCL_PXN_C2C."""
    given, usual = settings.get("NCCL_PXN_C2C"), release(version).pxn_c2c
    return usual is not None and (usual if given is None else integer(given.value)) not in (None, 0)


def _is_off(settings: Environment) -> bool:
    """Whether a setting keeps GPUs from sending for others: its own, or one that turns NVLink off."""

    def is_one(name: str) -> bool:
        given = settings.get(name)
        return given is not None and integer(given.value) == 1

    level = settings.get("NCCL_P2P_LEVEL")
    without_nvlink = level is not None and gdr_level(level.value) == "LOC"
    return without_nvlink or is_one("NCCL_PXN_DISABLE") or is_one("NCCL_P2P_DISABLE")
