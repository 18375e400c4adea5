"""Steps about drivers, packages, limits and settings."""

from __future__ import annotations

from collections.abc import Iterator

from gdrkit.consumers.nccl_releases import since
from gdrkit.facts.environment import NCCL_CONF, environment
from gdrkit.facts.kernel import release
from gdrkit.facts.module_index import modules_dir
from gdrkit.facts.modules import PEERMEM
from gdrkit.facts.packages import DkmsModule, dkms
from gdrkit.node import Node, if_missing
from gdrkit.repair.platforms import file_contents
from gdrkit.repair.platforms.action import Action, AskPerson, RunCommand, WriteFile
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.edits import without_lines
from gdrkit.repair.platforms.loading import depmod, refresh_if_there
from gdrkit.repair.platforms.platform import Platform
from gdrkit.repair.platforms.settings import turns_off

STARTERS = ("slurmd", "containerd", "docker", "kubelet", "pbs")
"""Units that start jobs and hand their own limits down to them."""


def load_driver(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """The driver and what CUDA needs of it."""
    del node, platform, choices
    for name in ("nvidia", "nvidia_uvm"):
        yield RunCommand(argv=("modprobe", name), why=f"load {name}", undo=(("modprobe", "-r", name),),
                         never_executed=True)  # fmt: skip


def reboot(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """gdrkit reboots nothing."""
    del node, platform, choices
    yield AskPerson(what="reboot")


def open_modules(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """The packages of the other flavour."""
    del choices
    yield from platform.open_modules(node)
    yield from refresh_if_there(node, platform, "it may hold the other modules")


def install_ofed(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """NVIDIA's repository, which a person sets up once, and its package."""
    del choices
    yield AskPerson(
        what="set up NVIDIA's DOCA repository for this distribution (docs.nvidia.com/doca, DOCA-Host)"
    )
    yield platform.packages(
        platform.headers.format(kernel=release(node)),
        *platform.ofed,
        why="OFED brings the peer-memory API; its modules are built against this kernel's headers",
        undo=((*platform.remove, *platform.ofed),),
    )


def rebuild_driver(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """DKMS builds NVIDIA's modules anew, now that OFED is there. Source: dkms(8), build and install."""
    del platform, choices
    kernel = release(node)
    found = [module for module in _dkms(node) if module.name.startswith("nvidia")]
    if not found:
        yield AskPerson(
            what="build the NVIDIA driver on this machine: install its DKMS package instead of prebuilt "
            "modules, or run the .run installer again, now that OFED is there"
        )
        return
    module = next((m for m in found if m.kernel == kernel), found[0])
    what = ("-m", module.name, "-v", module.version, "-k", kernel, "--force")
    places = tuple(
        f"/{modules_dir(node)}/{place}/nvidia*.ko*" for place in ("updates/dkms", "extra", "updates")
    )
    yield RunCommand(argv=("dkms", "build", *what), why="build it against this OFED", never_executed=True)
    yield RunCommand(
        argv=("dkms", "install", *what),
        why="put the new modules in place of the old ones",
        touches=(*places, depmod(node, "").touches[0]),
        never_executed=True,
    )


def _dkms(node: Node) -> tuple[DkmsModule, ...]:
    return if_missing((), dkms, node)


def allow_topology(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """An option of the driver, which takes it when it is loaded."""
    del choices
    yield WriteFile(
        path="/etc/modprobe.d/90-gdrkit-topology.conf",
        content=file_contents.modprobe_options("nvidia", {"NVreg_GrdmaPciTopoCheckOverride": "1"}),
        why="the driver maps GPU memory whatever lies between",
    )
    yield from refresh_if_there(node, platform, "it may hold the driver and its options")


def persistent(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """A line in modules-load.d for a module that is loaded by hand."""
    del node, platform, choices
    yield WriteFile(
        path=file_contents.MODULES_LOAD,
        content=file_contents.modules_load(file_contents.PEERMEM_MODULE),
        why=f"load {PEERMEM} at each boot",
    )


def memlock(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Limits of logins, of what systemd starts, and of the units that start jobs."""
    del platform, choices
    yield WriteFile(path=file_contents.LIMITS, content=file_contents.memlock_limits(), why="logins")
    yield WriteFile(
        path=file_contents.SYSTEMD_LIMITS, content=file_contents.manager_limits(), why="what systemd starts"
    )
    for unit in STARTERS:
        if _has_unit(node, unit):
            path = f"/etc/systemd/system/{unit}.service.d/90-gdrkit-memlock.conf"
            yield WriteFile(path=path, content=file_contents.unit_limits(), why=f"jobs of {unit}")
    yield RunCommand(
        argv=("systemctl", "daemon-reexec"), why="systemd reads its limits", again=True, never_executed=True
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
    """The distribution's newest; images of jobs have their own."""
    del node, choices
    yield RunCommand(
        argv=(*platform.upgrade, *platform.verbs), why="libibverbs with dma-buf", never_executed=True
    )
    yield AskPerson(what="use rdma-core 34 or newer in the images that jobs run in, too")


def upgrade_nccl(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Jobs mostly load the copy of their image or environment, which no machine's package reaches."""
    del node, choices
    yield AskPerson(
        what=f"use NCCL {since('sees_module')} or newer in the image or environment that the job loads; "
        f"where it loads the machine's own: {' '.join((*platform.upgrade, *platform.nccl))}"
    )


def clean_settings(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Comments in place of what turns paths off in /etc/nccl.conf; jobs' own settings are theirs."""
    del platform, choices
    lines = [setting.line for setting in environment(node, NCCL_CONF).settings if turns_off(setting)]
    if lines:
        yield without_lines(node, NCCL_CONF, lines, "/etc", "it turns the direct path off")
    else:
        yield AskPerson(what="take the setting out of the job's environment, which the finding names")
