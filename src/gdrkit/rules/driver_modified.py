"""A driver that is not one of NVIDIA's releases."""

from __future__ import annotations

from gdrkit.evidence import Confidence, EvidenceAbsent
from gdrkit.facts.driver import PROC_PARAMETERS, PROC_VERSION, driver_build, driver_parameters, driver_path
from gdrkit.facts.packages import owner
from gdrkit.facts.supplied import not_collected
from gdrkit.node import Node, if_absent, if_missing
from gdrkit.rules.rule import (
    Failed,
    Layer,
    NotApplicable,
    Outcome,
    Passed,
    SettledBy,
    Status,
    rule,
    the_node,
)

FORK_PARAMETERS = ("ExperimentalDmaBufP2P", "AllowP2PWithoutCoherentMapping")
"""Registry keys of public forks that add peer access to consumer GPUs; no NVIDIA release has them
(kernel-open/nvidia/nv-reg.h, all tags from 515.43.04 to 595.45.04)."""


@rule(
    "driver-modified",
    Layer.DRIVER,
    per=the_node,
    default_status=Status.WARNING,
    settled_by=SettledBy.DRIVER,
    cost="What holds for NVIDIA's releases may not hold for it; vendors do not support it.",
    references=("https://github.com/NVIDIA/open-gpu-kernel-modules",),
)
def driver_modified(node: Node, _: str) -> Outcome:
    """The kernel driver is not one of NVIDIA's releases.

    Cost: Verdicts that rely on NVIDIA's source or on product lines may be wrong here, in both directions.
    Trust only a probe (`gdr doctor --probe`).

    How to tell: `grep -E 'ExperimentalDmaBufP2P|AllowP2PWithoutCoherentMapping' /proc/driver/nvidia/params`
    prints a registry key, which no release has. Or the builder in /proc/driver/nvidia/version is not
    dvs-builder@..., and no package owns the module's file (`modinfo -n nvidia` prints it).

    What to do: Nothing, if the driver is modified on purpose. Otherwise reinstall it from the distribution
    or from NVIDIA.

    Why: Forks of the open modules enable peer access on GPUs for which NVIDIA does not offer it.
    Distributions compile the driver as well, so another builder's name alone proves nothing.

    Source: open-gpu-kernel-modules utils.mk (NV_BUILD_USER, NV_BUILD_HOST), kernel-open/nvidia/nv-reg.h.
    """
    try:
        build = driver_build(node)
    except EvidenceAbsent:
        return NotApplicable("no NVIDIA driver is loaded")
    foreign = [name for name in FORK_PARAMETERS if name in if_missing((), driver_parameters, node)]
    if foreign:
        return Failed(
            seen=f"parameter {foreign[0]} in /{PROC_PARAMETERS}",
            expected="only parameters that NVIDIA's releases have",
            subject="nvidia",
        )
    if build.flavour == "open" and not build.builder:
        raise not_collected(PROC_VERSION, f"cat /{PROC_VERSION}")
    if not build.builder or build.builder.startswith("dvs-builder@"):
        return _unless_foreign(node, Passed("built by NVIDIA"))
    path = driver_path(node)
    try:
        package = owner(node, path)
    except EvidenceAbsent:
        node.cite(path, text=f"built by {build.builder}", confidence=Confidence.LIKELY)
        return Failed(
            seen=f"built by {build.builder}, and no package owns {path}",
            expected="built by dvs-builder@..., or owned by a package",
            subject="nvidia",
        )
    return _unless_foreign(node, Passed(f"built by {build.builder}, owned by {package.name}"))


def _unless_foreign(node: Node, passed: Passed) -> Passed:
    """Raises EvidenceMissing where the parameters of a fork could not be looked for."""
    if_absent({}, driver_parameters, node)
    return passed
