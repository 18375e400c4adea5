"""Faults of libraries, settings and operators."""

from __future__ import annotations

import random
from collections.abc import Callable

from machines.facts import offers_dmabuf, sends_through_host_memory
from machines.faults.fault import Evidence, Fault
from machines.faults.files import full
from machines.machine import Machine
from machines.truth import number


def _ordinary(machine: Machine) -> bool:
    return machine.platform not in ("AWS", "Talos", "Spark", "VM, flat") and bool(machine.libraries.nccl)


def _nccl(version: str) -> Callable[[Machine, random.Random], None]:
    def plant(machine: Machine, source: random.Random) -> None:
        machine.libraries.nccl = version

    return plant


def _ucx(version: str) -> Callable[[Machine, random.Random], None]:
    def plant(machine: Machine, source: random.Random) -> None:
        machine.libraries.ucx = version

    return plant


def _setting(name: str, values: tuple[str, ...], claim: str) -> Callable[[Machine, random.Random], None]:
    def plant(machine: Machine, source: random.Random) -> None:
        machine.nccl_conf[name] = source.choice(values)
        machine.claims.add(claim)

    return plant


def _unset(*names: str) -> Callable[[Machine], bool]:
    """No setting of these names: two values would make one fault of two."""

    def fits(machine: Machine) -> bool:
        return _ordinary(machine) and not any(name in machine.nccl_conf for name in names)

    return fits


def _nvshmem(machine: Machine, source: random.Random) -> None:
    machine.libraries.nvshmem = "3.2.5"


def _mooncake(version: str) -> Callable[[Machine, random.Random], None]:
    def plant(machine: Machine, source: random.Random) -> None:
        machine.libraries.mooncake = version

    return plant


def _variable(name: str, value: str, claim: str) -> Callable[[Machine, random.Random], None]:
    def plant(machine: Machine, source: random.Random) -> None:
        machine.environment[name] = value
        machine.claims.add(claim)

    return plant


def _mooncake_told(value: str) -> Callable[[Machine, random.Random], None]:
    def plant(machine: Machine, source: random.Random) -> None:
        machine.libraries.mooncake = source.choice(("0.3.11.post1", "0.3.12"))
        machine.environment["WITH_NVIDIA_PEERMEM"] = value

    return plant


def _override(machine: Machine, source: random.Random) -> None:
    """The doorbell is in reach, but the queues are not: the kernel is old, and no client serves."""
    assert machine.driver
    machine.driver.parameters["RegistryDwords"] = '"RMBug5172204War=4;PeerMappingOverride=1;"'
    _old_queues(machine, source)


def _no_override(machine: Machine, source: random.Random) -> None:
    """Keys of the resource manager, without the one that lets a GPU map a NIC's doorbell."""
    assert machine.driver
    keys = source.choice(("RMForceStaticBar1=1;", "PeerMappingOverride=0;", "RmForceDisableIomapWC=1;"))
    machine.driver.parameters["RegistryDwords"] = f'"{keys}"'


def _old_queues(machine: Machine, source: random.Random) -> None:
    machine.peermem.loaded = machine.peermem.at_boot = False


def _old_libmlx5(machine: Machine, source: random.Random) -> None:
    machine.libraries.verbs, machine.libraries.verbs_dmabuf = source.choice((36, 39, 42)), True
    _old_queues(machine, source)


def _needs_new_libmlx5(machine: Machine) -> bool:
    return _ordinary(machine) and machine.legacy_client != "loaded" and not machine.operator


def _renamed(machine: Machine, source: random.Random) -> None:
    """As udev's rdma_rename names devices, by the PCI address."""
    for at, nic in enumerate(machine.nics, 1):
        nic.rdma = f"rocep{at}s0"


def _named_mlx5(machine: Machine) -> bool:
    named = all(nic.rdma.startswith("mlx5_") for nic in machine.nics)
    return _ordinary(machine) and named and "NCCL_IB_HCA" not in machine.nccl_conf and not machine.probe


def _has_driver(machine: Machine) -> bool:
    return _ordinary(machine) and machine.driver is not None and machine.driver.loaded


