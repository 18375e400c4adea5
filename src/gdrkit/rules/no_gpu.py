"""Machines without an NVIDIA GPU."""

from __future__ import annotations

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.facts.expectation import expectation
from gdrkit.facts.expected_gpu import number_of_missing_gpus, sign_of_gpu
from gdrkit.facts.machine import is_tegra
from gdrkit.facts.pci import gpus
from gdrkit.facts.rdma import rdma_devices
from gdrkit.facts.virtual import is_wsl, scope
from gdrkit.node import Node, if_absent, if_missing
from gdrkit.rules.rule import GPU, Failed, Layer, NotApplicable, Outcome, Passed, rule, the_node

NONE_EXPECTED = "gdr doctor --expect FILE with gpus = 0"
"""How the user says that a machine has no GPU."""
_UNLESS = (
    "Nothing, unless the machine should have a GPU: then run `lspci -d 10de:` on the host, and search the "
    "kernel log for `Xid`."
)
_UNLESS_GIVEN = (
    "Nothing, unless this container should have a GPU: then start it with one, as `docker run --gpus all` "
    "does. `gdr example` lists nodes to try gdr on."
)
_BOTH_WAYS = (
    "On the host, run `lspci -d 10de:`, and search the kernel log for `Xid`. If the machine should have "
    "no GPU, say so: `gdr doctor --expect FILE`, where the file has the line `gpus = 0`."
)


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
    for `Xid` and `fallen off the bus`; a restart with power removed often brings the GPU back. If it should
    have none, say so: `gdr doctor --expect FILE`, where the file has the line `gpus = 0`.

    Why: No GPU is installed, it has fallen off the bus, or the hypervisor did not pass it through to this
    machine. Before Thor, the GPU of a Jetson is not a PCI device; this check does not look for it. A GPU is
    expected, and the machine is blocked, if NVIDIA's driver (its kernel modules, or a package of them) or
    its container toolkit is installed, or if the GPU Operator is configured. Else there is nothing to judge:
    libraries and tools alone, as on build and login hosts, expect no GPU.

    Source: pci.ids for vendor and classes; NVIDIA GPU Debug Guidelines, Xid 79; NVIDIA Container Toolkit
    documentation for what the toolkit installs and generates.
    """
    found = gpus(node)
    if found:
        return Passed(f"{len(found)} GPU{'s' if len(found) > 1 else ''}")
    wanted = expectation(node)
    if wanted.content.gpus == 0:
        return Failed(
            seen="no NVIDIA GPU, as expected: nothing to judge",
            expected=f"gpus = 0, by {wanted.file}",
            subject="node",
            as_expected=True,
            advice="Nothing: this machine is as expected.",
        )
    if if_absent(False, is_wsl, node):
        return NotApplicable("WSL shows no GPU on the PCI bus")
    if if_missing(False, is_tegra, node):
        raise EvidenceMissing(
            Missing("GPU of a Jetson", MissingReason.UNDECIDED, "cat /etc/nv_tegra_release")
        )
    if missing := number_of_missing_gpus(node):
        return _lacking("no NVIDIA GPU", f"{missing}, by {wanted.file}")
    sign = sign_of_gpu(node)
    if sign:
        return _lacking(f"no NVIDIA GPU, but {sign}", f"a GPU, or {NONE_EXPECTED}", _BOTH_WAYS)
    nothing = "no NVIDIA GPU" if if_missing(True, rdma_devices, node) else "neither GPU nor RDMA device"
    return Failed(
        seen=f"{nothing}, and nothing expects one: nothing to judge",
        expected="",
        subject="node",
        advice=_UNLESS_GIVEN if if_missing("host", scope, node) == "container" else _UNLESS,
    )


def _lacking(seen: str, expected: str, advice: str = "") -> Failed:
    """A GPU is missing, and can come back."""
    return Failed(seen=seen, expected=expected, subject="node", advice=advice, permanent=frozenset())
