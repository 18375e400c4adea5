"""Faults of the driver, of OFED and of the kernel's RDMA stack."""

from __future__ import annotations

import random

from machines.boot_loader import newer
from machines.facts import NEXT_WITHOUT_DRIVER
from machines.faults.fault import Evidence, Fault, Plant
from machines.faults.files import full
from machines.machine import Machine, Peermem


def _driver(machine: Machine) -> bool:
    return machine.driver is not None and machine.platform not in ("AWS", "Talos", "Spark")


def _unload(machine: Machine) -> None:
    assert machine.driver
    machine.driver.loaded = machine.peermem.loaded = False


def _not_loaded(machine: Machine, source: random.Random) -> None:
    _unload(machine)


def _not_built(machine: Machine, source: random.Random) -> None:
    """The kernel was upgraded, and the driver was not built for it."""
    _unload(machine)
    assert machine.driver
    machine.driver.on_disk = False


def _unsigned(machine: Machine, source: random.Random) -> None:
    _unload(machine)
    assert machine.driver
    machine.driver.signed_nvidia = ""


def _damage(name: str) -> Plant:
    def plant(machine: Machine, source: random.Random) -> None:
        _unload(machine)
        assert machine.driver
        machine.driver.damage = name

    return plant


def _other_kernel(machine: Machine, source: random.Random) -> None:
    _unload(machine)
    assert machine.driver
    machine.driver.flags = "SMP mod_unload modversions "


def _duplicate(machine: Machine, source: random.Random) -> None:
    _unload(machine)
    machine.third_party["nvidia_vgpu_vfio"] = "535.54.06"


def _mismatch(machine: Machine, source: random.Random) -> None:
    """Packages were updated, and the old driver still runs."""
    assert machine.driver
    branch, rest = machine.driver.version.split(".", 1)
    machine.driver.running_version = f"{branch}.{max(int(rest.split('.')[0]) - 20, 10)}.01"
    machine.driver.library_version = machine.driver.version


def _modified(machine: Machine, source: random.Random) -> None:
    assert machine.driver
    machine.driver.builder = "(root@workstation)"
    machine.driver.packaged = False
    machine.driver.parameters["ExperimentalDmaBufP2P"] = "1"


def _proprietary(machine: Machine, source: random.Random) -> None:
    assert machine.driver
    machine.driver.is_open = False


def _nv_peer_mem(machine: Machine, source: random.Random) -> None:
    machine.legacy_client, machine.peermem.loaded = "loaded", False
    machine.claims.add("legacy-nv-peer-mem")


def _refused(machine: Machine, source: random.Random) -> None:
    """nvidia-peermem was loaded beside it: nvidia-peermem.c, peer_err() and *_client_init() at each tag.

    From 560 on the first client that registers by default is the one without callbacks; the text names
    nv_mem_client_init whatever the function is. ERROR came with 535.129 and 550.40."""
    _nv_peer_mem(machine, source)
    where, client = "nv_mem_client_init", "traditional"
    if machine.branch >= 560:
        where, client = "nv_mem_nc_client_init", "nc"
    line = next(line for branch, line in _REGISTERS if machine.branch >= branch)
    level = " ERROR" if machine.branch >= 535 else ""
    machine.log.append(
        f"nvidia-peermem {where}:{line}{level} nv_mem_client_init -- error while registering {client} client"
    )
    machine.claims.add("peermem-registration-refused")


_REGISTERS = ((580, 603), (560, 548), (550, 535), (535, 526), (0, 491))  # branch, line of nvidia-peermem.c


def _nv_peer_mem_file(machine: Machine, source: random.Random) -> None:
    machine.legacy_client = "installed"
    machine.claims.add("legacy-nv-peer-mem")


def _old_gdrdrv(machine: Machine, source: random.Random) -> None:
    """GDRCopy v2.4, gdrdrv.c: the check after nvidia_p2p_get_pages() is in the function that pins."""
    machine.beside.gdrdrv = "2.4"
    machine.log.append("gdrdrv:__gdrdrv_pin_buffer:incompatible page table version 0x00020000")
    machine.claims.add("p2p-page-table-version")