def _queues_fit(machine: Machine) -> bool:
    return (
        _ordinary(machine)
        and not machine.kernel.devx
        and machine.ofed is None
        and machine.legacy_client != "loaded"
        and machine.rdma_driver_loaded
        and machine.running_stack == machine.disk_stack
        and not machine.operator
    )


def _plugin(machine: Machine, source: random.Random) -> None:
    machine.libraries.net_plugin = True


def _not_selected(machine: Machine, source: random.Random) -> None:
    rails = [nic for nic in machine.nics if nic.nic and nic.above]
    near = [nic for nic in rails if any(_near(machine, gpu.address, nic.address) for gpu in machine.gpus)]
    gone = source.choice(near)  # another fault may have taken the NIC of one GPU
    kept = [nic.rdma for nic in machine.nics if nic is not gone]
    machine.nccl_conf["NCCL_IB_HCA"] = "=" + ",".join(kept)
    machine.claims.add("hca-not-selected")


def _near(machine: Machine, gpu: str, nic: str) -> bool:
    ours = {bridge.address for bridge in machine.chain(machine.at(gpu))}
    return any(bridge.address in ours for bridge in machine.chain(machine.at(nic)))


def _operator(log: str) -> Callable[[Machine, random.Random], None]:
    """The driver runs in the GPU Operator's container, whose log says this."""

    def plant(machine: Machine, source: random.Random) -> None:
        driver, peermem = machine.driver, machine.peermem
        assert driver
        driver.root, driver.folder, driver.packaged = "run/nvidia/driver", "kernel/drivers/video", False
        stamp = "2026-11-20T15:59:58.123456789Z stderr F "
        machine.operator = "".join(
            stamp + line + "\n" for line in log.format(machine.kernel.release).splitlines()
        )
        peermem.loaded = False
        if "not found" in log:
            driver.on_disk = False
            peermem.kind = "none"
        machine.files["run/nvidia/validations/.driver-ctr-ready"] = ""

    return plant


_GIVES_UP = "\nfailed to load nvidia-peermem module"
_FAILED = "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument" + _GIVES_UP
_MISSING = "modprobe: FATAL: Module nvidia-peermem not found in directory /lib/modules/{}" + _GIVES_UP
_WAITS = "waiting for mellanox ofed and nvidia drivers to be installed\n" * 6


def _stub(machine: Machine, source: random.Random) -> None:
    _operator(_FAILED)(machine, source)
    machine.peermem.kind, machine.peermem.built_against = "stub", machine.inbox_tag
    machine.claims.add("operator-stub")


def _changed(machine: Machine, source: random.Random) -> None:
    _operator(_FAILED)(machine, source)
    assert machine.ofed
    machine.ofed.tag = machine.ofed.running = machine.ofed.tag + "-rebuilt"
    machine.log += [
        "nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client",
        "nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -22)",
    ]
    machine.claims |= {"operator-ofed-changed", "module-crc-mismatch", "ofed-rebuilt-after-driver"}


def _module_missing(machine: Machine, source: random.Random) -> None:
    _operator(_MISSING)(machine, source)
    machine.claims |= {"operator-module-missing", "module-not-found"}


def _waits(machine: Machine, source: random.Random) -> None:
    _operator(_WAITS)(machine, source)
    machine.claims.add("operator-waits-for-ofed")


def _talos(machine: Machine, source: random.Random) -> None:
    machine.log.append(
        '[talos] controller failed {"component": "controller-runtime", "controller": '
        '"runtime.KernelModuleSpecController", "error": "error loading module \\"nvidia_peermem\\": '
        'load nvidia_peermem failed: invalid argument"}'
    )
    machine.claims.add("talos-no-peermem")


def _old_kernel(machine: Machine) -> bool:
    hopper = any(gpu.gpu and gpu.gpu.architecture in ("hopper", "blackwell") for gpu in machine.gpus)
    return _ordinary(machine) and not hopper


def _no_folder(machine: Machine) -> bool:
    return (
        full(machine)
        and _ordinary(machine)
        and machine.peermem.loaded
        and not machine.client_folders
        and machine.platform != "coherent"
        and not any(gpu.gpu and gpu.gpu.architecture == "blackwell" for gpu in machine.gpus)
    )


