"""What is true of a machine: the state for each program, what stops it, which statements would be true.

Sources: NCCL's, UCX's, NVSHMEM's and Mooncake's tests at their tags, Linux, and NVIDIA's open modules.
Nothing here was taken from gdrkit's rules."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from machines import health, other_programs, rack
from machines.cost import Bound, bounds, fallback
from machines.distance import NEAR, distance, own, refused
from machines.facts import (
    GPU_REFUSED,
    NEEDS_RESET,
    NIC_GIVEN_UP,
    QUEUES,
    SWITCHES_WAIT,
    facts,
    looks_for_no_file,
)
from machines.loading import Loading, alone, modprobe
from machines.machine import Function, Machine
from machines.next_boot import boot
from machines.nvidia import in_use
from machines.subjects import subjects

ANY_JOB = ("nccl", "ucx", "verbs", "nvshmem")
CONSUMERS = (*ANY_JOB, "mooncake", "nixl", "nccl-gin", "deepep")
INITIATING = ("nvshmem", "nccl-gin", "deepep")
LAYERS = ("hardware", "firmware", "kernel", "driver", "rdma", "pcie", "library", "application")
FORBIDDEN = {"integrated": "gpu-integrated", "consumer": "gpu-consumer"}


class Blocker(NamedTuple):
    """One thing that closes a path."""

    layer: str
    code: str
    for_ever: bool = False
    gpus: int = 1  # how many GPUs it stops


@dataclass
class Truth:
    """The truth about one machine."""

    states: dict[str, frozenset[str]] = field(default_factory=dict)
    headline: frozenset[str] = frozenset()  # codes that name the cause; empty if nothing is blocked
    perhaps: frozenset[str] = frozenset()  # codes that may or may not be called a blocker
    blockers: dict[str, dict[str, list[Blocker]]] = field(default_factory=dict)  # consumer, path
    initiated: dict[str, frozenset[str]] = field(default_factory=dict)  # who starts a GPU kernel's transfers
    codes: frozenset[str] = frozenset()  # statements that are true
    modprobe: Loading = field(default_factory=Loading)
    subjects: dict[str, frozenset[str]] = field(default_factory=dict)  # of what a statement is true
    bounds: list[Bound] = field(default_factory=list)  # of each GPU with its own NICs
    fallback: str = ""  # what is left where no direct path is open
    next_boot: frozenset[str] = frozenset()  # NCCL's state after it; empty where it is not judged
    nothing_to_judge: bool = False


def judge(machine: Machine) -> Truth:
    """The truth about a machine."""
    truth = of_now(machine)
    truth.states["mnnvl"] = rack.state(machine)
    truth.subjects = subjects(machine, truth.modprobe)
    truth.bounds, truth.fallback = bounds(machine), fallback(machine)
    truth.next_boot = _after_boot(machine, truth)
    return truth


def _after_boot(machine: Machine, truth: Truth) -> frozenset[str]:
    """NCCL's state after the next boot of a host that is ready now, where nothing else decides it."""
    ready = truth.states["nccl"] <= {"ready", "active"}
    own_modules = machine.scope == "host" and not machine.operator and machine.distribution.family != "talos"
    if not ready or not own_modules or machine.legacy_client or machine.virtual:
        return frozenset()
    return of_now(boot(machine)).states["nccl"]


