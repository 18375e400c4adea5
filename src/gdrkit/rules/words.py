"""Lines that modprobe and the kernel print when a module is loaded, and what can cause them. PURE.

One table: the loader says these lines, doctor and explain hear them. A line with several causes leaves all
of them open; a line that names no module establishes nothing alone.

Sources: Linux kernel/module/{main,version,signing}.c, kernel/module_signature.c, kernel/params.c,
security/lockdown/lockdown.c, security/security.c (lockdown_reasons); kmod tools/modprobe.c, insmod.c and
libkmod/libkmod-module.c; systemd src/modules-load; NVIDIA open-gpu-kernel-modules nvidia-peermem.c.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

from msgspec import Struct

from gdrkit.evidence import Lacks, Missing, Why
from gdrkit.facts import kernel_log
from gdrkit.facts.keyrings import enrolled_keys
from gdrkit.facts.linkage import links
from gdrkit.facts.modprobe_config import configuration
from gdrkit.facts.modules import canonical, module_path
from gdrkit.facts.secure_boot import signatures_enforced
from gdrkit.facts.trust import signature, standing, verified_by
from gdrkit.node import Node, witness
from gdrkit.rules.rule import Failed


class Words(Struct, frozen=True):
    """One line with holes."""

    speaker: str  # kernel, modprobe, insmod, systemd
    template: str
    codes: tuple[str, ...] = ()  # everything that can cause it; none for lines that tell of no failure

    def say(self, **values: object) -> str:
        """The line, its holes filled."""
        return self.template.format(**values)

    def hear(self, text: str) -> Mapping[str, str] | None:
        """What stands in the holes, if the text holds this line; None if not. Modules have underscores."""
        if _longest_constant(self.template) not in text:
            return None
        found = _pattern(self.template).search(text)
        if found is None:
            return None
        return {
            name: canonical(value) if name == "module" else value
            for name, value in found.groupdict().items()
        }

    @property
    def names_module(self) -> bool:
        return "{module}" in self.template


@functools.cache
def _pattern(template: str) -> re.Pattern[str]:
    source = re.escape(template)
    for name in re.findall(r"\{(\w+)\}", template):
        word = r"[\w-]+" if name in ("module", "symbol", "owner", "namespace") else ".*?"
        source = source.replace(re.escape("{" + name + "}"), f"(?P<{name}>{word})", 1)
    # A line may stand behind a time stamp or a program's name, and in prose; its end is its own.
    return re.compile(
        rf"(?<![\w-]){source}" + ("(?!\\w)" if template[-1] != "}" else r"(?=$|\n)"), re.MULTILINE
    )


@functools.cache
def _longest_constant(template: str) -> str:
    return max(re.split(r"\{\w+\}", template), key=len)


# -- what the kernel prints about taint, refusing nothing ----------------------------------------------

OUT_OF_TREE = Words("kernel", "{module}: loading out-of-tree module taints kernel.")
UNVERIFIED = Words(
    "kernel",
    "{module}: module verification failed: signature and/or required key missing - tainting kernel",
)
LICENSE = Words("kernel", "{module}: module license '{license}' taints kernel.")
LICENSE_TAINTS = Words(
    "kernel", "{module}: module license taints kernel."
)  # Linux 6.4 and later, after the above
NO_LOCK_DEBUGGING = Words("kernel", "Disabling lock debugging due to kernel taint")
NO_RETPOLINE = Words("kernel", "{module}: loading module not compiled with retpoline compiler.")
SPECTRE = Words("kernel", "Spectre V2 : System may be vulnerable to spectre v2")
STAGING = Words(
    "kernel",
    "{module}: module is from the staging directory, the quality is unknown, you have been warned.",
)
TEST_MODULE = Words("kernel", "{module}: loading test module taints kernel.")
LIVEPATCH = Words("kernel", "{module}: tainting kernel with TAINT_LIVEPATCH")
FORCED = Words("kernel", "{module}: {what}: kernel tainted.")
UNVERSIONED = Words("kernel", "{module}: no symbol version for {symbol}")
INHERITED = Words(
    "kernel", "{module}: module uses symbols {symbol} from proprietary module {owner}, inheriting taint."
)
NO_SELF_TEST = Words("kernel", "alg: No test for {algorithm}")
UNKNOWN_PARAMETER = Words("kernel", "{module}: unknown parameter '{parameter}' ignored")

# -- what the kernel prints when it refuses a module ---------------------------------------------------

NO_SYMBOL = Words(
    "kernel",
    "{module}: Unknown symbol {symbol} (err -2)",
    ("module-symbol-missing", "module-symbol-gpl-only"),
)
BAD_SYMBOL = Words(
    "kernel",
    "{module}: Unknown symbol {symbol} (err -22)",
    ("module-crc-mismatch", "module-symbol-namespace"),
)
LAYOUT = Words(
    "kernel", "{module}: disagrees about version of symbol module_layout", ("module-wrong-kernel",)
)
VERSION = Words("kernel", "{module}: disagrees about version of symbol {symbol}", ("module-crc-mismatch",))
PROPRIETARY = Words(
    "kernel",
    "{module}: module using GPL-only symbols uses symbols {symbol} from proprietary module {owner}.",
    ("module-symbol-gpl-only",),
)
NAMESPACE = Words(
    "kernel",
    "{module}: module uses symbol ({symbol}) from namespace {namespace}, but does not import it.",
    ("module-symbol-namespace",),
)
DUPLICATE = Words(
    "kernel",
    "{module}: exports duplicate symbol {symbol} (owned by {owner})",
    ("module-symbol-duplicate",),
)
VERMAGIC = Words(
    "kernel", "{module}: version magic '{found}' should be '{wanted}'", ("module-wrong-kernel",)
)
STRUCT_SIZE = Words(
    "kernel",
    "module {module}: .gnu.linkonce.this_module section size must match the kernel's built struct module "
    "size at run time",
    ("module-wrong-kernel",),
)
INVALID_PARAMETER = Words(
    "kernel", "{module}: `{value}' invalid for parameter `{parameter}'", ("module-bad-parameter",)
)
LARGE_PARAMETER = Words(
    "kernel", "{module}: `{value}' too large for parameter `{parameter}'", ("module-bad-parameter",)
)
BLACKLISTED = Words("kernel", "Module {module} is blacklisted", ("module-blacklisted",))
UNSIGNED = Words("kernel", "Loading of unsigned module is rejected", ("module-unsigned",))
UNKNOWN_KEY = Words("kernel", "Loading of module with unavailable key is rejected", ("module-unknown-key",))
UNSUPPORTED = Words(
    "kernel", "Loading of module with unsupported crypto is rejected", ("module-unknown-key",)
)
LOCKDOWN = Words(
    "kernel",
    "Lockdown: {process}: unsigned module loading is restricted; see man kernel_lockdown.7",
    ("lockdown-blocks-module",),
)
NOT_PKCS7 = Words("kernel", "module: not signed with expected PKCS#7 message", ("module-unknown-key",))
UNKNOWN_OID = Words("kernel", "PKCS7: Unknown OID: [{place}] {oid}", ("module-unknown-key",))
UNKNOWN_DIGEST = Words("kernel", "Unsupported digest algo: {number}", ("module-unknown-key",))
BAD_TRAILER = Words(
    "kernel",
    "module: PKCS#7 signature info has unexpected non-zero params",
    ("module-signature-broken",),
)
ATTRIBUTES = Words("kernel", "PKCS7: Invalid module sig (has authattrs)", ("module-signature-broken",))
_CORRUPT = ("module-corrupt",)
ELF_MAGIC = Words("kernel", "Invalid ELF header magic: != \\x7fELF", _CORRUPT)
ELF_LENGTH = Words("kernel", "Invalid ELF header len {size}", _CORRUPT)
ELF_TYPE = Words("kernel", "Invalid ELF header type: {found} != {wanted}", _CORRUPT)
ELF_MACHINE = Words("kernel", "Invalid architecture in ELF header: {machine}", _CORRUPT)
ELF_TABLE_SIZE = Words("kernel", "Invalid ELF section header size", _CORRUPT)
ELF_TABLE = Words("kernel", "Invalid ELF section header overflow", _CORRUPT)
ELF_NAMES = Words(
    "kernel",
    "Invalid ELF section name index: {found} || e_shstrndx ({index}) >= e_shnum ({count})",
    _CORRUPT,
)
ELF_SECTION = Words("kernel", "Invalid ELF section in module (section {number} type {type})", _CORRUPT)
NO_MODULE = Words("kernel", "{module}: No module found in object", _CORRUPT)
NO_SYMBOLS = Words("kernel", "{module}: module has no symbols (stripped?)", _CORRUPT)
PEERMEM_PARAMETER = Words("kernel", "invalid {parameter} param value {value}", ("module-bad-parameter",))
PEERMEM_REFUSED = Words("kernel", "error while registering {kind} client", ("peermem-registration-refused",))

# -- what modprobe and its like print ------------------------------------------------------------------

NOT_FOUND = Words(
    "modprobe", "modprobe: FATAL: Module {module} not found in directory {directory}", ("module-not-found",)
)
COMMAND_FAILED = Words(
    "modprobe",
    "modprobe: ERROR: {place}Error running install command '{command}' for module {module}: "
    "retcode {status}",
    ("install-override",),
)
DEPENDENCY_GONE = Words(
    "modprobe",
    "modprobe: ERROR: {place}ctx={pointer} path={path} error=No such file or directory",
    ("dependency-failed",),
)
NO_FILE = Words(
    "modprobe",
    "modprobe: ERROR: {place}could not find module by name='{module}'",
    ("module-not-found",),
)
PRESENT = Words("modprobe", "modprobe: ERROR: could not insert '{module}': Module already in kernel")
COULD_NOT = Words("modprobe", "modprobe: ERROR: could not insert '{module}': {error}")

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

_INSMOD = Words("insmod", "insmod: ERROR: could not insert module {file}: {error}")
_SYSTEMD = Words("systemd", "Failed to insert module '{module}': {error}")
_TALOS = Words("talos", "load {module} failed: {error}")

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
WORDS = (*KERNEL_LINES, *TOOL_LINES)


# -- hearing -------------------------------------------------------------------------------------------


class Heard(Struct, frozen=True):
    """A line of the table that was found."""

    words: Words
    values: Mapping[str, str]
    text: str
    number: int = 0  # line in its source

    @property
    def codes(self) -> tuple[str, ...]:
        """Everything that can have caused it."""
        error = self.values.get("error")
        return self.words.codes if error is None else causes(error)


def causes(error: str) -> tuple[str, ...]:
    """Everything that can make modprobe, insmod or their like print this error."""
    error = error.strip()
    error = error[:1].upper() + error[1:]
    return CAUSES.get(_OTHER_WORDS.get(error, error), _ANY)


def hear(text: str, number: int = 0) -> Heard | None:
    """The first row of the table that a line holds; None if it holds none."""
    if not any(constant in text for constant in _constants()):
        return None
    for words in WORDS:
        values = words.hear(text)
        if values is not None:
            return Heard(words, values, text, number)
    return None


@functools.cache
def _constants() -> tuple[str, ...]:
    return tuple(dict.fromkeys(_longest_constant(words.template) for words in WORDS))


@witness(
    links, standing, verified_by, signature, signatures_enforced, configuration, module_path, enrolled_keys
)
def load_lines(node: Node) -> tuple[Heard, ...]:
    """What the kernel's log says of modules, in order. It saw what was there when they were loaded."""
    log = kernel_log.lines(node)
    found = (hear(line.text, line.number) for line in log.lines)
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
        if line.codes == (code,) and line.values.get("module") == subject:
            node.cite("dmesg", f"line {line.number}", line.text)
            return Failed(seen=line.text, expected="no such line in the kernel's log", subject=str(subject))
    return None


def silent(node: Node, module: str) -> bool:
    """Whether the kernel's log says nothing of why it refused a module, taint aside.

    Only a log that is whole can be silent: raises Lacks for any other.
    """
    refusals = [line for line in load_lines(node) if line.codes]
    if any(line.values.get("module") in (None, module) for line in refusals):
        return False
    if not kernel_log.lines(node).complete:
        raise Lacks(Missing("dmesg (from boot)", Why.TRUNCATED, "sudo dmesg"))
    return True
