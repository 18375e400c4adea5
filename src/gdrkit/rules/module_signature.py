"""The rules about a module's signature, in the order in which the kernel asks.

They exclude each other: what is unsigned has no unknown key, and lockdown is asked only where signatures are
not enforced.
"""

from __future__ import annotations

from gdrkit.facts.kernel import lockdown
from gdrkit.facts.modules import module_path
from gdrkit.facts.secure_boot import module_signatures_supported, signatures_enforced
from gdrkit.facts.trust import SignatureStanding, SignatureState, standing
from gdrkit.node import Node
from gdrkit.rules.deciding_command import DMESG, MODINFO, DecidingCommand
from gdrkit.rules.module_subjects import in_kernel_already, peermem_module
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import ADDRESS, Failed, Layer, NotApplicable, Outcome, Passed, rule
from gdrkit.rules.stage import LoadPosition, Stage

_UNTRUSTED = (SignatureState.UNSIGNED, SignatureState.UNKNOWN_KEY, SignatureState.UNSUPPORTED)
_BROKEN = (SignatureState.BROKEN, SignatureState.ATTRIBUTES, SignatureState.MALFORMED)
_SIGNING = "https://docs.kernel.org/admin-guide/module-signing.html"


def _unasked(node: Node, module: str) -> NotApplicable | None:
    """Why the kernel looks at no signature here."""
    if (outside := in_kernel_already(node, module)) is not None:
        return outside
    if not module_signatures_supported(node):
        return NotApplicable("this kernel looks at no signatures")
    return None


def _standing(node: Node, module: str) -> SignatureStanding:
    return standing(node, module_path(node, module))


@rule(
    "module-signature-broken",
    Layer.KERNEL,
    per=peermem_module,
    takes=(ADDRESS,),
    loading=LoadPosition(Stage.SIGNATURE, 1),
    reported_by=(
        DecidingCommand(DMESG, "nothing about keys: a signature that is wrong is refused in silence"),
    ),
    cost="the module cannot be loaded, with Secure Boot or without",
    references=(_SIGNING,),
)
def module_signature_broken(node: Node, module: str) -> Outcome:
    """The module carries a signature that does not belong to its content.

    Cost: The module cannot be loaded by any setting; only another file helps.

    How to tell: modprobe says "Key was rejected by service" or "Bad message", the kernel's log mostly
    nothing. It does so with Secure Boot off, too: a signature that is wrong is refused where none at all
    would be let pass.

    What to do: Install the package again, or build the module again and sign it as the last step.

    Why: The file was changed after it was signed: patched, its debugging symbols taken out in
    part, or cut off in a copy. `strip` drops the signature as a whole; then the module is unsigned instead.
    Only a signature by a key that the kernel trusts is compared with the content.

    Source: Linux kernel/module/signing.c, module_sig_check(): every error but three is final.
    """
    if (outside := _unasked(node, module)) is not None:
        return outside
    found = _standing(node, module)
    if found.state not in _BROKEN:
        return Passed(f"signature: {found.state}")
    return Failed(
        seen=f"signature {found.state}" + (f", claims to be by {found.key}" if found.key else ""),
        expected="a signature over the content as it is",
        subject=module,
    )


@rule(
    "module-key-revoked",
    Layer.KERNEL,
    per=peermem_module,
    takes=(ADDRESS,),
    loading=LoadPosition(Stage.SIGNATURE, 2),
    reported_by=(DecidingCommand("mokutil --list-enrolled --mokx", "the signer's certificate"),),
    cost="the module cannot be loaded, with Secure Boot or without",
    references=(_SIGNING,),
)
def module_key_revoked(node: Node, module: str) -> Outcome:
    """The module was signed with a key that firmware or shim has revoked.

    Cost: The module cannot be loaded, even where signatures are not enforced.

    How to tell: modprobe says "Key was rejected by service", the kernel's log nothing.

    What to do: Sign the module with another key, or take the certificate off the list if it is your own.

    Why: The signer's certificate stands in the firmware's dbx or in shim's MokListX, and the
    kernel keeps a list of revoked certificates (CONFIG_SYSTEM_REVOCATION_LIST).

    Source: Linux certs/system_keyring.c, verify_pkcs7_message_sig(). Read in source, not seen in a kernel:
    Debian's kernels have no such list.
    """
    if (outside := _unasked(node, module)) is not None:
        return outside
    found = _standing(node, module)
    if found.state is not SignatureState.REVOKED:
        return Passed(f"signature: {found.state}")
    return Failed(seen=f"signed by {found.key}, which is revoked", expected="a key in use", subject=module)