def of_now(machine: Machine) -> Truth:
    """The states and codes of a machine as it runs: without the way past its NICs, what each statement is
    true of, what the links let pass, and the next boot, which take as long again."""
    truth = Truth(modprobe=modprobe(machine))
    loading = truth.modprobe
    truth.codes = frozenset(facts(machine, loading)) | machine.claims
    if machine.platform == "WSL":
        truth.states = dict.fromkeys(CONSUMERS, frozenset({"impossible"}))
        truth.headline = frozenset({"wsl"})
        return truth
    if machine.gpus and all(gpu.bound == "vfio-pci" for gpu in machine.gpus):  # a virtual machine's
        truth.states = dict.fromkeys(CONSUMERS, frozenset({"impossible"}))
        truth.headline = frozenset({"gpu-passed-through"})
        return truth
    usable = counted(machine)
    hardware = [nic for nic in machine.nics if nic.nic] if machine.rdma_driver_loaded else []
    if not machine.gpus or not hardware:
        return _absent(machine, truth, bool(hardware))
    if not usable:
        codes = {FORBIDDEN[gpu.gpu.kind] for gpu in machine.gpus if gpu.gpu}
        truth.states = dict.fromkeys(CONSUMERS, frozenset({"impossible"}))
        truth.headline = frozenset(codes)
        return truth
    for consumer in CONSUMERS:
        truth.states[consumer], paths = _consumer(machine, consumer, usable, hardware, loading)
        truth.blockers[consumer] = paths
    _active(machine, truth, usable, hardware)
    _beside_verbs(machine, truth, usable, hardware)
    for name in INITIATING:
        if truth.states[name] <= {"ready", "active"}:
            truth.initiated[name] = _initiated(machine, name, hardware)
    best = truth.blockers["nccl"]
    if truth.states["nccl"] & {"blocked", "impossible"}:
        truth.headline = _headline(best)
    if any(blocker.code == "driver-not-loaded" for path in best.values() for blocker in path):
        truth.headline |= modprobe(machine, "nvidia").causes if truth.headline else set()
    return _open_questions(machine, truth)


def counted(machine: Machine) -> list[Function]:
    """The GPUs that decide: those that ever can, without those that somebody keeps from the host's programs
    on purpose, unless there are no others."""
    able = [gpu for gpu in machine.gpus if gpu.gpu and gpu.gpu.kind not in FORBIDDEN]
    return [gpu for gpu in able if not health.withheld(gpu)] or able


_KEPT_BY_DRIVER = {"gpu-unsupported", "bar1-exhausted", "p2p-page-table-version", "memory-not-registrable"}
"""Codes of claims with which a driver may keep GPU memory from others; whether it does is not drawn."""


def _beside_verbs(machine: Machine, truth: Truth, gpus: list[Function], nics: list[Function]) -> None:
    """GDRCopy, cuFile and aws-ofi-nccl, where no GPU's memory is kept from others."""
    special = machine.mig or machine.confidential or _KEPT_BY_DRIVER & truth.codes
    of_others = any(
        gpu.bound == "vfio-pci" or gpu.excluded or not gpu.gpu or gpu.gpu.kind == "vgpu" for gpu in gpus
    )
    driver = machine.driver
    if special or of_others or driver is None or "gpu-cdmm" in truth.codes:
        return
    mismatched = driver.library_version and driver.library_version != (
        driver.running_version or driver.version
    )
    if not driver.loaded or mismatched:
        return
    if not all(health.works(gpu) for gpu in gpus):
        truth.states |= {"gdrcopy": frozenset({"blocked"}), "gds": frozenset({"blocked"})}
        truth.states["aws-ofi-nccl"] = _plugin(machine, gpus, nics)
        return
    truth.states["gdrcopy"] = other_programs.state_of_gdrcopy(machine)
    truth.states["gds"] = other_programs.state_of_gds(machine)
    truth.states["aws-ofi-nccl"] = _plugin(machine, gpus, nics)


def _plugin(machine: Machine, gpus: list[Function], nics: list[Function]) -> frozenset[str]:
    """The state of aws-ofi-nccl: dma-buf, or the functions that efa itself calls."""
    closed = other_programs.closes_efa(machine)
    if closed & {"no-efa-device", "efa-gdr-unsupported-instance"}:
        return frozenset({"impossible"})
    for gpu in gpus:
        without = other_programs.takes_no_dmabuf(machine) or bool(
            _dmabuf(machine, "aws-ofi-nccl", gpu, nics)
        )
        if (
            closed
            or _pair(machine, "aws-ofi-nccl", gpu, nics)
            or (without and other_programs.closes_efa_p2p(machine))
        ):
            return frozenset({"blocked"})
    return frozenset({"ready"})


