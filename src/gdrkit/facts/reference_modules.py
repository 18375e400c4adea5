"""What the running kernel expects of a module that was built for it: vermagic, size of struct module, CRCs.

A running kernel does not show these. They are read from reference modules: those that it has accepted, and
those that were built together with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TypeVar

from gdrkit.evidence import Confidence, EvidenceMissing, Missing, MissingReason
from gdrkit.evidence.quoting import quoted
from gdrkit.facts.kernel import release
from gdrkit.facts.loaded_modules import loaded
from gdrkit.facts.module_files import image, information
from gdrkit.facts.running_files import is_loaded_for_sure, loaded_path
from gdrkit.node import Node, each_known, fact, if_missing

T = TypeVar("T")

_REFERENCES = 12  # reference modules that are tried; any one of them answers most questions
# Good references first: small, common, and users of the symbols that RDMA and NVIDIA modules use.
_PREFERRED = (
    *("ib_uverbs", "ib_core", "mlx5_ib", "rdma_cm", "rdma_ucm", "ib_cm", "iw_cm", "mlx5_core"),
    *(
        "rdma_rxe",
        "irdma",
        "bnxt_re",
        "virtio_net",
        "nvme",
        "nvme_core",
        "ext4",
        "xfs",
        "virtio_pci",
        "e1000e",
    ),
)


# -- references ----------------------------------------------------------------------------------------


@fact
def _reference_names(node: Node) -> tuple[str, ...]:
    """Names of reference modules, best first."""
    present = if_missing({}, loaded, node)
    accepted = [module for module in present.values() if "F" not in module.taint]
    by_size = sorted(accepted, key=lambda module: module.size_bytes)
    others = [module for module in by_size if module.name not in _PREFERRED]
    return (
        *(name for name in _PREFERRED if name in present),
        *(module.name for module in others if "O" not in module.taint),
        *(name for name in _PREFERRED if name not in present),
        *(module.name for module in others if "O" in module.taint),  # its file may have been replaced since
    )


@fact
def _reference(node: Node, name: str) -> str:
    """The file of a reference module. Raises EvidenceMissing if it was neither accepted nor built here."""
    path = loaded_path(node, name)
    if not is_loaded_for_sure(node, name):
        if not information(node, path).intree:
            raise EvidenceMissing(Missing(path, MissingReason.UNDECIDED, f"modprobe {quoted(name)}"))
        node.cite(path, ".modinfo", "built with the kernel", Confidence.LIKELY)
    return path


def _references(node: Node) -> Iterator[str]:
    """Readable files of reference modules, opened one by one as they are needed."""

    def read(name: str) -> str:
        path = _reference(node, name)
        information(node, path)
        return path

    return islice(each_known(read, _reference_names(node)), _REFERENCES)


@fact
def reference_files(node: Node) -> tuple[str, ...]:
    """Files of up to three of the kernel's own modules, best first; () if none can be read."""
    found = (path for path in _references(node) if information(node, path).intree)
    return tuple(path for path, _ in zip(found, range(3), strict=False))


def first_answer_of_references(node: Node, ask: Callable[[str], T | None], what: str) -> T:
    """The first answer, other than None, for a reference module. Raises EvidenceMissing if there is none."""
    for answer in each_known(ask, _references(node)):
        if answer is not None:
            return answer
    folder = f"lib/modules/{release(node)}"
    raise EvidenceMissing(
        Missing(
            f"{what} of a module in {folder}/kernel",
            MissingReason.NOT_COLLECTED,
            f"ls -R {quoted(f'/{folder}/kernel')}",
        )
    )


@fact
def vermagic(node: Node) -> str:
    """The version string that the kernel compares with a module's. Source: Linux
    include/linux/vermagic.h."""

    def flags(path: str) -> str | None:
        return information(node, path).vermagic.partition(" ")[2] or None

    return f"{release(node)} {first_answer_of_references(node, flags, 'vermagic')}"


@fact
def struct_module_size_bytes(node: Node) -> int:
    """The size of the kernel's struct module, taken from a reference module's file."""
    return first_answer_of_references(
        node, lambda path: image(node, path).size_of(".gnu.linkonce.this_module"), "the module structure"
    )
