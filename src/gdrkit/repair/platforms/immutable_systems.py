"""Systems that boot an image, which is not edited: what each of them has in place of packages and files.

A change that a system does not list is one that it cannot make: its kernel takes no module of anybody else,
or its image decides. Locked memory needs no setting where all jobs are pods: a process with CAP_IPC_LOCK has
no limit (Linux mm/mlock.c, can_do_mlock(); drivers/infiniband/core/umem.c).

Sources: Talos, NVIDIA GPU guides and the reference of its machine configuration, machine.kernel.modules and
machine.install; OpenShift, Machine configuration; rpm-ostree(1), kargs; Bottlerocket, settings.boot and
settings.kernel; Flatcar, Using NVIDIA GPUs, and Butane's kernel_arguments; Container-Optimized OS, Running
GPU instances, and GKE, gpu-driver-version; transactional-update(8).
"""

from __future__ import annotations

from msgspec import Struct

from gdrkit.facts.kubernetes import OPENSHIFT, is_talos
from gdrkit.facts.machine import distribution
from gdrkit.node import Node, if_missing
from gdrkit.repair.platforms.change import Change


class Way(Struct, frozen=True):
    """How a system makes a change. Of `what` and `commands`, ARGUMENT, OPTIONS and NODE are replaced."""

    what: str
    commands: tuple[str, ...] = ()
    config: tuple[tuple[str, str], ...] = ()  # kinds and forms of `gdr config`, whose output is added
    reboots: bool = True


class ImmutableSystem(Struct, frozen=True, kw_only=True):
    """A system that boots an image."""

    name: str
    title: str
    members: frozenset[str]  # values of ID in os-release(5), or of ID and VARIANT_ID, joined by a slash
    ways: dict[Change, Way]
    cannot: dict[Change, str]  # why not; of those that it lists in neither, the image decides
    container: str  # the command that runs another one in a privileged container, with an image of yours
    # kinds of `gdr config` that write files of a host, and that it reads
    takes: frozenset[str] = frozenset()
    operators: bool = False  # the GPU Operator and the Network Operator install its drivers


NO_OFED = "no OFED is built for the kernel of the image, so nvidia-peermem is always a stub"
_NO_PEERMEM = {Change.OFED: NO_OFED, Change.PEERMEM: NO_OFED, Change.LOADING: NO_OFED}
_SIGNED = "the modules are in the image, signed by its builder"
CAPABILITY = Way(
    "give the pods of the job the capability IPC_LOCK: with it, no limit on locked memory holds for a "
    "container that runs as root (gdr config container --form kubernetes)",
    reboots=False,
)
_FOLDERS = "/etc/modules-load.d"
_BY_BUTANE = "in the Butane configuration of the machine"
_LIMIT_BY_BUTANE = Way(
    f"{_BY_BUTANE}, below storage.files, write /etc/systemd/system.conf.d/90-gdrkit-memlock.conf with "
    "`[Manager]` and `DefaultLimitMEMLOCK=infinity`, and provision it anew",
)
_KEEPS_ETC = frozenset(("modprobe", "udev", "systemd", "nccl-env", "imex", "container"))
"""Below /etc, files that somebody writes stay: neither the system nor an operator puts its own in place."""
_POD = "kubectl debug node/NODE -it --profile=sysadmin --image=IMAGE --"
_KUBECTL_DRAIN = "kubectl drain NODE --ignore-daemonsets --delete-emptydir-data"


def _of_boot(what: str, commands: tuple[str, ...] = ()) -> dict[Change, Way]:
    """How kernel arguments are set, and options of the driver, which are such arguments there."""
    way = Way(what, commands)
    return {Change.ARGUMENT: way, Change.OPTION: way}