def _without_nvlink(machine: Machine) -> bool:
    return _ordinary(machine) and sends_through_host_memory(machine, nccl="2.18.5")


def _looks_for_files(machine: Machine) -> bool:
    """NVSHMEM takes dma-buf, and does not look for the client's files, where a GPU offers it."""
    return _no_folder(machine) and not any(offers_dmabuf(machine, gpu) for gpu in machine.gpus)


def _on_host(machine: Machine) -> bool:
    return (
        _ordinary(machine)
        and bool(machine.driver)
        and not machine.operator
        and not machine.virtual
        and machine.trust.name != "lockdown"
    )


def _can_wait(machine: Machine) -> bool:
    return _on_host(machine) and machine.ofed is None and machine.peermem.kind == "stub"


def _new_enough(machine: Machine) -> bool:
    return (
        _unset("NCCL_NET_GDR_LEVEL")(machine)
        and machine.platform == "coherent"
        and number(machine.libraries.nccl) >= (2, 29, 2)
    )


def _rails(machine: Machine) -> bool:
    return machine.platform == "rails" and len(machine.gpus) > 1 and _ordinary(machine)


def _roce(machine: Machine) -> bool:
    return _ordinary(machine) and all(nic.nic and nic.nic.ethernet for nic in machine.nics)


