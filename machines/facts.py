"""Every statement, by its public code, that is true of a machine, whether or not it matters there."""

from __future__ import annotations

from machines import health, other_programs, rack
from machines.distance import NEAR, distance, own, refused
from machines.hardware import BRIDGES
from machines.install import files, running
from machines.loading import Loading, modprobe, signature, symbols
from machines.machine import Function, Machine
from machines.pci import links

QUEUES = 43
"""The rdma-core whose libmlx5 takes a dma-buf for a NIC's queues: its commit f1ae8b8e, first in v43.0."""
WITHOUT_NVLINK = ("T4", "L40S", "RTX PRO 6000")
"""Of the GPUs drawn, those that no bridge of NVLink fits, by their data sheets."""


def facts(machine: Machine, loading: Loading) -> set[str]:
    """The codes that are true."""
    true = set(loading.causes)
    true |= _hardware(machine) | _driver(machine) | _modules(machine) | _stack(machine) | _libraries(machine)
    true |= rack.facts(machine) | other_programs.facts(machine)
    true |= {"send-needs-nvlink"} if sends_through_host_memory(machine, machine.libraries.nccl) else set()
    if not machine.peermem.loaded and machine.peermem.kind == "full":
        true.add("peermem-not-loaded")
    return true


def _hardware(machine: Machine) -> set[str]:
    true = set()
    for gpu in machine.gpus:
        product = gpu.gpu
        assert product
        true |= {"gpu-before-turing"} if product.architecture in ("volta", "pascal") else set()
        true |= {f"gpu-{product.kind}"} if product.kind in ("consumer", "integrated", "vgpu") else set()
        size = product.bar1_mib if gpu.bar1_mib < 0 else gpu.bar1_mib
        true |= {"gpu-passed-through"} if gpu.bound == "vfio-pci" else set()
        true |= {"bar1-small"} if 0 < size <= 256 else set()
        ports = [nic for nic in machine.nics if nic.nic]
        for nic in own(machine, gpu, ports) if ports else ():
            far = distance(machine, gpu, nic)
            true |= set() if far in NEAR else {"pair-distant"}
            true |= {"pair-cross-socket"} if far == "SYS" else set()
            true |= {"topology-refused"} if refused(machine, gpu, [nic]) else set()
    shown = machine.driver is not None and machine.driver.loaded
    managed = shown and machine.driver and "CoherentGPUMemoryMode" in machine.driver.parameters
    true |= {"gpu-cdmm"} if managed else set()
    true |= {"gpu-mig"} if machine.mig and shown else set()
    true |= {"gpu-confidential"} if machine.confidential and shown else set()
    hardware = [nic for nic in machine.nics if nic.nic] if machine.rdma_driver_loaded else []
    true |= set() if machine.gpus else {"no-gpu"}
    true |= _neighbours(machine)
    theirs = all(gpu.bound == "vfio-pci" for gpu in machine.gpus)  # virtual machines have NICs of their own
    true |= set() if hardware or (machine.gpus and theirs) else {"no-rdma-device"}
    if any(not nic.nic for nic in machine.nics):
        true.add("rdma-device-software")
    if any("mlx5" not in nic.rdma or not nic.nic or nic.part == "EFA" for nic in machine.nics):
        true.add("nic-not-mlx5")  # NVSHMEM asks for the name and for the driver, NCCL's GDAKI for the driver
    if any(nic.part == "EFA" for nic in machine.nics):  # Linux efa_verbs.c and Amazon's call ib_umem_get()
        true |= {"driver-ignores-peer-memory", "nccl-skips-efa"}
    if any(not device.answers for device in (*machine.gpus, *hardware)):
        true.add("device-not-answering")
    true |= _health(machine)
    true |= {"shared-nic"} if machine.platform == "Spark" else set()
    if any(
        narrow(nic) for nic in hardware if nic.state != "DOWN"
    ):  # the rate of a port that is down is none
        true.add("link-narrower-than-port")
    if any(nic.state != "ACTIVE" for nic in machine.nics):
        true.add("port-down")
    true |= {"link-degraded"} if any(degraded(machine, end) for end in linked(machine)) else set()
    near = ((gpu, nic) for gpu in machine.gpus for nic in (own(machine, gpu, hardware) if hardware else ()))
    true |= {"acs-redirect"} if any(_redirected(machine, *pair) for pair in near) else set()
    return true


