"""Whether firmware, shim and kernel enforce signatures on this node."""

from __future__ import annotations

from collections.abc import Callable

from gdrkit.evidence import EvidenceAbsent, EvidenceMissing, Missing, MissingReason
from gdrkit.evidence.quoting import quoted
from gdrkit.facts import kernel_log
from gdrkit.facts.commands import MOKUTIL_SB_STATE
from gdrkit.facts.kernel import boot_parameter, config_option, lockdown
from gdrkit.formats.errors import FormatError
from gdrkit.node import Node, fact, first_of, if_absent, likely, seek

EFIVARS = "sys/firmware/efi/efivars"
# UEFI specification 2.10, 3.3 (global variables) and 32.6.1 (signature databases); shim, MokVars.txt.
GLOBAL = "8be4df61-93ca-11d2-aa0d-00e098032b8c"
DATABASE = "d719b2cb-3d3a-4596-a3bc-dad00e67656f"
SHIM = "605dab50-e046-4300-abb6-3dd810dd8b23"
_ATTRIBUTE_BYTES = 4  # before a variable's value: Linux Documentation/filesystems/efivarfs.rst


@fact
def efi_variable(node: Node, name: str, vendor: str) -> bytes:
    """The value of an EFI variable. Raises EvidenceAbsent if the firmware does not have it, EvidenceMissing
    if efivarfs is not mounted."""
    try:
        content = node.read(f"{EFIVARS}/{name}-{vendor}")
    except EvidenceAbsent:
        # If efivarfs is not mounted, the folder is empty. All firmware has some variables.
        if not if_absent(False, node.exists, "sys/firmware/efi"):
            raise
        if not any("-" in variable for variable in node.list(EFIVARS)):
            raise EvidenceMissing(
                Missing(
                    EFIVARS,
                    MissingReason.NOT_COLLECTED,
                    f"mount -t efivarfs efivarfs /{EFIVARS}",
                )
            ) from None
        raise
    if len(content) < _ATTRIBUTE_BYTES:
        raise FormatError("the variable is shorter than its attributes")
    return content[_ATTRIBUTE_BYTES:]


@fact
def firmware_is_efi(node: Node) -> bool:
    """Whether EFI firmware booted the kernel."""
    return node.exists("sys/firmware/efi")


@fact
def secure_boot(node: Node) -> bool:
    """Whether Secure Boot is enabled in the firmware; False without EFI.

    Source: UEFI specification 2.10, 3.3, SecureBoot; mokutil(1), --sb-state.
    """

    def the_firmware() -> bool:
        return _flag(node, "SecureBoot", GLOBAL)

    def a_machine_without_efi() -> bool:
        if firmware_is_efi(node):
            raise EvidenceMissing(
                Missing(f"{EFIVARS}/SecureBoot-{GLOBAL}", MissingReason.NOT_COLLECTED, "mokutil --sb-state")
            )
        return False

    def mokutil() -> bool:
        text = node.run(MOKUTIL_SB_STATE)
        if "SecureBoot enabled" in text or "SecureBoot disabled" in text:
            return "SecureBoot enabled" in text
        raise FormatError("mokutil reports neither enabled nor disabled")

    def the_kernel_log() -> bool:
        # arch/x86/kernel/setup.c and arch/arm64 of distributions; drivers/firmware/efi/secureboot.c
        log = kernel_log.lines(node)
        for line in log.lines:
            for word in ("enabled", "disabled"):
                if f"ecure boot {word}" in line.text or f"ecure Boot {word}" in line.text:
                    node.cite(log.source, text=line.text, line=line.number)
                    return word == "enabled"
        raise EvidenceMissing(
            Missing(f"{EFIVARS}/SecureBoot-{GLOBAL}", MissingReason.NOT_COLLECTED, "mokutil --sb-state")
        )

    return first_of(the_firmware, a_machine_without_efi, mokutil, likely(node, the_kernel_log))


