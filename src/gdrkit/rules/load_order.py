"""The kernel's and modprobe's own order of checks, for one module. PURE.

Source: kmod libkmod-module.c, kmod_module_probe_insert_module(); Linux kernel/module/main.c, load_module().
An empty or unreadable file stands aside: kmod stumbles over it before the kernel is asked.
"""

from __future__ import annotations

from gdrkit.rules.module_admission import module_blacklisted, modules_are_disabled
from gdrkit.rules.module_build import module_corrupt, module_wrong_kernel
from gdrkit.rules.module_configuration import install_override, module_bad_parameter
from gdrkit.rules.module_not_found import module_not_found
from gdrkit.rules.module_signature import (
    lockdown_blocks_module,
    module_key_revoked,
    module_signature_broken,
    module_unknown_key,
    module_unsigned,
)
from gdrkit.rules.module_symbols import (
    module_crc_mismatch,
    module_symbol_duplicate,
    module_symbol_gpl_only,
    module_symbol_missing,
    module_symbol_namespace,
)

BEFORE_THE_KERNEL = (module_not_found, install_override)
SIGNATURE_CHECKS = (
    module_signature_broken,
    module_key_revoked,
    module_unsigned,
    module_unknown_key,
    lockdown_blocks_module,
)
SYMBOL_CHECKS = (
    module_symbol_missing,
    module_symbol_gpl_only,
    module_crc_mismatch,
    module_symbol_namespace,
)
KERNEL_CHECKS = (
    modules_are_disabled,
    *SIGNATURE_CHECKS,
    module_corrupt,
    module_blacklisted,
    module_wrong_kernel,
    *SYMBOL_CHECKS,
    module_symbol_duplicate,
    module_bad_parameter,
)
