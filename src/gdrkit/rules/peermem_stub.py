"""nvidia-peermem was built without the peer-memory API."""

from __future__ import annotations

from gdrkit.evidence import EvidenceAbsent, EvidenceMissing
from gdrkit.facts.driver import PEER_API, peermem_linkage, peermem_path
from gdrkit.facts.modules import PEERMEM
from gdrkit.facts.running_files import is_loaded_for_sure
from gdrkit.facts.symvers import overlooked_symvers, rebuild_would_find
from gdrkit.formats.module_name import canonical
from gdrkit.node import Node, if_missing
from gdrkit.rules.deciding_command import DMESG, MODINFO, DecidingCommand
from gdrkit.rules.module_subjects import peermem
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import ADDRESS, Failed, Layer, NotApplicable, Outcome, Passed, rule
from gdrkit.rules.stage import LoadPosition, Stage


@rule(
    "peermem-stub",
    Layer.DRIVER,
    per=peermem,
    takes=(ADDRESS,),
    loading=LoadPosition(Stage.INIT, 1),
    module=PEERMEM,
    reported_by=(
        DecidingCommand(MODINFO, "an empty `depends:`"),
        DecidingCommand(DMESG, "nothing about {module} except taint, if the log reaches back far enough"),
    ),
    remedies=(RemedyName.USE_DMABUF, RemedyName.INSTALL_OFED, RemedyName.REBUILD_DRIVER),
    cost="nvidia-peermem can never load; only dma-buf gives a direct path.",
    references=("https://github.com/NVIDIA/open-gpu-kernel-modules/blob/main/kernel-open/conftest.sh",),
)
def peermem_stub(node: Node, module: str) -> Outcome:
    """nvidia-peermem is a stub: its init function only returns -EINVAL.

    Cost: The peermem path is closed. Signing the module only changes one error into another.

    How to tell: `modinfo -F depends nvidia-peermem` prints nothing, and the module file does not import
    ib_register_peer_memory_client. Loading it fails with `Invalid argument`, and the kernel log shows no
    message. Its version and its `parm:` lines are the same as in a working module.

    What to do: Prefer dma-buf, which does not need this module: use the open kernel modules and an RDMA
    stack that supports dma-buf, then remove nvidia-peermem from /etc/modules-load.d. Only if dma-buf is not
    available, install DOCA-OFED first and then rebuild the NVIDIA driver (`sudo dkms build --force`), in
    this order.

    Why: The driver's build looks for the peer-memory API in five Module.symvers files, those of the kernel
    and of OFED. If none has it, everything except that return is left out. Ubuntu's kernels from 6.8 on and
    the kernels of Red Hat, Debian and Talos do not have the API; only MLNX_OFED and DOCA-OFED add it. On Arm
    the build looks in a folder called arm64, but OFED installs itself under aarch64; with two OFED versions
    in DKMS it finds neither.

    Source: open-gpu-kernel-modules kernel-open/nvidia-peermem/nvidia-peermem.c, nv_mem_client_init(), and
    kernel-open/conftest.sh, ib_peer_memory_symbols; the same in every tag from 515.43.04 to 595.45.04.
    """
    if canonical(module) != PEERMEM:
        return NotApplicable("not nvidia-peermem")
    try:
        linkage = peermem_linkage(node)
    except EvidenceAbsent:
        return NotApplicable("no nvidia-peermem is installed")
    except EvidenceMissing:
        if is_loaded_for_sure(node, PEERMEM):
            return Passed("it is loaded, and a stub cannot be loaded")
        raise
    if linkage.uses_peer_api:
        return Passed(f"imports {PEER_API[0]}")
    failed = Failed(
        seen=f"no import of {PEER_API[0]}{if_missing('', _rebuild_finds, node)}",
        expected=f"{PEER_API[0]} imported (undefined in .symtab)",
        subject=_file_name(node),
    )
    if not is_loaded_for_sure(node, PEERMEM):
        return failed
    return Failed(
        seen=failed.seen,
        expected=failed.expected,
        subject=failed.subject,
        takes=(),
        cost="The module that is loaded now is another build; after the next boot it is gone.",
    )


def _file_name(node: Node) -> str:
    """The module's file name; its usual name if only its dependencies are known."""
    return if_missing("nvidia-peermem.ko", lambda: peermem_path(node).rpartition("/")[2])


def _rebuild_finds(node: Node) -> str:
    """What a rebuild would find now, as the end of a sentence."""
    if found := rebuild_would_find(node):
        return f"; a rebuild would find it in {found}"
    if missed := overlooked_symvers(node):
        return f"; a rebuild would find nothing, because conftest.sh does not look at {missed[0].path}"
    return "; a rebuild would not find the API either"
