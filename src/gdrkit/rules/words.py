"""Lines that modprobe and the kernel print when a module is loaded, and what can cause them. PURE.

One table: the loader says these lines, doctor and explain hear them. A line with several causes leaves all
of them open; a line that names no module establishes nothing alone.

Sources: Linux kernel/module/{main,version,signing}.c, kernel/module_signature.c, kernel/params.c,
security/lockdown/lockdown.c, security/security.c (lockdown_reasons); kmod tools/modprobe.c, insmod.c and
libkmod/libkmod-module.c; systemd src/modules-load; NVIDIA open-gpu-kernel-modules nvidia-peermem.c.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from gdrkit.evidence import Lacks, Missing, Why
from gdrkit.facts import kernel_log
from gdrkit.facts.keyrings import enrolled_keys
from gdrkit.facts.linkage import links
from gdrkit.facts.modprobe_config import configuration
from gdrkit.facts.modules import module_path
from gdrkit.facts.secure_boot import signatures_enforced
from gdrkit.facts.trust import signature, standing, verified_by
from gdrkit.messages.drivers import DRIVER_LINES, LOADER_LINES
from gdrkit.messages.message import Match, Matcher, Message
from gdrkit.node import Node, witness
from gdrkit.rules.rule import Failed

# -- what the kernel prints about taint, refusing nothing ----------------------------------------------

OUT_OF_TREE = Message("kernel", "{module}: loading out-of-tree module taints kernel.")
UNVERIFIED = Message(
    "kernel",
    "{module}: module verification failed: signature and/or required key missing - tainting kernel",
)
LICENSE = Message("kernel", "{module}: module license '{license}' taints kernel.")
LICENSE_TAINTS = Message(
    "kernel", "{module}: module license taints kernel."
)  # Linux 6.4 and later, after the above
NO_LOCK_DEBUGGING = Message("kernel", "Disabling lock debugging due to kernel taint")
NO_RETPOLINE = Message("kernel", "{module}: loading module not compiled with retpoline compiler.")
SPECTRE = Message("kernel", "Spectre V2 : System may be vulnerable to spectre v2")
STAGING = Message(
    "kernel",
    "{module}: module is from the staging directory, the quality is unknown, you have been warned.",
)
TEST_MODULE = Message("kernel", "{module}: loading test module taints kernel.")
LIVEPATCH = Message("kernel", "{module}: tainting kernel with TAINT_LIVEPATCH")
FORCED = Message("kernel", "{module}: {what}: kernel tainted.")
UNVERSIONED = Message("kernel", "{module}: no symbol version for {symbol}")
INHERITED = Message(
    "kernel", "{module}: module uses symbols {symbol} from proprietary module {owner}, inheriting taint."
)
NO_SELF_TEST = Message("kernel", "alg: No test for {algorithm}")
UNKNOWN_PARAMETER = Message("kernel", "{module}: unknown parameter '{parameter}' ignored")

# -- what the kernel prints when it refuses a module ---------------------------------------------------

NO_SYMBOL = Message(
    "kernel",
    "{module}: Unknown symbol {symbol} (err -2)",
    ("module-symbol-missing", "module-symbol-gpl-only"),
)
BAD_SYMBOL = Message(
    "kernel",
    "{module}: Unknown symbol {symbol} (err -22)",
    ("module-crc-mismatch", "module-symbol-namespace"),
)
LAYOUT = Message(
    "kernel", "{module}: disagrees about version of symbol module_layout", ("module-wrong-kernel",)
)
VERSION = Message("kernel", "{module}: disagrees about version of symbol {symbol}", ("module-crc-mismatch",))
PROPRIETARY = Message(
    "kernel",
    "{module}: module using GPL-only symbols uses symbols {symbol} from proprietary module {owner}.",
    ("module-symbol-gpl-only",),
)
NAMESPACE = Message(
    "kernel",
    "{module}: module uses symbol ({symbol}) from namespace {namespace}, but does not import it.",
    ("module-symbol-namespace",),
)
DUPLICATE = Message(
    "kernel",
    "{module}: exports duplicate symbol {symbol} (owned by {owner})",
    ("module-symbol-duplicate",),
)
VERMAGIC = Message(
    "kernel", "{module}: version magic '{found}' should be '{wanted}'", ("module-wrong-kernel",)
)
STRUCT_SIZE = Message(
    "kernel",
    "module {module}: .gnu.linkonce.this_module section size must match the kernel's built struct module "
    "size at run time",
    ("module-wrong-kernel",),
)
INVALID_PARAMETER = Message(
    "kernel", "{module}: `{value}' invalid for parameter `{parameter}'", ("module-bad-parameter",)
)
LARGE_PARAMETER = Message(
    "kernel", "{module}: `{value}' too large for parameter `{parameter}'", ("module-bad-parameter",)
)
BLACKLISTED = Message("kernel", "Module {module} is blacklisted", ("module-blacklisted",))
UNSIGNED = Message("kernel", "Loading of unsigned module is rejected", ("module-unsigned",))
UNKNOWN_KEY = Message(
    "kernel", "Loading of module with unavailable key is rejected", ("module-unknown-key",)
)
UNSUPPORTED = Message(
    "kernel", "Loading of module with unsupported crypto is rejected", ("module-unknown-key",)
)
LOCKDOWN = Message(
    "kernel",
    "Lockdown: {process}: unsigned module loading is restricted; see man kernel_lockdown.7",
    ("lockdown-blocks-module",),
)
NOT_PKCS7 = Message("kernel", "module: not signed with expected PKCS#7 message", ("module-unknown-key",))
UNKNOWN_OID = Message("kernel", "PKCS7: Unknown OID: [{place}] {oid}", ("module-unknown-key",))
UNKNOWN_DIGEST = Message("kernel", "Unsupported digest algo: {number}", ("module-unknown-key",))
BAD_TRAILER = Message(
    "kernel",
    "module: PKCS#7 signature info has unexpected non-zero params",
    ("module-signature-broken",),
)
ATTRIBUTES = Message("kernel", "PKCS7: Invalid module sig (has authattrs)", ("module-signature-broken",))
_CORRUPT = ("module-corrupt",)
ELF_MAGIC = Message("kernel", "Invalid ELF header magic: != \\x7fELF", _CORRUPT)
ELF_LENGTH = Message("kernel", "Invalid ELF header len {size}", _CORRUPT)
ELF_TYPE = Message("kernel", "Invalid ELF header type: {found} != {wanted}", _CORRUPT)
ELF_MACHINE = Message("kernel", "Invalid architecture in ELF header: {machine}", _CORRUPT)
ELF_TABLE_SIZE = Message("kernel", "Invalid ELF section header size", _CORRUPT)
ELF_TABLE = Message("kernel", "Invalid ELF section header overflow", _CORRUPT)
ELF_NAMES = Message(
    "kernel",
    "Invalid ELF section name index: {found} || e_shstrndx ({index}) >= e_shnum ({count})",
    _CORRUPT,
)
ELF_SECTION = Message("kernel", "Invalid ELF section in module (section {number} type {type})", _CORRUPT)
NO_MODULE = Message("kernel", "{module}: No module found in object", _CORRUPT)
NO_SYMBOLS = Message("kernel", "{module}: module has no symbols (stripped?)", _CORRUPT)
PEERMEM_PARAMETER = Message("kernel", "invalid {parameter} param value {value}", ("module-bad-parameter",))
PEERMEM_REFUSED = Message(
    "kernel", "error while registering {kind} client", ("peermem-registration-refused",)
)

# -- what modprobe and its like print ------------------------------------------------------------------

NOT_FOUND = Message(
    "modprobe", "modprobe: FATAL: Module {module} not found in directory {directory}", ("module-not-found",)
)
COMMAND_FAILED = Message(
    "modprobe",
    "modprobe: ERROR: {place}Error running install command '{command}' for module {module}: "
    "retcode {status}",
    ("install-override",),
)
DEPENDENCY_GONE = Message(
    "modprobe",
    "modprobe: ERROR: {place}ctx={pointer} path={path} error=No such file or directory",
    ("dependency-failed",),
)
NO_FILE = Message(
    "modprobe",
    "modprobe: ERROR: {place}could not find module by name='{module}'",
    ("module-not-found",),
)
PRESENT = Message("modprobe", "modprobe: ERROR: could not insert '{module}': Module already in kernel")
COULD_NOT = Message("modprobe", "modprobe: ERROR: could not insert '{module}': {error}")

_ANY = ("dependency-failed", "init-failed")
CAUSES: Mapping[str, tuple[str, ...]] = {
    "Invalid argument": (
        *("peermem-stub", "module-crc-mismatch", "module-symbol-namespace", "module-bad-parameter"),
        *("peermem-registration-refused", "module-corrupt", "install-override", *_ANY),
    ),
    "Exec format error": ("module-wrong-kernel", "module-corrupt", "module-symbol-duplicate", *_ANY),
    "Unknown symbol in module, or unknown parameter (see dmesg)": (
        *("module-symbol-missing", "module-symbol-gpl-only", "module-not-found", *_ANY),
    ),
    "Key was rejected by service": (
        *("module-unsigned", "module-unknown-key", "module-signature-broken", "module-key-revoked", *_ANY),
    ),
    "Required key not available": ("module-unsigned", "module-unknown-key", *_ANY),  # Linux before 5.4
    "Operation not permitted": (
        *("lockdown-blocks-module", "module-blacklisted", "modules-disabled", *_ANY),
    ),
    "Bad message": ("module-signature-broken", *_ANY),
    "Numerical result out of range": ("module-bad-parameter", *_ANY),
    "No space left on device": ("module-bad-parameter", *_ANY),
}
"""What each error that modprobe prints can mean; any other one is what some module's init returned."""

