"""The rule about a driver whose modules were signed by different parties."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

from gdrkit.evidence import EvidenceAbsent
from gdrkit.facts.driver_files import driver_path, peermem_path
from gdrkit.facts.trust import signer_name
from gdrkit.node import Node
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import Failed, Layer, NotApplicable, Outcome, Passed, Status, rule, the_node


@rule(
    "mixed-signers",
    Layer.KERNEL,
    per=the_node,
    default_status=Status.WARNING,
    whole_machine=True,
    remedies=(RemedyName.SIGN_MODULE,),
    cost="with Secure Boot, only some of the driver's modules load",
)
def mixed_signers(node: Node, _: str) -> Outcome:
    """nvidia and nvidia-peermem lie in one folder and were signed by different keys.

    Cost: Nothing while signatures are not enforced. With Secure Boot the odd one out is refused,
    unless both keys are trusted.

    How to tell: nvidia, nvidia-uvm and nvidia-modeset load, nvidia-peermem says "Key was rejected by
    service". `modinfo -F signer` differs between them.

    What to do: One source for all of the driver's modules: the distribution's packages, or DKMS for all.

    Why: A distribution attaches its own signatures to the modules it lists, and one module kept
    the vendor's, or none; or one of them was rebuilt by hand beside signed ones.

    Source: Reported of DGX OS on 6.17.0-1008-nvidia, not reproduced.
    """
    try:
        paths = (driver_path(node), peermem_path(node))
    except EvidenceAbsent as absent:
        return NotApplicable(f"{absent.missing.source} is not there")
    if posixpath.dirname(paths[0]) != posixpath.dirname(paths[1]):
        return NotApplicable("they lie in different folders")
    driver, peermem = _signers(node, paths)
    if driver == peermem:
        return Passed(f"both signed by {driver or 'nobody'}")
    return Failed(
        seen=f"{posixpath.basename(paths[1])} signed by {peermem or 'nobody'}, "
        f"{posixpath.basename(paths[0])} by {driver or 'nobody'}",
        expected="one signer for all modules of the driver",
        subject=posixpath.basename(paths[1]),
    )


def _signers(node: Node, paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(signer_name(node, path) for path in paths)
