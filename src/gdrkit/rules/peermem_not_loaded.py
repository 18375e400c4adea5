"""nvidia-peermem is installed but not loaded."""

from __future__ import annotations

from gdrkit.evidence import Confidence, EvidenceAbsent, EvidenceMissing
from gdrkit.facts.driver import driver_version, peermem_linkage, peermem_path
from gdrkit.facts.modules import PEERMEM, is_loaded
from gdrkit.facts.peer_memory import LEGACY
from gdrkit.facts.running_files import is_loaded_for_sure
from gdrkit.formats.module_name import canonical
from gdrkit.formats.versions import numbers
from gdrkit.node import Node, if_missing
from gdrkit.rules.deciding_command import LSMOD, DecidingCommand
from gdrkit.rules.module_subjects import peermem
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
    remedies=(RemedyName.LOAD_PEERMEM,),
    cost="GPU memory cannot be registered with plain ibv_reg_mr (EFAULT); dma-buf is not affected.",
    references=("https://docs.nvidia.com/cuda/gpudirect-rdma/",),
)
def peermem_not_loaded(node: Node, module: str) -> Outcome:
    """nvidia-peermem is installed and can be loaded, but it is not loaded.

    Cost: The peermem path is closed. If dma-buf is ready, nothing is lost.

    How to tell: `lsmod | grep nvidia_peermem` prints nothing. NCCL says `GPU Direct RDMA Disabled for HCA`
    unless it uses dma-buf; `ib_write_bw --use_cuda` fails with `Couldn't allocate MR with error=14`.

    What to do: Run `sudo modprobe nvidia-peermem`. To load it at each boot, add a line `nvidia-peermem` to a
    file in /etc/modules-load.d. modprobe also loads nvidia and the RDMA core; mlx5 and nvidia_uvm are not
    dependencies of nvidia-peermem.

    Why: Nothing loads it automatically: no device requests it, and the driver's packages install no service
    for it.

    Source: NVIDIA driver README, nvidia-peermem; NCCL src/transport/net_ib/gdr.cc.
    """
    if canonical(module) != PEERMEM:
        return NotApplicable("not nvidia-peermem")
    if is_loaded(node, PEERMEM):
        return Passed("nvidia_peermem is loaded")
    if is_loaded_for_sure(node, LEGACY):
        if if_missing((), lambda: numbers(driver_version(node))) >= FIRST_WITH_TABLE_2:
            node.cite(f"{LEGACY} with this driver", text="by its source", confidence=Confidence.LIKELY)
        return NotApplicable(f"{LEGACY} is loaded instead")
    try:
        stub = not peermem_linkage(node).uses_peer_api
        path = peermem_path(node)
    except EvidenceAbsent:
        return NotApplicable("no nvidia-peermem is installed")
    except EvidenceMissing:  # whatever its file is, it is not loaded
        stub, path = False, PEERMEM
    if stub:
        return NotApplicable("a stub cannot be loaded")
    return Failed(seen="not in /proc/modules", expected="loaded", subject=path.rpartition("/")[2])
