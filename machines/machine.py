"""The description of one machine: everything that its evidence and its truth follow from.

Faults change it; compose.py writes it; truth.py judges it. Neither of the two sees the other."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import Any

from machines.hardware import BRIDGES, GPUS, NICS
from machines.hardware import Gpu as GpuProduct
from machines.hardware import Nic as NicProduct
from machines.kernels import DISTRIBUTIONS, Distribution, Kernel
from machines.other_programs import Beside


@dataclass
class Fabric:
    """What a GPU of a rack is a member of, as its driver says."""

    state: str  # Not Started, In Progress, Completed
    status: str
    clique: int
    cluster: str

    @property
    def complete(self) -> bool:
        return (self.state, self.status) == ("Completed", "Success")


@dataclass
class Function:
    """One PCI function."""

    address: str
    part: str  # a key of GPUS, NICS or BRIDGES, or "other"
    above: str = ""  # address of the bridge above; "" at a host bridge
    numa: int = 0
    link: str = ""  # current link; "" for that of the product
    most: str = ""  # the largest link that this end supports
    acs: tuple[str, ...] = ()  # bits that are set, for ports with the capability
    read_request: int = 0  # bytes; 0: the usual
    driver: str | None = None  # None: the usual one; "" for none
    rdma: str = ""  # name of the RDMA device
    net: str = ""
    state: str = "ACTIVE"
    card: str = ""  # functions of one card share it
    port_name: str = "p0"
    bar1_mib: int = -1
    bar1_free_mib: int = -1
    group: str = ""  # IOMMU group, if not by itself
    rate: int = 0
    bond: str = ""  # the bond whose ports its card has; it is one RDMA device then
    answers: bool = True  # False: listed, but reads of its configuration space return ones
    own_id: bool = True  # False: a virtual function, whose id in configuration space is ffff:ffff
    ill: str = ""  # a kind of health.py: what keeps a device that is there from working
    excluded: bool = False  # somebody told the driver to leave this GPU alone
    fabric: Fabric | None = None  # of a GPU whose NVLink reaches other hosts
    switches: Fabric | None = None  # of a GPU behind its host's NVSwitches; None: set up, as usual

    @property
    def gpu(self) -> GpuProduct | None:
        return GPUS.get(self.part)

    @property
    def nic(self) -> NicProduct | None:
        return NICS.get(self.part)

    @property
    def is_bridge(self) -> bool:
        return self.part in BRIDGES

    @property
    def bound(self) -> str:
        """The kernel driver that has it."""
        if self.driver is not None:
            return self.driver
        return (
            "nvidia" if self.gpu else self.nic.driver if self.nic else "pcieport" if self.is_bridge else ""
        )


@dataclass
class Trust:
    """Keys, and what the kernel enforces."""

    name: str = "no Secure Boot"
    efi: bool = True
    secure_boot: bool = False
    shim_validation: bool = True
    sig_enforce: bool = False
    lockdown: str = "none"
    mok: list[str] = field(default_factory=list)
    db: list[str] = field(default_factory=list)
    revoked: list[str] = field(default_factory=list)

    def trusts(self, signer: str, builtin: tuple[str, ...]) -> bool:
        if signer in builtin:
            return True
        return self.secure_boot and self.shim_validation and signer in (*self.mok, *self.db)


@dataclass
class Ofed:
    """An OFED: its version, and which of its copies exist."""

    kind: str  # mlnx, doca
    version: str
    provider: str  # the module that exports the peer-memory API
    tag: str  # of the build on disk
    running: str = ""  # tag of the loaded build; "" if the inbox modules run instead
    on_disk: bool = True
    signer: str = ""


@dataclass
class Peermem:
    """The file nvidia-peermem.ko."""

    kind: str = "stub"  # full, stub, none
    built_against: str = ""  # tag of the RDMA stack
    driver_tag: str = ""  # of the driver that it was built with; "" for that on disk
    signer: str | None = None  # None: as the driver's
    loaded: bool = False
    at_boot: bool = False
    damage: str = ""  # altered, truncated, empty, foreign
    flags: str = ""  # of another kernel, in vermagic
    extra_imports: tuple[str, ...] = ()  # symbols that nothing exports
    gpl_import: bool = False
    license: str = ""
    duplicate: bool = False


@dataclass
class Driver:
    """NVIDIA's driver."""

    version: str
    is_open: bool
    signer: str = ""
    folder: str = "updates/dkms"
    loaded: bool = True
    on_disk: bool = True
    signed_nvidia: str | None = None  # signer of nvidia.ko alone
    running_version: str = ""  # "" if that on disk
    library_version: str = ""  # "" if that on disk
    builder: str = "(dvs-builder@U22-I3-AE18-23-3)"
    parameters: dict[str, str] = field(default_factory=dict)
    packaged: bool = True
    damage: str = ""
    flags: str = ""
    root: str = ""  # of the driver container, if its modules are not the host's

    @property
    def branch(self) -> int:
        return int(self.version.split(".")[0])

    @property
    def number(self) -> tuple[int, ...]:
        return tuple(int(part) for part in self.version.split("."))

    @property
    def tag(self) -> str:
        return f"nvidia-{self.version}-{'open' if self.is_open else 'proprietary'}"


@dataclass
class Libraries:
    """User space: versions, "" where a library is not installed."""

    verbs: int = 50
    verbs_dmabuf: bool = True
    second_verbs: int = 0  # an older copy in a vendor's folder
    nccl: str = "2.27.5"
    ucx: str = ""
    nvshmem: str = ""
    mooncake: str = ""
    net_plugin: bool = False


