"""Lines of the kernel's module loader: what taints it, and why it refuses a module.

`gdr modprobe` says them, in the kernel's order; facts/kernel_said.py hears them in a log. A line that names
no module establishes nothing alone. Files are Linux's where no other project is named.
"""

from __future__ import annotations

import functools

from gdrkit.messages.message import Message

PROGRAM = "kernel"
_line = functools.partial(Message, PROGRAM)

# -- taint, refusing nothing ---------------------------------------------------------------------------

OUT_OF_TREE = _line(
    "{module}: loading out-of-tree module taints kernel.", source="kernel/module/main.c, check_modinfo()"
)
UNVERIFIED = _line(
    "{module}: module verification failed: signature and/or required key missing - tainting kernel",
    source="kernel/module/main.c, load_module()",
)
LICENSE = _line(
    "{module}: module license '{license}' taints kernel.", source="kernel/module/main.c, set_license()"
)
LICENSE_TAINTS = _line(
    "{module}: module license taints kernel.",
    source="kernel/module/main.c, module_augment_kernel_taints()",
    versions="6.4 and later",
)
NO_LOCK_DEBUGGING = _line(
    "Disabling lock debugging due to kernel taint", source="kernel/panic.c, add_taint()"
)
NO_RETPOLINE = _line(
    "{module}: loading module not compiled with retpoline compiler.",
    source="kernel/module/main.c, check_modinfo_retpoline()",
)
SPECTRE = _line(
    "Spectre V2 : System may be vulnerable to spectre v2",
    source="arch/x86/kernel/cpu/bugs.c, retpoline_module_ok()",
)
STAGING = _line(
    "{module}: module is from the staging directory, the quality is unknown, you have been warned.",
    source="kernel/module/main.c, check_modinfo()",
)
TEST_MODULE = _line(
    "{module}: loading test module taints kernel.", source="kernel/module/main.c, check_modinfo()"
)
LIVEPATCH = _line(
    "{module}: tainting kernel with TAINT_LIVEPATCH",
    source="kernel/module/main.c, check_modinfo_livepatch()",
)
FORCED = _line("{module}: {what:[^:]+}: kernel tainted.", source="kernel/module/main.c, try_to_force_load()")
UNVERSIONED = _line(
    "{module}: no symbol version for {symbol}", source="kernel/module/version.c, check_version()"
)
INHERITED = _line(
    "{module}: module uses symbols {symbol} from proprietary module {owner}, inheriting taint.",
    source="kernel/module/main.c, inherit_taint()",
)
NO_SELF_TEST = _line("alg: No test for {algorithm}", source="crypto/testmgr.c, alg_test()")
UNKNOWN_PARAMETER = _line(
    "{module}: unknown parameter '{parameter}' ignored",
    source="kernel/module/main.c, unknown_module_param_cb()",
)

# -- refusals ------------------------------------------------------------------------------------------

