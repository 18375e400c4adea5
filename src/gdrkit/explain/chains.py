"""Causes that bring others about, and hardware on which it is of no consequence that a module fails."""

from __future__ import annotations

from collections.abc import Iterable

from gdrkit.catalogue import rule_of
from gdrkit.explain.explanation import EstablishedProblem
from gdrkit.explain.products import CARDS, HARDWARE_CODES
from gdrkit.facts.modules import PEERMEM
from gdrkit.formats.module_name import canonical
from gdrkit.rules.capabilities import REGISTRATION, Capability, Path
from gdrkit.rules.rule import CauseTrait
from gdrkit.verdict.cells import paths_closed_by

BEHIND = {
    "operator-module-missing": ("module-not-found",),
    "efa-gdr-unsupported-instance": ("efa-p2p-unavailable",),
    "operator-stub": ("peermem-stub",),
    "rdma-device-not-in-container": ("no-rdma-device",),
    "lockdown-blocks-module": ("module-unsigned", "module-unknown-key"),
    "gpu-integrated": ("peermem-stub", "peermem-not-loaded", "nccl-misses-peermem"),
    "module-wrong-kernel": ("driver-not-loaded",),
    "module-not-found": ("peermem-not-loaded",),
    "driver-not-loaded": ("module-not-found",),
    **dict.fromkeys(("nvidia-fs-not-loaded", "nvidia-fs-symbols-missing"), ("gds-compat-mode",)),
    "gpu-passed-through": ("driver-not-loaded", "module-not-found", "peermem-not-loaded"),
    "legacy-nv-peer-mem": ("peermem-registration-refused",),
    "operator-ofed-changed": ("module-crc-mismatch",),
    "peermem-not-loaded": ("mooncake-forces-peermem",),
    "torch-expandable-segments": ("memory-not-registrable", "peermem-not-loaded"),
    "wsl": ("module-not-found", "driver-not-loaded", "no-gpu", "verbs-library-missing", "no-rdma-device"),
    "ucx-transport-excluded": ("ucx-lacks-cuda",),
    # what stops a host in the middle of a job: its peers report that it does not answer
    **dict.fromkeys(
        ("gpu-needs-reset", "gpu-missing", "nic-failed", "port-down", "device-not-answering"),
        ("retry-exceeded",),
    ),
    **dict.fromkeys(
        ("verbs-library-missing", "no-rdma-device", "rdma-device-not-in-container", "ib-disabled-by-env"),
        ("rdma-transport-not-chosen",),
    ),
}
"""Causes that bring others about: by each cause, those that it brings about."""

LEFT_ALONE = ("gpu-passed-through", "gpu-excluded")
"""Why NVIDIA's driver leaves a GPU alone."""


OF_A_PEER = ("retry-exceeded",)
"""What a process reports of a peer that does not answer. Why is open: the peer may have stopped first."""


def brings_about(deeper: str, code: str) -> bool:
    """Whether a cause brings another one about."""
    if code in BEHIND.get(deeper, ()):
        return True
    return (
        rule_of(deeper).loading is not None
        and deeper != code
        and CauseTrait.NOT_LOADED in rule_of(code).traits
    )


def needs_no_module(code: str, module: str) -> bool:
    """Whether a module that does not load is of no consequence: nvidia-peermem, on hardware that can use
    neither direct path."""
    permanent = code in HARDWARE_CODES and rule_of(code).permanent >= set(REGISTRATION)
    return permanent and module == PEERMEM


def is_on_every_path(code: str) -> bool:
    """Whether a cause that can be changed stops or slows what goes through host memory as well: it matters
    where no direct path is possible."""
    rule = rule_of(code)
    hit = Capability.WIRE in rule.slows or Path.STAGED in paths_closed_by(rule.takes(""))
    return hit and not rule.permanent


def fails_by(code: str, codes: Iterable[str], module: str) -> bool:
    """Whether a failing line may have a cause: one of its own, or why `module` does not load. What the kind
    of a GPU may bring about, any hardware does that lacks both direct paths."""
    own = set(codes)
    return (
        needs_no_module(code, module)
        or any(code == one or brings_about(code, one) for one in own)
        or (code in HARDWARE_CODES and not own.isdisjoint(CARDS))
    )


def refuses(code: str, subject: str, module: str) -> bool:
    """Whether a code with a module as its subject is why that module does not load."""
    return bool(module) and subject == module and rule_of(code).loading is not None


def refuses_peermem(problem: EstablishedProblem) -> bool:
    """Whether a problem is why nvidia-peermem does not load."""
    return refuses(problem.code, canonical(problem.subject.partition(".ko")[0]), PEERMEM)