@dataclass
class Machine:
    """One machine."""

    number: int
    name: str
    platform: str
    cpu: str
    kernel: Kernel
    functions: list[Function]
    driver: Driver | None
    peermem: Peermem
    ofed: Ofed | None = None
    ofed_state: str = "none"  # none, running, not running, rebuilt, removed
    trust: Trust = field(default_factory=Trust)
    libraries: Libraries = field(default_factory=Libraries)
    beside: Beside = field(default_factory=Beside)
    iommu: str = "identity"  # off, identity, DMA, DMA-FQ
    virtual: str = ""  # "" or "vm"
    scope: str = "host"
    memlock: str = "unlimited"
    topology_file: bool = False
    rdma_driver_loaded: bool = True
    mig: bool = False
    confidential: bool = False
    modules_disabled: bool = False
    module_blacklist: list[str] = field(default_factory=list)  # on the kernel command line
    modprobe_d: list[str] = field(default_factory=list)
    nccl_conf: dict[str, str] = field(default_factory=dict)
    ucx_conf: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)  # of every login: /etc/environment
    next_kernel: str = ""  # a release that is installed, and that the boot loader takes next
    next_has_driver: bool = True  # whether NVIDIA's modules were built for it
    early_log: list[str] = field(default_factory=list)  # before the driver says that it is loading
    log: list[str] = field(default_factory=list)
    third_party: dict[str, str] = field(default_factory=dict)  # loaded module -> version
    legacy_client: str = ""  # "", installed, loaded
    files: dict[str, str | bytes] = field(default_factory=dict)
    dropped: list[str] = field(default_factory=list)
    hidden: dict[str, str] = field(default_factory=dict)
    dkms_builds: list[str] = field(default_factory=list)  # OFED versions with a build folder
    device_nodes: bool = True
    build_ids: bool = False  # whether modules have one, and the kernel shows it
    imex: bool = False  # the channel to share memory with other hosts of the rack is there
    in_use: str = ""  # "dmabuf": a job has GPU memory attached to its own NIC
    probe: dict[str, list[tuple[str, str, str, int, int]]] = field(default_factory=dict)
    operator: str = ""  # log of the container nvidia-peermem-ctr
    claims: set[str] = field(default_factory=set)  # codes that are true because a fault made them so

    def __deepcopy__(self, memo: dict[int, Any]) -> Machine:
        """A copy that shares nothing, in a fifth of the time of copy.deepcopy()."""
        return pickle.loads(pickle.dumps(self, pickle.HIGHEST_PROTOCOL))  # type: ignore[no-any-return]

    @property
    def branch(self) -> int:
        """The driver's branch; 0 without a driver."""
        return self.driver.branch if self.driver else 0

    @property
    def is_open(self) -> bool:
        """Whether the driver's modules are the open ones."""
        return bool(self.driver and self.driver.is_open)

    @property
    def distribution(self) -> Distribution:
        return DISTRIBUTIONS[self.kernel.distribution]

    @property
    def gpus(self) -> list[Function]:
        return [function for function in self.functions if function.gpu]

    @property
    def nics(self) -> list[Function]:
        """NICs with an RDMA device."""
        return [function for function in self.functions if function.rdma]

    def at(self, address: str) -> Function:
        return next(function for function in self.functions if function.address == address)

    def chain(self, function: Function) -> list[Function]:
        """The bridges above a function, the nearest first."""
        return self.chains(function)[0]

    def chains(self, *functions: Function) -> list[list[Function]]:
        """The bridges above each of these functions, the nearest first."""
        by_address = {one.address: one for one in self.functions}
        found = []
        for function in functions:
            chain: list[Function] = []
            while function.above:
                function = by_address[function.above]
                chain.append(function)
            found.append(chain)
        return found

    @property
    def builtin(self) -> tuple[str, ...]:
        return tuple(key for key in (self.distribution.kernel_key, self.distribution.driver_key) if key)

    @property
    def inbox_tag(self) -> str:
        return self.kernel.own_tag

    @property
    def running_stack(self) -> str:
        """The tag of the RDMA stack that runs."""
        return self.ofed.running if self.ofed and self.ofed.running else self.inbox_tag

    @property
    def disk_stack(self) -> str:
        """The tag of the RDMA stack that modprobe would load."""
        return self.ofed.tag if self.ofed and self.ofed.on_disk else self.inbox_tag

    @property
    def client_folders(self) -> bool:
        """Whether a client of the running stack has a folder in sysfs.

        Of Ubuntu's own patches, the one for 5.4 makes them, and later ones do not."""
        own = self.running_stack == self.inbox_tag
        return self.kernel.mm_kobj and not (own and self.kernel.peer_api and self.kernel.number >= (5, 15))

    def imports_dmabuf(self, tag: str) -> bool:
        """Whether a stack registers dma-bufs."""
        return self.kernel.imports_dmabuf(tag)

    @property
    def mlx5_without_dmabuf(self) -> bool:
        """Whether the kernel's own mlx5 imports nothing of dma-bufs: without ODP only queues use them."""
        return self.running_stack == self.inbox_tag and not self.kernel.odp and not self.kernel.devx

    def provider(self, tag: str) -> str:
        """The module of a stack that exports the peer-memory API; "" if none does."""
        if tag == self.inbox_tag:
            return self.kernel.peer_api
        return self.ofed.provider if self.ofed else ""
