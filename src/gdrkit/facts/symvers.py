"""The Module.symvers files in which the driver's build looks for the peer-memory API, and their contents.

The build looks twice, and the results can differ: conftest.sh decides by Module.symvers files whether
nvidia-peermem gets any code; the module's Kbuild file then links against the first folder that exists.
Source: open-gpu-kernel-modules kernel-open/conftest.sh, check_for_ib_peer_memory_symbols() and the case
ib_peer_memory_symbols (the same from 515.43.04 on); kernel-open/nvidia-peermem/nvidia-peermem.Kbuild.
"""

from __future__ import annotations

from msgspec import Struct

from gdrkit.facts.kernel import architecture, release
from gdrkit.node import Node, fact, if_absent, seek

PEER_API = ("ib_register_peer_memory_client", "ib_unregister_peer_memory_client")
OFA = "usr/src/ofa_kernel"
DKMS_OFED = "var/lib/dkms/mlnx-ofed-kernel"


class Symvers(Struct, frozen=True):
    """One candidate in the order of conftest.sh. The first that has both symbols decides."""

    path: str
    exists: bool
    has_peer_api: bool
    looked_at: bool = True  # False: conftest.sh does not look here, even if the API is


def has_peer_api(symvers: str) -> bool:
    """Whether conftest.sh finds both symbols in a file: between tabs, with EXPORT_SYMBOL after a third tab.

    It finds none in a file with spaces instead of tabs. EXPORT_SYMBOL_GPL counts as well.
    """
    lines = symvers.split("\n")
    return all(
        any("\tEXPORT_SYMBOL" in line.partition(f"\t{symbol}\t")[2] for line in lines) for symbol in PEER_API
    )


@fact
def symvers_seen_by_driver_build(node: Node) -> tuple[Symvers, ...]:
    """The five files that conftest.sh looks at, in its order, and what it would find in each now."""
    return tuple(_candidate(node, folder) for folder in _folders(node))


def _folders(node: Node) -> tuple[str, ...]:
    """The folders that conftest.sh looks in.

    With two OFED versions in DKMS, the fifth is two words and so not a valid path. On Arm, the second
    contains arm64, while OFED installs itself under aarch64.
    """
    kernel = release(node)
    arch = {"aarch64": "arm64", "riscv64": "riscv"}.get(architecture(node), architecture(node))
    return (
        f"lib/modules/{kernel}/build",
        f"{OFA}/{arch}/{kernel}",
        f"{OFA}/{kernel}",
        f"{OFA}/default",
        " ".join(ofed_build_trees(node)) or f"{DKMS_OFED}/*/build",
    )


@fact
def overlooked_symvers(node: Node) -> tuple[Symvers, ...]:
    """Files with the API where conftest.sh does not look: OFED's folder on Arm, and several build trees."""
    kernel, machine = release(node), architecture(node)
    folders = [f"{OFA}/{machine}/{kernel}"] if machine != "x86_64" else []
    builds = ofed_build_trees(node)
    folders += builds if len(builds) > 1 else []
    found = (_candidate(node, folder, looked_at=False) for folder in folders)
    return tuple(candidate for candidate in found if candidate.has_peer_api)


@fact
def ofed_build_trees(node: Node) -> tuple[str, ...]:
    """The build folders of OFED's DKMS module, one for each version; () if there are none."""
    versions = if_absent((), node.list, DKMS_OFED)
    return tuple(path for name in versions if node.exists(path := f"{DKMS_OFED}/{name}/build"))


@fact
def rebuild_would_find(node: Node) -> str:
    """The Module.symvers in which a rebuild would find the API now; "" if it would build a stub again."""
    folder = seek(_folders(node), lambda folder: _candidate(node, folder).has_peer_api)
    return f"{folder}/Module.symvers" if folder else ""


def _candidate(node: Node, folder: str, *, looked_at: bool = True) -> Symvers:
    path = f"{folder}/Module.symvers"
    if " " in folder or "*" in folder or not node.exists(path):
        return Symvers(path, exists=False, has_peer_api=False, looked_at=looked_at)
    return Symvers(path, exists=True, has_peer_api=has_peer_api(node.text(path)), looked_at=looked_at)