@rule(
    "module-unsigned",
    Layer.KERNEL,
    per=peermem_module,
    takes=(ADDRESS,),
    loading=LoadPosition(Stage.SIGNATURE, 3),
    logged=True,
    reported_by=(
        DecidingCommand(MODINFO, "no `signer:`"),
        DecidingCommand(DMESG, "`Loading of unsigned module is rejected`"),
    ),
    remedies=(RemedyName.SIGN_MODULE,),
    cost="the module cannot be loaded while signatures are enforced",
    references=(_SIGNING,),
)
def module_unsigned(node: Node, module: str) -> Outcome:
    """Signatures are enforced, and the module has none.

    Cost: The module cannot be loaded. Nothing else about it has been looked at yet: once signed, it
    may fail at the next step.

    How to tell: modprobe says "Key was rejected by service", the kernel's log "Loading of unsigned module
    is rejected", which names no module: with several in a chain any of them may be meant.

    What to do: Let DKMS sign it with the machine owner's key and enrol that key, or use the distribution's
    signed modules. First make sure that the signed module would then work.

    Why: Secure Boot is on, or the kernel was started or built to enforce signatures, and the
    module was built here without being signed, or stripped after.

    Source: Linux kernel/module/signing.c, module_sig_check().
    """
    if (outside := _not_enforced(node, module)) is not None:
        return outside
    found = _standing(node, module)
    if found.state is not SignatureState.UNSIGNED:
        return Passed(f"signature: {found.state}")
    return Failed(seen="no signature", expected="a signature, as signatures are enforced", subject=module)


@rule(
    "module-unknown-key",
    Layer.KERNEL,
    per=peermem_module,
    takes=(ADDRESS,),
    loading=LoadPosition(Stage.SIGNATURE, 4),
    logged=True,
    reported_by=(
        DecidingCommand(DMESG, "`Loading of module with unavailable key is rejected`"),
        DecidingCommand(
            MODINFO, "a `signer:` that `mokutil --list-enrolled` and .builtin_trusted_keys do not hold"
        ),
    ),
    remedies=(RemedyName.SIGN_MODULE,),
    cost="the module cannot be loaded while signatures are enforced",
    references=(_SIGNING,),
)
def module_unknown_key(node: Node, module: str) -> Outcome:
    """Signatures are enforced, and the module's signer is not among the keys that the kernel trusts.

    Cost: The module cannot be loaded. Nothing else about it has been looked at yet.

    How to tell: modprobe says "Key was rejected by service", the kernel's log "Loading of module with
    unavailable key is rejected", which names no module.

    What to do: Enrol the signer's certificate (`mokutil --import`, then confirm at the next boot), or sign
    the module with a key that is enrolled. First make sure that the module would then work.

    Why: The module was signed with a machine owner's key that was never enrolled, or whose
    enrolment was not confirmed at the next boot; by a vendor whose key this kernel does not have; or for
    another build of the kernel, whose key was made for that build alone.

    Source: Linux kernel/module/signing.c, module_sig_check(); certs/system_keyring.c.
    """
    if (outside := _not_enforced(node, module)) is not None:
        return outside
    found = _standing(node, module)
    if found.state is SignatureState.VERIFIED:
        return Passed(f"signed by {found.key}, which the kernel trusts")
    if found.state not in (SignatureState.UNKNOWN_KEY, SignatureState.UNSUPPORTED):
        return NotApplicable(f"signature: {found.state}")
    return Failed(
        seen=f"signed by {found.key or 'a key of a kind that the kernel does not know'}",
        expected="a key in .builtin_trusted_keys, .machine or another keyring that the kernel asks",
        subject=module,
    )


def _not_enforced(node: Node, module: str) -> NotApplicable | None:
    if (outside := _unasked(node, module)) is not None:
        return outside
    return None if signatures_enforced(node) else NotApplicable("signatures are not enforced")


@rule(
    "lockdown-blocks-module",
    Layer.KERNEL,
    per=peermem_module,
    takes=(ADDRESS,),
    loading=LoadPosition(Stage.SIGNATURE, 5),
    logged=True,
    reported_by=(DecidingCommand(DMESG, "`Lockdown: modprobe: unsigned module loading is restricted`"),),
    remedies=(RemedyName.SIGN_MODULE,),
    cost="no module without a trusted signature can be loaded while the kernel is locked down",
    references=("man:kernel_lockdown(7)",),
)
def lockdown_blocks_module(node: Node, module: str) -> Outcome:
    """The kernel is locked down and refuses a module without a trusted signature.

    Cost: The module cannot be loaded.

    How to tell: modprobe says "Operation not permitted", the kernel's log "Lockdown: modprobe: unsigned
    module loading is restricted". The same is said of a module whose signer is merely unknown.

    What to do: As for an unsigned module: a signature by a key that the kernel trusts; or start the kernel
    without lockdown where your rules permit it.

    Why: The kernel was locked down on its command line, or by Secure Boot, while signatures as
    such are not enforced. Where they are, that is asked first and answered with "Key was rejected".

    Source: Linux kernel/module/signing.c, module_sig_check(); security/lockdown/lockdown.c.
    """
    if (outside := _unasked(node, module)) is not None:
        return outside
    if signatures_enforced(node):
        return NotApplicable("signatures are enforced, which is asked before")
    level = lockdown(node)
    if level == "none":
        return Passed("the kernel is not locked down")
    found = _standing(node, module)
    if found.state not in _UNTRUSTED:
        return Passed(f"signature: {found.state}")
    return Failed(
        seen=f"lockdown: {level}; signature: {found.state}", expected="a trusted signature", subject=module
    )
