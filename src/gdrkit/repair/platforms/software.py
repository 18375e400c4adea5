"""Steps for drivers, packages, limits and settings."""

from __future__ import annotations

from collections.abc import Iterator

from gdrkit.facts.kernel import release
from gdrkit.facts.module_index import modules_dir
from gdrkit.facts.modules import PEERMEM
from gdrkit.facts.packages import DkmsModule, dkms
from gdrkit.facts.running_files import OPENIBD
from gdrkit.node import Node, if_missing
from gdrkit.programs.environment import NCCL_CONF, environment
from gdrkit.programs.nccl.releases import first_release_with
from gdrkit.repair.platforms import doca, file_contents
from gdrkit.repair.platforms.action import Action, AskPerson, RunCommand, WriteFile
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.edits import without_lines
from gdrkit.repair.platforms.loading import depmod, off_the_blacklist, refresh_if_there
from gdrkit.repair.platforms.platform import Platform
from gdrkit.repair.platforms.settings import disables_direct_path

STARTERS = ("slurmd", "containerd", "docker", "kubelet", "pbs")
"""Units that start jobs, which inherit the unit's limits."""


def load_driver(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Load the driver, and nvidia_uvm, which CUDA needs."""
    del node, platform, choices
    for name in ("nvidia", "nvidia_uvm"):
        yield RunCommand(argv=("modprobe", name), why=f"load {name}", undo=(("modprobe", "-r", name),),
                         never_executed=True)  # fmt: skip


def reboot(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Ask for a reboot: gdrkit never reboots a machine itself."""
    del node, platform, choices
    yield AskPerson(what="reboot")


def open_modules(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Replace the driver's packages by those with the open modules."""
    del choices
    yield from platform.open_modules(node)
    yield from refresh_if_there(node, platform, "it may contain the proprietary modules")


def install_ofed(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Install OFED from NVIDIA's repository, which a person must set up once."""
    del choices
    yield doca.repository(node)
    yield platform.packages(
        platform.headers.format(kernel=release(node)),
        *platform.ofed,
        why="OFED has the peer-memory API; its modules are built against this kernel's headers",
        undo=((*platform.remove, *platform.ofed),),
    )


def restart_ofed(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Ask for a restart: it cuts every link. An initramfs with the former modules would load them again."""
    del choices
    yield from refresh_if_there(node, platform, "it may contain the kernel's own RDMA modules")
    if if_missing(False, node.exists, OPENIBD):
        yield AskPerson(
            what="reboot; or restart OFED, if neither your login nor storage uses these NICs",
            commands=("sudo /etc/init.d/openibd restart",),
        )
    else:
        yield AskPerson(what="reboot")


def rebuild_driver(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Rebuild NVIDIA's modules with DKMS, against OFED. Source: dkms(8), build and install."""
    del platform, choices
    kernel = release(node)
    found = [module for module in _dkms(node) if module.name.startswith("nvidia")]
    if not found:
        yield AskPerson(
            what="build the NVIDIA driver on this machine, now that OFED is installed: install its DKMS "
            "package instead of prebuilt modules, or run the .run installer again"
        )
        return
    module = next((m for m in found if m.kernel == kernel), found[0])
    arguments = ("-m", module.name, "-v", module.version, "-k", kernel, "--force")
    patterns = tuple(
        f"/{modules_dir(node)}/{folder}/nvidia*.ko*" for folder in ("updates/dkms", "extra", "updates")
    )
    yield RunCommand(
        argv=("dkms", "build", *arguments), why="build against the installed OFED", never_executed=True
    )
    yield RunCommand(
        argv=("dkms", "install", *arguments),
        why="replace the old modules",
        touches=(*patterns, depmod(node, "").touches[0]),
        never_executed=True,
    )


def _dkms(node: Node) -> tuple[DkmsModule, ...]:
    return if_missing((), dkms, node)


def persistent(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Load nvidia-peermem at each boot: it is loaded, but only by hand."""
    del platform, choices
    yield from off_the_blacklist(node)
    yield WriteFile(
        path=file_contents.MODULES_LOAD,
        content=file_contents.modules_load(file_contents.PEERMEM_MODULE),
        why=f"load {PEERMEM} at each boot",
    )


def memlock(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Raise the limits of logins, of systemd's units, and of the units that start jobs."""
    del platform, choices
    yield WriteFile(path=file_contents.LIMITS, content=file_contents.memlock_limits(), why="for logins")
    yield WriteFile(
        path=file_contents.SYSTEMD_LIMITS,
        content=file_contents.manager_limits(),
        why="for all that systemd starts",
    )
    for unit in STARTERS:
        if _has_unit(node, unit):
            path = f"/etc/systemd/system/{unit}.service.d/90-gdrkit-memlock.conf"
            yield WriteFile(path=path, content=file_contents.unit_limits(), why=f"for jobs of {unit}")
    yield RunCommand(
        argv=("systemctl", "daemon-reexec"),
        why="make systemd read the new limits",
        again=True,
        never_executed=True,
    )


def _has_unit(node: Node, unit: str) -> bool:
    return if_missing(
        False,
        lambda: any(
            node.exists(f"{folder}/{unit}.service")
            for folder in ("usr/lib/systemd/system", "lib/systemd/system", "etc/systemd/system")
        ),
    )


def upgrade_verbs(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Upgrade to the distribution's newest rdma-core. Images of jobs have their own."""
    del node, choices
    yield RunCommand(
        argv=(*platform.upgrade, *platform.verbs),
        why="a libibverbs that supports dma-buf",
        never_executed=True,
    )
    yield AskPerson(
        what="use rdma-core 34 or newer also in the images of jobs, and update other copies of libibverbs"
    )


def upgrade_nccl(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Most jobs load NCCL from their image or environment, not from the machine's package."""
    del node, choices
    yield AskPerson(
        what=f"use NCCL {first_release_with('sees_module')} or newer in the job's image or environment; "
        f"if the job uses the machine's NCCL: sudo {' '.join((*platform.upgrade, *platform.nccl))}"
    )


def clean_settings(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Comment out lines of /etc/nccl.conf that turn off a direct path. Jobs' settings stay."""
    del platform, choices
    lines = [
        setting.line for setting in environment(node, NCCL_CONF).settings if disables_direct_path(setting)
    ]
    if lines:
        yield without_lines(node, NCCL_CONF, lines, "/etc", "comment out what turns off the direct path")
    else:
        yield AskPerson(what="remove the setting that the finding names from the job's environment")
