"""The rule about a driver whose modules were signed by different parties."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

from gdrkit.evidence import EvidenceAbsent
from gdrkit.facts.driver_files import driver_path, peermem_path
from gdrkit.facts.module_state import is_unread
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
    cost="With Secure Boot, only some of the driver's modules load.",
)
def mixed_signers(node: Node, _: str) -> Outcome:
    """nvidia and nvidia-peermem are in one folder but were signed with different keys.

    Cost: Nothing while signatures are not enforced. With Secure Boot, one of them is refused unless both
    keys are trusted.

    How to tell: `modinfo -F signer nvidia` and `modinfo -F signer nvidia-peermem` print different names, or
    one prints nothing. nvidia, nvidia-uvm and nvidia-modeset load, but modprobe of nvidia-peermem says "Key
    was rejected by service".

    What to do: Take all of the driver's modules from one source: the distribution's packages, or DKMS for
    all.

    Why: A distribution attaches its own signatures to the modules that it lists, and one module kept the
    vendor's signature, or has none. Or one module was rebuilt by hand among signed ones.

    Source: Reported of DGX OS on 6.17.0-1008-nvidia, not reproduced.
    """
    try:
        paths = (driver_path(node), peermem_path(node))
    except EvidenceAbsent as absent:
        return NotApplicable(f"{absent.missing.source} is not there")
    if posixpath.dirname(paths[0]) != posixpath.dirname(paths[1]):
        return NotApplicable("the two modules are in different folders")
    if any(is_unread(node, path) for path in paths):
        return NotApplicable("one of the files cannot be read as far as its signature")
    driver, peermem = _signers(node, paths)
    if driver == peermem:
        return Passed(f"both signed by {driver}" if driver else "neither is signed")
    names = tuple(posixpath.basename(path) for path in paths)
    return Failed(
        seen=f"{names[1]} {_signed(peermem)}, {names[0]} {_signed(driver)}",
        expected="one signer for all modules of the driver",
        subject=names[1],
    )


def _signed(signer: str) -> str:
    return f"signed by {signer}" if signer else "not signed"


def _signers(node: Node, paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(signer_name(node, path) for path in paths)
