"""nvidia-peermem on Talos Linux."""

from __future__ import annotations

from gdrkit.facts.driver_log import last_line_if_any
from gdrkit.facts.kubernetes import Manifest, is_talos, manifests
from gdrkit.facts.modules import PEERMEM
from gdrkit.facts.modules_load import autoload
from gdrkit.facts.running_files import is_loaded_for_sure
from gdrkit.formats.module_name import canonical
from gdrkit.formats.yaml_values import Scalar, YamlMapping, items_at, text_at
from gdrkit.node import Node
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


@rule(
    "talos-no-peermem",
    Layer.APPLICATION,
    per=the_node,
    takes=(ADDRESS,),
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
    for manifest in manifests(node):
        line = asks_for_peermem(manifest)
        if line:
            return _failed(f"nvidia_peermem in {node.describe_line(manifest.source, line)}")
    if not is_talos(node):
        return NotApplicable("not known to be Talos")
    failure = last_line_if_any(node, r"error loading module .{0,3}nvidia_peermem")
    if failure is not None:
        return _failed(failure.text)
    if any(entry.name == PEERMEM for entry in autoload(node)):
        return _failed("nvidia_peermem in modules-load.d")
    return Passed("nvidia_peermem is not configured to load")


def _failed(seen: str) -> Failed:
    return Failed(seen=seen, expected="no such entry", subject="machine.kernel.modules")


def asks_for_peermem(manifest: Manifest) -> int:
    """The line of the entry in a Talos machine configuration; 0 if there is none.

    From Talos 1.14 on, each module has a document of its own. Source: siderolabs/talos
    pkg/machinery/config/types/runtime/kernel_module.go."""
    if manifest.kind == "KernelModuleConfig":
        return manifest.line if canonical(manifest.text("name")) == PEERMEM else 0
    if manifest.kind != "MachineConfiguration":
        return 0
    for item in items_at(manifest.value, "machine", "kernel", "modules"):
        if isinstance(item, YamlMapping) and canonical(text_at(item, "name")) == PEERMEM:
            return item.line
        if isinstance(item, Scalar) and canonical(item.text) == PEERMEM:
            return item.line
    return 0