def _active(machine: Machine, truth: Truth, gpus: list[Function], nics: list[Function]) -> None:
    """What is ready is active where each GPU's memory is attached to its own NICs."""
    attached = {nic.address for nic in in_use(machine)}
    if not attached:
        return
    for consumer, states in truth.states.items():
        closed = [_dmabuf(machine, consumer, gpu, nics) for gpu in gpus]
        wanted = {nic.address for gpu in gpus for nic in own(machine, gpu, nics) if nic.state == "ACTIVE"}
        if wanted <= attached and not any(closed) and states & {"ready", "unknown"}:
            truth.states[consumer] = frozenset({"active"}) if states == {"ready"} else states | {"active"}


_PERHAPS = {  # one direction, large memory or another device only: whether that blocks is a matter of words
    "gdr-read-off": ("nccl",),
    "gid-index-wrong": ("nccl",),
    "bar1-exhausted": CONSUMERS,
    # the line names no importer, and every NIC drawn declares peers: Linux, hw/mlx5/mr.c and umem_dmabuf.c
    "dmabuf-no-p2p-importer": CONSUMERS,
    "gpu-unsupported": (),
    # NCCL's own code takes no EFA, only its plugin, which is another program: net_ib/init.cc asks for the
    # link layer InfiniBand or Ethernet, and efa_verbs.c, efa_port_link_layer(), says neither
    "nccl-skips-efa": ("nccl",),
}


def _open_questions(machine: Machine, truth: Truth) -> Truth:
    """Accept both states where a word decides, not a fact."""
    for code, whom in _PERHAPS.items():
        if code in truth.codes:
            truth.perhaps |= {code}
            for name in whom:
                truth.states[name] |= {"blocked"}
    if "dmabuf-no-p2p-importer" in truth.perhaps and truth.headline and truth.blockers:
        truth.headline |= lowest(truth.blockers["nccl"]["peermem"])  # one more reason against dma-buf
    for name in ("nixl", "nccl-gin", "deepep"):  # programs that are not there, or of a version not known
        truth.states[name] |= {"unknown"} if truth.states[name] == {"ready"} else set()
        if machine.legacy_client == "loaded" and not machine.peermem.loaded:
            truth.states[name] |= {"ready", "blocked", "unknown"}
        if {"ib-disabled-by-env", "hca-not-selected"} & machine.claims and name != "nixl":
            truth.states[name] |= {"blocked"}  # GIN chooses its NICs as NCCL does
    if machine.legacy_client == "loaded" and not machine.libraries.nvshmem:
        truth.states["nvshmem"] |= {"unknown"}  # what a program that is not there would look for
    if machine.distribution.family == "talos" and not machine.libraries.mooncake:
        truth.states["mooncake"] |= {"unknown"}  # its container, and so its version, was not seen
    if "gpu-unsupported" in machine.claims:
        truth.states = {name: states | {"impossible"} for name, states in truth.states.items()}
    return truth


def _absent(machine: Machine, truth: Truth, nic: bool) -> Truth:
    """No GPU, no NIC, or neither. A GPU that never could makes the rest unimportant.

    A board for workstations needs no NIC, unless the machine has one whose driver is missing."""
    if not machine.gpus and not nic and machine.driver is None:
        truth.nothing_to_judge = True
        truth.states = dict.fromkeys(CONSUMERS, frozenset({"impossible", "unknown"}))
        truth.headline = frozenset({"no-gpu", "no-rdma-device"})
        return truth
    needs_nic = any(function.nic for function in machine.functions) or any(
        g.gpu.kind not in {*FORBIDDEN, "professional"} for g in machine.gpus if g.gpu
    )
    state = {"blocked"} if needs_nic or not machine.gpus else {"impossible"}
    installed = machine.driver and (machine.driver.on_disk or machine.driver.packaged)
    if not machine.gpus and not installed:
        state = {"blocked", "impossible"}  # only user space says that a GPU is expected
    codes = set() if machine.gpus else {"no-gpu"}
    codes |= set() if nic else {"no-rdma-device", "rdma-device-software"} & truth.codes
    codes |= {FORBIDDEN[g.gpu.kind] for g in machine.gpus if g.gpu and g.gpu.kind in FORBIDDEN}
    codes |= {"gpu-unsupported"} & truth.codes
    truth.states = dict.fromkeys(CONSUMERS, frozenset(state))
    truth.headline = frozenset(codes)
    return truth


