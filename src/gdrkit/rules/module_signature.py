"""The rules about a module's signature, in the order in which the kernel checks.

They exclude each other: an unsigned module has no unknown key, and lockdown is checked only where
signatures are not enforced.
"""

from __future__ import annotations

from gdrkit.evidence.quoting import quoted
from gdrkit.facts.dkms_key import signers_certificate
from gdrkit.facts.driver_files import path_to_load
from gdrkit.facts.kernel import lockdown
from gdrkit.facts.module_state import is_unread
from gdrkit.facts.secure_boot import module_signatures_supported, signatures_enforced
from gdrkit.facts.trust import SignatureCheck, SignatureState, signature_check
from gdrkit.node import Node, if_missing
from gdrkit.rules.deciding_command import DMESG, MODINFO, DecidingCommand
from gdrkit.rules.module_subjects import lost_without, modules_to_load, not_applicable_if_loaded
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import Failed, Layer, NotApplicable, Outcome, Passed, rule
from gdrkit.rules.stage import LoadPosition, Stage

_UNTRUSTED = (SignatureState.UNSIGNED, SignatureState.UNKNOWN_KEY, SignatureState.UNSUPPORTED)
_BROKEN = (SignatureState.BROKEN, SignatureState.ATTRIBUTES, SignatureState.MALFORMED)
_SIGNING = "https://docs.kernel.org/admin-guide/module-signing.html"


def _unchecked(node: Node, module: str) -> NotApplicable | None:
    """Why the kernel checks no signature of this module."""
    if (not_applicable := not_applicable_if_loaded(node, module)) is not None:
        return not_applicable
    if not module_signatures_supported(node):
        return NotApplicable("this kernel does not check signatures")
    if if_missing(False, lambda: is_unread(node, path_to_load(node, module))):
        return NotApplicable("the file cannot be read as far as its signature")
    return None


def _standing(node: Node, module: str) -> SignatureCheck:
    return signature_check(node, path_to_load(node, module))


@rule(
    "module-signature-broken",
    Layer.KERNEL,
    per=modules_to_load,
    takes=lost_without,
    loading=LoadPosition(Stage.SIGNATURE, 1),
    reported_by=(DecidingCommand(DMESG, "no line about keys: the kernel does not log a wrong signature"),),
    remedies=(RemedyName.REBUILD_DRIVER,),
    cost="The module cannot be loaded, with Secure Boot or without.",
    references=(_SIGNING,),
)
def module_signature_broken(node: Node, module: str) -> Outcome:
    """The module has a signature that does not match its content.

    Cost: No setting makes the module loadable; only another file does.

    How to tell: modprobe says "Key was rejected by service" or "Bad message", and the kernel's log mostly
    has no line. This also happens with Secure Boot off: the kernel then accepts a module without a
    signature, but not one with a wrong signature.

    What to do: Reinstall the package. Or build the module again, and sign it as the last step.

    Why: The file was changed after it was signed: patched, partly stripped of debugging symbols, or
    truncated in a copy. `strip` removes the whole signature; the module is then unsigned instead. The
    kernel compares the signature with the content only if it trusts the key.

    Source: Linux kernel/module/signing.c, module_sig_check(): every error but three is final.
    """
    if (not_applicable := _unchecked(node, module)) is not None:
        return not_applicable
    found = _standing(node, module)
    if found.state not in _BROKEN:
        return Passed(f"signature: {found.state}")
    return Failed(
        seen=f"signature {found.state}" + (f", claims to be by {found.key}" if found.key else ""),
        expected="a signature that matches the content",
        subject=module,
    )