# The same errors in insmod's words; Talos prints Go's, which begin with small letters.
_OTHER_WORDS = {
    "Invalid parameters": "Invalid argument",
    "Invalid module format": "Exec format error",
    "Unknown symbol in module": "Unknown symbol in module, or unknown parameter (see dmesg)",
}

_INSMOD = Message("insmod", "insmod: ERROR: could not insert module {file}: {error}")
_SYSTEMD = Message("systemd", "Failed to insert module '{module}': {error}")
_TALOS = Message("talos", "load {module} failed: {error}")

KERNEL_LINES = (
    OUT_OF_TREE, UNVERIFIED, LICENSE, LICENSE_TAINTS, NO_LOCK_DEBUGGING, NO_RETPOLINE, SPECTRE, STAGING,
    TEST_MODULE, LIVEPATCH, FORCED, UNVERSIONED, INHERITED, NO_SELF_TEST, UNKNOWN_PARAMETER, NO_SYMBOL,
    BAD_SYMBOL, LAYOUT, VERSION, PROPRIETARY, NAMESPACE, DUPLICATE, VERMAGIC, STRUCT_SIZE,
    INVALID_PARAMETER, LARGE_PARAMETER, BLACKLISTED, UNSIGNED, UNKNOWN_KEY, UNSUPPORTED, LOCKDOWN,
    NOT_PKCS7, UNKNOWN_OID, UNKNOWN_DIGEST, BAD_TRAILER, ATTRIBUTES, ELF_MAGIC, ELF_LENGTH, ELF_TYPE,
    ELF_MACHINE, ELF_TABLE_SIZE, ELF_TABLE, ELF_NAMES, ELF_SECTION, NO_MODULE, NO_SYMBOLS,
    PEERMEM_PARAMETER, PEERMEM_REFUSED,
)  # fmt: skip
TOOL_LINES = (
    NOT_FOUND, COMMAND_FAILED, DEPENDENCY_GONE, NO_FILE, PRESENT, COULD_NOT, _INSMOD, _SYSTEMD, _TALOS,
)  # fmt: skip
ROWS = (*DRIVER_LINES, *LOADER_LINES, *KERNEL_LINES, *TOOL_LINES)