def _consumer(
    machine: Machine, consumer: str, gpus: list[Function], nics: list[Function], loading: Loading
) -> tuple[frozenset[str], dict[str, list[Blocker]]]:
    """The state of the worst GPU, and for each path what stops it anywhere."""
    closing: dict[str, Counter[Blocker]] = {"dmabuf": Counter(), "peermem": Counter()}
    for gpu in gpus:
        shared = _pair(machine, consumer, gpu, nics)
        paths = {
            "dmabuf": shared + _dmabuf(machine, consumer, gpu, nics),
            "peermem": shared + _peermem(machine, consumer, gpu, loading),
        }
        if all(paths.values()):
            for path, blockers in paths.items():
                closing[path].update(dict.fromkeys(blockers, 1))
    merged = {
        path: [blocker._replace(gpus=count) for blocker, count in found.items()]
        for path, found in closing.items()
    }
    if any(merged.values()):
        closed = all(any(blocker.for_ever for blocker in blockers) for blockers in merged.values())
        return frozenset({"impossible" if closed else "blocked"}), merged
    if machine.mig or machine.confidential or any(gpu.gpu and gpu.gpu.kind == "vgpu" for gpu in gpus):
        return frozenset({"unknown"}), merged
    if consumer == "nccl" and _topology_unknown(machine, gpus, nics):
        return frozenset({"unknown"}), merged
    if not machine.libraries.verbs and machine.distribution.family == "talos":
        return frozenset({"unknown"}), merged
    installed = {
        "ucx": machine.libraries.ucx,
        "nvshmem": machine.libraries.nvshmem,
        "nccl": machine.libraries.nccl,
    }
    if not installed.get(consumer, "yes"):
        return frozenset({"ready", "unknown"}), merged
    if any(nic.part == "EFA" for nic in nics):
        return frozenset({"ready", "unknown"}), merged
    if machine.ofed and machine.ofed.running and machine.running_stack != machine.disk_stack:
        return frozenset({"ready", "unknown"}), merged  # what runs is in no file
    return frozenset({"ready"}), merged


def _topology_unknown(machine: Machine, gpus: list[Function], nics: list[Function]) -> bool:
    """A virtual machine that hides its topology: a file that NCCL is given may show it, and was not seen."""
    if not machine.virtual or machine.topology_file:
        return False
    return any(distance(machine, gpu, nic) not in NEAR for gpu in gpus for nic in own(machine, gpu, nics))


def _pair(machine: Machine, consumer: str, gpu: Function, nics: list[Function]) -> list[Blocker]:
    """What closes both paths between a GPU and its own NIC."""
    found: list[Blocker] = []
    driver = machine.driver
    if gpu.bound == "vfio-pci" or driver is None or not driver.loaded:
        found.append(Blocker("driver", "driver-not-loaded"))
    elif driver.library_version and driver.library_version != (driver.running_version or driver.version):
        found.append(Blocker("driver", "driver-mismatch"))
    if not machine.device_nodes:
        found.append(Blocker("rdma", "rdma-device-not-in-container"))
    nearest = own(machine, gpu, nics)
    up = [nic for nic in nearest if nic.state == "ACTIVE"]
    if not up:
        found.append(Blocker("hardware", "port-down"))
    if not gpu.answers or (nearest and not any(nic.answers for nic in up or nearest)):
        found.append(Blocker("hardware", "device-not-answering"))
    found += _unusable(machine, gpu, nearest)
    if refused(machine, gpu, nearest):
        found.append(Blocker("driver", "topology-refused"))
    found += [Blocker(layer, code) for layer, code in _closing(machine, consumer)]
    if consumer == "nccl":
        found += _nccl_pair(machine, gpu, nearest)
    return found


def _unusable(machine: Machine, gpu: Function, nearest: list[Function]) -> list[Blocker]:
    """What keeps every program from this GPU, or this GPU from the NIC that was its own."""
    found = []
    if gpu.ill in health.XIDS:
        found.append(Blocker("hardware", NEEDS_RESET))
    if gpu.ill == health.REFUSED:
        found.append(Blocker("driver", GPU_REFUSED))
    if rack.waits_for_switches(gpu):
        found.append(Blocker("hardware", SWITCHES_WAIT))
    gone = health.given_up(machine)
    if gone and not any(nic in nearest for nic in own(machine, gpu, [*nearest, *gone])):
        found.append(Blocker("hardware", NIC_GIVEN_UP))
    return found


