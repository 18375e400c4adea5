"""Where the driver's build looks for the peer-memory API, and what it would find there now.

Two looks, which can disagree: conftest.sh decides by Module.symvers files whether nvidia-peermem gets a body
at all; the module's Kbuild file then picks the first folder that exists to link against.
Source: open-gpu-kernel-modules kernel-open/conftest.sh, check_for_ib_peer_memory_symbols() and the case
ib_peer_memory_symbols (the same from 515.43.04 on); kernel-open/nvidia-peermem/nvidia-peermem.Kbuild.
"""

from __future__ import annotations

import re

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
    looked_at: bool = True  # False: the API may be here, and conftest.sh passes it by


def has_peer_api(symvers: str) -> bool:
    """Whether conftest.sh finds both symbols: between tabs, with EXPORT_SYMBOL after a third.

    A file with spaces for tabs has none for it, whatever else it holds; EXPORT_SYMBOL_GPL counts.
    """
    return all(
        symbol in symvers
        and re.search(rf"\t{symbol}\t.*\tEXPORT_SYMBOL.*$", symvers, re.MULTILINE) is not None
        for symbol in PEER_API
    )


@fact
def conftest_symvers(node: Node) -> tuple[Symvers, ...]:
    """The five places that conftest.sh looks at, in its order, and what it would find in each today."""
    return tuple(_candidate(node, folder) for folder in _places(node))


def _places(node: Node) -> tuple[str, ...]:
    """With two OFED versions in DKMS the fifth is two words and names no file.

    On Arm the second place is spelled arm64, where OFED installs itself under aarch64.
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
    """Trees that hold the API where conftest.sh does not look: OFED's own folder on Arm, and all but one
    build.
    """
    kernel, machine = release(node), architecture(node)
    places = [f"{OFA}/{machine}/{kernel}"] if machine != "x86_64" else []
    builds = ofed_build_trees(node)
    places += builds if len(builds) > 1 else []
    found = (_candidate(node, place, looked_at=False) for place in places)
    return tuple(candidate for candidate in found if candidate.has_peer_api)


@fact
def ofed_build_trees(node: Node) -> tuple[str, ...]:
    """The build folders of OFED's DKMS module, one per version that DKMS keeps; () if there are none."""
    versions = if_absent((), node.list, DKMS_OFED)
    return tuple(path for name in versions if node.exists(path := f"{DKMS_OFED}/{name}/build"))


@fact
def rebuild_would_find(node: Node) -> str:
    """The Module.symvers by which conftest.sh would say yes now; "" if a rebuild gives a stub again."""
    folder = seek(_places(node), lambda place: _candidate(node, place).has_peer_api)
    return f"{folder}/Module.symvers" if folder else ""


def _candidate(node: Node, folder: str, *, looked_at: bool = True) -> Symvers:
    path = f"{folder}/Module.symvers"
    if " " in folder or "*" in folder or not node.exists(path):
        return Symvers(path, exists=False, has_peer_api=False, looked_at=looked_at)
    return Symvers(path, exists=True, has_peer_api=has_peer_api(node.text(path)), looked_at=looked_at)
