"""What a step does to a machine, and so which steps cure it.

Each follows the document of the one who made what it changes: NVIDIA's driver installation guide and README,
the fabric manager and Xid guides, the GPU Operator's guide to GPUDirect RDMA, modprobe.d(5), kmod,
DOCA-OFED's installation guide, NCCL's and UCX's documentation of their variables. A step that cannot be
carried out changes nothing."""

from __future__ import annotations

import copy
from collections.abc import Callable

from machines import health
from machines.loading import modprobe
from machines.machine import Function, Machine, Ofed, Peermem
from machines.next_boot import boot

Step = Callable[[Machine], None]


def _load_peermem(machine: Machine) -> None:
    outcome = modprobe(machine)
    machine.peermem.loaded = machine.peermem.at_boot = outcome.loaded and not outcome.error
    if machine.peermem.loaded:
        machine.claims.discard("peermem-not-loaded")


def _load_driver(machine: Machine) -> None:
    if machine.driver:
        machine.driver.loaded = machine.driver.loaded or not modprobe(machine, "nvidia").error


def _restart_ofed(machine: Machine) -> None:
    if machine.ofed and machine.ofed.on_disk:
        machine.ofed.running, machine.peermem.loaded = machine.ofed.tag, False


def _install_ofed(machine: Machine) -> None:
    """DOCA-OFED for this kernel, which runs after the reboot that its guide asks for."""
    if not (machine.ofed and machine.ofed.on_disk):
        tag = "ofed-25.07-0.9.7"
        machine.ofed = Ofed("doca", "25.07-0.9.7", "ib_uverbs", tag, signer=_signer(machine))
    _restart_ofed(machine)


def _signer(machine: Machine) -> str:
    return machine.driver.signer if machine.driver else ""


def _rebuild_driver(machine: Machine) -> None:
    """nvidia-peermem.Kbuild finds the API of the RDMA stack on disk, or builds the stub."""
    driver = machine.driver
    if driver is None:
        return
    driver.on_disk, driver.damage, driver.flags, driver.signed_nvidia = True, "", "", None
    stack = machine.disk_stack
    kind = "full" if machine.provider(stack) else "stub"
    machine.peermem = Peermem(kind, stack, at_boot=machine.peermem.at_boot)
    machine.claims -= {
        "module-crc-mismatch",
        "ofed-rebuilt-after-driver",
        "mixed-signers",
        "module-not-found",
        "operator-ofed-changed",
    }


def _build_driver(machine: Machine) -> None:
    _rebuild_driver(machine)
    _load_driver(machine)


def _sign(machine: Machine) -> None:
    """With a key that the machine's owner enrols: shim's MokManager at the next boot."""
    if machine.driver:
        key = "a key of the machine's owner"
        cut = "truncated"  # sign-file signs it as it is: the signature passes, and the ELF does not
        machine.driver.damage = "foreign" if machine.driver.damage == cut else machine.driver.damage
        machine.peermem.damage = "foreign" if machine.peermem.damage == cut else machine.peermem.damage
        machine.driver.signer, machine.driver.signed_nvidia, machine.peermem.signer = key, None, None
        machine.trust.mok.append(key)
        machine.claims.discard("mixed-signers")


def _allow(machine: Machine) -> None:
    machine.modprobe_d = [
        line for line in machine.modprobe_d if line.split()[1].replace("-", "_") != "nvidia_peermem"
    ]
    machine.module_blacklist = []
    machine.claims.discard("module-blacklisted")


def _remove_legacy(machine: Machine) -> None:
    machine.legacy_client = ""
    machine.claims -= {"legacy-nv-peer-mem", "peermem-registration-refused"}


def _open_modules(machine: Machine) -> None:
    """The README's list of GPUs: Turing and newer, and nothing before."""
    old = any(gpu.gpu and gpu.gpu.architecture in ("volta", "pascal") for gpu in machine.gpus)
    if machine.driver and not old:
        machine.driver.is_open = True


def _no_settings(machine: Machine) -> None:
    machine.nccl_conf = {}
    machine.environment = {}
    machine.claims -= {
        "dmabuf-disabled-by-env", "ib-disabled-by-env", "gdr-level-ignored", "gdr-level-too-low",
        "gdr-level-pxb-on-c2c", "gdr-read-off", "gid-index-wrong", "hca-not-selected",
        "ucx-transport-excluded", "ibgda-cpu-assisted",
    }  # fmt: skip


def _version(library: str, version: str) -> Step:
    return lambda machine: setattr(machine.libraries, library, version)


def _newer_verbs(machine: Machine) -> None:
    machine.libraries.verbs, machine.libraries.verbs_dmabuf, machine.libraries.second_verbs = 61, True, 0


def _use_dmabuf(machine: Machine) -> None:
    """Under the GPU Operator: driver.rdma.enabled: false, without which there is no nvidia-peermem-ctr."""
    machine.peermem.loaded = machine.peermem.at_boot = False
    machine.claims -= {"operator-stub", "operator-waits-for-ofed", "talos-no-peermem"}
    if machine.peermem.kind == "stub":
        machine.peermem.kind = "none"


