"""Of what each statement is true: PCI addresses, names of modules, files of settings, programs.

A pair is "GPU NIC", by their addresses. The names follow from the description alone; words.py knows how
gdrkit calls the same things."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from machines import health, rack
from machines.distance import NEAR, distance, own, refused
from machines.facts import (
    GPU_EXCLUDED,
    GPU_REFUSED,
    NEEDS_RESET,
    NEXT_WITHOUT_DRIVER,
    NIC_GIVEN_UP,
    SWITCHES_WAIT,
    WITHOUT_NVLINK,
    degraded,
    linked,
    narrow,
)
from machines.hardware import BRIDGES
from machines.install import files, running
from machines.loading import Loading, signature
from machines.machine import Function, Machine

Names = frozenset[str]


def subjects(machine: Machine, loading: Loading) -> dict[str, Names]:
    """The names of what each statement is true of; a statement that is not here may name anything."""
    found = {code: frozenset(of(machine)) for code, of in _OF.items()}
    found |= _of_modules(machine, loading)
    return {code: names for code, names in found.items() if names}


def _addresses(functions: Iterable[Function]) -> set[str]:
    return {function.address for function in functions}


def _hardware(machine: Machine) -> list[Function]:
    return [nic for nic in machine.nics if nic.nic] if machine.rdma_driver_loaded else []


def _gpus(test: Callable[[Function], bool]) -> Callable[[Machine], set[str]]:
    return lambda machine: _addresses(gpu for gpu in machine.gpus if test(gpu))


def _nics(test: Callable[[Function], bool] = lambda nic: True) -> Callable[[Machine], set[str]]:
    return lambda machine: _addresses(nic for nic in machine.nics if test(nic))


def _of_kind(kind: str) -> Callable[[Machine], set[str]]:
    return _gpus(lambda gpu: gpu.gpu is not None and gpu.gpu.kind == kind)


def _of_architecture(*names: str) -> Callable[[Machine], set[str]]:
    return _gpus(lambda gpu: gpu.gpu is not None and gpu.gpu.architecture in names)


def _pairs(machine: Machine, test: Callable[[Machine, Function, Function], bool]) -> set[str]:
    """GPUs with the NICs that are their own."""
    nics = _hardware(machine)
    near = ((gpu, nic) for gpu in machine.gpus for nic in (own(machine, gpu, nics) if nics else ()))
    return {f"{gpu.address} {nic.address}" for gpu, nic in near if test(machine, gpu, nic)}


def _distant(machine: Machine) -> set[str]:
    return _pairs(machine, lambda machine, gpu, nic: distance(machine, gpu, nic) not in NEAR)


def _across(machine: Machine) -> set[str]:
    return _pairs(machine, lambda machine, gpu, nic: distance(machine, gpu, nic) == "SYS")


def _refused_pairs(machine: Machine) -> set[str]:
    return _pairs(machine, lambda machine, gpu, nic: refused(machine, gpu, [nic]))


def _small(gpu: Function) -> bool:
    assert gpu.gpu
    return 0 < (gpu.gpu.bar1_mib if gpu.bar1_mib < 0 else gpu.bar1_mib) <= 256


def _redirecting(machine: Machine) -> set[str]:
    """The ports between a GPU and its NIC that send requests or completions up."""
    bridges = (one for one in machine.functions if one.is_bridge and BRIDGES[one.part].kind == "down")
    return _addresses(bridge for bridge in bridges if {"RR", "CR"} & set(bridge.acs))


def _degraded_ends(machine: Machine) -> set[str]:
    return _addresses(end for end in linked(machine) if degraded(machine, end))


def _alone(machine: Machine) -> set[str]:
    """GPUs below whose switch there is no NIC."""
    nics = [*(nic for nic in machine.nics if nic.nic), *health.given_up(machine)]
    compute = [gpu for gpu in machine.gpus if gpu.gpu and gpu.gpu.kind != "consumer"]
    return _addresses(g for g in compute if not any(distance(machine, g, nic) in NEAR for nic in nics))


def _nics_alone(machine: Machine) -> set[str]:
    """NICs below whose switch there is no GPU, in the form that the rails have."""
    nics = [nic for nic in machine.nics if nic.nic]
    return _addresses(n for n in nics if not any(distance(machine, g, n) in NEAR for g in machine.gpus))


def _left_out(machine: Machine) -> set[str]:
    kept = machine.nccl_conf.get("NCCL_IB_HCA", "").lstrip("=").split(",")
    return _addresses(nic for nic in machine.nics if nic.rdma not in kept) if kept != [""] else set()


def _probed(machine: Machine) -> set[str]:
    names = {
        device for call, _, device, _, _ in machine.probe.get("verbs", ()) if call == "ibv_reg_dmabuf_mr"
    }
    return _addresses(nic for nic in machine.nics if nic.rdma in names)


def _one_card(machine: Machine) -> set[str]:
    cards = [nic.card for nic in machine.nics if nic.card]
    return _addresses(nic for nic in machine.nics if nic.card and cards.count(nic.card) > 1)


def _not_mlx5(machine: Machine) -> set[str]:
    return _addresses(n for n in machine.nics if "mlx5" not in n.rdma or not n.nic or n.part == "EFA")


def _set_in(*names: str) -> Callable[[Machine], set[str]]:
    """The file of settings where one of these variables stands."""

    def of(machine: Machine) -> set[str]:
        places = {"etc/nccl.conf": machine.nccl_conf, "etc/environment": machine.environment}
        return {place for place, held in places.items() if any(name in held for name in names)}

    return of


def _always(*names: str) -> Callable[[Machine], set[str]]:
    return lambda machine: set(names)


_OF: dict[str, Callable[[Machine], set[str]]] = {
    NEEDS_RESET: _gpus(lambda gpu: gpu.ill in health.XIDS),
    GPU_REFUSED: _gpus(lambda gpu: gpu.ill == health.REFUSED),
    GPU_EXCLUDED: _gpus(lambda gpu: gpu.excluded),
    SWITCHES_WAIT: _gpus(rack.waits_for_switches),
    NEXT_WITHOUT_DRIVER: lambda machine: {machine.next_kernel} - {""},
    NIC_GIVEN_UP: lambda machine: _addresses(health.given_up(machine)),
    "device-not-answering": lambda machine: _addresses(
        one for one in (*machine.gpus, *machine.nics) if not one.answers
    ),
    "gpu-passed-through": _gpus(lambda gpu: gpu.bound == "vfio-pci"),
    "gpu-consumer": _of_kind("consumer"),
    "gpu-integrated": _of_kind("integrated"),
    "gpu-vgpu": _of_kind("vgpu"),
    "gpu-before-turing": _of_architecture("volta", "pascal"),
    "send-needs-nvlink": _gpus(lambda gpu: gpu.part in WITHOUT_NVLINK),
    "bar1-small": _gpus(_small),
    "bar1-exhausted": _gpus(lambda gpu: gpu.bar1_free_mib >= 0),
    "mnnvl-fabric-incomplete": _gpus(lambda gpu: gpu.fabric is not None and not gpu.fabric.complete),
    "nic-missing": _alone,
    "gpu-missing": _nics_alone,
    "port-down": _nics(lambda nic: nic.state != "ACTIVE"),
    "rdma-device-software": _nics(lambda nic: nic.nic is None),
    "read-request-small": _nics(lambda nic: nic.read_request == 512),
    "nic-not-mlx5": _not_mlx5,
    "hca-not-selected": _left_out,
    "dmabuf-mr-refused": _probed,
    "shared-nic": _one_card,
    "kernel-lacks-dmabuf": _nics(),
    "kernel-lacks-odp": _nics(lambda nic: nic.bound == "mlx5_core"),
    "data-direct-missing": _nics(lambda nic: nic.part == "CX8"),
    "driver-ignores-peer-memory": _nics(lambda nic: nic.part == "EFA"),
    "nccl-skips-efa": _nics(lambda nic: nic.part == "EFA"),
    "efa-p2p-unavailable": _nics(lambda nic: nic.part == "EFA"),
    "rdma-device-not-in-container": _nics(),
    "acs-redirect": _redirecting,
    "link-degraded": _degraded_ends,
    "link-narrower-than-port": lambda machine: _addresses(
        nic for nic in _hardware(machine) if nic.state != "DOWN" and narrow(nic)
    ),
    "pair-distant": _distant,
    "pair-cross-socket": _across,
    "topology-refused": _refused_pairs,
    "dmabuf-disabled-by-env": _set_in(
        "NCCL_DMABUF_ENABLE", "NVSHMEM_IB_DISABLE_DMABUF", "UCX_IB_GPU_DIRECT_RDMA"
    ),
    "ib-disabled-by-env": _set_in("NCCL_IB_DISABLE", "NCCL_NET", "UCX_IB_GPU_DIRECT_RDMA"),
    "gdr-level-ignored": _set_in("NCCL_NET_GDR_LEVEL"),
    "gdr-read-off": _set_in("NCCL_NET_GDR_READ"),
    "gid-index-wrong": _set_in("NCCL_IB_GID_INDEX"),
    "ibgda-cpu-assisted": _set_in("NVSHMEM_IBGDA_NIC_HANDLER"),
    "ucx-transport-excluded": _set_in("UCX_TLS"),
    "mnnvl-cumem-off": _set_in("NCCL_CUMEM_ENABLE"),
    "mnnvl-disabled-by-env": _set_in("NCCL_MNNVL_ENABLE"),
    "driver-not-loaded": _always("nvidia"),
    "driver-proprietary": _always("nvidia"),
    "driver-modified": _always("nvidia"),
    "driver-mismatch": _always("nvidia", "libcuda"),
    "ibgda-peer-mapping-denied": _always("nvidia"),
    "legacy-nv-peer-mem": _always("nv_peer_mem"),
    "lock-inversion": _always("nvidia_peermem"),
    "peermem-not-loaded": _always("nvidia_peermem"),
    "peermem-not-persistent": _always("nvidia_peermem"),
    "peermem-redundant": _always("nvidia_peermem"),
    "peermem-blocks-ofed": _always("nvidia_peermem"),
    "peermem-stub": _always("nvidia_peermem"),
    "peermem-registration-refused": _always("nvidia_peermem"),
    "ofed-rebuilt-after-driver": _always("nvidia_peermem"),
    "nccl-lacks-dmabuf": _always("nccl"),
    "nccl-misses-peermem": _always("nccl"),
    "gin-unavailable": _always("nccl"),
    "ucx-lacks-dmabuf": _always("ucx"),
    "ucx-misses-peermem": _always("ucx"),
    "nvshmem-misses-peermem": _always("nvshmem"),
    "mooncake-forces-peermem": _always("mooncake"),
    "mooncake-forces-dmabuf": _always("mooncake"),
    "verbs-lacks-dmabuf": _always("libibverbs"),
    "verbs-library-old": _always("libibverbs"),
    "nic-buffers-not-mappable": _always("libibverbs"),
    "gdrcopy-not-loaded": _always("gdrdrv"),
    "gdrcopy-version-mismatch": _always("gdrdrv"),
    "gdrcopy-built-for-proprietary": _always("gdrdrv"),
    "nvidia-fs-not-loaded": _always("nvidia_fs"),
    "nvidia-fs-symbols-missing": _always("nvidia_fs"),
    "memlock-limit": _always("memlock"),
    "talos-no-peermem": _always("talos"),
    **dict.fromkeys(
        ("operator-stub", "operator-module-missing", "operator-ofed-changed", "operator-waits-for-ofed"),
        _always("operator"),
    ),
}

_OF_FILES = {
    "module-unsigned", "module-unknown-key", "module-key-revoked", "module-signature-broken",
    "lockdown-blocks-module",
}  # fmt: skip


_NVIDIA = ("nvidia", "nvidia_peermem")
_UNREADABLE = ("empty", "truncated", "foreign")
"""Damage that no kernel of any trust reads past."""


def _of_modules(machine: Machine, loading: Loading) -> dict[str, Names]:
    """Statements about single module files: those that are refused, and the one that modprobe stops at."""
    found: dict[str, set[str]] = {}
    for module in files(machine):
        if module.name in _NVIDIA and (refusal := signature(machine, module)):
            found.setdefault(refusal[1], set()).add(module.name)
    for code in loading.causes - _OF_FILES - {"dependency-failed"}:
        if code.startswith(("module-", "install-")) or code == "modules-disabled":
            found.setdefault(code, set()).add(loading.module)
    if "module-corrupt" in found:  # modprobe stops at one, and the other is no better
        found["module-corrupt"] |= {
            m.name for m in files(machine) if m.damage in _UNREADABLE and m.name in _NVIDIA
        }
    names = {module.name for module in running(machine)}
    if "modules-disabled" in found:  # of every module that is not loaded yet
        found["modules-disabled"] |= {"nvidia", "nvidia_peermem"} - names
    if loading.causes and "dependency-failed" in loading.causes:
        found["dependency-failed"] = {"nvidia_peermem"} - names
    return {code: frozenset(held) for code, held in found.items()}