_CLOSING = {  # codes that close both paths, for which programs
    "gpu-unsupported": ("hardware", CONSUMERS),
    "memory-not-registrable": ("rdma", ()),
    "ib-disabled-by-env": ("application", ("nccl",)),
    "gdr-level-too-low": ("application", ("nccl",)),
    "nic-missing": ("hardware", CONSUMERS),
    "hca-not-selected": ("application", ("nccl",)),
    "gdr-level-pxb-on-c2c": ("application", ("nccl",)),
}


def _closing(machine: Machine, consumer: str) -> list[tuple[str, str]]:
    return [
        (layer, code)
        for code, (layer, whom) in _CLOSING.items()
        if code in machine.claims and consumer in whom
    ]


def _nccl_pair(machine: Machine, gpu: Function, nearest: list[Function]) -> list[Blocker]:
    """NCCL's own limit of distance: PXB, or the processor's root ports where GPU and CPU are coherent."""
    if machine.virtual or any(distance(machine, gpu, nic) in NEAR for nic in nearest):
        return []
    far = any(distance(machine, gpu, nic) == "SYS" for nic in nearest)
    if gpu.gpu and gpu.gpu.coherent and number(machine.libraries.nccl) >= (2, 27) and not far:
        return []
    return [Blocker("pcie", "pair-distant")]


def _dmabuf(machine: Machine, consumer: str, gpu: Function, nics: list[Function]) -> list[Blocker]:
    found = []
    driver, libraries = machine.driver, machine.libraries
    if gpu.gpu and gpu.gpu.architecture in ("volta", "pascal"):
        found.append(Blocker("hardware", "gpu-before-turing", True))
    if driver and not driver.is_open:
        found.append(Blocker("driver", "driver-proprietary"))
    inbox = machine.running_stack == machine.inbox_tag
    mlx = any(nic.part != "EFA" for nic in nics)
    if not machine.imports_dmabuf(machine.running_stack):
        found.append(Blocker("kernel", "kernel-lacks-dmabuf"))
    elif inbox and mlx and not machine.kernel.odp:
        found.append(Blocker("kernel", "kernel-lacks-odp"))
        if machine.mlx5_without_dmabuf:
            found.append(Blocker("kernel", "kernel-lacks-dmabuf"))
    if libraries.verbs and not libraries.verbs_dmabuf:
        found.append(Blocker("rdma", "verbs-lacks-dmabuf"))
    if "dmabuf-mr-refused" in machine.claims:
        found.append(Blocker("rdma", "dmabuf-mr-refused"))
    if consumer == "nccl" and libraries.nccl and number(libraries.nccl) < (2, 13, 4):
        found.append(Blocker("library", "nccl-lacks-dmabuf"))
    if consumer == "ucx" and libraries.ucx and number(libraries.ucx) < (1, 14):
        found.append(Blocker("library", "ucx-lacks-dmabuf"))
    unseen = machine.distribution.family == "talos"  # programs are in containers, in whatever release
    if consumer == "mooncake" and not unseen and not _mooncake_takes_dmabuf(machine):
        found.append(Blocker("application", "mooncake-forces-peermem"))
    found += _switched_off(machine, consumer, "dmabuf")
    found += _without_gin(machine, consumer)
    if consumer == "nccl" and machine.nccl_conf.get("NCCL_DMABUF_ENABLE") == "0":
        found.append(Blocker("application", "dmabuf-disabled-by-env"))
    return found


def _mooncake_takes_dmabuf(machine: Machine) -> bool:
    """Mooncake tries one way only. From 0.3.11 on a variable chooses; that release alone prefers dma-buf."""
    version, chosen = machine.libraries.mooncake, machine.environment.get("WITH_NVIDIA_PEERMEM")
    if chosen is not None and number(version or "9") >= (0, 3, 11):
        return chosen == "0"
    return version == "0.3.11"


