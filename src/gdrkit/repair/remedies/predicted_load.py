"""What a step that loads a module may promise: no more than the prediction that it rests on."""

from __future__ import annotations

from collections.abc import Iterable

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.evidence.quoting import quoted
from gdrkit.facts.kernel import release
from gdrkit.facts.loaded_modules import is_loaded, loaded
from gdrkit.facts.next_kernel import next_kernel
from gdrkit.facts.secure_boot import signatures_needed
from gdrkit.facts.trust import SignatureCheck, SignatureState
from gdrkit.loader import Prediction, modprobe
from gdrkit.node import Node, if_missing


def loaded_afterwards(node: Node, module: str) -> bool | Missing:
    """What `is_loaded` becomes if modprobe runs now: True, or a Missing where something that is not known, a
    check or the result of an init, may still stop it.

    Raises EvidenceMissing if modprobe is predicted to fail: something else has to be fixed first.
    """
    prediction = modprobe(node, module)
    if not prediction.loaded and not prediction.result_unknown:
        raise EvidenceMissing(Missing(module, MissingReason.UNDECIDED, f"sudo modprobe {quoted(module)}"))
    if prediction.unless or (prediction.result_unknown and not _ran_before(node, prediction)):
        return Missing(f"whether {module} loads", MissingReason.UNDECIDED, f"sudo modprobe {quoted(module)}")
    return True


def loaded_at_boot(node: Node, module: str, gone: Iterable[str]) -> bool | Missing:
    """What `is_loaded` becomes if a boot loads a module anew, and before it those of `gone` that it needs:
    True, or a Missing where the prediction is open, cannot be made, or is one for another kernel.

    Raises EvidenceMissing if modprobe is predicted to fail: something else has to be fixed first.
    """
    kernel = if_missing("", next_kernel, node)
    if kernel and kernel != if_missing(kernel, release, node):
        ask = f"modinfo -k {quoted(kernel)} {quoted(module)}"
        return Missing(f"{module} of Linux {kernel}, which boots next", MissingReason.UNDECIDED, ask)
    booted = node.after("a boot", tuple(is_loaded.becomes(False, name) for name in gone))
    try:
        modprobe(booted, module)
    except EvidenceMissing as error:
        return error.missing
    return loaded_afterwards(booted, module)


def _ran_before(node: Node, prediction: Prediction) -> bool:
    """Whether only inits are open, of modules that the kernel lists now: on this machine they succeed."""
    running = if_missing({}, loaded, node)
    return bool(prediction.assumes) and all(name in running for name in prediction.assumes)


def signature_when_built(node: Node, path: str) -> SignatureCheck | Missing:
    """The signature of a module file after a build. DKMS may sign it, or may not: both load where the kernel
    does not insist on a signature, else its signer has to be known first."""
    if not if_missing(True, signatures_needed, node):
        return SignatureCheck(SignatureState.UNSIGNED)
    return Missing(f"signer of /{path}", MissingReason.STALE, f"modinfo -F signer {quoted(f'/{path}')}")