def _mooncake(value: str) -> Step:
    def step(machine: Machine) -> None:
        machine.libraries.mooncake = machine.libraries.mooncake and "0.3.12"
        machine.environment["WITH_NVIDIA_PEERMEM"] = value

    return step


def _raise_memlock(machine: Machine) -> None:
    machine.memlock = "unlimited"
    machine.claims.discard("memlock-limit")


def _passthrough(machine: Machine) -> None:
    machine.iommu = "identity"
    machine.claims -= {"iommu-translating", "iommu-groups-differ"}


def _clear_acs(machine: Machine) -> None:
    for function in machine.functions:
        function.acs = ()


def _read_request(machine: Machine) -> None:
    for nic in machine.nics:
        nic.read_request = 4096
    machine.claims.discard("read-request-small")


def _enlarge(machine: Machine) -> None:
    for gpu in machine.gpus:
        gpu.bar1_mib = 131072 if 0 < gpu.bar1_mib <= 256 else gpu.bar1_mib
        gpu.bar1_free_mib = -1


def _override(machine: Machine) -> None:
    if machine.driver:
        machine.driver.parameters["GrdmaPciTopoCheckOverride"] = "1"


def _peer_mapping(machine: Machine) -> None:
    if machine.driver:
        machine.driver.parameters["RegistryDwords"] = '"PeerMappingOverride=1;"'


def _persist(machine: Machine) -> None:
    machine.peermem.at_boot = True


def _devices(machine: Machine) -> None:
    machine.device_nodes = True
    machine.claims.discard("rdma-device-not-in-container")


def _channel(machine: Machine) -> None:
    machine.imex = True


def _reset_gpus(machine: Machine) -> None:
    """nvidia-smi --gpu-reset: it reaches no GPU that is off the bus, and a demand to reboot stays."""
    for gpu in machine.gpus:
        xid = health.XIDS.get(gpu.ill)
        if gpu.answers and xid and xid.action == "RESET_GPU":
            gpu.ill = ""


def _reboot(machine: Machine) -> None:
    rebooted = boot(machine)
    machine.__dict__.update(rebooted.__dict__)


def _power_cycle(machine: Machine) -> None:
    _reboot(machine)
    for function in machine.functions:
        function.answers, function.switches = True, None
        _revive(function)


def _revive(function: Function) -> None:
    """A device whose driver has it again, with an RDMA device of a name that was free."""
    function.driver = None if function.driver == "" else function.driver
    if function.nic and function.ill and not function.rdma:
        function.rdma = f"mlx5_{int(function.address[5:7], 16) + 100}"
    function.ill = ""


def _reset_nics(machine: Machine) -> None:
    """mlxfwreset of NVIDIA's firmware tools: it needs a NIC that PCI reaches and whose firmware was up."""
    for nic in health.given_up(machine):
        if nic.ill == "firmware silent" and nic.answers:
            _revive(nic)


def _start_fabric_manager(machine: Machine) -> None:
    """Its service joins the GPUs; one that it refused needs its cause removed first."""
    for gpu in machine.gpus:
        if gpu.switches and gpu.switches.state != "Completed":
            gpu.switches = None


STEPS: dict[str, Step] = {
    "load nvidia-peermem": _load_peermem,
    "load the driver": _load_driver,
    "restart OFED": _restart_ofed,
    "install OFED": _install_ofed,
    "rebuild the driver": _rebuild_driver,
    "build the driver": _build_driver,
    "sign the modules": _sign,
    "remove the lines of modprobe.d": _allow,
    "remove nv_peer_mem": _remove_legacy,
    "install the open modules": _open_modules,
    "remove settings": _no_settings,
    "newer NCCL": _version("nccl", "2.29.2"),
    "newer UCX": _version("ucx", "1.19.0"),
    "newer NVSHMEM": _version("nvshmem", "3.4.5"),
    "newer rdma-core": _newer_verbs,
    "do without nvidia-peermem": _use_dmabuf,
    "Mooncake with dma-buf": _mooncake("0"),
    "Mooncake with nvidia-peermem": _mooncake("1"),
    "raise memlock": _raise_memlock,
    "iommu=pt": _passthrough,
    "clear ACS": _clear_acs,
    "raise read requests": _read_request,
    "enlarge BAR1": _enlarge,
    "override the topology check": _override,
    "allow peer mapping": _peer_mapping,
    "load nvidia-peermem at boot": _persist,
    "give the container devices": _devices,
    "create an IMEX channel": _channel,
    "reset the GPUs": _reset_gpus,
    "reset the NICs": _reset_nics,
    "reboot": _reboot,
    "power cycle": _power_cycle,
    "start Fabric Manager": _start_fabric_manager,
}


def after(machine: Machine, steps: list[str]) -> Machine:
    """The machine after these steps."""
    made = copy.deepcopy(machine)
    for step in steps:
        STEPS[step](made)
    return made