_SWITCHES = {
    ("nvshmem", "NVSHMEM_IB_DISABLE_DMABUF"): ("dmabuf",),
    ("ucx", "UCX_IB_GPU_DIRECT_RDMA"): ("dmabuf", "peermem"),
    ("nixl", "UCX_IB_GPU_DIRECT_RDMA"): ("dmabuf", "peermem"),
    ("ucx", "UCX_TLS"): ("dmabuf", "peermem"),
    ("nixl", "UCX_TLS"): ("dmabuf", "peermem"),
}
"""Variables with which a program leaves out paths. The drawn values do."""


def _switched_off(machine: Machine, consumer: str, path: str) -> list[Blocker]:
    found = []
    for (name, variable), paths in _SWITCHES.items():
        if name == consumer and path in paths and variable in machine.environment:
            found.append(Blocker("application", "dmabuf-disabled-by-env"))
    return found


def _without_gin(machine: Machine, consumer: str) -> list[Blocker]:
    """GIN came with NCCL 2.28.7."""
    old = machine.libraries.nccl and number(machine.libraries.nccl) < (2, 28, 7)
    return [Blocker("library", "gin-unavailable")] if consumer == "nccl-gin" and old else []


def _initiated(machine: Machine, consumer: str, nics: list[Function]) -> frozenset[str]:
    """Who rings the NIC's doorbell, for a user without CAP_SYS_ADMIN.

    The driver lets a GPU map the doorbell only with PeerMappingOverride. The NIC's queues are in GPU memory
    as a dma-buf of DEVX, or through a peer-memory client. Without them IBGDA fails, and GIN has its proxy.
    """
    if any(nic.part == "EFA" for nic in nics):
        return frozenset({"cpu", "none", "unknown"})
    driver = machine.driver
    given = driver.parameters.get("RegistryDwords", "") if driver else ""
    doorbell = "PeerMappingOverride=1" in given
    inbox = machine.running_stack == machine.inbox_tag
    client = machine.peermem.loaded or machine.legacy_client == "loaded"
    queues = client or (machine.kernel.devx if inbox else True)
    if consumer != "nccl-gin" and not all("mlx5" in nic.rdma for nic in nics):
        return frozenset({"none"} if consumer == "nvshmem" else {"gpu", "cpu", "none", "unknown"})
    if consumer == "nvshmem" and "ibgda-cpu-assisted" in machine.claims:
        if not other_programs.serves_gdrcopy(machine):  # which the handler `cpu` needs
            return frozenset({"none"} if not machine.beside.gdrdrv else {"none", "cpu", "unknown"})
        doorbell = False  # whether DeepEP is of version 1, on NVSHMEM, or of version 2 is not drawn
    ways = {"gpu" if doorbell and queues else "cpu" if queues or consumer != "nvshmem" else "none"}
    # An OFED may or may not have what Linux 6.1 has, and a job's image may have another rdma-core.
    unsure = not client and (not inbox or machine.libraries.verbs < QUEUES)
    told = consumer == "deepep" and "ibgda-cpu-assisted" in machine.claims
    return frozenset(ways | ({"cpu", "none", "unknown"} if unsure else {"cpu"} if told else set()))


