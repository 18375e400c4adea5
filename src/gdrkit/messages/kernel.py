"""Messages of the kernel's module loader: taints, and why it refuses a module.

`gdr modprobe` predicts them, in the kernel's order; facts/loader_log.py finds them in a log. A line that
names no module proves nothing alone. Files are Linux's unless another project is named, and functions are
those of 6.18. kernel/module/ was kernel/module.c up to 5.15, and was read at 3.10 (RHEL 7), 4.18 (RHEL 8),
4.19, 5.4, 5.10, 5.14, 5.15, 5.19, 6.1, 6.6, 6.12 and 6.18; other files up to 5.19, and lockdown.c also at
6.18.
"""

from __future__ import annotations

import functools

from gdrkit.messages.message import Meaning, MessageTemplate

PROGRAM = "kernel"
_line = functools.partial(MessageTemplate, PROGRAM)
_TAINTS = "kernel/module/main.c, module_augment_kernel_taints()"

# -- taints, without a refusal ---------------------------------------------------------------------------

OUT_OF_TREE = _line(
    "{module}: loading out-of-tree module taints kernel.",
    source=f"{_TAINTS}, and check_modinfo() in 6.1 and before",
)
UNVERIFIED = _line(
    "{module}: module verification failed: signature and/or required key missing - tainting kernel",
    meaning=Meaning(
        "This line is harmless: the module was loaded without a trusted signature, and the kernel notes it",
        "Nothing has to be done",
        effect="harmless",
    ),
    source=f"{_TAINTS}, and load_module() in 6.1 and before",
)
LICENSE = _line(
    "{module}: module license '{license}' taints kernel.",
    source="kernel/module/main.c, module_license_taint_check(), and set_license() in 6.1 and before",
)
LICENSE_TAINTS = _line(
    "{module}: module license taints kernel.",
    source=f"{_TAINTS}; before, check_module_license_and_versions() printed it for three modules only",
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
    source=f"{_TAINTS}, and check_modinfo() in 6.1 and before",
)
TEST_MODULE = _line(
    "{module}: loading test module taints kernel.",
    source=f"{_TAINTS}, and check_modinfo() in 6.1 and before",
    versions="6.1 and later; not 5.19",
)
LIVEPATCH = _line(
    "{module}: tainting kernel with TAINT_LIVEPATCH",
    source=f"{_TAINTS}, and check_modinfo_livepatch() in 6.1 and before",
)
FORCED = _line("{module}: {what:[^:]+}: kernel tainted.", source="kernel/module/main.c, try_to_force_load()")
UNVERSIONED = _line(
    "{module}: no symbol version for {symbol}", source="kernel/module/version.c, check_version()"
)
INHERITED = _line(
    "{module}: module uses symbols {symbol} from proprietary module {owner}, inheriting taint.",
    source="kernel/module/main.c, inherit_taint()",
    versions="5.19 and later",
)
INHERITED_UNNAMED = _line(
    "{module}: module uses symbols from proprietary module {owner}, inheriting taint.",
    source="kernel/module.c, inherit_taint()",
    versions="5.4.214 to 5.15; not 4.18",
)
NO_SELF_TEST = _line(
    "alg: No test for {algorithm}",
    source="crypto/testmgr.c, alg_test(): a name, and a driver's in parentheses",
)
UNKNOWN_PARAMETER = _line(
    "{module}: unknown parameter '{parameter}' ignored",
    source="kernel/module/main.c, unknown_module_param_cb()",
)
BEHIND_DASHES = _line(
    "{module}: parameters '{parameter}' after `--' ignored",
    source="kernel/module/main.c, load_module()",
)
NO_DYNAMIC_DEBUG = _line(
    "dyndbg param is supported only in CONFIG_DYNAMIC_DEBUG builds",
    source="include/linux/dynamic_debug.h, ddebug_dyndbg_module_param_cb()",
)
BAD_FLAG_OPERATOR = _line(
    "dyndbg: bad flag-op {letter}, at start of {flags}",
    source="lib/dynamic_debug.c, ddebug_parse_flags()",
)
UNKNOWN_FLAG = _line(
    "dyndbg: unknown flag '{letter}'",
    source="lib/dynamic_debug.c, ddebug_parse_flags()",
)
BAD_FLAGS = _line("dyndbg: flags parse failed", source="lib/dynamic_debug.c, ddebug_exec_query()")
TAKEN_FILE = _line(
    "sysfs: cannot create duplicate filename '{path}'",
    source="fs/sysfs/dir.c, sysfs_warn_dup()",
)
TAKEN_NAME = _line(
    "{kobject:(?:kobject: )?}kobject_add_internal failed for {name:.{1,255}?} with -EEXIST, don't try to"
    " register things with the same name in the same directory.",
    source="lib/kobject.c, kobject_add_internal()",
)
NOT_ADDED = _line(
    "{kobject:(?:kobject: )?}kobject_create_and_add: kobject_add error: -17",
    source="lib/kobject.c, kobject_create_and_add()",
)