FAULTS = (
    Fault("NCCL before dma-buf", ("nccl-lacks-dmabuf",), _nccl("2.12.12"), _old_kernel),
    Fault("NCCL that misses peermem", ("nccl-misses-peermem",), _nccl("2.21.5"), _no_folder),
    Fault("NCCL that reads GPUs with NVLink only", ("send-needs-nvlink",), _nccl("2.18.5"), _without_nvlink),
    Fault("UCX before dma-buf", ("ucx-lacks-dmabuf",), _ucx("1.12.1"), _ordinary),
    Fault("UCX that misses peermem", ("ucx-misses-peermem",), _ucx("1.15.0"), _no_folder),
    Fault("NVSHMEM that misses peermem", ("nvshmem-misses-peermem",), _nvshmem, _looks_for_files),
    Fault(
        "doorbell out of the GPU's reach",
        ("ibgda-peer-mapping-denied",),
        _no_override,
        _has_driver,
        needs=frozenset({Evidence.DRIVER}),
    ),
    Fault(
        "queues out of reach, doorbell in it",
        ("gdaki-kernel-too-old",),
        _override,
        lambda machine: _queues_fit(machine) and _has_driver(machine),
        needs=frozenset({Evidence.NIC, Evidence.HOST, Evidence.DRIVER}),
    ),
    Fault(
        "NVSHMEM_IB_DISABLE_DMABUF=1",
        ("dmabuf-disabled-by-env",),
        _variable("NVSHMEM_IB_DISABLE_DMABUF", "1", "dmabuf-disabled-by-env"),
        _ordinary,
    ),
    Fault(
        "UCX_IB_GPU_DIRECT_RDMA=no",
        ("dmabuf-disabled-by-env", "ib-disabled-by-env"),
        _variable("UCX_IB_GPU_DIRECT_RDMA", "no", "dmabuf-disabled-by-env"),
        _ordinary,
    ),
    Fault(
        "Mooncake told to use peermem",
        ("mooncake-forces-peermem",),
        _mooncake_told("1"),
        lambda machine: _ordinary(machine) and not machine.libraries.mooncake,
    ),
    Fault(
        "Mooncake told to use dma-buf",
        ("mooncake-forces-dmabuf",),
        _mooncake_told("0"),
        lambda machine: _ordinary(machine) and not machine.libraries.mooncake,
    ),
    Fault(
        "Mooncake that wants peermem",
        ("mooncake-forces-peermem",),
        _mooncake("0.3.10.post2"),
        lambda machine: _ordinary(machine) and not machine.peermem.loaded,
    ),
    Fault(
        "Mooncake that wants dma-buf",
        ("mooncake-forces-dmabuf",),
        _mooncake("0.3.11"),
        lambda machine: _ordinary(machine) and not machine.libraries.mooncake,
    ),
    Fault(
        "queues that need peermem",
        ("gdaki-kernel-too-old",),
        _old_queues,
        _queues_fit,
        needs=frozenset({Evidence.NIC, Evidence.HOST}),  # the file of mlx5_ib
    ),
    Fault("libmlx5 without queues", ("nic-buffers-not-mappable",), _old_libmlx5, _needs_new_libmlx5),
    Fault(
        "NICs with other names", ("nic-not-mlx5",), _renamed, _named_mlx5, needs=frozenset({Evidence.NIC})
    ),
    Fault(
        "NVSHMEM_IBGDA_NIC_HANDLER=cpu",
        ("ibgda-cpu-assisted",),
        _variable("NVSHMEM_IBGDA_NIC_HANDLER", "cpu", "ibgda-cpu-assisted"),
        _ordinary,
    ),
    Fault(
        "UCX_TLS without CUDA",
        ("ucx-transport-excluded",),
        _variable("UCX_TLS", "rc,sm,self", "ucx-transport-excluded"),
        _ordinary,
    ),
    Fault("network plugin", ("net-plugin-replaced",), _plugin, _ordinary),
    Fault(
        "NCCL_DMABUF_ENABLE=0",
        ("dmabuf-disabled-by-env",),
        _setting("NCCL_DMABUF_ENABLE", ("0",), "dmabuf-disabled-by-env"),
        _unset("NCCL_DMABUF_ENABLE"),
    ),
    Fault(
        "NCCL_IB_DISABLE=1",
        ("ib-disabled-by-env",),
        _setting("NCCL_IB_DISABLE", ("1",), "ib-disabled-by-env"),
        _unset("NCCL_IB_DISABLE"),
    ),
    Fault(
        "NCCL_NET=Socket",
        ("ib-disabled-by-env",),
        _setting("NCCL_NET", ("Socket",), "ib-disabled-by-env"),
        _unset("NCCL_NET"),
    ),
    Fault(
        "NCCL_NET_GDR_LEVEL=ALL",
        ("gdr-level-ignored",),
        _setting("NCCL_NET_GDR_LEVEL", ("ALL", "NODE", "sys"), "gdr-level-ignored"),
        _unset("NCCL_NET_GDR_LEVEL"),
    ),
    Fault(
        "NCCL_NET_GDR_LEVEL=LOC",
        ("gdr-level-too-low",),
        _setting("NCCL_NET_GDR_LEVEL", ("LOC", "0"), "gdr-level-too-low"),
        _unset("NCCL_NET_GDR_LEVEL"),
    ),
    Fault(
        "NCCL_NET_GDR_LEVEL=PXB on Grace",
        ("gdr-level-pxb-on-c2c",),
        _setting("NCCL_NET_GDR_LEVEL", ("PXB", "PIX"), "gdr-level-pxb-on-c2c"),
        _new_enough,
    ),
    Fault(
        "NCCL_NET_GDR_READ=0",
        ("gdr-read-off",),
        _setting("NCCL_NET_GDR_READ", ("0",), "gdr-read-off"),
        _unset("NCCL_NET_GDR_READ"),
    ),
    Fault(
        "NCCL_IB_GID_INDEX=9",
        ("gid-index-wrong",),
        _setting("NCCL_IB_GID_INDEX", ("9",), "gid-index-wrong"),
        _roce,
        needs=frozenset({Evidence.NIC}),
    ),
    Fault("NIC left out", ("hca-not-selected",), _not_selected, _rails, needs=frozenset({Evidence.NIC})),
    Fault(
        "operator's stub",
        ("operator-stub",),
        _stub,
        lambda m: _on_host(m) and m.ofed is None,
        modprobe=False,
    ),
    Fault(
        "operator without modules", ("operator-module-missing",), _module_missing, _on_host, modprobe=False
    ),
    Fault(
        "operator, OFED changed",
        ("operator-ofed-changed",),
        _changed,
        lambda m: _on_host(m) and full(m) and bool(m.ofed),
        modprobe=False,
    ),
    Fault("operator waits", ("operator-waits-for-ofed",), _waits, _can_wait, modprobe=False),
    Fault(
        "Talos with peermem",
        ("talos-no-peermem",),
        _talos,
        platform="Talos",
        repairable=False,
        modprobe=False,
    ),
)