NEEDS_RESET, GPU_REFUSED, GPU_EXCLUDED = "gpu-needs-reset", "gpu-refused", "gpu-left-out"
NIC_GIVEN_UP, SWITCHES_WAIT = "nic-given-up", "switches-not-set-up"
NEXT_WITHOUT_DRIVER = "next-kernel-without-driver"
"""Kinds of devices that do not work, and of a kernel to come, in words of these machines."""


def _health(machine: Machine) -> set[str]:
    true = {NEEDS_RESET} if any(gpu.ill in health.XIDS for gpu in machine.gpus) else set()
    true |= {GPU_REFUSED} if any(gpu.ill == health.REFUSED for gpu in machine.gpus) else set()
    true |= {GPU_EXCLUDED} if any(gpu.excluded for gpu in machine.gpus) else set()
    true |= {NIC_GIVEN_UP} if health.given_up(machine) else set()
    waits = any(rack.waits_for_switches(gpu) for gpu in machine.gpus)
    true |= {NEXT_WITHOUT_DRIVER} if machine.next_kernel and not machine.next_has_driver else set()
    return true | ({SWITCHES_WAIT} if waits else set())


def linked(machine: Machine) -> list[Function]:
    """The lower ends of the links between GPUs or NICs and the processor, as far as a machine shows them."""
    devices = [function for function in machine.functions if function.gpu or function.nic]
    chains = [end for device in devices for end in (device, *machine.chain(device))]
    real = [] if machine.virtual else [end for end in chains if end.above]
    return [end for end in real if not end.is_bridge or BRIDGES[end.part].kind != "down"]


def degraded(machine: Machine, end: Function) -> bool:
    """Whether a link runs below what both its ends can."""
    now, most = links(end)
    _, other = links(machine.at(end.above))
    slower = float(now[0]) < min(float(most[0]), float(other[0])) and not end.gpu  # an idle GPU is slower
    return slower or now[1] < min(most[1], other[1])


def _redirected(machine: Machine, gpu: Function, nic: Function) -> bool:
    """Whether a port below the common switch sends requests or completions up to the root complex."""
    ours, theirs = machine.chain(gpu), machine.chain(nic)
    common = [bridge for bridge in ours if bridge in theirs]
    between = [bridge for bridge in (*ours, *theirs) if bridge not in common]
    return bool(common) and any({"RR", "CR"} & set(bridge.acs) for bridge in between)


def narrow(nic: Function) -> bool:
    """Whether a NIC's link carries less than its port: PCI Express Base 6.0, 4.2.1, for the encodings."""
    assert nic.nic
    speed, lanes = links(nic)[0]
    encoding = 0.8 if speed in ("2.5", "5.0") else 128 / 130
    return float(speed) * lanes * encoding < (nic.rate or nic.nic.gbit_per_s)


def _neighbours(machine: Machine) -> set[str]:
    """GPUs and NICs that lack what is below the switch of most others."""
    hardware = [*(nic for nic in machine.nics if nic.nic), *health.given_up(machine)]
    compute = [gpu for gpu in machine.gpus if gpu.gpu and gpu.gpu.kind != "consumer"]  # no display card
    near = {gpu.address: any(distance(machine, gpu, nic) in NEAR for nic in hardware) for gpu in compute}
    alone = len(near) - sum(near.values())
    true = {"nic-missing"} if 0 < alone < len(near) and len(near) > 2 else set()
    return true | ({"gpu-missing"} if len(near) not in (0, 1, 2, 4, 8, 16) else set())