def _removed(machine: Machine, source: random.Random) -> None:
    """OFED was removed; nvidia-peermem is still the one that was built against it."""
    assert machine.ofed
    machine.ofed.on_disk, machine.ofed.running = False, ""
    machine.ofed_state, machine.peermem.loaded = "removed", False


def _not_running(machine: Machine, source: random.Random) -> None:
    """OFED is installed, and the kernel's own modules still run."""
    assert machine.ofed
    machine.ofed.running, machine.ofed_state, machine.peermem.loaded = "", "not running", False


def _rebuilt(machine: Machine, source: random.Random) -> None:
    """OFED was rebuilt after the driver, and runs."""
    assert machine.ofed
    machine.ofed.tag = machine.ofed.running = machine.ofed.tag + "-rebuilt"
    machine.ofed_state, machine.peermem.loaded = "rebuilt", False


def _rebuilt_on_disk(machine: Machine, source: random.Random) -> None:
    """OFED was rebuilt, and the old build still runs: it breaks at the next boot."""
    assert machine.ofed
    machine.ofed.tag += "-rebuilt"
    machine.ofed_state, machine.peermem.loaded = "rebuilt", True


def _two_ofeds(machine: Machine, source: random.Random) -> None:
    assert machine.ofed
    machine.dkms_builds = [machine.ofed.version, "5.4-3.6.8.1"]
    machine.dropped.append("usr/src/ofa_kernel")
    machine.claims.add("ofed-multiple-dkms")


def _no_api(machine: Machine, source: random.Random) -> None:
    """A kernel without the peer-memory patch, and a driver that was built for it."""
    machine.kernel = machine.kernel._replace(peer_api="")
    machine.peermem = Peermem("stub", machine.inbox_tag)


def _no_dmabuf(machine: Machine, source: random.Random) -> None:
    machine.kernel = machine.kernel._replace(dmabuf=False)


def _no_odp(machine: Machine, source: random.Random) -> None:
    machine.kernel = machine.kernel._replace(odp=False)


def _refused_region(machine: Machine, source: random.Random) -> None:
    machine.probe["verbs"] = [("ibv_get_device_list", "", "", 0, len(machine.nics))]
    machine.probe["verbs"] += [("ibv_reg_dmabuf_mr", "fd=-1", nic.rdma, 95, 0) for nic in machine.nics]
    machine.claims |= {"dmabuf-mr-refused", "kernel-lacks-dmabuf"}


def _no_peer_importer(machine: Machine, source: random.Random) -> None:
    """Some driver attached to GPU memory without declaring peers: nv-dmabuf.c, from 580.65.06 on."""
    machine.log.append("NVRM: dma-buf attach failed: importer unable to handle MMIO without struct page")
    machine.claims.add("dmabuf-no-p2p-importer")


def _memlock(machine: Machine, source: random.Random) -> None:
    machine.memlock = source.choice(("65536", "8388608"))
    machine.claims.add("memlock-limit")


def _old_verbs(machine: Machine, source: random.Random) -> None:
    machine.libraries.verbs, machine.libraries.verbs_dmabuf = source.choice((22, 28, 32)), False


def _second_verbs(machine: Machine, source: random.Random) -> None:
    machine.libraries.second_verbs = source.choice((17, 28))


def _container(machine: Machine, source: random.Random) -> None:
    machine.scope, machine.device_nodes = "container", False
    machine.claims.add("rdma-device-not-in-container")
    release = machine.kernel.release
    machine.dropped += [
        "lib/modules",
        "boot",
        "usr/src",
        "sys/kernel/security",
        "proc/keys",
        "proc/kallsyms",
        "var/lib/dkms",
        "sys/firmware",
        "dev/infiniband",
        f"boot/config-{release}",
    ]