@rule(
    "module-key-revoked",
    Layer.KERNEL,
    per=modules_to_load,
    takes=lost_without,
    loading=LoadPosition(Stage.SIGNATURE, 2),
    reported_by=(DecidingCommand("mokutil --list-enrolled --mokx", "the signer's certificate"),),
    cost="The module cannot be loaded, with Secure Boot or without.",
    references=(_SIGNING,),
)
def module_key_revoked(node: Node, module: str) -> Outcome:
    """The module was signed with a key that the firmware or shim has revoked.

    Cost: The module cannot be loaded, even where signatures are not enforced.

    How to tell: modprobe says "Key was rejected by service", and the kernel's log has no line.
    `mokutil --list-enrolled --mokx` lists the signer's certificate; `modinfo -F signer <module>`
    prints the signer.

    What to do: Sign the module with another key. If the certificate is your own, you can instead remove it
    from the list.

    Why: The signer's certificate is in the firmware's dbx or in shim's MokListX, and the kernel keeps a
    list of revoked certificates (CONFIG_SYSTEM_REVOCATION_LIST).

    Source: Linux certs/system_keyring.c, verify_pkcs7_message_sig(). Read in source, not seen in a kernel:
    Debian's kernels have no such list.
    """
    if (not_applicable := _unchecked(node, module)) is not None:
        return not_applicable
    found = _standing(node, module)
    if found.state is not SignatureState.REVOKED:
        return Passed(f"signature: {found.state}")
    return Failed(
        seen=f"signed by {found.key}, which is revoked", expected="a key that is not revoked", subject=module
    )


@rule(
    "module-unsigned",
    Layer.KERNEL,
    per=modules_to_load,
    takes=lost_without,
    loading=LoadPosition(Stage.SIGNATURE, 3),
    logged=True,
    reported_by=(
        DecidingCommand(MODINFO, "no `signer:`"),
        DecidingCommand(DMESG, "`Loading of unsigned module is rejected`"),
    ),
    remedies=(RemedyName.SIGN_MODULE,),
    cost="The module cannot be loaded while signatures are enforced.",
    references=(_SIGNING,),
)
def module_unsigned(node: Node, module: str) -> Outcome:
    """Signatures are enforced, but the module has none.

    Cost: The module cannot be loaded. The kernel has checked nothing else yet: once signed, the module may
    fail at the next check.

    How to tell: modprobe says "Key was rejected by service", and the kernel's log says "Loading of unsigned
    module is rejected". That line names no module: it can be any module of a chain.
    `modinfo <module>` prints no `signer:` for an unsigned one. Before Linux 5.4, modprobe says
    "Required key not available", and the log has no line.

    What to do: First make sure that the signed module would then work: `gdr doctor` says where
    `sign-module` would lead. Then let DKMS sign it with the machine owner's key and enrol that key, or use
    the distribution's signed modules.

    Why: Secure Boot is on, or the kernel was started or built to enforce signatures, and the module was
    built here without being signed, or was stripped afterwards.

    Source: Linux kernel/module/signing.c, module_sig_check().
    """
    if (not_applicable := _not_enforced(node, module)) is not None:
        return not_applicable
    found = _standing(node, module)
    if found.state is not SignatureState.UNSIGNED:
        return Passed(f"signature: {found.state}")
    return Failed(
        seen="no signature", expected="a signature, because signatures are enforced", subject=module
    )