def _driver(machine: Machine) -> set[str]:
    driver, true = machine.driver, set()
    if machine.platform == "WSL":
        return {"wsl", "driver-not-loaded", "module-not-found"}
    if driver is None:
        return {"driver-not-loaded", "module-not-found"}
    true |= set() if driver.is_open else {"driver-proprietary"}
    full = any(gpu.bar1_free_mib >= 0 for gpu in machine.gpus)  # as nvidia-smi says
    true |= {"bar1-exhausted"} if full and driver.loaded and not driver.library_version else set()
    true |= {"driver-modified"} if driver.loaded and "ExperimentalDmaBufP2P" in driver.parameters else set()
    if machine.legacy_client == "loaded" and machine.client_folders:
        true.add("peermem-registration-refused")
    true |= {"driver-mismatch"} if driver.loaded and driver.running_version else set()
    true |= _loaded(machine) if driver.loaded and machine.peermem.loaded else set()
    if machine.peermem.at_boot and machine.peermem.kind == "stub":
        true.add("peermem-redundant")
    true |= set() if driver.loaded else {"driver-not-loaded", *modprobe(machine, "nvidia").causes}
    override = "PeerMappingOverride=1" in driver.parameters.get("RegistryDwords", "")
    true |= {"ibgda-peer-mapping-denied"} if driver.loaded and not override else set()  # for ordinary users
    return true


def _loaded(machine: Machine) -> set[str]:
    """What is true of an nvidia-peermem that is loaded."""
    true = {"peermem-redundant"} if machine.driver and machine.driver.is_open else set()
    true |= set() if machine.peermem.at_boot else {"peermem-not-persistent"}
    true |= {"peermem-blocks-ofed"} if machine.ofed and machine.ofed.running else set()
    true |= (
        {"lock-inversion"} if any("peerdirect_support=1" in line for line in machine.modprobe_d) else set()
    )
    return true


def _modules(machine: Machine) -> set[str]:
    """What is wrong with each of NVIDIA's files, whether or not another thing is refused first."""
    true: set[str] = set()
    loaded = {module.name: module for module in running(machine)}
    ours = {module.name: module for module in files(machine) if module.name in ("nvidia", "nvidia_peermem")}
    for module in ours.values():
        refused = signature(machine, module)
        true |= {refused[1]} if refused else set()
        others = {name: other for name, other in ours.items() if other.damage not in ("empty", "truncated")}
        others |= loaded
        others.pop(module.name, None)
        true |= set((symbols(machine, module, others) or ("",))[1:])
        true |= {"module-wrong-kernel"} if module.flags else set()
        true |= {"module-corrupt"} if module.damage in ("empty", "truncated", "foreign") else set()
        true |= {"module-signature-broken"} if module.damage == "altered" else set()
    if len({module.signer for module in ours.values()}) > 1:
        true.add("mixed-signers")
    stub = machine.peermem.kind == "stub" and machine.driver is not None and machine.driver.on_disk
    true |= {"peermem-stub"} if stub else set()
    replaced = any(line.startswith("install nvidia-peermem") for line in machine.modprobe_d)
    if "nvidia_peermem" not in ours and not replaced:  # with an install line, modprobe looks for no file
        true.add("module-not-found")
    return true


def _stack(machine: Machine) -> set[str]:
    true: set[str] = set()
    running = machine.running_stack if machine.rdma_driver_loaded else machine.disk_stack
    inbox = running == machine.inbox_tag
    true |= set() if machine.provider(running) else {"rdma-lacks-peer-api"}
    true |= set() if machine.imports_dmabuf(running) else {"kernel-lacks-dmabuf"}
    true |= {"kernel-lacks-odp"} if inbox and not machine.kernel.odp else set()
    true |= {"kernel-lacks-dmabuf"} if machine.mlx5_without_dmabuf else set()
    client = machine.peermem.loaded or machine.legacy_client == "loaded"
    if machine.libraries.verbs < QUEUES and not client:
        true.add("nic-buffers-not-mappable")
    devx = machine.imports_dmabuf(running) and (machine.kernel.devx or not inbox)
    true |= set() if devx or client else {"gdaki-kernel-too-old"}
    against = machine.peermem.built_against
    if machine.peermem.kind == "full" and against not in (running, machine.disk_stack):
        true.add("ofed-rebuilt-after-driver")
    if machine.ofed and running != machine.disk_stack and machine.peermem.kind == "full":
        true.add("ofed-rebuilt-after-driver")
    return true