def _next_kernel(machine: Machine, source: random.Random) -> None:
    """A kernel was installed, without headers: DKMS built nothing for it, and said so to nobody."""
    machine.next_kernel, machine.next_has_driver = newer(machine.kernel.release), False


def _can_update(machine: Machine) -> bool:
    """A host that runs, with a boot loader of its own."""
    bare = machine.scope == "host" and not machine.virtual and not machine.operator
    return _takes_version(machine) and bare and not machine.next_kernel


def _enforced_nvidia(machine: Machine) -> bool:
    return _driver(machine) and machine.trust.sig_enforce


def _inbox(machine: Machine) -> bool:
    return _driver(machine) and machine.ofed is None


def _dmabuf_only(machine: Machine) -> bool:
    return _driver(machine) and machine.is_open and not any(g.gpu.open_only for g in machine.gpus if g.gpu)


def _ofed(machine: Machine) -> bool:
    """There is one that was neither removed nor rebuilt yet: the later of the two would hide the other."""
    return full(machine) and machine.ofed is not None and machine.ofed_state == "running"


def _peer_kernel(machine: Machine) -> bool:
    """A kernel without the API has no client that was refused."""
    inbox = full(machine) and machine.ofed is None and bool(machine.kernel.peer_api)
    return inbox and machine.legacy_client != "loaded"


def _takes_clients(machine: Machine) -> bool:
    """nv_peer_mem would hide that nvidia-peermem was not loaded."""
    loaded = full(machine) and bool(machine.driver and machine.driver.loaded)
    return (
        loaded
        and "peermem-not-loaded" not in machine.claims
        and bool(machine.provider(machine.running_stack))
    )


def _namespaced(machine: Machine) -> bool:
    return _driver(machine) and machine.is_open and machine.kernel.namespaces


def _recent(machine: Machine) -> bool:
    return _driver(machine) and machine.branch >= 580


def _takes_version(machine: Machine) -> bool:
    return _driver(machine) and bool(machine.driver and machine.driver.loaded)


def _dkms_ofed(machine: Machine) -> bool:
    return _ofed(machine) and machine.distribution.family == "deb" and not machine.kernel.peer_api


_GPU, _NIC = frozenset({Evidence.GPU}), frozenset({Evidence.NIC})
_DRIVER = frozenset({Evidence.DRIVER, Evidence.GPU})
_LOADED = frozenset({Evidence.LOADED})
_HOST = frozenset({Evidence.HOST, Evidence.GPU})
_RUNNING = frozenset({Evidence.RUNNING})