# -- refusals ------------------------------------------------------------------------------------------

NO_SYMBOL_ONCE = _line(
    "{module}: Unknown symbol {symbol} (err 0)",
    ("module-symbol-missing", "module-symbol-gpl-only"),
    source="kernel/module.c, simplify_symbols(), which took NULL for an error",
    versions="before 4.19",
    open_end=True,
    leads=True,
)
NO_SYMBOL = _line(
    "{module}: Unknown symbol {symbol} (err -2)",
    ("module-symbol-missing", "module-symbol-gpl-only"),
    source="kernel/module/main.c, simplify_symbols()",
    versions="4.19 and later",
    leads=True,
)
BAD_SYMBOL = _line(
    "{module}: Unknown symbol {symbol} (err -22)",
    ("module-crc-mismatch", "module-symbol-namespace"),
    source="kernel/module/main.c, simplify_symbols()",
    leads=True,
)
SYMBOL_WITHOUT_ERROR = _line(
    r"{module}: Unknown symbol {symbol:\w+}{:\s*$}",
    ("module-symbol-missing", "module-symbol-gpl-only", "module-crc-mismatch", "module-symbol-namespace"),
    source="kernel/module/main.c, simplify_symbols(); the error behind it was cut off, or filtered out",
    leads=True,
    sample="nvidia_peermem: Unknown symbol ib_register_peer_memory_client",
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
    versions="5.19 and later",
)
PROPRIETARY_UNNAMED = _line(
    "{module}: module using GPL-only symbols uses symbols from proprietary module {owner}.",
    ("module-symbol-gpl-only",),
    source="kernel/module.c, inherit_taint(); 5.14.0-362.24.1.el9_3 says so in gds-nvidia-fs issue 41",
    versions="5.4.214 to 5.15; not 4.18",
)
NAMESPACE = _line(
    "{module}: module uses symbol ({symbol}) from namespace {namespace}, but does not import it.",
    ("module-symbol-namespace",),
    source="kernel/module/main.c, verify_namespace_is_imported()",
    versions="5.4 and later",
)
DUPLICATE = _line(
    "{module}: exports duplicate symbol {symbol} (owned by {owner})",
    ("module-symbol-duplicate",),
    source="kernel/module/main.c, verify_exported_symbols(), and verify_export_symbols() in 4.19 and before",
)
VERMAGIC = _line(
    "{module}: version magic '{found}' should be '{wanted}'",
    ("module-wrong-kernel",),
    source="kernel/module/main.c, check_modinfo()",
)
VERMAGIC_CUT = _line(  # the same, pasted without its end
    "{module}: version magic '{found:[^']*}",
    ("module-wrong-kernel",),
    source="kernel/module/main.c, check_modinfo()",
    decides=False,
)
STRUCT_SIZE = _line(
    "module {module}: .gnu.linkonce.this_module section size must match the kernel's built struct module "
    "size at run time",
    ("module-wrong-kernel",),
    source="kernel/module/main.c, elf_validity_cache_index_mod(), and elf_validity_cache_copy() up to 6.12",
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
    "Module {module} is blacklisted",
    ("module-blacklisted",),
    source="kernel/module/main.c, early_mod_check(), and load_module() in 6.1 and before",
    versions="5.10 and later; not 5.4",
)
INITCALL_BLACKLISTED = _line(
    "initcall {function} blacklisted",
    ("module-blacklisted",),
    source="init/main.c, initcall_blacklisted(); a message for debugging that this file always enables",
)
UNSIGNED = _line(
    "Loading of unsigned module is rejected",
    ("module-unsigned",),
    source="kernel/module/signing.c, module_sig_check()",
    versions="5.4 and later",
)
UNKNOWN_KEY = _line(
    "Loading of module with unavailable key is rejected",
    ("module-unknown-key",),
    source="kernel/module/signing.c, module_sig_check()",
    versions="5.4 and later",
)
UNSUPPORTED = _line(
    "Loading of module with unsupported crypto is rejected",
    ("module-unknown-key",),
    source="kernel/module/signing.c, module_sig_check()",
    versions="5.4 and later",
)
LOCKDOWN = _line(
    "Lockdown: {process}: unsigned module loading is restricted; see man kernel_lockdown.7",
    ("lockdown-blocks-module",),
    source="security/lockdown/lockdown.c, lockdown_is_locked_down(); security/security.c, lockdown_reasons",
    versions="5.4 and later; once in a boot in 6.18",
)
NOT_PKCS7 = _line(
    "module: not signed with expected PKCS#7 message",
    ("module-unknown-key",),
    source="kernel/module_signature.c, mod_check_sig()",
    versions="5.4 and later",
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
NOT_UNPACKED = _line(
    r"decompression failed with status {status:\d{1,3}}",
    _CORRUPT,
    source="kernel/module/decompress.c, module_xz_decompress(), module_gzip_decompress()",
    versions="5.17 and later; seen with 7.3",
    sample="decompression failed with status 6",
)
_ELF = "kernel/module/main.c, elf_validity_ehdr()"
_ELF_TABLE = "kernel/module/main.c, elf_validity_cache_sechdrs()"
ELF_INVALID = _line(
    "Module has invalid ELF structures",
    _CORRUPT,
    source="kernel/module.c, load_module()",
    versions="5.4.214 to 5.14; not 4.18",
)
_SAID_SINCE = "5.15.215, 5.19 and later; not 5.14"
"""elf_validity_cache_copy() makes all these checks up to 6.12, elf_validity_check() in 6.1 and before."""
ELF_MAGIC = _line("Invalid ELF header magic: != \\x7fELF", _CORRUPT, source=_ELF, versions=_SAID_SINCE)
ELF_LENGTH = _line("Invalid ELF header len {size}", _CORRUPT, source=_ELF, versions=_SAID_SINCE)
ELF_TYPE = _line("Invalid ELF header type: {found} != {wanted}", _CORRUPT, source=_ELF, versions=_SAID_SINCE)
ELF_MACHINE = _line(
    "Invalid architecture in ELF header: {machine}", _CORRUPT, source=_ELF, versions=_SAID_SINCE
)
ELF_TABLE_SIZE = _line("Invalid ELF section header size", _CORRUPT, source=_ELF_TABLE, versions=_SAID_SINCE)
ELF_TABLE = _line("Invalid ELF section header overflow", _CORRUPT, source=_ELF_TABLE, versions=_SAID_SINCE)
ELF_NAMES = _line(
    r"Invalid ELF section name index: {found:\d{1,10}} || "
    r"e_shstrndx ({index:\d{1,10}}) >= e_shnum ({count:\d{1,10}})",
    _CORRUPT,
    source="kernel/module/main.c, elf_validity_cache_secstrings()",
    versions=_SAID_SINCE,
    sample="Invalid ELF section name index: 70 || e_shstrndx (70) >= e_shnum (40)",
)
ELF_SECTION = _line(
    r"Invalid ELF section in module (section {number:\d{1,10}} type {type:\w{1,20}})",
    _CORRUPT,
    source=_ELF_TABLE,
    versions="5.4.214 and later; not 4.18",
)
NO_MODULE = _line(
    "{module}: No module found in object",
    _CORRUPT,
    source="kernel/module/main.c, setup_load_info(); 3.10 names no module",
    versions="before 6.4",
)
NOT_ONE_MODULE = _line(
    "module {module}: {how:Only|Exactly} one .gnu.linkonce.this_module section must exist.",
    _CORRUPT,
    source='kernel/module/main.c, elf_validity_cache_index_mod(); "Only" in elf_validity_cache_copy()',
    versions='6.4 and later; "Only" in 6.6 and 6.12',
    sample="module nvidia_peermem: Exactly one .gnu.linkonce.this_module section must exist.",
)
NO_SYMBOLS = _line(
    "{module}: module has no symbols (stripped?)",
    _CORRUPT,
    source="kernel/module/main.c, elf_validity_cache_index_sym(), elf_validity_cache_copy() up to 6.12, "
    "setup_load_info() in 6.1 and before",
)

# -- messages of nvidia-peermem while it loads -------------------------------------------------------------

_PEERMEM = "open-gpu-kernel-modules kernel-open/nvidia-peermem/nvidia-peermem.c"
PEERMEM_PARAMETER = _line(
    "invalid {parameter} param value {value}",
    ("module-bad-parameter",),
    source=f"{_PEERMEM}, nv_mem_param_peerdirect_conf_check(), nv_mem_param_persistent_api_conf_check()",
)
PEERMEM_REFUSED = _line(
    "error while registering {kind} client",
    ("peermem-registration-refused",),
    source=f"{_PEERMEM}, nv_mem_legacy_client_init(), nv_mem_nc_client_init()",
)

ROWS = tuple(row for row in globals().values() if isinstance(row, MessageTemplate))
