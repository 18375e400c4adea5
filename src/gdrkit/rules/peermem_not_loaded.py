"""nvidia-peermem is installed but not loaded."""

from __future__ import annotations

from gdrkit.evidence import Confidence, EvidenceAbsent, EvidenceMissing
from gdrkit.facts.driver import driver_version, peermem_linkage, peermem_path
from gdrkit.facts.modinfo_text import printed_module
from gdrkit.facts.modules import PEERMEM, is_loaded
from gdrkit.facts.peer_memory import LEGACY, other_peer_api
from gdrkit.facts.running_files import is_loaded_for_sure
from gdrkit.formats.module_name import canonical
from gdrkit.formats.versions import numbers
from gdrkit.node import Node, if_missing
from gdrkit.rules.deciding_command import LSMOD, DecidingCommand
from gdrkit.rules.module_subjects import is_pasted, peermem
from gdrkit.rules.p2p_page_table_version import FIRST_WITH_TABLE_2
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import ADDRESS, CauseTrait, Failed, Layer, NotApplicable, Outcome, Passed, rule
from gdrkit.rules.stage import LoadPosition, Stage


@rule(
    "peermem-not-loaded",
    Layer.DRIVER,
    per=peermem,
    takes=(ADDRESS,),
    loading=LoadPosition(Stage.LOADED, 1),
    traits=(CauseTrait.NOT_LOADED,),
    reported_by=(DecidingCommand(LSMOD, "nothing"),),
    remedies=(RemedyName.RESTART_OFED, RemedyName.LOAD_PEERMEM),
    cost="GPU memory cannot be registered with plain ibv_reg_mr (EFAULT); dma-buf is not affected.",
    references=("https://docs.nvidia.com/cuda/gpudirect-rdma/",),
)
def peermem_not_loaded(node: Node, module: str) -> Outcome:
    """nvidia-peermem is not loaded.

    Cost: The peermem path is closed. If dma-buf is ready, nothing is lost.

    How to tell: `lsmod | grep nvidia_peermem` prints nothing. NCCL says `GPU Direct RDMA Disabled for HCA`
    unless it uses dma-buf; `ib_write_bw --use_cuda` fails with `Couldn't allocate MR with error=14`.

    What to do: Run `sudo modprobe nvidia-peermem`; `gdr modprobe nvidia-peermem` predicts what that prints.
    To load it at each boot, add a line `nvidia-peermem` to a file in /etc/modules-load.d.

    In a pod: the module is the node's: with the driver of the GPU Operator, set driver.rdma.enabled: true in
    ClusterPolicy; with the node's own driver, run `sudo modprobe nvidia-peermem` on the node.

    Why: Nothing loads it automatically: no device requests it, and the driver's packages install no service
    for it. modprobe also loads nvidia and the RDMA core; mlx5 and nvidia_uvm are not dependencies of it.

    The driver brings it from 470 on; with an older one, nv_peer_mem does the same. From CUDA 13.0 on NVIDIA
    calls the interface below it, NV-P2P, deprecated; drivers to 610 still ship the module. Prefer dma-buf.

    Source: NVIDIA driver README, nvidia-peermem; GPUDirect RDMA guide of CUDA 13.4.1, 2.1.1 "Deprecation
    Notice: NV-P2P API Support" (of which only the heading was read) and "Supported systems"; NCCL
    src/transport/net_ib/gdr.cc.
    """
    if canonical(module) != PEERMEM:
        return NotApplicable("not nvidia-peermem")
    if (idle := _idle_legacy(node)) is not None:
        return idle
    if is_loaded(node, PEERMEM):
        return Passed("nvidia_peermem is loaded")
    if is_loaded_for_sure(node, LEGACY):
        if if_missing((), lambda: numbers(driver_version(node))) >= FIRST_WITH_TABLE_2:
            node.cite(f"{LEGACY} with this driver", text="by its source", confidence=Confidence.LIKELY)
        return NotApplicable(f"{LEGACY} is loaded instead")
    if _is_before_peermem(node):
        return _without_legacy(node)
    try:
        stub = not peermem_linkage(node).uses_peer_api
        path = peermem_path(node)
    except EvidenceAbsent:
        return NotApplicable("no nvidia-peermem is installed")
    except EvidenceMissing:
        if not is_pasted(node):
            raise
        stub, path = False, if_missing(PEERMEM, peermem_path, node)  # a pasted command says: not loaded
    if stub:
        return NotApplicable("a stub cannot be loaded")
    seen = f"not in /proc/modules{_beside_another_stack(node)}"
    return Failed(seen=seen, expected="loaded", subject=path.rpartition("/")[2])


def _idle_legacy(node: Node) -> Failed | None:
    """The finding about nv_peer_mem in a pasted text, where modinfo printed its file, it is not loaded, and
    nothing shows an nvidia-peermem."""
    if not is_pasted(node) or if_missing(True, is_loaded, node, LEGACY):
        return None
    if if_missing("", peermem_path, node) or if_missing(False, is_loaded, node, PEERMEM):
        return None
    printed = if_missing(None, printed_module, node, LEGACY)
    file = printed.fields.get("filename", "") if printed is not None else ""
    if not file:
        return None
    seen, subject = f"not in /proc/modules; its file is {file}", file.rpartition("/")[2]
    return Failed(seen=seen, expected=f"{LEGACY} loaded", subject=subject)


def _beside_another_stack(node: Node) -> str:
    """That it is built for another RDMA stack than the one that runs, as the end of a sentence."""
    owner = if_missing("", other_peer_api, node)
    if not owner:
        return ""
    return f"; the {owner} that runs is not the installed one, which decides whether it can be loaded"


FIRST_WITH_PEERMEM = (470,)
"""NVIDIA's GPUDirect RDMA guide: the driver includes nvidia-peermem from R470 on."""


def _is_before_peermem(node: Node) -> bool:
    version = if_missing((), lambda: numbers(driver_version(node)))
    return bool(version) and version < FIRST_WITH_PEERMEM


def _without_legacy(node: Node) -> Failed:
    """Not loaded, like the only module that could serve in its place."""
    return Failed(
        seen=f"driver {driver_version(node)} is older than nvidia-peermem, and {LEGACY} is not loaded",
        expected=f"{LEGACY} loaded, or driver 470 or newer",
        subject=LEGACY,
        advice="Install a driver from 470 on, which brings nvidia-peermem; this one needs nv_peer_mem.",
    )