FAULTS = (
    Fault("driver not loaded", ("driver-not-loaded",), _not_loaded, _driver, needs=_GPU, removes=_LOADED),
    Fault(
        "driver not built for this kernel",
        ("module-not-found", "driver-not-loaded"),
        _not_built,
        _driver,
        needs=_HOST,
        removes=_DRIVER | _LOADED,
    ),
    Fault(
        "nvidia unsigned",
        ("dependency-failed", "module-unsigned"),
        _unsigned,
        lambda m: _enforced_nvidia(m) and full(m),
        needs=_HOST | _DRIVER,
        removes=_LOADED,
    ),
    Fault(
        "nvidia damaged",
        ("module-corrupt", "module-unsigned", "lockdown-blocks-module"),
        _damage("truncated"),
        _driver,
        needs=_HOST,
        removes=_DRIVER | _LOADED,
    ),
    Fault(
        "nvidia without its namespace",
        ("module-symbol-namespace",),
        _damage("namespace"),
        _namespaced,
        needs=_HOST | _DRIVER,
        removes=_LOADED,
    ),
    Fault(
        "nvidia of another flavour",
        ("module-wrong-kernel",),
        _other_kernel,
        _driver,
        needs=_HOST | _DRIVER,
        removes=_LOADED,
    ),
    Fault(
        "symbols taken",
        ("module-symbol-duplicate",),
        _duplicate,
        _driver,
        needs=_HOST | _DRIVER,
        removes=_LOADED,
    ),
    Fault("driver updated, not reloaded", ("driver-mismatch",), _mismatch, _takes_version, removes=_RUNNING),
    Fault("new kernel without the driver", (NEXT_WITHOUT_DRIVER,), _next_kernel, _can_update, needs=_HOST),
    Fault("driver of a fork", ("driver-modified",), _modified, _dmabuf_only),
    Fault("proprietary driver", ("driver-proprietary",), _proprietary, _dmabuf_only, needs=_HOST | _DRIVER),
    Fault("nv_peer_mem loaded", ("legacy-nv-peer-mem",), _nv_peer_mem, _takes_clients),
    Fault(
        "registration refused",
        ("peermem-registration-refused",),
        _refused,
        lambda m: _takes_clients(m) and m.client_folders,
    ),
    Fault("nv_peer_mem installed", ("legacy-nv-peer-mem",), _nv_peer_mem_file, full, needs=_HOST),
    Fault("old gdrdrv", ("p2p-page-table-version",), _old_gdrdrv, _recent),
    Fault(
        "OFED removed",
        ("module-symbol-missing",),
        _removed,
        lambda m: _ofed(m) and not m.kernel.peer_api,
        needs=_HOST,
    ),
    Fault(
        "MLNX_OFED removed",
        ("module-symbol-missing",),
        _removed,
        lambda m: _ofed(m) and bool(m.ofed and m.ofed.kind == "mlnx") and not m.kernel.peer_api,
        needs=_HOST,
    ),
    Fault(
        "OFED not running",
        ("module-symbol-missing", "rdma-lacks-peer-api", "ofed-rebuilt-after-driver"),
        _not_running,
        lambda m: _ofed(m) and not m.kernel.peer_api,
        needs=_HOST | _NIC,  # without a driver of NICs its own core may be the one that is loaded
    ),
    Fault(
        "OFED not running, kernel with the API",
        ("ofed-rebuilt-after-driver", "module-crc-mismatch"),
        _not_running,
        lambda m: _ofed(m) and bool(m.kernel.peer_api),
        needs=_HOST,
    ),
    Fault(
        "OFED rebuilt", ("ofed-rebuilt-after-driver", "module-crc-mismatch"), _rebuilt, _ofed, needs=_HOST
    ),
    Fault(
        "OFED rebuilt, not restarted", ("ofed-rebuilt-after-driver",), _rebuilt_on_disk, _ofed, needs=_HOST
    ),
    Fault("two OFEDs in DKMS", ("ofed-multiple-dkms",), _two_ofeds, _dkms_ofed, needs=_HOST),
    Fault("kernel without the API", ("rdma-lacks-peer-api",), _no_api, _peer_kernel, needs=_HOST),
    Fault(
        "kernel without dma-buf",
        ("kernel-lacks-dmabuf",),
        _no_dmabuf,
        lambda m: _inbox(m) and m.kernel.dmabuf,
        needs=_HOST | _NIC,
    ),
    Fault(
        "kernel without ODP",
        ("kernel-lacks-odp",),
        _no_odp,
        lambda m: _inbox(m) and m.kernel.dmabuf,
        needs=_HOST | _NIC,
    ),
    Fault("NIC refuses dma-buf", ("dmabuf-mr-refused",), _refused_region, _dmabuf_only, needs=_HOST | _NIC),
    Fault(
        "importer without peers",
        ("dmabuf-no-p2p-importer",),
        _no_peer_importer,
        lambda m: _dmabuf_only(m) and _recent(m),
        needs=_HOST | _NIC,
    ),
    Fault("little locked memory", ("memlock-limit",), _memlock, _driver, needs=_NIC),
    Fault("old libibverbs", ("verbs-lacks-dmabuf",), _old_verbs, _driver),
    Fault("second libibverbs", ("verbs-library-old",), _second_verbs, _driver),
    Fault(
        "container without devices",
        ("rdma-device-not-in-container",),
        _container,
        _driver,
        removes=frozenset({Evidence.HOST}),
        modprobe=False,
        needs=_NIC,
    ),
)
