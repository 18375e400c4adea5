"""Machines without an NVIDIA GPU."""

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
    cost="There is no GPU memory to transfer.",
)
def no_gpu(node: Node, subject: str) -> Outcome:
    """This machine has no NVIDIA GPU.

    Cost: There is no GPU memory to transfer.

    How to tell: `lspci -nn -d 10de:` lists no device of class 0300 or 0302.

    What to do: If the machine should have a GPU, run `lspci -d 10de:` on the host, and search the kernel log
    for `Xid` and `fallen off the bus`.

    Why: No GPU is installed, it has fallen off the bus, or the hypervisor did not pass it through to this
    machine. The GPU of a Jetson is not a PCI device; this check does not look for it.

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
