"""Racks: GPUs whose NVLink reaches other hosts (MNNVL), what the driver says of them, and what is true.

Sources: nvml.h, nvmlGpuFabricInfo_t; NCCL src/mnnvl.cc and src/init.cc, fillInfo(); NVIDIA IMEX guide.
Values of `nvidia-smi -q`: NVIDIA/gpu-operator#2511 (in progress), Azure/azhpc-images#506 (refused)."""

from __future__ import annotations

from machines.machine import Fabric, Function, Machine

CLUSTER, NO_CLUSTER = "2c3e9f4e-77ab-4d0c-9a35-6f1ab34f2b7d", "00000000-0000-0000-0000-000000000000"
CLIQUE = 32766
_SWITCHES = {"NCCL_CUMEM_ENABLE": "mnnvl-cumem-off", "NCCL_MNNVL_ENABLE": "mnnvl-disabled-by-env"}
SWITCHED = ("H100", "H200", "B200")
"""GPUs behind the NVSwitches of their own host: a fabric of one host, without a cluster."""


def join(machine: Machine) -> None:
    """Put the machine into a rack that is set up: fabric, and the channel to share memory."""
    for gpu in members(machine):
        gpu.fabric = Fabric("Completed", "Success", CLIQUE, CLUSTER)
    machine.imex = bool(members(machine))


def members(machine: Machine) -> list[Function]:
    """The GPUs that may be in a rack."""
    return [gpu for gpu in machine.gpus if gpu.part == "GB200"]


def fabric_rows(gpu: Function) -> list[tuple[str, object]]:
    """The rows of `nvidia-smi -q` about the fabric, as from driver 550 on."""
    found = gpu.fabric or gpu.switches
    if found is None:
        alone = gpu.part in (*SWITCHED, "GB200")
        words = ("Completed", "Success", 0, NO_CLUSTER) if alone else ("N/A",) * 4
    elif found.state != "Completed":
        words = (found.state, "N/A", "N/A", "N/A")
    else:
        words = (found.state, found.status, found.clique, found.cluster)
    names = ("State", "Status", "CliqueId", "ClusterUUID")
    return [
        ("    Fabric", ""),
        *((f"        {name}", word) for name, word in zip(names, words, strict=True)),
    ]


def waits_for_switches(gpu: Function) -> bool:
    """Whether the fabric of its own host's NVSwitches is not set up for a GPU, where no CUDA starts then.
    Fabric Manager User Guide, "NVSwitch and NVLink Initialization", cudaErrorSystemNotReady."""
    return gpu.switches is not None and not gpu.switches.complete


def facts(machine: Machine) -> set[str]:
    """The codes that are true. What the driver does not say, nobody can see."""
    true = {code for name, code in _SWITCHES.items() if machine.nccl_conf.get(name) == "0"}
    found = [gpu.fabric for gpu in machine.gpus if gpu.fabric]
    if not _seen(machine):
        return true
    if not found:
        return true | ({"no-mnnvl"} if machine.gpus else set())
    true |= set() if machine.imex else {"mnnvl-imex-channel-missing"}
    true |= set() if all(one.complete for one in found) else {"mnnvl-fabric-incomplete"}
    cliques = {(one.cluster, one.clique) for one in found if one.complete}
    return true | ({"mnnvl-clique-differs"} if len(cliques) > 1 else set())


def state(machine: Machine) -> frozenset[str]:
    """The state of NVLink to other hosts: of the GPUs that are there, the worst."""
    if machine.platform == "WSL":
        return frozenset({"impossible"})
    if not machine.gpus:
        return frozenset({"blocked", "impossible", "unknown"})  # what was expected is in no file
    if any(waits_for_switches(gpu) for gpu in machine.gpus):
        return frozenset(
            {"blocked", "impossible", "unknown"}
        )  # whether it would reach other hosts is not said
    if not any(gpu.fabric for gpu in machine.gpus):
        return frozenset({"impossible"} if _seen(machine) else {"unknown", "blocked"})
    if not _seen(machine):
        return frozenset({"blocked"})
    closed = facts(machine) - {"mnnvl-clique-differs"}  # those of one clique still reach each other
    return frozenset({"blocked" if closed else "ready"})


def _seen(machine: Machine) -> bool:
    """Whether it can be known: no GPU has NVLink-C2C, or the driver runs and nvidia-smi can ask it."""
    driver = machine.driver
    if not any(gpu.gpu and gpu.gpu.coherent for gpu in machine.gpus):
        return True
    if driver is None or not driver.loaded:
        return False
    return driver.library_version in ("", driver.running_version or driver.version)