@fact
def setup_mode(node: Node) -> bool:
    """Whether the firmware has no platform key, so that any user can enrol keys. UEFI 2.10, 3.3,
    SetupMode."""
    return _flag(node, "SetupMode", GLOBAL)


@fact
def shim_validation_disabled(node: Node) -> bool:
    """Whether validation is disabled in shim (mokutil --disable-validation).

    The kernel then treats Secure Boot as disabled: Linux drivers/firmware/efi/libstub/secureboot.c,
    efi_get_secureboot(). Source of the variable: shim, MokVars.txt, MokSBState and its mirror MokSBStateRT.
    """
    return if_absent(False, _flag, node, "MokSBStateRT", SHIM)


def _flag(node: Node, name: str, vendor: str) -> bool:
    value = efi_variable(node, name, vendor)
    if len(value) != 1 or value[0] > 1:
        raise FormatError(f"{name} is neither 0 nor 1")
    return value[0] == 1


@fact
def kernel_sees_secure_boot(node: Node) -> bool:
    """Whether Secure Boot is enabled from the kernel's point of view: in the firmware, and in shim."""
    return secure_boot(node) and not shim_validation_disabled(node)


@fact
def module_signatures_supported(node: Node) -> bool:
    """Whether the kernel checks signatures at all (CONFIG_MODULE_SIG)."""

    def the_parameter() -> bool:  # defined in kernel/module/signing.c, which is built only then
        return node.exists("sys/module/module/parameters/sig_enforce")

    def the_configuration() -> bool:
        return config_option(node, "CONFIG_MODULE_SIG") == "y"

    return first_of(the_parameter, the_configuration)


@fact
def signatures_needed(node: Node) -> bool:
    """Whether the kernel refuses modules without a trusted key's valid signature: signatures are enforced,
    or the kernel is locked down, as in Secure Boot on Debian and SUSE.

    Source: Linux kernel/module/signing.c, module_sig_check().
    """
    checks: tuple[Callable[[Node], bool], ...] = (signatures_enforced, _is_locked_down)
    return seek(checks, lambda check: check(node)) is not None


def _is_locked_down(node: Node) -> bool:
    return lockdown(node) != "none"


@fact
def signatures_enforced(node: Node) -> bool:
    """Whether the kernel refuses every module without a valid signature of a trusted key.

    Source: Linux kernel/module/signing.c, is_module_sig_enforced(): built in, on the command line, or set at
    boot by IMA's policy for Secure Boot (security/integrity/ima/ima_efi.c, arch_get_ima_policy()).
    """

    def the_kernel() -> bool:
        try:
            text = node.text("sys/module/module/parameters/sig_enforce").strip()
        except EvidenceAbsent:
            if module_signatures_supported(node):
                raise
            return False
        if text not in ("Y", "N"):
            raise FormatError("sig_enforce is neither Y nor N")
        return text == "Y"

    def boot_settings() -> bool:
        if config_option(node, "CONFIG_MODULE_SIG_FORCE") == "y" or _set_at_boot(node):
            return True
        return kernel_sees_secure_boot(node) and config_option(node, "CONFIG_IMA_ARCH_POLICY") == "y"

    def only_secure_boot() -> bool:
        if not _set_at_boot(node) and not kernel_sees_secure_boot(node):
            missing = "sys/module/module/parameters/sig_enforce"
            raise EvidenceMissing(
                Missing(missing, MissingReason.NOT_COLLECTED, f"cat {quoted(f'/{missing}')}")
            )
        return True

    return first_of(the_kernel, likely(node, boot_settings), likely(node, only_secure_boot))


def _set_at_boot(node: Node) -> bool:
    """Whether the command line has `module.sig_enforce[=1]`, which can enable it, not disable it:
    bool_enable_only."""
    values = if_absent((), boot_parameter, node, "module.sig_enforce")
    return any(value[:1].lower() in ("", "1", "y") or value.lower() == "on" for value in values)