def sends_through_host_memory(machine: Machine, nccl: str) -> bool:
    """Whether NCCL lets no NIC read a GPU's memory, in a job on all GPUs: paths.cc, ncclTopoCheckGdr()."""
    gpus = [gpu for gpu in machine.gpus if gpu.gpu and gpu.gpu.kind not in ("consumer", "integrated")]
    alone = [gpu for gpu in gpus if gpu.part in WITHOUT_NVLINK]
    old = bool(nccl) and tuple(int(part) for part in nccl.split(".")) < (2, 19, 1)
    refused = old or any(gpu.gpu and gpu.gpu.architecture == "turing" for gpu in alone)
    nics = any(nic.nic for nic in machine.nics) and machine.rdma_driver_loaded
    return (
        nics and len(gpus) > 1 and bool(alone) and refused and "NCCL_NET_GDR_READ" not in machine.nccl_conf
    )


def looks_for_no_file(machine: Machine, gpu: Function) -> bool:
    """Whether NVSHMEM registers this GPU's memory without looking for files of the peer-memory API: if CUDA
    offers dma-buf and no setting forbids it. Source: ibrc.cpp, nvshmemt_init()."""
    return offers_dmabuf(machine, gpu) and "NVSHMEM_IB_DISABLE_DMABUF" not in machine.environment


def offers_dmabuf(machine: Machine, gpu: Function) -> bool:
    """Whether CUDA says DMA_BUF_SUPPORTED of a GPU."""
    driver = machine.driver
    turing = gpu.gpu is not None and gpu.gpu.architecture not in ("volta", "pascal")
    return turing and driver is not None and driver.loaded and driver.is_open


def _libraries(machine: Machine) -> set[str]:
    libraries, true = machine.libraries, set()

    def number(version: str) -> tuple[int, ...]:
        return tuple(int(part) for part in version.split(".") if part.isdigit())

    if libraries.verbs and not libraries.verbs_dmabuf:
        true |= {"verbs-lacks-dmabuf", "verbs-library-old"}
    if libraries.second_verbs:
        true.add("verbs-library-old")
    if libraries.nccl:
        true |= {"nccl-lacks-dmabuf"} if number(libraries.nccl) < (2, 13, 4) else set()
        true |= {"nccl-misses-peermem"} if number(libraries.nccl) < (2, 23, 4) else set()
    chosen = machine.environment.get("WITH_NVIDIA_PEERMEM")
    if chosen is None or number(libraries.mooncake or "9") < (0, 3, 11):
        chosen = "0" if libraries.mooncake == "0.3.11" else "1"
    true.add("mooncake-forces-dmabuf" if chosen == "0" else "mooncake-forces-peermem")
    if libraries.nccl and number(libraries.nccl) < (2, 28, 7):
        true.add("gin-unavailable")
    if libraries.ucx:
        true |= {"ucx-lacks-dmabuf"} if number(libraries.ucx) < (1, 14) else set()
        true |= {"ucx-misses-peermem"} if number(libraries.ucx) < (1, 18) else set()
    if libraries.nvshmem and number(libraries.nvshmem) <= (3, 2, 5):
        true.add("nvshmem-misses-peermem")
    true |= {"net-plugin-replaced"} if libraries.net_plugin else set()
    legacy = machine.legacy_client == "loaded"
    if legacy and not machine.peermem.loaded:  # NCCL and NVSHMEM never look for /sys/module/nv_peer_mem
        true |= {"nccl-misses-peermem"} if libraries.nccl else set()
        true |= {"nvshmem-misses-peermem"} if libraries.nvshmem else set()
    client = (machine.peermem.loaded or legacy) and machine.driver and machine.driver.loaded
    if any(looks_for_no_file(machine, gpu) for gpu in machine.gpus):
        true.discard("nvshmem-misses-peermem")
    if machine.client_folders or not client:
        true -= {"nccl-misses-peermem", "ucx-misses-peermem", "nvshmem-misses-peermem"}
    return true