def _peermem(machine: Machine, consumer: str, gpu: Function, loading: Loading) -> list[Blocker]:
    """What closes the path through a client of the peer-memory API.

    nv_peer_mem does not look at the version of page tables that 580.65.06 changed: nv_peer_mem.c 1.3."""
    state, libraries = machine.peermem, machine.libraries
    if not state.loaded and machine.legacy_client != "loaded":
        return _closed(machine, loading)
    folder = machine.client_folders
    folder = folder or (consumer == "nvshmem" and looks_for_no_file(machine, gpu))
    seen = True
    if not state.loaded and consumer not in ("ucx", "nixl"):  # UCX alone looks for /sys/module/nv_peer_mem
        seen = folder or consumer in ("verbs", "mooncake")  # which look for no file
    elif consumer == "nccl":
        seen = folder or number(libraries.nccl or "9") >= (2, 23, 4)
    elif consumer == "ucx":
        seen = folder or number(libraries.ucx or "9") >= (1, 18)
    elif consumer == "nvshmem":
        seen = folder or number(libraries.nvshmem or "9") > (3, 2, 5)
    elif consumer == "nixl":  # its wheel has a UCX of 1.19 or newer
        seen = True
    found = [] if seen else [Blocker("library", f"{consumer}-misses-peermem")]
    found += _switched_off(machine, consumer, "peermem")
    found += _without_gin(machine, consumer)
    if consumer == "mooncake" and _mooncake_takes_dmabuf(machine):
        found.append(Blocker("application", "mooncake-forces-dmabuf"))
    coherent = any(gpu.gpu and gpu.gpu.coherent for gpu in machine.gpus)
    driver = machine.driver
    if (
        driver
        and coherent
        and driver.parameters.get("CoherentGPUMemoryMode") == '"driver"'
        and driver.branch < 590
    ):
        found.append(Blocker("hardware", "gpu-cdmm"))
    if any(nic.part == "EFA" for nic in machine.nics):
        found.append(Blocker("rdma", "rdma-lacks-peer-api"))
    return found


_LAYER_OF = {
    "peermem-stub": "driver",
    "peermem-not-loaded": "driver",
    "peermem-registration-refused": "driver",
    "driver-mismatch": "driver",
    "driver-not-loaded": "driver",
    "legacy-nv-peer-mem": "driver",
    "no-gpu": "hardware",
}


def _closed(machine: Machine, loading: Loading) -> list[Blocker]:
    """Why the module is not there: what stops modprobe, or that it was not run."""
    if machine.peermem.kind == "none" and machine.operator:
        return [Blocker("kernel", "module-not-found")]
    if machine.operator:  # its container has the module, and runs modprobe
        loading = alone(machine)
    if loading.loaded:
        return [Blocker("driver", "peermem-not-loaded")]
    driver = machine.driver
    if driver is None or not driver.loaded:
        loading = alone(machine)
    causes = sorted(loading.causes - {"dependency-failed"})
    found = [Blocker(_LAYER_OF.get(code, "kernel"), code) for code in causes]
    if {"peermem-stub", "module-not-found"} & set(causes) and not machine.provider(machine.running_stack):
        found.append(Blocker("rdma", "rdma-lacks-peer-api"))
    return found or [Blocker("driver", "peermem-not-loaded")]


def opened(machine: Machine, consumer: str = "nccl") -> list[str]:
    """The paths that nothing closes for any GPU."""
    usable = counted(machine)
    nics = [nic for nic in machine.nics if nic.nic]
    loading, paths = modprobe(machine), ["dmabuf", "peermem"]
    for gpu in usable if nics else ():
        shared = _pair(machine, consumer, gpu, nics)
        if shared or _dmabuf(machine, consumer, gpu, nics):
            paths = [path for path in paths if path != "dmabuf"]
        if shared or _peermem(machine, consumer, gpu, loading):
            paths = [path for path in paths if path != "peermem"]
    return paths


def lowest(blockers: list[Blocker]) -> set[str]:
    """The codes of the lowest layer, of those that stop most GPUs: one port that is down does not explain
    why none of eight GPUs has its driver."""
    most = max((blocker.gpus for blocker in blockers), default=0)
    widest = [blocker for blocker in blockers if blocker.gpus == most]
    layer = min((LAYERS.index(blocker.layer) for blocker in widest), default=0)
    return {blocker.code for blocker in widest if LAYERS.index(blocker.layer) == layer}


def _headline(paths: dict[str, list[Blocker]]) -> frozenset[str]:
    """What stops most GPUs on the path that lacks least; on both if they lack equally much."""
    least = min(len(blockers) for blockers in paths.values() if not any(b.for_ever for b in blockers))
    codes: set[str] = set()
    for blockers in paths.values():
        if len(blockers) == least and not any(blocker.for_ever for blocker in blockers):
            codes |= lowest(blockers)
    return frozenset(codes)


def number(version: str) -> tuple[int, ...]:
    """A version as numbers; () for an unknown one."""
    return tuple(int(part) for part in version.split(".") if part.isdigit()) if version else ()
