"""Several OFED versions in DKMS, none of which the build of the NVIDIA driver finds."""

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
    """DKMS has build folders of two OFED versions, so the build of the NVIDIA driver finds neither.

    Cost: None until the driver is rebuilt; then nvidia-peermem becomes a stub and the peermem path is lost.

    How to tell: `ls -d /var/lib/dkms/mlnx-ofed-kernel/*/build` lists two folders, and neither the kernel's
    build folder nor /usr/src/ofa_kernel has a Module.symvers with the peer-memory API.

    What to do: Run `sudo dkms remove mlnx-ofed-kernel/<old version> --all`, then rebuild the NVIDIA driver.

    Why: The build expands that pattern and appends /Module.symvers to the result. With two folders the
    result is two words, which do not name a file.

    Source: open-gpu-kernel-modules kernel-open/conftest.sh, VAR_DKMS_SOURCES_DIR.
    """
    trees = ofed_build_trees(node)
    if len(trees) < 2:
        return NotApplicable("at most one OFED build in DKMS")
    if found := rebuild_would_find(node):
        return Passed(f"{found} is found before them")
    return Failed(seen=" and ".join(trees), expected="one build folder", subject="mlnx-ofed-kernel")
