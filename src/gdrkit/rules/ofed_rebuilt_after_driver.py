"""An RDMA stack of another build than the one that nvidia-peermem was built against."""

from __future__ import annotations

from gdrkit.evidence import EvidenceAbsent, EvidenceMissing, Missing, MissingReason
from gdrkit.facts.driver import PEER_API, PeermemLinkage, peer_api_exporter, peermem_linkage, peermem_path
from gdrkit.facts.peer_memory import LEGACY, exported_crc, other_peer_api
from gdrkit.node import Node
from gdrkit.rules.legacy_nv_peer_mem import serving_client
from gdrkit.rules.module_subjects import peermem
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import ADDRESS, Failed, Layer, NotApplicable, Outcome, Passed, rule


@rule(
    "ofed-rebuilt-after-driver",
    Layer.RDMA,
    per=peermem,
    takes=(ADDRESS,),
    remedies=(RemedyName.RESTART_OFED, RemedyName.REBUILD_DRIVER),
    cost="nvidia-peermem cannot load until the NVIDIA driver is rebuilt against this RDMA stack.",
    references=("https://github.com/NVIDIA/gpu-operator/issues/2868",),
)
def ofed_rebuilt_after_driver(node: Node, module: str) -> Outcome:
    """nvidia-peermem was built against a different RDMA stack than the one on this machine.

    Cost: The peermem path is closed. If the module is already loaded, it keeps working until it is unloaded.

    How to tell: `modprobe nvidia-peermem` says `Invalid argument`; the kernel log says
    `disagrees about version of symbol ib_register_peer_memory_client` and `Unknown symbol ... (err -22)`.
    The CRC of ib_register_peer_memory_client in the __versions section of nvidia-peermem
    (`modprobe --dump-modversions $(modinfo -n nvidia-peermem)`) differs from the CRC that the RDMA core
    exports.

    What to do: If the installed OFED does not run yet, start it first: reboot, or `sudo /etc/init.d/openibd
    restart`; nvidia-peermem may have been built against it. Otherwise rebuild the NVIDIA driver against the
    OFED that is installed now: `sudo dkms build --force`
    and `sudo dkms install --force` of nvidia for this kernel. With the GPU Operator, set
    FORCE_REINSTALL=true in the driver manager's environment, or reboot the node.

    Why: OFED was installed, upgraded or rebuilt after the NVIDIA driver. Or the driver's build linked with
    another tree than the one it detected: /usr/src/ofa_kernel/default can point to the tree of another
    kernel. After a kernel update, nothing ensures that DKMS builds OFED before the driver.

    Source: Linux kernel/module/version.c, check_version(); open-gpu-kernel-modules
    kernel-open/nvidia-peermem/nvidia-peermem.Kbuild, OFA_CANDIDATES.
    """
    try:
        linkage = peermem_linkage(node)
    except EvidenceAbsent:
        return NotApplicable("no nvidia-peermem is installed")
    except EvidenceMissing:
        if serving_client(node) != LEGACY:
            raise
        return NotApplicable(f"{LEGACY} is loaded instead")
    if not linkage.uses_peer_api:
        return NotApplicable("a stub does not import the API")
    client = serving_client(node)
    if client == LEGACY:
        return NotApplicable(f"{LEGACY} is loaded instead")
    return _compared(node, module, linkage, client)


def _compared(node: Node, module: str, linkage: PeermemLinkage, client: str) -> Outcome:
    """The outcome for a module that imports the API, by the CRCs of what runs and of what is installed."""
    path = peermem_path(node)
    if differing := [symbol for symbol in PEER_API if symbol in linkage.mismatched]:
        seen = f"CRC of {differing[0]} in {path} differs from {peer_api_exporter(node)}'s"
        if not client and other_peer_api(node) and not linkage.outdated and not linkage.lacking:
            return Failed(
                seen=f"{seen}, but not from that of the installed OFED, which does not run yet",
                expected="equal CRCs",
                subject=module,
                cost="nvidia-peermem cannot load until the installed OFED runs.",
            )
        return _differ(module, seen, now=not client)
    if later := [symbol for symbol in PEER_API if symbol in linkage.outdated]:
        seen = f"CRC of {later[0]} in {path} differs from that of the RDMA stack that runs after a reboot"
        return _differ(module, seen, now=False, loaded=bool(client))
    unseen = [symbol for symbol in PEER_API if symbol in linkage.unseen]
    if unseen and not client:
        raise _unseen(node, unseen[0])
    if any(symbol in linkage.unresolved for symbol in PEER_API):
        return NotApplicable("nothing exports the API, so there is nothing to compare")
    return Passed("the CRCs agree", linkage.lacking)


def _differ(module: str, seen: str, now: bool, loaded: bool = True) -> Failed:
    later = "The loaded module keeps working; after" if loaded else "After"
    return Failed(
        seen=seen,
        expected="equal CRCs",
        subject=module,
        takes=None if now else (),
        cost="" if now else f"{later} the next boot it cannot load.",
    )


def _unseen(node: Node, symbol: str) -> EvidenceMissing:
    """Why it is not known how a symbol is exported."""
    try:
        exported_crc(node, symbol)
    except EvidenceMissing as error:
        return error
    ask = "modprobe --show-exports $(modinfo -n ib_core)"
    return EvidenceMissing(Missing("CRCs of the RDMA core", MissingReason.UNDECIDED, ask))