@rule(
    "module-unknown-key",
    Layer.KERNEL,
    per=modules_to_load,
    takes=lost_without,
    loading=LoadPosition(Stage.SIGNATURE, 4),
    logged=True,
    reported_by=(
        DecidingCommand(DMESG, "`Loading of module with unavailable key is rejected`"),
        DecidingCommand(
            MODINFO, "a `signer:` that is neither in `mokutil --list-enrolled` nor in .builtin_trusted_keys"
        ),
    ),
    remedies=(RemedyName.SIGN_MODULE,),
    cost="The module cannot be loaded while signatures are enforced.",
    references=(_SIGNING,),
)
def module_unknown_key(node: Node, module: str) -> Outcome:
    """Signatures are enforced, but the module's signer is not among the keys that the kernel trusts.

    Cost: The module cannot be loaded. The kernel has checked nothing else yet.

    How to tell: modprobe says "Key was rejected by service", and the kernel's log says "Loading of module
    with unavailable key is rejected", which names no module. `modinfo -F signer <module>` prints the
    signer, which `mokutil --list-enrolled` does not list. Before Linux 5.4, modprobe says "Required key not
    available", and the log has no line.

    What to do: First make sure that the module would then work: `gdr doctor` says where `sign-module` would
    lead. Then enrol the signer's certificate with `sudo mokutil --import` and confirm at the next boot, or
    sign the module with a key that is enrolled.

    Why: The module was signed with a machine owner's key that was never enrolled, or whose enrolment was
    not confirmed at the next boot; by a vendor whose key this kernel does not have; or for another build of
    the kernel, whose key was made for that build alone.

    Source: Linux kernel/module/signing.c, module_sig_check(); certs/system_keyring.c.
    """
    if (not_applicable := _not_enforced(node, module)) is not None:
        return not_applicable
    found = _standing(node, module)
    if found.state is SignatureState.VERIFIED:
        return Passed(f"signed by {found.key}, which the kernel trusts")
    if found.state not in (SignatureState.UNKNOWN_KEY, SignatureState.UNSUPPORTED):
        return NotApplicable(f"signature: {found.state}")
    return Failed(
        seen=f"signed by {found.key or 'a key of an unsupported kind'}",
        expected="a key in .builtin_trusted_keys, .machine or another keyring that the kernel checks",
        subject=module,
        advice=_enrol(signers_certificate(node, path_to_load(node, module))),
    )


def _enrol(certificate: str) -> str:
    if not certificate:
        return ""
    return (
        f"Enrol the certificate that signed it already: `sudo mokutil --import {quoted(certificate)}`, "
        "reboot, and confirm on the blue screen: Enroll MOK. To build or sign it again changes nothing."
    )


def _not_enforced(node: Node, module: str) -> NotApplicable | None:
    if (not_applicable := _unchecked(node, module)) is not None:
        return not_applicable
    return None if signatures_enforced(node) else NotApplicable("signatures are not enforced")


@rule(
    "lockdown-blocks-module",
    Layer.KERNEL,
    per=modules_to_load,
    takes=lost_without,
    loading=LoadPosition(Stage.SIGNATURE, 5),
    logged=True,
    reported_by=(DecidingCommand(DMESG, "`Lockdown: modprobe: unsigned module loading is restricted`"),),
    remedies=(RemedyName.SIGN_MODULE,),
    cost="No module without a trusted signature can be loaded while the kernel is locked down.",
    references=("man:kernel_lockdown(7)",),
)
def lockdown_blocks_module(node: Node, module: str) -> Outcome:
    """The kernel is locked down and refuses a module without a trusted signature.

    Cost: The module cannot be loaded.

    How to tell: modprobe says "Operation not permitted", and the kernel's log says "Lockdown: modprobe:
    unsigned module loading is restricted". The log says the same about a signed module whose signer is
    unknown. `cat /sys/kernel/security/lockdown` shows the active level in brackets.

    What to do: Sign the module with a key that the kernel trusts, as for module-unsigned. Or start the
    kernel without lockdown, where your rules permit it.

    Why: The kernel was locked down on its command line, or by Secure Boot, while signatures themselves are
    not enforced. Where they are enforced, the kernel checks that first and answers "Key was rejected".

    Source: Linux kernel/module/signing.c, module_sig_check(); security/lockdown/lockdown.c.
    """
    if (not_applicable := _unchecked(node, module)) is not None:
        return not_applicable
    if signatures_enforced(node):
        return NotApplicable("signatures are enforced, which the kernel checks first")
    level = lockdown(node)
    if level == "none":
        return Passed("the kernel is not locked down")
    found = _standing(node, module)
    if found.state not in _UNTRUSTED:
        return Passed(f"signature: {found.state}")
    return Failed(
        seen=f"lockdown: {level}; signature: {found.state}", expected="a trusted signature", subject=module
    )
