"""The paths of NVIDIA's kernel modules, as distributions, installers and the GPU Operator place them."""

from __future__ import annotations

import re

from gdrkit.evidence import EvidenceAbsent, EvidenceMissing, Missing, MissingReason
from gdrkit.evidence.quoting import quoted
from gdrkit.facts import modules
from gdrkit.facts.kernel import release
from gdrkit.facts.modinfo_text import printed_module
from gdrkit.node import Node, fact, if_missing

DRIVER = "nvidia"
CONTAINER = "run/nvidia/driver"
"""Root of the GPU Operator's driver container, mounted on the host. Source: gpu-driver-container,
nvidia-driver.
"""

_FOLDERS = ("kernel/drivers/video", "video", "updates/dkms", "extra", "kernel/nvidia")
"""Where installers and packages leave modules below /lib/modules/<release>.
Sources: open-gpu-kernel-modules kernel-open/Makefile, INSTALL_MOD_DIR; gpu-driver-container ubuntu24.04."""

_ENDINGS = (".ko", ".ko.zst", ".ko.xz", ".ko.gz")
_RENAMED = r"nvidia(?:-current(?:-open)?|-tesla[\w-]*|-open|-\d+)"


@fact
def driver_path(node: Node) -> str:
    """The nvidia module file: what modprobe would load, Debian's renamed one, or the driver container's.

    Raises EvidenceAbsent if there is none.
    """
    return _file(node, DRIVER, _RENAMED)


@fact
def peermem_path(node: Node) -> str:
    """The nvidia-peermem file, found in the same places. Raises EvidenceAbsent if there is none."""
    return _file(node, modules.PEERMEM, rf"{_RENAMED}-peermem")


@fact
def has_driver_container(node: Node) -> bool:
    """Whether the GPU Operator's driver container is on this node. False also where that is not known."""
    return if_missing(False, node.exists, CONTAINER)


@fact
def path_to_load(node: Node, module: str) -> str:
    """The file that modprobe would load for a module; of NVIDIA's, where depmod of the host lists none, the
    one in the driver container, whose own modprobe loads it into the same kernel. Raises EvidenceAbsent."""
    try:
        return modules.module_path(node, module)
    except EvidenceAbsent:
        own = {DRIVER: driver_path, modules.PEERMEM: peermem_path}.get(module)
        path = if_missing("", own, node) if own else ""
        if not path.startswith(f"{CONTAINER}/"):
            raise
        return path


def _file(node: Node, module: str, renamed: str) -> str:
    """Debian renames nvidia-peermem.ko to nvidia-current-peermem.ko, with install lines in modprobe.d."""

    def as_modprobe_would() -> str:
        return modules.module_path(node, module)

    def by_another_name() -> str:
        folder = modules.modules_dir(node)
        for line in node.text(f"{folder}/modules.dep").splitlines():
            path = line.partition(":")[0]
            stem = path.rpartition("/")[2].partition(".ko")[0]
            if "nvidia" in stem and re.fullmatch(renamed, stem.replace("_", "-")):
                node.cite(f"{folder}/modules.dep", text=path)
                return path.lstrip("/") if path.startswith("/") else f"{folder}/{path}"
        raise EvidenceAbsent(
            Missing(
                f"{folder}/modules.dep",
                MissingReason.ABSENT,
                f"grep {DRIVER} {quoted(f'/{folder}/modules.dep')}",
            )
        )

    def in_the_driver_container() -> str:
        root = f"{CONTAINER}/lib/modules/{release(node)}"
        name = module.replace("_", "-")
        for folder in _FOLDERS if node.exists(root) else ():
            for ending in _ENDINGS:
                if node.exists(path := f"{root}/{folder}/{name}{ending}"):
                    return path
        raise EvidenceAbsent(
            Missing(root, MissingReason.ABSENT, f"find {quoted(f'/{root}')} -name {quoted(f'{name}.ko*')}")
        )

    reasons: list[EvidenceMissing] = []
    for ask in (as_modprobe_would, by_another_name, in_the_driver_container):
        try:
            return ask()
        except EvidenceMissing as error:
            reasons.append(error.fresh())
    if all(reason.missing.why is MissingReason.NOT_COLLECTED for reason in reasons):
        return _as_modinfo_printed(node, module)
    raise next((reason for reason in reasons if not isinstance(reason, EvidenceAbsent)), reasons[0]).fresh()


def _as_modinfo_printed(node: Node, module: str) -> str:
    """The path that modinfo prints first, for bundles without the modules' folders."""
    path = printed_module(node, module).fields.get("filename", "")
    if not path.startswith("/"):
        raise EvidenceMissing(
            Missing(f"path of {module}", MissingReason.NOT_COLLECTED, f"modinfo -n {quoted(module)}")
        )
    return path.lstrip("/")
