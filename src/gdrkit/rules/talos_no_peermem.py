"""nvidia-peermem on Talos Linux."""

from __future__ import annotations

from gdrkit.facts.driver_log import last_line, last_line_if_any
from gdrkit.facts.kubernetes import is_talos
from gdrkit.facts.modules import PEERMEM
from gdrkit.facts.running_files import is_loaded_for_sure
from gdrkit.facts.talos import module_entries
from gdrkit.node import Node, if_missing
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import (
    ADDRESS,
    CauseTrait,
    Failed,
    Layer,
    NotApplicable,
    Outcome,
    Passed,
    rule,
    the_node,
)

_ERROR = r"error loading module .{0,3}nvidia_peermem"


@rule(
    "talos-no-peermem",
    Layer.APPLICATION,
    per=the_node,
    takes=(ADDRESS,),
    remedies=(RemedyName.USE_DMABUF,),
    traits=(CauseTrait.OF_LOADING,),
    cost="The machine reports a failed module at each boot; the peermem path is not available.",
    references=("https://github.com/siderolabs/talos/issues/12021",),
)
def talos_no_peermem(node: Node, _: str) -> Outcome:
    """nvidia_peermem is configured to load on Talos, where it is always a stub.

    Cost: None except the failed controller, if dma-buf is used.

    How to tell: The machine configuration lists nvidia_peermem below machine.kernel.modules; the log says
    `error loading module "nvidia_peermem": load nvidia_peermem failed: invalid argument`.

    What to do: Remove the entry. dma-buf needs the extension nvidia-open-gpu-kernel-modules-production or
    -lts, and the modules nvidia, nvidia_uvm, nvidia_drm, nvidia_modeset, ib_uverbs, mlx5_core and mlx5_ib.

    Why: Talos's driver extensions are built against its own kernel, which does not have the peer-memory API,
    and Talos does not offer an OFED extension. Modules built by anyone else are refused:
    module.sig_enforce=1, and the signing key is discarded after each build.

    Source: siderolabs/talos issue 12021; siderolabs/pkgs and siderolabs/extensions, the NVIDIA recipes.
    """
    if is_loaded_for_sure(node, PEERMEM):
        return NotApplicable(f"{PEERMEM} is loaded")
    entries = if_missing(None, module_entries, node)
    for entry in entries or ():
        if entry.name == PEERMEM:
            return _failed(f"nvidia_peermem in {entry.place}")
    if not is_talos(node):
        return NotApplicable("not known to be Talos")
    failure = (last_line if entries is None else last_line_if_any)(node, _ERROR)
    if failure is not None:
        return _failed(failure.text)
    return Passed("nvidia_peermem is not configured to load")


def _failed(seen: str) -> Failed:
    return Failed(seen=seen, expected="no such entry", subject="machine.kernel.modules")