TALOS = ImmutableSystem(
    name="talos",
    title="Talos",
    members=frozenset(("talos",)),
    container=_POD,
    ways={
        Change.DRIVER: Way(
            "upgrade to an image with the system extension of NVIDIA's open modules, then load them by the "
            "machine configuration",
            config=(("talos", "schematic"), ("talos", "machine")),
        ),
        Change.OPTION: Way(
            "in the machine configuration, give the module nvidia these parameters: OPTIONS "
            "(machine.kernel.modules, or the KernelModuleConfig of 1.14)",
            ("talosctl -n NODE edit machineconfig", "talosctl -n NODE reboot"),
        ),
        Change.WITHOUT_PEERMEM: Way(
            "remove nvidia_peermem from the modules of the machine configuration",
            ("talosctl -n NODE edit machineconfig",),
            reboots=False,
        ),
        Change.ARGUMENT: Way(
            "add ARGUMENT to extraKernelArgs in the schematic of the image (with GRUB, in machine.install), "
            "and upgrade to that image",
            ("talosctl -n NODE upgrade --image IMAGE",),
        ),
        Change.SERVICE: Way(
            "upgrade to an image with the system extension nvidia-fabricmanager of exactly the driver's "
            "version",
        ),
        Change.LIMIT: CAPABILITY,
        Change.RESTART: Way("drain the node, and reboot it", (_KUBECTL_DRAIN, "talosctl -n NODE reboot")),
    },
    cannot={
        **_NO_PEERMEM,
        Change.SIGNATURE: "the kernel trusts only the key of its own build, which was thrown away",
    },
)
RHCOS = ImmutableSystem(
    name="rhcos",
    title="CoreOS of OpenShift",
    members=OPENSHIFT,
    operators=True,
    container=_POD,
    ways={
        Change.ARGUMENT: Way(
            "give the kernel ARGUMENT by a MachineConfig for the node's pool",
            config=(("machineconfig", ""),),
        ),
        Change.LIMIT: Way(
            "apply a MachineConfig for the node's pool, whose nodes then reboot one after the other",
            config=(("machineconfig", ""),),
        ),
        Change.RESTART: Way(
            "drain the node, and reboot it",
            ("oc adm drain NODE --ignore-daemonsets --delete-emptydir-data",
             "oc debug node/NODE -- chroot /host systemctl reboot"),
        ),
    },
    cannot={
        Change.SIGNATURE: "the GPU Operator's container builds the modules at each start, without a key of "
        "yours",
    },
)  # fmt: skip
FEDORA_COREOS = ImmutableSystem(
    name="fedora-coreos",
    title="Fedora CoreOS",
    members=frozenset(("fedora-coreos", "fedora/coreos")),
    takes=_KEEPS_ETC,
    container="sudo podman run --rm --privileged --network host IMAGE",
    ways={
        Change.DRIVER: Way(
            "build an image with this driver on that of Fedora CoreOS, and move the machine to it",
            ("sudo rpm-ostree rebase ostree-unverified-registry:IMAGE", "sudo systemctl reboot"),
        ),
        Change.ARGUMENT: Way(
            "add the argument to the kernel's command line",
            ("sudo rpm-ostree kargs --append-if-missing=ARGUMENT --reboot",),
        ),
        Change.OPTION: Way(
            "add these arguments to the kernel's command line",
            ("sudo rpm-ostree kargs OPTIONS --reboot",),
        ),
        Change.WITHOUT_PEERMEM: Way(f"{_BY_BUTANE}, remove nvidia-peermem from what is in {_FOLDERS}"),
        Change.LIMIT: _LIMIT_BY_BUTANE,
        Change.SERVICE: Way("add Fabric Manager, of exactly the driver's version, to the same image"),
        Change.RESTART: Way("end the jobs on the machine, and reboot it", ("sudo systemctl reboot",)),
    },
    cannot={**_NO_PEERMEM, Change.SIGNATURE: _SIGNED},
)
FLATCAR = ImmutableSystem(
    name="flatcar",
    title="Flatcar",
    members=frozenset(("flatcar",)),
    takes=_KEEPS_ETC,
    container="sudo docker run --rm --privileged --network host IMAGE",
    ways={
        Change.DRIVER: Way(
            f"{_BY_BUTANE}, choose NVIDIA's system extension with the open modules, and provision it anew",
        ),
        **_of_boot(
            f"{_BY_BUTANE}, add ARGUMENT to kernel_arguments.should_exist, and provision it anew",
        ),
        Change.WITHOUT_PEERMEM: Way(f"{_BY_BUTANE}, remove nvidia-peermem from what is in {_FOLDERS}"),
        Change.LIMIT: _LIMIT_BY_BUTANE,
        Change.RESTART: Way("end the jobs on the machine, and reboot it", ("sudo systemctl reboot",)),
    },
    cannot={**_NO_PEERMEM, Change.SIGNATURE: _SIGNED},
)
BOTTLEROCKET = ImmutableSystem(
    name="bottlerocket",
    title="Bottlerocket",
    members=frozenset(("bottlerocket",)),
    container=_POD,
    ways={
        Change.DRIVER: Way(
            "the driver is in the image: start the node from a newer one of a variant that ends in -nvidia, "
            "whose open modules drive this GPU (on EKS, in the launch template of the node group)",
        ),
        **_of_boot(
            "set ARGUMENT below settings.boot.kernel-parameters, in the user data or by the API, and reboot",
            ('apiclient set --json \'{"boot": {"kernel-parameters": PARAMETERS}}\'', "apiclient reboot"),
        ),
        Change.WITHOUT_PEERMEM: Way(
            "let nothing load nvidia-peermem at boot",
            ("apiclient set settings.kernel.modules.nvidia-peermem.autoload=false",),
            reboots=False,
        ),
        Change.LIMIT: CAPABILITY,
        Change.RESTART: Way("drain the node, and reboot it", (_KUBECTL_DRAIN, "apiclient reboot")),
    },
    cannot={**_NO_PEERMEM, Change.SIGNATURE: _SIGNED},
)
COS = ImmutableSystem(
    name="cos",
    title="Container-Optimized OS",
    members=frozenset(("cos",)),
    takes=frozenset(("container",)),
    container=_POD,
    ways={
        Change.DRIVER: Way(
            "the driver comes with the image: on GKE, choose another gpu-driver-version for the node pool; "
            "on a virtual machine of your own, install that of the image again",
            ("sudo cos-extensions install gpu",),
        ),
        Change.WITHOUT_PEERMEM: Way("remove nvidia-peermem from the DaemonSet that loads it"),
        Change.LIMIT: CAPABILITY,
        Change.RESTART: Way("drain the node, and reboot it", (_KUBECTL_DRAIN, "sudo systemctl reboot")),
    },
    cannot={**_NO_PEERMEM, Change.SIGNATURE: _SIGNED},
)
SL_MICRO = ImmutableSystem(
    name="sl-micro",
    title="SL Micro",
    members=frozenset(
        ("sl-micro", "sle-micro", "opensuse-microos", "opensuse-leap-micro", "suse-microos")
    ),
    takes=_KEEPS_ETC | {"cloud-init"},
    container="sudo podman run --rm --privileged --network host IMAGE",
    ways={
        Change.DRIVER: Way(
            "install the signed open modules into a new snapshot, and boot it",
            ("sudo transactional-update pkg install nvidia-open-driver-G06-signed-kmp-default",
             "sudo systemctl reboot"),
        ),
        **_of_boot(
            "add ARGUMENT to GRUB_CMDLINE_LINUX_DEFAULT in /etc/default/grub, write the boot loader's menu "
            "into a new snapshot, and boot it",
            ("sudo transactional-update grub.cfg", "sudo systemctl reboot"),
        ),
        Change.WITHOUT_PEERMEM: Way(f"remove nvidia-peermem from what is in {_FOLDERS}", reboots=False),
        Change.LIMIT: Way(
            "write /etc/systemd/system.conf.d/90-gdrkit-memlock.conf with `[Manager]` and "
            "`DefaultLimitMEMLOCK=infinity`",
            ("sudo systemctl daemon-reexec",),
            reboots=False,
        ),
        Change.SERVICE: Way(
            "install Fabric Manager, of exactly the driver's version, into a new snapshot, and boot it",
            ("sudo transactional-update pkg install nvidia-fabricmanager", "sudo systemctl reboot"),
        ),
        Change.RESTART: Way("end the jobs on the machine, and reboot it", ("sudo systemctl reboot",)),
    },
    cannot={**_NO_PEERMEM, Change.SIGNATURE: "the modules of its packages are signed by SUSE"},
)  # fmt: skip

SYSTEMS = (TALOS, RHCOS, FEDORA_COREOS, FLATCAR, BOTTLEROCKET, COS, SL_MICRO)


def immutable(node: Node) -> ImmutableSystem | None:
    """The system of a node that boots an image, whatever its ID_LIKE; None for any other. A machine
    configuration shows Talos where os-release is missing."""
    found = if_missing(None, distribution, node)
    if found is None:
        return TALOS if if_missing(False, is_talos, node) else None
    return next((row for row in SYSTEMS if row.members & found.systems), None)
