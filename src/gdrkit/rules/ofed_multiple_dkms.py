"""Two OFED versions in DKMS, which hide each other."""

from __future__ import annotations

from gdrkit.facts.symvers import ofed_build_trees, rebuild_would_find
from gdrkit.node import Node
from gdrkit.rules.rule import Failed, Layer, NotApplicable, Outcome, Passed, Status, rule, the_node


@rule(
    "ofed-multiple-dkms",
    Layer.RDMA,
    per=the_node,
    default_status=Status.WARNING,
    cost="The next build of the NVIDIA driver makes nvidia-peermem a stub.",
    references=("https://github.com/NVIDIA/open-gpu-kernel-modules/blob/main/kernel-open/conftest.sh",),
)
def ofed_multiple_dkms(node: Node, _: str) -> Outcome:
    """DKMS keeps build folders of two OFED versions, and the driver's build therefore finds neither.

    Cost: Nothing until the driver is built again, then the peermem path.

    How to tell: Two folders /var/lib/dkms/mlnx-ofed-kernel/*/build, and no Module.symvers with the
    peer-memory API in the kernel's build folder or in /usr/src/ofa_kernel.

    What to do: `dkms remove mlnx-ofed-kernel/<old version> --all`, then rebuild the driver.

    Why: The build expands that pattern and puts /Module.symvers after the result. With two folders the
    result is two words, and names no file.

    Source: open-gpu-kernel-modules kernel-open/conftest.sh, VAR_DKMS_SOURCES_DIR.
    """
    trees = ofed_build_trees(node)
    if len(trees) < 2:
        return NotApplicable("not more than one OFED build in DKMS")
    if found := rebuild_would_find(node):
        return Passed(f"{found} is found before them")
    return Failed(seen=" and ".join(trees), expected="one build folder", subject="mlnx-ofed-kernel")