NO_SYMBOL_ONCE = _line(
    "{module}: Unknown symbol {symbol} (err 0)",
    ("module-symbol-missing", "module-symbol-gpl-only"),
    source="kernel/module.c, simplify_symbols(), which took NULL for an error",
    versions="3.10",
    open_end=True,
)
NO_SYMBOL = _line(
    "{module}: Unknown symbol {symbol} (err -2)",
    ("module-symbol-missing", "module-symbol-gpl-only"),
    source="kernel/module/main.c, simplify_symbols()",
)
BAD_SYMBOL = _line(
    "{module}: Unknown symbol {symbol} (err -22)",
    ("module-crc-mismatch", "module-symbol-namespace"),
    source="kernel/module/main.c, simplify_symbols()",
)
LAYOUT = _line(
    "{module}: disagrees about version of symbol module_layout",
    ("module-wrong-kernel",),
    source="kernel/module/version.c, check_version()",
)
VERSION = _line(
    "{module}: disagrees about version of symbol {symbol}",
    ("module-crc-mismatch",),
    source="kernel/module/version.c, check_version()",
)
PROPRIETARY = _line(
    "{module}: module using GPL-only symbols uses symbols {symbol} from proprietary module {owner}.",
    ("module-symbol-gpl-only",),
    source="kernel/module/main.c, inherit_taint()",
)
NAMESPACE = _line(
    "{module}: module uses symbol ({symbol}) from namespace {namespace}, but does not import it.",
    ("module-symbol-namespace",),
    source="kernel/module/main.c, verify_namespace_is_imported()",
)
DUPLICATE = _line(
    "{module}: exports duplicate symbol {symbol} (owned by {owner})",
    ("module-symbol-duplicate",),
    source="kernel/module/main.c, verify_exported_symbols()",
)
VERMAGIC = _line(
    "{module}: version magic '{found}' should be '{wanted}'",
    ("module-wrong-kernel",),
    source="kernel/module/main.c, check_modinfo()",
)
STRUCT_SIZE = _line(
    "module {module}: .gnu.linkonce.this_module section size must match the kernel's built struct module "
    "size at run time",
    ("module-wrong-kernel",),
    source="kernel/module/main.c, elf_validity_check()",
    versions="6.4 and later",
)
INVALID_PARAMETER = _line(
    "{module}: `{value}' invalid for parameter `{parameter}'",
    ("module-bad-parameter",),
    source="kernel/params.c, parse_args()",
)
LARGE_PARAMETER = _line(
    "{module}: `{value}' too large for parameter `{parameter}'",
    ("module-bad-parameter",),
    source="kernel/params.c, parse_args()",
)
BLACKLISTED = _line(
    "Module {module} is blacklisted", ("module-blacklisted",), source="kernel/module/main.c, load_module()"
)
UNSIGNED = _line(
    "Loading of unsigned module is rejected",
    ("module-unsigned",),
    source="kernel/module/signing.c, module_sig_check()",
)
UNKNOWN_KEY = _line(
    "Loading of module with unavailable key is rejected",
    ("module-unknown-key",),
    source="kernel/module/signing.c, module_sig_check()",
)
UNSUPPORTED = _line(
    "Loading of module with unsupported crypto is rejected",
    ("module-unknown-key",),
    source="kernel/module/signing.c, module_sig_check()",
)
LOCKDOWN = _line(
    "Lockdown: {process}: unsigned module loading is restricted; see man kernel_lockdown.7",
    ("lockdown-blocks-module",),
    source="security/lockdown/lockdown.c, lockdown_is_locked_down(); security/security.c, lockdown_reasons",
)
NOT_PKCS7 = _line(
    "module: not signed with expected PKCS#7 message",
    ("module-unknown-key",),
    source="kernel/module_signature.c, mod_check_sig()",
)
UNKNOWN_OID = _line(
    "PKCS7: Unknown OID: [{place}] {oid}",
    ("module-unknown-key",),
    source="crypto/asymmetric_keys/pkcs7_parser.c, pkcs7_note_OID()",
)
UNKNOWN_DIGEST = _line(
    "Unsupported digest algo: {number}",
    ("module-unknown-key",),
    source="crypto/asymmetric_keys/pkcs7_parser.c, pkcs7_sig_note_digest_algo()",
)
BAD_TRAILER = _line(
    "module: PKCS#7 signature info has unexpected non-zero params",
    ("module-signature-broken",),
    source="kernel/module_signature.c, mod_check_sig()",
)
ATTRIBUTES = _line(
    "PKCS7: Invalid module sig (has authattrs)",
    ("module-signature-broken",),
    source="crypto/asymmetric_keys/pkcs7_verify.c, pkcs7_verify()",
)
_CORRUPT = ("module-corrupt",)
ELF_MAGIC = _line(
    "Invalid ELF header magic: != \\x7fELF", _CORRUPT, source="kernel/module/main.c, elf_validity_check()"
)
ELF_LENGTH = _line(
    "Invalid ELF header len {size}", _CORRUPT, source="kernel/module/main.c, elf_validity_check()"
)
ELF_TYPE = _line(
    "Invalid ELF header type: {found} != {wanted}",
    _CORRUPT,
    source="kernel/module/main.c, elf_validity_check()",
)
ELF_MACHINE = _line(
    "Invalid architecture in ELF header: {machine}",
    _CORRUPT,
    source="kernel/module/main.c, elf_validity_check()",
)
ELF_TABLE_SIZE = _line(
    "Invalid ELF section header size", _CORRUPT, source="kernel/module/main.c, elf_validity_check()"
)
ELF_TABLE = _line(
    "Invalid ELF section header overflow", _CORRUPT, source="kernel/module/main.c, elf_validity_check()"
)
ELF_NAMES = _line(
    "Invalid ELF section name index: {found} || e_shstrndx ({index}) >= e_shnum ({count})",
    _CORRUPT,
    source="kernel/module/main.c, elf_validity_check()",
)
ELF_SECTION = _line(
    "Invalid ELF section in module (section {number} type {type})",
    _CORRUPT,
    source="kernel/module/main.c, elf_validity_check()",
)
NO_MODULE = _line(
    "{module}: No module found in object",
    _CORRUPT,
    source="kernel/module/main.c, setup_load_info(), and elf_validity_check() since 6.4",
)
NO_SYMBOLS = _line(
    "{module}: module has no symbols (stripped?)",
    _CORRUPT,
    source="kernel/module/main.c, setup_load_info(), and elf_validity_check() since 6.4",
)

# -- nvidia-peermem's own, while it comes in -------------------------------------------------------------

PEERMEM_PARAMETER = _line(
    "invalid {parameter} param value {value}",
    ("module-bad-parameter",),
    source="open-gpu-kernel-modules kernel-open/nvidia-peermem/nvidia-peermem.c",
)
PEERMEM_REFUSED = _line(
    "error while registering {kind} client",
    ("peermem-registration-refused",),
    source="open-gpu-kernel-modules kernel-open/nvidia-peermem/nvidia-peermem.c",
)

ROWS = tuple(row for row in globals().values() if isinstance(row, Message))
