"""No GPU."""

from __future__ import annotations

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.facts.gpu import is_tegra
from gdrkit.facts.pci import gpus
from gdrkit.facts.virtual import is_wsl
from gdrkit.node import Node, if_absent, if_missing
from gdrkit.rules.rule import GPU, Failed, Layer, NotApplicable, Outcome, Passed, rule, the_node


@rule(
    "no-gpu",
    Layer.HARDWARE,
    per=the_node,
    takes=(GPU,),
    permanent=(GPU,),
    whole_machine=True,
    cost="There is no GPU memory here to reach.",
)
def no_gpu(node: Node, subject: str) -> Outcome:
    """There is no NVIDIA GPU in this machine.

    Cost: Nothing to reach.

    How to tell: No PCI function of vendor 10de and class 0300 or 0302.

    What to do: If there should be one, look for it on the host: `lspci -d 10de:`, and in the kernel log for
    `Xid` and `fallen off the bus`.

    Why: There is none, or it has fallen off the bus, or the hypervisor did not pass it to this machine. A
    Jetson's GPU is no PCI device and is not looked for here.

    Source: pci.ids for vendor and classes.
    """
    found = gpus(node)
    if found:
        return Passed(f"{len(found)} GPU{'s' if len(found) > 1 else ''}")
    if if_absent(False, is_wsl, node):
        return NotApplicable("WSL shows no GPU on the PCI bus")
    tegra = if_missing(False, is_tegra, node)
    if tegra:
        raise EvidenceMissing(
            Missing("GPU of a Jetson", MissingReason.UNDECIDED, "cat /etc/nv_tegra_release")
        )
    return Failed(seen="no PCI function of an NVIDIA GPU", expected="at least one", subject="node")