# -- hearing -------------------------------------------------------------------------------------------


def codes_of(match: Match) -> tuple[str, ...]:
    """Everything that can have caused it."""
    error = match.values.get("error")
    return match.message.causes if error is None else causes(error)


def causes(error: str) -> tuple[str, ...]:
    """Everything that can make modprobe, insmod or their like print this error."""
    error = error.strip()
    error = error[:1].upper() + error[1:]
    return CAUSES.get(_OTHER_WORDS.get(error, error), _ANY)


@functools.cache
def _matcher() -> Matcher:
    return Matcher(ROWS)


def hear(text: str, number: int = 0) -> Match | None:
    """The first row of the table that a line holds; None if it holds none."""
    return _matcher().match(text, number)


@functools.cache
def _of_kernel() -> Matcher:
    return Matcher((*KERNEL_LINES, *TOOL_LINES))


@witness(
    links, standing, verified_by, signature, signatures_enforced, configuration, module_path, enrolled_keys
)
def load_lines(node: Node) -> tuple[Match, ...]:
    """What the kernel's log says of modules, in order. It saw what was there when they were loaded."""
    log = kernel_log.lines(node)
    found = (_of_kernel().match(line.text, line.number) for line in log.lines)
    return tuple(line for line in found if line is not None)


def heard(node: Node, code: str, subject: object) -> Failed | None:
    """What the kernel's log says of this code and this module, in words of one meaning that name the module.

    The last such line counts. None where there is none, or no log.
    """
    try:
        lines = load_lines(node)
    except Lacks:
        return None
    for line in reversed(lines):
        if codes_of(line) == (code,) and line.values.get("module") == subject:
            node.cite("dmesg", f"line {line.number}", line.text)
            return Failed(seen=line.text, expected="no such line in the kernel's log", subject=str(subject))
    return None


def silent(node: Node, module: str) -> bool:
    """Whether the kernel's log says nothing of why it refused a module, taint aside.

    Only a log that is whole can be silent: raises Lacks for any other.
    """
    refusals = [line for line in load_lines(node) if codes_of(line)]
    if any(line.values.get("module") in (None, module) for line in refusals):
        return False
    if not kernel_log.lines(node).complete:
        raise Lacks(Missing("dmesg (from boot)", Why.TRUNCATED, "sudo dmesg"))
    return True
