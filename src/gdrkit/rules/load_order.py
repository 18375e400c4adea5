"""The rules about loading a module, in the order in which modprobe and the kernel reach them."""

from __future__ import annotations

from collections.abc import Iterable

from gdrkit.rules.module_admission import module_blacklisted, modules_are_disabled
from gdrkit.rules.module_build import module_corrupt, module_wrong_kernel
from gdrkit.rules.module_configuration import install_override, module_bad_parameter, module_unsupported
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
from gdrkit.rules.rule import Rule
from gdrkit.rules.stage import Stage


def in_load_order(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """The rules that have a position in the order of loading, in that order."""
    placed = [(rule.loading, rule) for rule in rules if rule.loading is not None]
    return tuple(rule for _, rule in sorted(placed, key=lambda pair: pair[0]))


OF_ANY_MODULE: tuple[Rule, ...] = in_load_order((
    install_override,
    lockdown_blocks_module,
    module_bad_parameter,
    module_blacklisted,
    module_corrupt,
    module_crc_mismatch,
    module_key_revoked,
    module_not_found,
    module_signature_broken,
    module_symbol_duplicate,
    module_symbol_gpl_only,
    module_symbol_missing,
    module_symbol_namespace,
    module_unknown_key,
    module_unsigned,
    module_unsupported,
    module_wrong_kernel,
    modules_are_disabled,
))  # fmt: skip
"""The rules that can be checked for any module by itself. A separate list, because
the rule about a module's dependencies checks them for other modules."""


def checks_at(stage: Stage) -> tuple[Rule, ...]:
    """The rules of one stage that can be checked for any module by itself."""
    return tuple(rule for rule in OF_ANY_MODULE if rule.loading is not None and rule.loading.stage is stage)
